"""Expected reciprocal rank (Chapelle et al., 2009): how soon a user is content.

A document of grade r satisfies with probability R(r) = (2^r - 1) / 2^max_grade, and a user reads on
until satisfied: ERR@k = sum over ranks i of (1/i) R(r_i) times the product of 1 - R(r_j), j < i.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.kernel import kernel
from cloister.measure.mean import NothingRelevant, settle
from cloister.measure.ndcg import gain
from cloister.measure.ranked import RankedLabels

__all__ = ["err"]


def err(
    ranked: RankedLabels,
    *,
    max_grade: int,
    k: int | None = None,
    nothing_relevant: NothingRelevant = "skip",
) -> NDArray[np.float64]:
    """Return ERR@k of each query.

    Parameters
    ----------
    ranked
        Labels in ranked order.
    max_grade
        The highest grade of the *scale*, which a sample of the data need not reach: 4 for
        MSLR-WEB and in ``gdeval``, 2 for LETOR 4.0.
    k
        The cut-off; None looks at the whole ranking.
    nothing_relevant
        What a query without a relevant document gets: NaN (``"skip"``) or 0 (``"zero"``).

    Examples
    --------
    >>> from cloister.measure.ranked import rank_labels
    >>> err(rank_labels([0.9, 0.5], [2, 1], [0, 2]), max_grade=2)  # 3/4 + 1/2 * 1/4 * 1/4
    array([0.78125])
    """
    if max_grade < max(ranked.max_grade, 1):
        raise SettingsError(
            f"the scale ends at grade {max_grade}, the labels at {ranked.max_grade}",
            where="max_grade",
            remedy="give the highest grade of the scale, at least 1",
        )
    values = _err(ranked.labels, ranked.offsets, max_grade, ranked.cutoff(k))
    return settle(values, ranked.n_relevant() > 0, nothing_relevant)


@kernel
def _err(
    labels: NDArray[Any], offsets: NDArray[np.int64], max_grade: int, k: int
) -> NDArray[np.float64]:
    values = np.zeros(len(offsets) - 1, np.float64)
    scale = 0.5**max_grade
    for query in range(len(values)):
        reads_on = 1.0
        first = offsets[query]
        for position in range(min(offsets[query + 1] - first, k)):
            satisfied = gain(labels[first + position]) * scale
            values[query] += reads_on * satisfied / (position + 1)
            reads_on *= 1.0 - satisfied
    return values
