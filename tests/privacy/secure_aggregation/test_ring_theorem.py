"""The inequalities of `neighbours`, tried against many lying servers on small rings.

A server tells each honest client one of two sets of survivors, and colluding clients sign and open
whatever helps. From who opens what, the sums that the server can take apart follow.
"""

from __future__ import annotations

import numpy as np
import pytest

from cloister.privacy.secure_aggregation.neighbours import holders_at

Sets = tuple[frozenset[int], frozenset[int]]


def _openers(
    n: int, width: int, t: int, bad: set[int], sets: Sets, told: list[int]
) -> dict[int, int]:
    """Return the honest clients that open shares, and for which of the two sets."""
    signs = {u: told[u] for u in range(n) if u not in bad and u in sets[told[u]]}
    openers = {}
    for u, which in signs.items():
        holders = holders_at(range(n), u, width)
        if sum(h in bad or signs.get(h) == which for h in holders) >= t:
            openers[u] = which
    return openers


def _harm(n: int, width: int, t: int, bad: set[int], sets: Sets, told: list[int]) -> str:
    """Return what the server gains beyond one sum over one set, or nothing."""
    openers = _openers(n, width, t, bad, sets, told)
    seeds, keys = set(), set()
    for u in set(range(n)) - bad:
        holders = holders_at(range(n), u, width)
        helped = sum(h in bad for h in holders)
        inside = sum(h in openers and u in sets[openers[h]] for h in holders)
        outside = sum(h in openers and u not in sets[openers[h]] for h in holders)
        if helped + inside >= t:
            seeds.add(u)
        if helped + outside >= t:
            keys.add(u)
    if seeds & keys:
        return "both secrets of one client"
    left = set(range(n)) - bad - keys
    while left:  # groups of clients joined by masks that the server cannot remove
        group, border = set(), {left.pop()}
        while border:
            group |= border
            near = {h for u in border for h in holders_at(range(n), u, width)}
            border = near & left
            left -= border
        if group <= seeds and group != set(range(n)) - bad - keys:
            return "the sum of a part"
        if group <= seeds and len({openers[u] for u in openers}) > 1:
            return "a sum over no agreed set"
    return ""


def _attacks(n: int, width: int, t: int, n_bad: int, n_tries: int) -> list[str]:
    rng = np.random.default_rng(n * 100 + width)
    found = []
    for _ in range(n_tries):
        bad = set(rng.permutation(n)[:n_bad].tolist())
        cut = rng.integers(0, n, 2)
        told = [int((u - cut[0]) % n >= (cut[1] - cut[0]) % n) for u in range(n)]
        sets = tuple(_random_set(rng, n) for _ in range(2))
        found.append(_harm(n, width, t, bad, (sets[0], sets[1]), told))
    return [harm for harm in found if harm]


def _random_set(rng: np.random.Generator, n: int) -> frozenset[int]:
    """Leave out a stretch of the ring, or a few clients here and there."""
    if rng.random() < 0.5:
        begin, length = rng.integers(0, n), rng.integers(0, n // 2)
        return frozenset(range(n)) - {int(begin + i) % n for i in range(length)}
    return frozenset(np.flatnonzero(rng.random(n) < 0.85).tolist())


@pytest.mark.parametrize(
    ("n", "width", "n_bad"), [(20, 5, 0), (24, 9, 1), (30, 13, 2), (16, 11, 1)]
)
def test_no_lie_tried_takes_a_sum_apart(n: int, width: int, n_bad: int) -> None:
    t = max(-(-(2 * width + 2 + 2 * n_bad) // 3), -(-(width + 2 * n_bad + 2) // 2))
    assert t <= width
    assert not _attacks(n, width, t, n_bad, 1500)


@pytest.mark.parametrize(("n", "width", "t", "n_bad"), [(20, 5, 3, 0), (24, 9, 5, 1)])
def test_with_a_lower_threshold_the_same_lies_succeed(
    n: int, width: int, t: int, n_bad: int
) -> None:
    assert _attacks(n, width, t, n_bad, 1500)
