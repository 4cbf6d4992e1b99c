"""How an entry gets into the ledger: checked against the limit, tied to the entry before."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from cloister.core.errors import BudgetExceeded
from cloister.privacy.ledger.entry import Entry
from cloister.privacy.ledger.reading import head_in, limit_in
from cloister.privacy.ledger.spending import refuse_beyond, spent
from cloister.privacy.ledger.tables import ENTRIES
from cloister.privacy.release import Release

__all__ = ["append", "refuse_or_pass"]

_APPEND: Final = ENTRIES.insert()


def append(connection: sa.Connection, draft: Entry) -> Entry:
    """Give a draft its number and hashes, and write it down."""
    last = head_in(connection)
    entry = draft._replace(number=last.number + 1, previous=last.hash).sealed()
    connection.execute(_APPEND, entry._asdict())
    return entry


def refuse_or_pass(
    connection: sa.Connection, release: Release, party_id: str, *, require_limit: bool
) -> None:
    """Raise `BudgetExceeded` unless the party's limit allows one more release."""
    limit = limit_in(connection, party_id)
    if limit is not None:
        before = spent(connection, party_id, simulated=release.simulated)
        refuse_beyond(limit, party_id, before, release)
    elif require_limit:
        raise BudgetExceeded(
            f'party "{party_id}" has no limit, and this ledger asks for one',
            remedy=f"set it: cloister ledger limit {party_id} --epsilon E",
        )
