"""A service's ledger as an officer reads it from afar: entries, checked, and what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from cloister.app.office import TIMEOUT_S, Office
from cloister.privacy.accounting import composed_epsilon
from cloister.privacy.ledger.entry import BEGINNING, Entry, change_limits, entry_hash
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss

__all__ = ["ReadLedger", "Spent", "read_ledger"]


class Spent(NamedTuple):
    """What a party has spent once an entry was recorded."""

    entry: Entry
    epsilon: float


class ReadLedger(NamedTuple):
    """The entries of one service's ledger.

    Parameters
    ----------
    service
        Whose.
    entries
        All of them, in order.
    n_pending
        Releases that wait to be delivered.
    failed
        Releases that will never be: ``number``, ``failed_at`` and ``reason`` of each.
    """

    service: str
    entries: tuple[Entry, ...]
    n_pending: int
    failed: tuple[dict[str, Any], ...] = ()

    @property
    def releases(self) -> tuple[Entry, ...]:
        """The entries that are releases."""
        return tuple(one for one in self.entries if one.kind == "release")

    @property
    def n_releases(self) -> int:
        """How many releases there are."""
        return len(self.releases)

    @property
    def chain_holds(self) -> bool:
        """Whether no number is missing, and each entry has its hash and that of the one before."""
        first = not self.entries or (self.entries[0].number, self.entries[0].previous) == (
            1,
            BEGINNING,
        )
        linked = all(
            later.previous == before.hash and later.number == before.number + 1
            for before, later in pairwise(self.entries)
        )
        return first and linked and all(entry_hash(one) == one.hash for one in self.entries)

    @property
    def parties(self) -> tuple[str, ...]:
        """Whose privacy the releases cost."""
        return tuple(dict.fromkeys(one.party_id for one in self.entries))

    def limits(self, party_id: str) -> dict[Level, Limit]:
        """Return the limits of a party that are in force, by level."""
        limits: dict[Level, Limit] = {}
        for one in self.entries:
            if (one.kind, one.party_id) == ("limit", party_id):
                limits = change_limits(limits, one.body)
        return limits

    def epsilon_of(self, party_id: str, *, delta: float, level: Level = Level.USER) -> float:
        """Return what all real releases of a party cost together."""
        last = 0.0
        for one in self.spending(party_id, delta=delta, level=level):
            last = one.epsilon
        return last

    def spending(
        self, party_id: str, *, delta: float, level: Level = Level.USER, simulated: bool = False
    ) -> Iterator[Spent]:
        """Return what a party has spent after each of its releases; infinity is no bound."""
        losses: Counter[Loss] = Counter()
        for entry in self.releases:
            if entry.party_id == party_id and entry.release.simulated == simulated:
                losses.update(entry.release.loss_counts(level))
                yield Spent(entry, composed_epsilon(losses, delta).epsilon)


def read_ledger(office: Office, service: str, *, timeout_s: float = TIMEOUT_S) -> ReadLedger:
    """Read a service's whole ledger, page by page; each may take so long."""
    entries: list[Entry] = []
    while True:
        after = entries[-1].number if entries else 0
        page = office.get(service, f"/v1/ledger?after={after}", timeout_s=timeout_s)
        entries += [_entry(line) for line in page["entries"]]
        if not page["entries"] or len(entries) >= page["n_entries"]:
            failed = tuple(page.get("failed", ()))  # version 0.1.0 did not say
            return ReadLedger(service, tuple(entries), page["n_pending"], failed)


def _entry(line: dict[str, Any]) -> Entry:
    renamed = {**line, "party_id": line["party"]}
    return Entry(*(renamed[name] for name in Entry._fields))
