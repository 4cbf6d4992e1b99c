"""The ledger's outbox: payloads that are recorded and may not have arrived yet."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import Damaged, NotFound, SettingsError
from cloister.core.ids import content_id
from cloister.privacy.contents import as_bytes
from cloister.privacy.ledger.entry import Entry
from cloister.privacy.ledger.reading import ENTRY_COLUMNS
from cloister.privacy.ledger.tables import DELIVERIES, ENTRIES, FAILURES, OUTBOX

__all__ = [
    "FailedRelease",
    "checked_payload",
    "failures_in",
    "n_pending_in",
    "note_delivery",
    "note_failure",
    "payload_in",
    "pending_in",
    "put_pending",
]

MAX_PAYLOAD_BYTES: Final = 1 << 28  # both databases hold a value of this size with room to spare
_PUT: Final = OUTBOX.insert()


class FailedRelease(NamedTuple):
    """A release that will never be delivered: its entry, when that was known, and why.

    It stays charged: its recipient may have read it before refusing it.
    """

    number: int
    failed_at: str
    reason: str


def checked_payload(given: Any) -> bytes:
    """Return the bytes of a payload, if they are not too many."""
    payload = as_bytes(given, where="payload")
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise SettingsError(
            f"a payload has at most {MAX_PAYLOAD_BYTES} bytes (given: {len(payload)})",
            where="payload",
            remedy="release it in parts",
        )
    return payload


def put_pending(connection: sa.Connection, number: int, payload: bytes) -> None:
    """Keep the payload of a release until it is delivered."""
    connection.execute(_PUT, {"number": number, "payload": payload})


def pending_in(
    connection: sa.Connection, *, party_id: str | None = None, recipient: str | None = None
) -> list[Entry]:
    """Return the entries of what waits, oldest first."""
    query = sa.select(*ENTRY_COLUMNS).join_from(
        ENTRIES, OUTBOX, ENTRIES.c.number == OUTBOX.c.number
    )
    if party_id is not None:
        query = query.where(ENTRIES.c.party_id == party_id)
    if recipient is not None:
        query = query.where(ENTRIES.c.recipient == recipient)
    return [Entry(*row) for row in connection.execute(query.order_by(ENTRIES.c.number))]


def n_pending_in(connection: sa.Connection) -> int:
    """Return how much waits."""
    return int(connection.scalar(sa.select(sa.func.count()).select_from(OUTBOX)) or 0)


def payload_in(connection: sa.Connection, number: int) -> bytes:
    """Return the bytes of a release that waits, checked against their digest."""
    query = (
        sa.select(OUTBOX.c.payload, ENTRIES.c.payload_sha256)
        .join_from(OUTBOX, ENTRIES, ENTRIES.c.number == OUTBOX.c.number)
        .where(OUTBOX.c.number == number)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFound("no payload is waiting", where=f"ledger entry {number}")
    payload: bytes | str = row.payload  # SQLite keeps whatever somebody else puts into a column
    if not isinstance(payload, bytes) or content_id(payload) != row.payload_sha256:
        raise Damaged("the payload is not what was recorded", where=f"ledger entry {number}")
    return payload


def note_delivery(connection: sa.Connection, number: int, delivered_at: str) -> None:
    """Drop a payload and keep the time; the second time nothing happens."""
    if connection.execute(OUTBOX.delete().where(OUTBOX.c.number == number)).rowcount:
        connection.execute(DELIVERIES.insert().values(number=number, delivered_at=delivered_at))
        return
    known = sa.select(DELIVERIES.c.number).where(DELIVERIES.c.number == number)
    if connection.scalar(known) is None:
        raise NotFound("no release with this number", where=f"ledger entry {number}")


def note_failure(connection: sa.Connection, failed: FailedRelease) -> None:
    """Drop a payload that will never be delivered, and keep the reason."""
    if not connection.execute(OUTBOX.delete().where(OUTBOX.c.number == failed.number)).rowcount:
        raise NotFound("no payload is waiting", where=f"ledger entry {failed.number}")
    connection.execute(FAILURES.insert().values(failed._asdict()))


def failures_in(connection: sa.Connection) -> list[FailedRelease]:
    """Return the releases that failed, in order; a ledger of version 0.1.0 knows none."""
    if not sa.inspect(connection).has_table(FAILURES.name):
        return []
    columns = [FAILURES.c[name] for name in FailedRelease._fields]
    query = sa.select(*columns).order_by(FAILURES.c.number)
    return [FailedRelease(*row) for row in connection.execute(query)]
