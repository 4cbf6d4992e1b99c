"""Which numbers of the server are the documents it knows, from the codes of document priors.

With trees on priors (features T1), the first query opens the codes of every document's length,
readability and the like. The server knows the priors of documents that it has in plain. It does not
know the thresholds, but how many of its documents lie below each: that share is the rank of a known
document's prior among the known ones, give or take what a sample errs. Documents are matched by
these ranks in all priors together. What a link is good for: see
:mod:`cloister.adversary.linked_documents`.

With features T2, or no trees on the server, there are no such codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.code_order_recovery import CodedColumn
from cloister.adversary.cooccurrence_matching import assign_rows
from cloister.core.errors import DataError

__all__ = ["link_documents"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def link_documents(columns: Sequence[CodedColumn], known: NDArray[Any]) -> Integers:
    """Guess the server's number of each known document.

    Parameters
    ----------
    columns
        Codes of priors, a row for each of the server's documents.
    known
        Plain priors of known documents: documents x columns.

    Examples
    --------
    >>> lengths = CodedColumn(np.array([25, 3, 14, 38]), np.array([10, 20, 30]), 0)
    >>> link_documents([lengths], np.array([[7.0], [90.0], [220.0], [400.0]])).tolist()
    [1, 2, 0, 3]
    """
    values = np.asarray(known, np.float64)
    if not columns or values.ndim != 2 or values.shape[1] != len(columns) or not len(values):
        raise DataError("the priors of known documents are needed", where="known")
    scores = np.zeros((len(values), len(columns[0].codes)))
    for column, prior in zip(columns, values.T, strict=True):
        middles, widths = _ranks(column.intervals)
        ranks = _ranks(np.unique(prior, return_inverse=True)[1].reshape(-1))[0]
        # A rank among n known errs as a share of n drawn does; within an interval all is even.
        spread = ranks * (1 - ranks) / len(values)
        spread = spread[:, None] + (widths**2 / 12)[None, :] + 1 / scores.shape[1] ** 2
        scores -= (ranks[:, None] - middles[None, :]) ** 2 / spread + np.log(spread)
    return assign_rows(scores, np.arange(scores.shape[1]))


def _ranks(classes: Integers) -> tuple[Floats, Floats]:
    """Return the middle rank of each entry's class, as a share, and the class's width."""
    counts = np.bincount(classes)
    middles = (np.cumsum(counts) - counts / 2) / len(classes)
    return middles[classes], counts[classes] / len(classes)
