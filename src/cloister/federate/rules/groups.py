"""Groups whose sums a server may see: how clients are divided anew in every round.

With secure aggregation inside each group, a server sees the sum of a group and no single update. A
rule can then still compare groups, and since groups are drawn anew in each round, it learns over
many rounds which clients' groups stand out. So the sum hides a client's update of a round among
its group, and it does not hide how a client tends to push over many rounds: telling that is the
purpose.

Suspended clients are grouped apart from trusted ones, so that their sums can be left out. Where
they are fewer than a group, trusted clients drawn for the round fill it up, and sit out a round.
Where they are fewer than two groups, half of them are watched in a round: else they would always be
seen together, and one who is there by mistake could not be told from the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["GroupPlan", "plan_groups"]

Ints = NDArray[np.int64]


class GroupPlan(NamedTuple):
    """Who is in which group of a round.

    Parameters
    ----------
    group
        By row: the number of its group; -1 for a client that is left out of the round.
    used
        By row: whether its group's sum is added to the model.
    watched
        By row: whether its group's sum says something of it. It does not of those who fill up.
    """

    group: Ints
    used: NDArray[np.bool_]
    watched: NDArray[np.bool_]


def plan_groups(
    suspended: NDArray[np.bool_], group_size: int, rng: np.random.Generator
) -> GroupPlan:
    """Divide the clients of a round into groups of at least ``group_size``.

    No group is ever smaller. Where there are too few trusted clients for a group, nobody's sum is
    formed; where there are too few to fill up a group for suspended ones, those are left out and
    not watched.

    Examples
    --------
    >>> suspended = np.array([False] * 9 + [True])
    >>> plan = plan_groups(suspended, 3, np.random.default_rng(1))
    >>> np.bincount(plan.group).tolist(), int(plan.used.sum()), int(plan.watched.sum())
    ([4, 3, 3], 7, 8)
    """
    trusted = rng.permutation(np.flatnonzero(~suspended))
    held = rng.permutation(np.flatnonzero(suspended))
    if 2 <= len(held) < 2 * group_size:
        held = held[: -(-len(held) // 2)]
    fill = max(0, group_size - len(held)) if len(held) else 0
    if fill and len(trusted) - fill < group_size:
        held, fill = held[:0], 0
    group = np.full(len(suspended), -1, np.int64)
    n_groups = _number(group, trusted[fill:], group_size, 0)
    _number(group, np.concatenate((held, trusted[:fill])), group_size, n_groups)
    used = np.zeros(len(suspended), np.bool_)
    used[trusted[fill:]] = True
    used &= group >= 0
    watched = used.copy()
    watched[held] = group[held] >= 0
    return GroupPlan(group, used, watched)


def _number(group: Ints, members: Ints, group_size: int, first: int) -> int:
    """Divide members into groups with numbers from ``first`` on; return the next number."""
    n_groups = len(members) // group_size
    parts = np.array_split(members, n_groups) if n_groups else []
    for number, rows in enumerate(parts, first):
        group[rows] = number
    return first + len(parts)
