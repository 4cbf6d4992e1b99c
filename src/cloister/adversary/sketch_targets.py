"""What attacks on sketches are tried on: documents, each with a term that may be once more in it.

Every trial has a document, a term, and a coin that says whether one more token of the term was
added. The adversary knows the hash key, the term, and the document but for the coin; or it knows
the document less well, as `known_share` says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.index.term_counts import TermCounts
from cloister.sketch.document_owner import exact_sketches
from cloister.sketch.keyed_hash import HashedTerms, HashKey, SketchShape
from cloister.sketch.per_query_release import Asked

__all__ = ["SketchTargets", "draw_targets", "thinned"]

Integers = NDArray[np.int64]


class SketchTargets(NamedTuple):
    """Trials of one attack.

    Parameters
    ----------
    columns
        Trials x rows: the columns asked for.
    shifts
        Trials x rows: what one token of the term adds to the cell asked for: its sign where that
        is the term's cell, and 0 in a decoy.
    known
        Trials x rows: the counters as the adversary expects them without the token.
    counters
        Trials x rows: as they are.
    added
        Whether the token was added.
    documents, terms
        Of each trial.
    true_rows
        Trials x rows: whether a row counts.
    """

    columns: Integers
    shifts: Integers
    known: Integers
    counters: Integers
    added: NDArray[np.bool_]
    documents: Integers
    terms: Integers
    true_rows: NDArray[np.bool_]

    def asked(self) -> Asked:
        """Return the counters as an owner would read them: a trial is a document with one term.

        Cells of different trials are different documents' cells; within a trial all are distinct.
        """
        n_rows = self.counters.shape[1]
        documents = np.arange(len(self.counters))
        return Asked(np.arange(n_rows)[None], documents, self.counters.T[None].copy())


def draw_targets(
    counts: TermCounts,
    key: HashKey,
    shape: SketchShape,
    *,
    n_trials: int,
    n_true_rows: int | None = None,
    known_share: float = 1.0,
    rng: np.random.Generator,
) -> SketchTargets:
    """Draw trials from a collection.

    Parameters
    ----------
    counts, key, shape
        The documents and their sketches.
    n_true_rows
        Rows that carry the term; the others carry decoys. All unless given.
    known_share
        The chance with which the adversary knows each token of the document. How often the term
        itself is there it knows but for the coin: a further token of it nobody could tell apart.
    """
    n_true_rows = shape.n_rows if n_true_rows is None else n_true_rows
    if not 1 <= n_true_rows <= shape.n_rows:
        raise SettingsError(f"from 1 to {shape.n_rows} rows can count", where="n_true_rows")
    hashed = key.hash_terms(counts.vocabulary, shape)
    documents = rng.integers(counts.n_documents, size=n_trials)
    terms = rng.integers(counts.n_terms, size=n_trials)
    true_rows = rng.permuted(np.arange(shape.n_rows) < np.full((n_trials, 1), n_true_rows), axis=1)
    columns, shifts = _obfuscated(hashed, terms, true_rows, rng)
    rows = np.arange(shape.n_rows)
    exact = exact_sketches(counts, key, shape)[rows, columns, documents[:, None]].astype(np.int64)
    known = exact
    if known_share < 1:
        part = thinned(counts, known_share, rng)
        known = exact_sketches(part, key, shape)[rows, columns, documents[:, None]].astype(np.int64)
        unknown = _counts_of(counts, documents, terms) - _counts_of(part, documents, terms)
        known += shifts * unknown[:, None]  # of the term itself only the coin is not known
    added = rng.integers(2, size=n_trials).astype(np.bool_)
    counters = exact + shifts * added[:, None]
    return SketchTargets(columns, shifts, known, counters, added, documents, terms, true_rows)


def _obfuscated(
    hashed: HashedTerms, terms: Integers, true_rows: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Return columns as in eq. 4, and what one token adds to each."""
    rows = np.arange(hashed.shape.n_rows)
    decoys = rng.integers(hashed.n_terms, size=true_rows.shape)
    own = hashed.columns[terms].astype(np.int64)
    columns = np.where(true_rows, own, hashed.columns[decoys, rows].astype(np.int64))
    shifts = hashed.signs[terms].astype(np.int64) * (columns == own)
    return columns, shifts


def _counts_of(counts: TermCounts, documents: Integers, terms: Integers) -> Integers:
    """Return how often each term occurs in the document beside it."""
    owners = np.repeat(np.arange(counts.n_documents), np.diff(counts.starts))
    places = owners * counts.n_terms + counts.terms  # they rise
    wanted = documents * counts.n_terms + terms
    at = np.minimum(np.searchsorted(places, wanted), len(places) - 1)
    return np.where(places[at] == wanted, counts.counts[at], 0).astype(np.int64)


def thinned(counts: TermCounts, share: float, rng: np.random.Generator) -> TermCounts:
    """Return the documents with each token kept with a chance: what somebody knows of them."""
    kept = rng.binomial(counts.counts, share).astype(np.int32)
    left = np.concatenate([[0], np.cumsum(kept > 0)])
    return TermCounts(
        left[counts.starts], counts.terms[kept > 0], kept[kept > 0], counts.vocabulary
    )
