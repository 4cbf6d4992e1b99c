"""What releases cost together, worked out once.

Costs by loss distributions take a tenth of a second and more: whoever shows many says how long they
may take, and gets the others next time.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from cloister.privacy.accounting import composed_epsilon
from cloister.privacy.ledger.entry import Entry
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.release import UNBOUNDED, Release
from cloister.privacy.releases.reading import read_release

__all__ = ["LedgerCosts", "cost_of_one", "has_bound", "release_of"]

MOST_KEPT: Final = 20_000
_Key = tuple[frozenset[tuple[Loss, int]], float]


class LedgerCosts:
    """Costs by what was lost, whoever lost it. Threads may share it."""

    def __init__(self) -> None:
        self._known: dict[_Key, float] = {}
        self._lock = threading.Lock()

    def epsilon(self, entries: Iterable[Entry], level: Level, delta: float) -> float:
        """Return what some releases cost together; infinity is no bound."""
        losses: Counter[Loss] = Counter()
        for body, n in Counter(entry.body for entry in entries).items():
            for loss, count in release_of(body).loss_counts(level).items():
                losses[loss] += n * count
        return self._of(losses, delta)

    def path(
        self,
        entries: Sequence[Entry],
        level: Level,
        delta: float,
        *,
        places: Collection[int],
        until: float,
    ) -> dict[int, float]:
        """Return the costs up to some places of a sequence of releases.

        Parameters
        ----------
        entries, level, delta
            As in `epsilon`.
        places
            Each stands for the releases up to and with it.
        until
            The moment of `time.perf_counter` after which nothing more is worked out; places whose
            cost is not known by then are left out.
        """
        losses: Counter[Loss] = Counter()
        found: dict[int, float] = {}
        for place, entry in enumerate(entries):
            losses.update(release_of(entry.body).loss_counts(level))
            if place in places and (_key(losses, delta) in self._known or not _over(until)):
                found[place] = self._of(losses, delta)
        return found

    def _of(self, losses: Mapping[Loss, int], delta: float) -> float:
        key = _key(losses, delta)
        found = self._known.get(key)
        if found is None:
            found = composed_epsilon(losses, delta).epsilon
            with self._lock:
                self._known[key] = found
                while len(self._known) > MOST_KEPT:
                    del self._known[next(iter(self._known))]
        return found


@lru_cache(maxsize=4096)
def release_of(body: str) -> Release:
    """Return the release of an entry's body; equal ones are read once."""
    return read_release(body)


def has_bound(release: Release, level: Level) -> bool:
    """Tell whether a release promises anything to one unit of a level."""
    return UNBOUNDED not in release.loss_counts(level)


@lru_cache(maxsize=4096)
def cost_of_one(body: str, delta: float) -> float:
    """Return what a release costs alone, at the level that it states; infinity is no bound."""
    release = release_of(body)
    return composed_epsilon(release.loss_counts(release.level), delta).epsilon


def _key(losses: Mapping[Loss, int], delta: float) -> _Key:
    return frozenset(losses.items()), delta


def _over(until: float) -> bool:
    return time.perf_counter() >= until
