"""The inequalities of `neighbours`, tried against many lying servers on small rings.

A server tells each honest client one of up to three pairs (U2, U3). Some clients are told a U2 of
their own, send a vector under it and never sign. Some were shown another roster, where their mask
keys were opened. Colluding clients sign and open whatever helps. From who opens what, the sums that
the server can take apart follow.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from cloister.privacy.secure_aggregation.neighbours import holders_at

ONE_SUM = "one sum, over the honest clients of one U3"
NOTHING = "nothing"

Places = frozenset[int]


class Ring(NamedTuple):
    """A ring of n places, and what clients check."""

    n: int
    width: int
    threshold: int
    n_bad: int
    min_survivors: int
    refuses_unreadable: bool = True

    def holders(self) -> list[Places]:
        return [frozenset(holders_at(range(self.n), u, self.width)) for u in range(self.n)]


@dataclass(frozen=True)
class Lies:
    """What one server tells, and to whom."""

    bad: Places
    foreign: Places  # honest, but shown another roster; their mask keys are known
    silent: Places  # never sign
    pairs: list[tuple[Places, Places]]  # (U2, U3)
    told: list[int]
    sharers: list[Places]  # the U2 that each client masks under


def _lies(ring: Ring, rng: np.random.Generator) -> Lies:
    n = ring.n
    bad, *others = np.split(rng.permutation(n), [ring.n_bad])
    foreign = frozenset(others[0][: rng.choice((0, 0, 1, 2))].tolist())
    pairs = [_pair(n, rng) for _ in range(rng.integers(1, 4))]
    cuts = np.sort(rng.integers(0, n, rng.choice((0, 2, 3))))
    labels = rng.integers(0, len(pairs), len(cuts) + 1)
    labels[-1] = labels[0]  # stretches of the ring are told the same
    told = [int(labels[np.searchsorted(cuts, u, side="right")]) for u in range(n)]
    silent = frozenset(np.flatnonzero(rng.random(n) < rng.choice((0, 0.05, 0.2))).tolist())
    sharers = [pairs[told[u]][0] for u in range(n)]
    for u in silent:
        if rng.random() < 0.7:
            sharers[u] = _subset(n, 0.1, rng) | {u}
    return Lies(frozenset(bad.tolist()), foreign, silent, pairs, told, sharers)


def _pair(n: int, rng: np.random.Generator) -> tuple[Places, Places]:
    sharers = _subset(n, rng.choice((0, 0, 0.1)), rng)
    if rng.random() < 0.3:
        begin, length = rng.integers(0, n), rng.integers(0, n // 2)
        survivors = sharers - {int(begin + i) % n for i in range(length)}
    else:
        survivors = sharers & _subset(n, rng.choice((0, 0.08, 0.15)), rng)
    return sharers, survivors


def _subset(n: int, left_out: float, rng: np.random.Generator) -> Places:
    return frozenset(np.flatnonzero(rng.random(n) >= left_out).tolist())


def _senders(ring: Ring, near: list[Places], lies: Lies) -> set[int]:
    """Return the honest clients that send a vector under this roster."""
    return {
        u
        for u in set(range(ring.n)) - lies.bad - lies.foreign
        if u in lies.sharers[u]
        and len(lies.sharers[u]) >= ring.min_survivors
        and len(lies.sharers[u] & near[u] - lies.foreign) >= ring.threshold
    }


def _openers(ring: Ring, near: list[Places], lies: Lies, senders: set[int]) -> dict[int, int]:
    """Return the honest clients that open shares, and for which pair of sets."""
    signs = {}
    for u in senders - lies.silent:
        survivors = lies.pairs[lies.told[u]][1]
        unreadable = survivors & near[u] & lies.foreign
        if (
            u in survivors
            and len(survivors) >= ring.min_survivors
            and len(survivors & near[u]) >= ring.threshold
            and not (ring.refuses_unreadable and unreadable)
        ):
            signs[u] = lies.told[u]
    return {
        u: label
        for u, label in signs.items()
        if sum(h in lies.bad or signs.get(h) == label for h in near[u]) >= ring.threshold
    }


def _outcome(ring: Ring, lies: Lies) -> str:
    """Return what the server gets out of its lies."""
    near = ring.holders()
    senders = _senders(ring, near, lies)
    openers = _openers(ring, near, lies, senders)
    seeds, keys = set(), set()
    for u in senders:
        helped = len(near[u] & lies.bad)
        opened = [lies.pairs[openers[h]] for h in near[u] if h in openers]
        if helped + sum(u in survivors for _, survivors in opened) >= ring.threshold:
            seeds.add(u)
        dropped = sum(u in sharers - survivors for sharers, survivors in opened)
        if helped + dropped >= ring.threshold:
            keys.add(u)
    if seeds & keys:
        return "both secrets of one client"
    unknown = set(range(ring.n)) - lies.bad - lies.foreign - keys
    masks = [near[u] & lies.sharers[u] & unknown - {u} for u in range(ring.n)]
    return _sums(lies, openers, _free_of_masks(seeds, masks), masks)


def _free_of_masks(seeds: set[int], masks: list[Places]) -> set[int]:
    """Return the clients whose masks all cancel inside the returned set."""
    free = set(seeds)
    while True:
        stuck = {u for u in free if any(v not in free or u not in masks[v] for v in masks[u])}
        if not stuck:
            return free
        free -= stuck


def _sums(lies: Lies, openers: dict[int, int], free: set[int], masks: list[Places]) -> str:
    if not free:
        return NOTHING
    part, border = set(), {min(free)}
    while border:  # those joined by masks that the server cannot remove
        part |= border
        border = {v for u in border for v in masks[u]} & free - part
    if part != free:
        return "the sum of a part"
    labels = {openers[u] for u in free if u in openers}
    if len(labels) != 1:
        return "a sum over no agreed set"
    (label,) = labels
    return ONE_SUM if free == lies.pairs[label][1] - lies.bad else "a sum over a smaller set"


def _outcomes(ring: Ring, n_tries: int) -> Counter[str]:
    rng = np.random.default_rng(ring.n * 100 + ring.width)
    return Counter(_outcome(ring, _lies(ring, rng)) for _ in range(n_tries))


@pytest.mark.parametrize(
    ("n", "width", "n_bad", "min_survivors"),
    [(20, 5, 0, 12), (24, 9, 1, 18), (30, 13, 2, 20), (16, 11, 1, 12), (14, 7, 0, 2)],
)
def test_no_lie_tried_takes_a_sum_apart(n: int, width: int, n_bad: int, min_survivors: int) -> None:
    t = max(-(-(2 * width + 2 + 2 * n_bad) // 3), -(-(width + 2 * n_bad + 2) // 2))
    assert t <= width
    found = _outcomes(Ring(n, width, t, n_bad, min_survivors), 1000)
    assert found.keys() == {ONE_SUM, NOTHING}
    assert found[ONE_SUM] > 30


@pytest.mark.parametrize(("n", "width", "t", "n_bad"), [(20, 5, 3, 0), (24, 9, 5, 1)])
def test_with_a_lower_threshold_the_same_lies_succeed(
    n: int, width: int, t: int, n_bad: int
) -> None:
    assert _outcomes(Ring(n, width, t, n_bad, 12), 1000).keys() - {ONE_SUM, NOTHING}


def test_if_unreadable_peers_could_survive_the_same_lies_succeed() -> None:
    found = _outcomes(Ring(20, 5, 4, 0, 12, refuses_unreadable=False), 1000)
    assert found["a sum over a smaller set"]
