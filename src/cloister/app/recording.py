"""From a training's releases to entries of a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cloister.privacy.ledger.ledger import Ledger
    from cloister.privacy.release import Release

__all__ = ["READERS", "LedgerRecorder", "recorder"]

READERS: Final = "readers"  # of rankers; each release's note says on what it rests


class LedgerRecorder:
    """Records the rounds of one simulated training.

    A simulation sends nothing: its entries have an empty payload and are delivered at once.
    """

    def __init__(self, ledger: Ledger, party_id: str) -> None:
        self._ledger = ledger
        self._party_id = party_id

    def __call__(self, release: Release) -> None:
        """Record a round's release, or raise."""
        receipt = self._ledger.release(
            release,
            b"",
            party_id=self._party_id,
            recipient=READERS,
            purpose="simulated training",
        )
        self._ledger.delivered(receipt.number)

    def read_plan(self, release: Release, n_releases: int, *, order: float) -> None:
        """Raise if all rounds would fit the party's limit at the plan's order alone."""
        self._ledger.check_plan(release, n_releases, party_id=self._party_id, order=order)


@contextmanager
def recorder(address: str | None, party_id: str) -> Iterator[LedgerRecorder | None]:
    """Give what records the rounds of one simulated training; None without a ledger.

    The ledger must be there, and somebody must have set the party's limit or said that there is
    none.
    """
    if address is None:
        yield None
        return
    from cloister.privacy.ledger.ledger import Ledger

    with Ledger.open(address, create=False) as ledger:
        ledger.require_party(party_id)
        yield LedgerRecorder(ledger, party_id)
