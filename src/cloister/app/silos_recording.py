"""``cloister silos --ledger``: what crossed in a simulated run, as entries of a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from cloister.core.errors import BudgetExceeded

if TYPE_CHECKING:
    import sqlalchemy as sa

    from cloister.core.ids import PartyId
    from cloister.federate.silos.runs import Crossing
    from cloister.privacy.ledger.entry import Receipt

__all__ = ["record_crossings", "refuse_early"]

READERS: Final = "readers"
PURPOSE: Final = "simulated training across silos"


def refuse_early(address: str, parties: Sequence[PartyId]) -> None:
    """Raise before the work where the ledger is missing or a party's limit forbids the run.

    Every federated run hands parameters or trees round, which have no finite epsilon. The ledger
    decides again when the crossings are recorded.
    """
    from cloister.privacy.ledger.ledger import Ledger
    from cloister.privacy.level import Level
    from cloister.privacy.release import UnprotectedRelease

    handed_round = UnprotectedRelease(level=Level.DOCUMENT, simulated=True)
    with Ledger.open(address, create=False, require_limit=True) as ledger:
        for party in parties:
            try:
                ledger.check(handed_round, party_id=party, recipient=READERS, purpose=PURPOSE)
            except BudgetExceeded as error:
                raise BudgetExceeded(
                    f"{error.what}: rankers are handed round as they are",
                    where=error.where,
                    remedy="leave out --ledger, or name a ledger in which the parties have no "
                    f"limit: cloister ledger limit {party} --epsilon none",
                ) from None


def record_crossings(address: str, crossed: Sequence[Crossing]) -> dict[str, Any]:
    """Record all crossings of a simulated run, or none; return which entries they are.

    What goes to several parties is one release, since it is the same for all. A simulation sends
    nothing: payloads are empty, and entries are delivered at once.
    """
    from cloister.privacy.ledger.ledger import Ledger
    from cloister.store.addresses import parse_address

    with Ledger.open(address, create=False, require_limit=True) as ledger:

        def work(connection: sa.Connection) -> list[Receipt]:
            return [
                ledger.release_in(
                    connection,
                    one.release,
                    b"",
                    party_id=one.sender,
                    recipient=",".join(one.recipients),
                    purpose=f"{PURPOSE}: {one.what}",
                )
                for one in crossed
            ]

        receipts = ledger.database.run(work)
        for receipt in receipts:
            ledger.delivered(receipt.number)
    return {
        "address": parse_address(address).shown,
        "entries": [receipt.number for receipt in receipts],
    }
