"""A service's ledger, for its officers and operators: ``GET /v1/ledger``."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Final

import sqlalchemy as sa
from fastapi import APIRouter, Query

from cloister.privacy.ledger.entry import Entry
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.outbox import failures_in, n_pending_in
from cloister.privacy.ledger.reading import entries_in, head_in
from cloister.web.admission import allowed
from cloister.web.callers import Caller, Role
from cloister.web.messages import Message

__all__ = ["LedgerLine", "LedgerPage", "ledger_router"]

PAGE_LENGTH: Final = 500


class LedgerLine(Message):
    """One entry: whose privacy it cost, who got it, why, and what protects it; not the content.

    It has all that goes into its hash, so that whoever reads all entries can check the chain.
    """

    number: int
    kind: str
    recorded_at: str
    party: str
    recipient: str
    purpose: str
    body: str
    payload_sha256: str
    size_bytes: int
    previous: str
    hash: str


class FailedLine(Message):
    """A release that will never be delivered: its entry, when that was known, and why."""

    number: int
    failed_at: str
    reason: str


class LedgerPage(Message):
    """Entries in order, how many there are in all, and the hash of the last one.

    Of all releases ``n_pending`` wait to be delivered; those that ``failed`` never will be, and
    stay charged.
    """

    entries: list[LedgerLine]
    n_entries: int
    n_pending: int
    failed: list[FailedLine]
    head: str


def ledger_router(ledger: Ledger) -> APIRouter:
    """Return the route to a ledger."""
    router = APIRouter(prefix="/v1")

    @router.get("/ledger")
    def entries(
        caller: Annotated[Caller, allowed(Role.OFFICER, Role.OPERATOR)],
        after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    ) -> LedgerPage:
        def read(connection: sa.Connection) -> LedgerPage:
            head = head_in(connection)
            found = islice(entries_in(connection, after=after), PAGE_LENGTH)
            return LedgerPage(
                entries=[_line(one) for one in found],
                n_entries=head.number,
                n_pending=n_pending_in(connection),
                failed=[FailedLine(**one._asdict()) for one in failures_in(connection)],
                head=head.hash,
            )

        return ledger.database.run(read, read_only=True)

    return router


def _line(entry: Entry) -> LedgerLine:
    return LedgerLine(
        number=entry.number,
        kind=entry.kind,
        recorded_at=entry.recorded_at,
        party=entry.party_id,
        recipient=entry.recipient,
        purpose=entry.purpose,
        body=entry.body,
        payload_sha256=entry.payload_sha256,
        size_bytes=entry.size_bytes,
        previous=entry.previous,
        hash=entry.hash,
    )
