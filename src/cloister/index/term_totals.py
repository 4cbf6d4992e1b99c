"""What all terms of a reader's view come to: documents, pods and occurrences of each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel
from cloister.index.postings import TermMajor

__all__ = ["term_totals"]

Ints = NDArray[np.int64]
Int32s = NDArray[np.int32]


def term_totals(flat: TermMajor, pods: Int32s) -> Ints:
    """Return a row for each term: how many documents and pods hold it, how often it occurs.

    Parameters
    ----------
    flat
        The entries of all terms.
    pods
        The pod of each document, by its number.

    Examples
    --------
    >>> flat = TermMajor(np.array([0, 3]), np.arange(3, dtype=np.int32),
    ...                  np.array([1, 1, 4], np.int32), [b"cough"])
    >>> term_totals(flat, np.array([0, 1, 1], np.int32)).tolist()
    [[3, 2, 6]]
    """
    totals = np.empty((len(flat.terms), 3), np.int64)
    _count(flat.starts, flat.documents, flat.counts, pods, totals)
    return totals


@kernel
def _count(starts: Ints, documents: Int32s, counts: Int32s, pods: Int32s, totals: Ints) -> None:
    seen = np.full(pods.max() + 1 if len(pods) else 0, -1, np.int64)
    for term in range(len(totals)):
        n_pods, n_occurrences = 0, 0
        for entry in range(starts[term], starts[term + 1]):
            pod = pods[documents[entry]]
            n_pods += seen[pod] != term
            seen[pod] = term
            n_occurrences += counts[entry]
        totals[term, 0] = starts[term + 1] - starts[term]
        totals[term, 1], totals[term, 2] = n_pods, n_occurrences
