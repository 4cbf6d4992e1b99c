"""Which label is which word, where the server knows which of its documents it knows in plain.

Documents are numbered by a secret permutation, and their names are sealed. A server links a number
to a document it knows if something else tells: codes of the documents' priors
(:mod:`cloister.adversary.document_linking`), exact sizes, the time of an upload. Then each label
has a signature, the linked documents that it has, and each word too; Blackstone, Kamara and Moataz
(NDSS 2020) call it the subgraph attack.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.cooccurrence_matching import (
    LEAST,
    CountChances,
    assign_rows,
)
from cloister.adversary.known_occurrences import KnownOccurrences
from cloister.core.errors import DataError
from cloister.core.kernel import kernel

__all__ = ["match_by_linked_documents"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

LEAST_WRONG: Final = 1e-9  # share of wrong links, and of right ones, that is reckoned with at least
STRENGTH: Final = 0.1  # of the prior on a word's share, in documents
UNEXPLAINED: Final = -1.0  # log chance of a document with the label and not the word, in a closure


def match_by_linked_documents(
    seen: NDArray[np.bool_],
    linked: Integers,
    known: KnownOccurrences,
    *,
    exact: bool,
    wrong_links: float = 0.0,
    candidates: NDArray[np.bool_] | None = None,
) -> Integers:
    """Guess the row of each label by the linked documents; -1 where no row is left for it.

    Parameters
    ----------
    seen
        Labels x documents of the server: which documents each label has.
    linked
        The server's number of each known document.
    known
        What is known in plain.
    exact
        Whether a label has just the documents of one row. Not so where labels have the documents
        of closures that the server cannot compute: a row then has some of the label's documents.
    wrong_links
        Share of links that are wrong, as the server reckons.
    candidates
        Rows that come into question; those of the known documents where not given.

    Examples
    --------
    >>> words = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1]], bool)
    >>> known = KnownOccurrences(np.array([0, 1, 2]), np.array([0, 2], np.int32), 3)
    >>> match_by_linked_documents(words[[2, 0]], np.array([2, 3]), known, exact=True).tolist()
    [2, 0]
    """
    if len(linked) != known.n_documents:
        raise DataError(f"{known.n_documents} documents are known", where="linked")
    frequencies = known.frequencies
    open_rows = frequencies > 0
    if candidates is not None:
        open_rows = open_rows & candidates
    rows = np.flatnonzero(open_rows)
    shared = np.zeros((len(seen), known.n_rows), np.int32)
    at = np.ascontiguousarray(seen[:, linked])
    _count_shared(known.starts, known.rows, at, shared)
    both = shared[:, rows]
    scores = _signatures(both, at, frequencies[rows], seen.mean(axis=1), wrong_links, exact)
    if exact:
        n, alone = seen.shape[1], seen.sum(axis=1)
        chances = CountChances.of(float(alone.mean()) / n, STRENGTH, n, known.n_documents)
        scores += np.maximum(chances.single(alone, frequencies[rows]), LEAST)
    return assign_rows(scores, rows)


def _signatures(
    both: NDArray[np.int32],
    at: NDArray[np.bool_],
    frequencies: Integers,
    shares: Floats,
    wrong_links: float,
    exact: bool,
) -> Floats:
    """Return labels x rows: log chances of the linked documents that each label has.

    Behind a wrong link is any document, which has the label as often as all do.
    """
    wrong = min(max(wrong_links, LEAST_WRONG), 1.0 - LEAST_WRONG)
    by_chance = shares[:, None]
    word_only = np.log(wrong * (1 - by_chance) + LEAST_WRONG)
    label_only = np.log(wrong * by_chance + LEAST_WRONG) if exact else UNEXPLAINED
    neither = np.log(1 - wrong * by_chance)
    together = np.log(1 - wrong * (1 - by_chance))
    missing = at.sum(axis=1)[:, None] - both
    rest = at.shape[1] - frequencies - missing
    scores: Floats = (
        both * together + (frequencies - both) * word_only + missing * label_only + rest * neither
    )
    return scores


@kernel
def _count_shared(
    starts: Integers,
    rows: NDArray[np.int32],
    seen: NDArray[np.bool_],
    shared: NDArray[np.int32],
) -> None:
    """Count the known documents that a label and a row both have."""
    for label in range(len(seen)):
        for document in range(len(starts) - 1):
            if seen[label, document]:
                for i in range(starts[document], starts[document + 1]):
                    shared[label, rows[i]] += 1
