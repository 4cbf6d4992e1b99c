"""Membership of a token, or of a whole document, in what a party ships of its sketches.

- `list_membership`: from the lists of a one-shot noisy release, as they are shipped. Where the
  document is in a list its noisy cell is known; where it is in neither, its cell lies between the
  two floors, and the chance of that is the likelihood.
- `selection_membership`: from the ids alone that stand in exact lists. An RTK-Sketch whose lists
  are chosen without noise tells them, however noisy its counts.
- `document_membership`: whether a document has its text or none, from its noisy cells.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.guesses import (
    Guesses,
    count_guesses,
    guess_by_score,
    laplace_accuracy_of_shifts,
    normal_accuracy,
)
from cloister.index.term_counts import TermCounts
from cloister.privacy.mechanisms.aes_noise import Words, add_noise
from cloister.privacy.mechanisms.noise_table import noise_table
from cloister.privacy.releases.noisy_tables import NoisyTable
from cloister.sketch.document_owner import exact_sketches
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.noisy_release import make_release
from cloister.sketch.release_noise import NoisyReleaseSettings
from cloister.sketch.rtk_lists import RtkLists

__all__ = [
    "Selection",
    "document_accuracy",
    "document_membership",
    "first_tokens",
    "list_membership",
    "selection_membership",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def list_membership(
    counts: TermCounts,
    key: HashKey,
    settings: NoisyReleaseSettings,
    *,
    words: Words,
    rng: np.random.Generator,
) -> Guesses:
    """Guess of every document whether one token of a term drawn for it was added.

    One release holds as many trials as there are documents: a token lies in one of them. The
    adversary knows the key, the documents without the token, and the terms.
    """
    n = counts.n_documents
    terms = rng.integers(counts.n_terms, size=n)
    added = rng.integers(2, size=n).astype(np.bool_)
    released = make_release(with_tokens(counts, terms, added), key, settings, words=words)
    hashed = key.hash_terms(counts.vocabulary, settings.shape)
    exact = exact_sketches(counts, key, settings.shape)
    scores = np.zeros(n)
    for row in range(settings.n_rows):
        columns = hashed.columns[terms, row].astype(np.int64)
        known = exact[row, columns, np.arange(n)].astype(np.float64)
        low, high = cell_bounds(released.lists, row * settings.n_columns + columns)
        shift = hashed.signs[terms, row].astype(np.float64)
        scores += _interval_likelihood(low, high, known + shift, released.cells)
        scores -= _interval_likelihood(low, high, known, released.cells)
    return guess_by_score(scores, added, rng=rng)


def with_tokens(counts: TermCounts, terms: Integers, added: NDArray[np.bool_]) -> TermCounts:
    """Return the documents with one token of a term more, each where its coin says so."""
    documents = np.repeat(np.arange(counts.n_documents), np.diff(counts.starts))
    which = np.flatnonzero(added)
    places = np.concatenate(
        [documents * counts.n_terms + counts.terms, which * counts.n_terms + terms[which]]
    )
    cells, where = np.unique(places, return_inverse=True)
    total = np.bincount(where, np.concatenate([counts.counts, np.ones(len(which))]))
    starts = np.searchsorted(cells, np.arange(counts.n_documents + 1) * counts.n_terms)
    return TermCounts(
        starts.astype(np.int64),
        (cells % counts.n_terms).astype(np.int32),
        total.astype(np.int32),
        counts.vocabulary,
    )


def cell_bounds(lists: RtkLists, cells: Integers) -> tuple[Floats, Floats]:
    """Return between which numbers document i's noisy cell ``cells[i]`` lies, by the lists.

    Both are the number itself where the document is in one of the cell's two lists.
    """
    documents = np.arange(len(cells))
    low, high = (
        -lists.floors[cells, 1].astype(np.float64),
        lists.floors[cells, 0].astype(np.float64),
    )
    for side, sign in ((0, 1.0), (1, -1.0)):
        there = lists.ids[cells, side] == documents[:, None]
        listed = there.any(1)
        value = sign * (lists.values[cells, side] * there).sum(1)
        low, high = np.where(listed, value, low), np.where(listed, value, high)
    return low, high


def _interval_likelihood(low: Floats, high: Floats, centre: Floats, noise: NoisyTable) -> Floats:
    """Return the log chance that a whole number with noise lies from low to high."""
    above, below = high + 0.5 - centre, low - 0.5 - centre
    # log(P(X < above) - P(X < below)), on the side where both are small
    flip = below > 0
    big = _log_below(np.where(flip, -below, above), noise)
    small = _log_below(np.where(flip, -above, below), noise)
    with np.errstate(divide="ignore"):
        return np.asarray(big + np.log1p(-np.exp(np.minimum(small - big, 0.0))), np.float64)


def _log_below(edges: Floats, noise: NoisyTable) -> Floats:
    """Return the log chance that noise lies below edges, which are halves of odd numbers."""
    from scipy.special import log_ndtr

    if noise.family == "discrete-gaussian":
        return np.asarray(log_ndtr(edges / noise.width), np.float64)
    rest = np.log1p(np.exp(-1 / noise.width))
    nearest = np.abs(edges) + 0.5  # of the values beyond the edge, as seen from 0
    tail = -nearest / noise.width - rest
    return np.asarray(np.where(edges < 0, tail, np.log1p(-np.exp(tail))), np.float64)


class Selection(NamedTuple):
    """What the ids in exact lists tell.

    Parameters
    ----------
    exposed
        Share of documents and terms of which one token more changes who is in a list.
    on_exposed
        Guesses on those.
    on_all
        Guesses on all documents and terms: right where exposed, by a coin elsewhere.
    """

    exposed: Guesses
    on_exposed: Guesses | None
    on_all: Guesses


def selection_membership(
    counts: TermCounts,
    key: HashKey,
    shape: SketchShape,
    cell_size: int,
    *,
    n_trials: int,
    rng: np.random.Generator,
) -> Selection:
    """Guess from the ids in lists of the largest exact signed counts (CS-F-LTR, algorithm 4).

    The adversary knows all documents but for the one token. It compares who is in the lists of
    the term's cells with who would be there without the token, and with it.
    """
    documents = rng.integers(counts.n_documents, size=n_trials)
    terms = rng.integers(counts.n_terms, size=n_trials)
    added = rng.integers(2, size=n_trials).astype(np.bool_)
    hashed = key.hash_terms([counts.vocabulary[t] for t in terms], shape)
    cells = exact_sketches(counts, key, shape).astype(np.int64)
    with_it = np.zeros((n_trials, shape.n_rows), np.bool_)
    without = np.zeros((n_trials, shape.n_rows), np.bool_)
    seen = np.zeros((n_trials, shape.n_rows), np.bool_)
    for trial in range(n_trials):
        for row in range(shape.n_rows):
            cell, document = cells[row, hashed.columns[trial, row]], documents[trial]
            more = cell[document] + hashed.signs[trial, row]
            without[trial, row] = is_listed(cell, document, cell[document], cell_size)
            with_it[trial, row] = is_listed(cell, document, more, cell_size)
        seen[trial] = with_it[trial] if added[trial] else without[trial]
    exposed = (with_it != without).any(1)
    scores = (seen == with_it).sum(1) - (seen == without).sum(1)
    right = np.where(
        exposed, (scores > 0) == added, rng.integers(2, size=n_trials).astype(np.bool_)
    )
    on_exposed = count_guesses(right[exposed]) if exposed.any() else None
    return Selection(count_guesses(exposed), on_exposed, count_guesses(right))


def is_listed(cell: Integers, document: int, value: int, cell_size: int) -> bool:
    """Say whether a document with this value would be among the first of a cell's list.

    Of equal values the smaller document number comes first.

    Examples
    --------
    >>> cell = np.array([3, 1, 1, 0])
    >>> is_listed(cell, 2, 1, 2), is_listed(cell, 2, 2, 2)
    (False, True)
    """
    others = np.arange(len(cell)) != document
    first = (cell > value) | ((cell == value) & (np.arange(len(cell)) < document))
    return bool(np.count_nonzero(first & others) < cell_size)


def document_membership(
    counts: TermCounts,
    key: HashKey,
    shape: SketchShape,
    noise: NoisyTable,
    *,
    words: Words,
    rng: np.random.Generator,
) -> Guesses:
    """Guess of every document whether its text or nothing is behind its noisy cells.

    The adversary knows the text that it looks for, and scores by the likelihood ratio.
    """
    exact = exact_sketches(counts, key, shape).astype(np.int64)
    there = rng.integers(2, size=counts.n_documents).astype(np.bool_)
    noisy = exact * there
    add_noise(noisy, noise_table(noise.family, noise.width), words, purpose=1)
    # log ratio of the noise around the sketch and around 0
    if noise.family == "discrete-gaussian":
        scores = ((noisy - exact / 2) * exact).sum((0, 1)) / noise.width**2
    else:
        scores = (np.abs(noisy) - np.abs(noisy - exact)).sum((0, 1)) / noise.width
    return guess_by_score(scores, there, rng=rng)


def document_accuracy(
    counts: TermCounts, key: HashKey, shape: SketchShape, noise: NoisyTable
) -> float:
    """Return how often `document_membership` is right, by the documents' sketches and the noise."""
    exact = exact_sketches(counts, key, shape).astype(np.int64)
    if noise.family == "discrete-gaussian":
        lengths = np.sqrt(np.square(exact).sum((0, 1)))
        return float(np.mean([normal_accuracy(length / noise.width) for length in lengths]))
    return float(
        np.mean(
            [
                laplace_accuracy_of_shifts(noise.width, Counter(np.abs(own[own != 0]).tolist()))
                for own in exact.reshape(-1, counts.n_documents).T
            ]
        )
    )


def first_tokens(counts: TermCounts, n_tokens: int, rng: np.random.Generator) -> TermCounts:
    """Return so many tokens of each document, drawn from it; short ones have fewer."""
    kept = counts.counts.copy()
    for document in range(counts.n_documents):
        own = slice(*counts.starts[document : document + 2])
        total = int(kept[own].sum())
        kept[own] = rng.multivariate_hypergeometric(kept[own], min(n_tokens, total))
    left = np.concatenate([[0], np.cumsum(kept > 0)])
    return TermCounts(
        left[counts.starts], counts.terms[kept > 0], kept[kept > 0], counts.vocabulary
    )
