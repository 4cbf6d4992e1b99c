"""Pages of users in a restored click log: they may have been learnt from, or deleted, since."""

from __future__ import annotations

import sqlalchemy as sa

from cloister.federate.online.page_table import PAGES

__all__ = ["drop_pages"]


def drop_pages(connection: sa.Connection) -> int:
    """Delete all shown pages, in the caller's transaction; return how many there were.

    A page that was learnt from after the backup would be learnt from again, votes of a trial would
    be cast again, and pages that a user had deleted would be back.
    """
    if not sa.inspect(connection).has_table(PAGES.name):
        return 0
    return connection.execute(PAGES.delete()).rowcount
