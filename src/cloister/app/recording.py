"""From a training's releases to entries of a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cloister.federate.learner import Recorder
    from cloister.privacy.release import Release

__all__ = ["READERS", "recorder"]

READERS: Final = "readers"  # of rankers; each release's note says on what it rests


@contextmanager
def recorder(address: str | None, party_id: str) -> Iterator[Recorder | None]:
    """Give what records the rounds of one simulated training; None without a ledger.

    The ledger must be there, and somebody must have set the party's limit or said that there is
    none. A simulation sends nothing: its entries have an empty payload and are delivered at once.
    """
    if address is None:
        yield None
        return
    from cloister.privacy.ledger.ledger import Ledger

    with Ledger.open(address, create=False) as ledger:
        ledger.require_party(party_id)

        def record(release: Release) -> None:
            receipt = ledger.release(
                release, b"", party_id=party_id, recipient=READERS, purpose="simulated training"
            )
            ledger.delivered(receipt.number)

        yield record
