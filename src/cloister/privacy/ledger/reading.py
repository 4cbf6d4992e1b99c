"""What the ledger says, read inside a caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import sqlalchemy as sa

from cloister.privacy.ledger.entry import BEGINNING, Entry, EntryKind, Head, change_limits
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.tables import ENTRIES
from cloister.privacy.level import Level

__all__ = [
    "ENTRY_COLUMNS",
    "entries_in",
    "head_in",
    "limited_parties_in",
    "limits_in",
    "parties_in",
]

ENTRY_COLUMNS: Final = tuple(ENTRIES.c[name] for name in Entry._fields)
PAGE: Final = 1000  # entries read at a time
# Statements of every release are built once: building one takes longer than running it.
_HEAD: Final = (
    sa.select(ENTRIES.c.number, ENTRIES.c.hash).order_by(ENTRIES.c.number.desc()).limit(1)
)
_LIMITS: Final = (
    sa.select(ENTRIES.c.body)
    .where(ENTRIES.c.party_id == sa.bindparam("party_id"), ENTRIES.c.kind == "limit")
    .order_by(ENTRIES.c.number)
)


def head_in(connection: sa.Connection) -> Head:
    """Return the last entry's number and hash, in a caller's transaction."""
    row = connection.execute(_HEAD).one_or_none()
    return Head(0, BEGINNING) if row is None else Head(*row)


def limits_in(connection: sa.Connection, party_id: str) -> dict[Level, Limit]:
    """Return a party's present limits by level, in a caller's transaction."""
    limits: dict[Level, Limit] = {}
    for body in connection.scalars(_LIMITS, {"party_id": party_id}):
        limits = change_limits(limits, body)
    return limits


def entries_in(
    connection: sa.Connection,
    *,
    party_id: str | None = None,
    kind: EntryKind | None = None,
    after: int = 0,
) -> Iterator[Entry]:
    """Read entries in order, some at a time, in a caller's transaction."""
    query = sa.select(*ENTRY_COLUMNS).order_by(ENTRIES.c.number).limit(PAGE)
    if kind is not None:
        query = query.where(ENTRIES.c.kind == kind)
    if party_id is not None:
        query = query.where(ENTRIES.c.party_id == party_id)
    while page := connection.execute(query.where(ENTRIES.c.number > after)).all():
        yield from (Entry(*row) for row in page)
        after = page[-1].number


def parties_in(connection: sa.Connection) -> list[str]:
    """Return all parties with a release or a limit, in the order of their names."""
    return sorted(connection.scalars(sa.select(ENTRIES.c.party_id).distinct()))


def limited_parties_in(connection: sa.Connection) -> list[str]:
    """Return the parties for which somebody has set a limit, or said that there is none."""
    query = sa.select(ENTRIES.c.party_id).where(ENTRIES.c.kind == "limit").distinct()
    return sorted(connection.scalars(query))
