"""The click log of a node: pages that users were shown, and what they clicked.

A page is open for clicks until it is ``settle_s`` old, or its user has left it; after that it never
changes, and may be learnt from. It is deleted when its lesson has counted in a round, when its
trial's votes were cast or its trial has ended, when its user asks for it, when it is too old, or
when its user has newer pages that fill the user's quota. All of it lies in the node's own database,
which protects it no better than the file system or the PostgreSQL server does.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple

import sqlalchemy as sa
from pydantic import Field

from cloister.core.deadline import LONGEST_S
from cloister.core.errors import NotFound, SettingsError
from cloister.core.ids import AgentId
from cloister.core.settings import Settings
from cloister.federate.online.page_table import (
    FREE,
    NO_TRIAL,
    PAGE_SCHEMA,
    PAGES,
    ShownPage,
    row_of,
)
from cloister.store.database import Database
from cloister.store.migrations import Schema

__all__ = ["ClickLog", "ClickLogSettings", "LogState"]

_ID_BYTES: Final = 24
_PAGE_ID: Final = re.compile(r"[A-Za-z0-9_-]{32}")
_SECOND: Final = 1_000_000
_BLOBS: Final = ("features", "drawn", "places", "teams", "clicks")  # almost all of a page's bytes
_SIZE: Final = sum((sa.func.length(PAGES.c[name]) for name in _BLOBS), start=sa.literal(0))


class ClickLogSettings(Settings):
    """How long pages are open, how long they are kept, and how many of one user.

    Parameters
    ----------
    settle_s
        So long a page takes clicks; then it may be learnt from.
    keep_s
        So long a page is kept at most; `ClickLog.forget_old` deletes older ones.
    max_pages_of_user, max_bytes_of_user
        Before a page is added beyond either, the oldest pages of its user are deleted. Pages that a
        round has taken count, and stay: they must not count twice. The new page always stays. No
        round takes more pages of a user whose taken pages reach either. So the pages of a user
        exceed the number by one at most, and the bytes by two pages.
    """

    settle_s: float = Field(default=1800.0, ge=0, le=LONGEST_S)
    keep_s: float = Field(default=30 * 86400.0, gt=0, le=LONGEST_S)
    max_pages_of_user: int = Field(default=1_000, ge=1)
    max_bytes_of_user: int = Field(default=8 << 20, ge=1)


class LogState(NamedTuple):
    """How many pages there are.

    Parameters
    ----------
    n_pages
        All of them.
    n_open
        Those that take clicks.
    n_ready
        Those that the next round may learn from.
    n_locked
        Those that a round has learnt from which is not known to have counted. With secure
        aggregation no other round learns from them, until other sites have promised to reveal
        nothing of them, or they are too old.
    n_in_trials
        Those that belong to trials, which no round learns from.
    """

    n_pages: int
    n_open: int
    n_ready: int
    n_locked: int
    n_in_trials: int


class ClickLog:
    """The pages of one node's users. Threads and processes may share it.

    Parameters
    ----------
    database
        The node's.
    settings
        How long pages are open and kept, and how many of one user.
    clock
        Tells the seconds since 1970.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Database.open(Path(folder, "node.db")) as database:
    ...     log = ClickLog(database)
    ...     ann = AgentId("clinic-a:ann")
    ...     page_id = log.show(ShownPage(ann, "0" * 64, np.eye(2), np.zeros(2), np.array([1, 0])))
    ...     log.click(page_id, ann, 1)
    ...     log.click(page_id, AgentId("clinic-a:bob"), 1)
    Traceback (most recent call last):
    ...
    cloister.core.errors.NotFound: no such page is open; search again
    """

    schema: ClassVar[Schema] = PAGE_SCHEMA

    def __init__(
        self,
        database: Database,
        settings: ClickLogSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.database = database
        self.settings = settings or ClickLogSettings()
        self._clock = clock
        database.migrate(self.schema)

    def show(self, shown: ShownPage) -> str:
        """Keep a page before its user sees it; return its id, which nobody can guess.

        Deletes the user's oldest pages where the quota is full.
        """
        row = row_of(shown)
        page_id = secrets.token_urlsafe(_ID_BYTES)
        row |= {"page_id": page_id, "shown_at": self._now()}

        def work(connection: sa.Connection) -> None:
            self._make_room(connection, row)
            connection.execute(PAGES.insert(), row)

        self.database.run(work)
        return page_id

    def click(self, page_id: str, agent_id: AgentId, rank: int) -> None:
        """Note that a user clicked the document at a rank, from 1; again changes nothing.

        Raises
        ------
        NotFound
            There is no such page, or it is somebody else's, or it takes no more clicks (it is too
            old, or a round has learnt from it, whatever the clock says now), or it has no such
            rank: all look alike.
        """
        if not _PAGE_ID.fullmatch(page_id):
            raise _no_page()
        after = self.settled_before()

        def work(connection: sa.Connection) -> None:
            query = sa.select(PAGES.c.agent, PAGES.c.clicks, PAGES.c.shown_at, PAGES.c.taken_by)
            row = connection.execute(query.where(PAGES.c.page_id == page_id)).one_or_none()
            if row is None or row.agent != agent_id or row.shown_at <= after:
                raise _no_page()
            if row.taken_by != FREE or not 1 <= rank <= len(row.clicks):
                raise _no_page()
            clicks = bytearray(row.clicks)
            clicks[rank - 1] = 1
            if clicks != row.clicks:
                this = PAGES.update().where(PAGES.c.page_id == page_id)
                connection.execute(this.values(clicks=bytes(clicks)))

        self.database.run(work)

    def leave(self, page_id: str, agent_id: AgentId) -> None:
        """Note that a user has left a page: it takes no more clicks, and may be learnt from.

        Its time is put back by ``settle_s``, so that it counts as settled; pages that were left
        stay in the order in which they were shown.

        Raises
        ------
        NotFound
            There is no such page, or it is somebody else's, or it takes no more clicks.
        """
        if not _PAGE_ID.fullmatch(page_id):
            raise _no_page()
        after, back = self.settled_before(), round(self.settings.settle_s * _SECOND)
        mine = (PAGES.c.page_id == page_id) & (PAGES.c.agent == agent_id)
        still_open = (PAGES.c.shown_at > after) & (PAGES.c.taken_by == FREE)
        left = PAGES.update().where(mine & still_open).values(shown_at=PAGES.c.shown_at - back)
        if not self.database.run(lambda connection: connection.execute(left).rowcount):
            raise _no_page()

    def count_user(self, agent_id: AgentId) -> int:
        """Return how many pages of a user are kept."""
        query = sa.select(sa.func.count()).select_from(PAGES).where(PAGES.c.agent == agent_id)

        def work(connection: sa.Connection) -> int:
            return int(connection.scalar(query) or 0)

        return self.database.run(work, read_only=True)

    def forget_user(self, agent_id: AgentId) -> int:
        """Delete all pages of a user; return how many.

        What a ranker has learnt from them already stays in it.
        """
        return self._delete(PAGES.c.agent == agent_id)

    def forget_trials_but(self, trial_id: str | None) -> int:
        """Delete the pages of all trials but one, or of all trials; return how many.

        Pages of trials that were cancelled, or that ended before this node had voted, teach nobody
        anything any more. Call it with the trial under way, as the coordinator says, if there is
        one; and not where the coordinator did not answer.
        """
        of_trials = PAGES.c.trial > NO_TRIAL  # as != would be, by the index
        return self._delete(of_trials & (PAGES.c.trial != (trial_id or NO_TRIAL)))

    def forget_older_than(self, age_s: float) -> int:
        """Delete all pages that were shown longer ago; return how many."""
        if age_s < 0:
            raise SettingsError(f"must not be negative (given: {age_s})", where="age_s")
        return self._delete(PAGES.c.shown_at < self._now() - round(age_s * _SECOND))

    def forget_old(self) -> int:
        """Delete all pages that are older than the settings allow; return how many."""
        return self.forget_older_than(self.settings.keep_s)

    def users_full(self, connection: sa.Connection) -> set[str]:
        """Return the users whose pages that rounds have taken fill their quota."""
        full = (sa.func.count() >= self.settings.max_pages_of_user) | (
            sa.func.sum(_SIZE) >= self.settings.max_bytes_of_user
        )
        query = sa.select(PAGES.c.agent).where(PAGES.c.taken_by != FREE)
        return set(connection.scalars(query.group_by(PAGES.c.agent).having(full)))

    def settled_before(self) -> int:
        """Return the time up to which pages were shown that take no more clicks."""
        return self._now() - round(self.settings.settle_s * _SECOND)

    def state(self) -> LogState:
        """Return how many pages there are."""
        settled, free = PAGES.c.shown_at <= self.settled_before(), PAGES.c.taken_by == FREE
        apart = PAGES.c.trial == NO_TRIAL
        conditions = [sa.true(), ~settled, settled & free & apart, ~free, ~apart]
        counts = [sa.func.count(sa.case((one, 1))) for one in conditions]

        def work(connection: sa.Connection) -> Any:
            return connection.execute(sa.select(*counts).select_from(PAGES)).one()

        return LogState(*self.database.run(work, read_only=True))

    def _make_room(self, connection: sa.Connection, row: dict[str, Any]) -> None:
        """Delete a user's oldest pages that no round has taken, until one more page has room."""
        mine = PAGES.c.agent == row["agent"]
        totals = sa.select(sa.func.count(), sa.func.sum(_SIZE)).where(mine)
        n_pages, n_bytes = connection.execute(totals).one()
        n_over = n_pages + 1 - self.settings.max_pages_of_user
        bytes_over = int(n_bytes or 0) + _size_of(row) - self.settings.max_bytes_of_user
        if n_over <= 0 and bytes_over <= 0:
            return
        free = sa.select(PAGES.c.page_id, _SIZE.label("size")).where(mine, PAGES.c.taken_by == FREE)
        doomed = []
        for page in connection.execute(free.order_by(PAGES.c.shown_at, PAGES.c.page_id)):
            if n_over <= 0 and bytes_over <= 0:
                break
            doomed.append({"b_id": page.page_id})
            n_over, bytes_over = n_over - 1, bytes_over - page.size
        if doomed:
            this = PAGES.delete().where(PAGES.c.page_id == sa.bindparam("b_id"))
            connection.execute(this, doomed)

    def _delete(self, condition: sa.ColumnElement[bool]) -> int:
        def work(connection: sa.Connection) -> int:
            return connection.execute(PAGES.delete().where(condition)).rowcount

        return self.database.run(work)

    def _now(self) -> int:
        return round(self._clock() * _SECOND)


def _size_of(row: dict[str, Any]) -> int:
    return sum(len(row[name]) for name in _BLOBS)


def _no_page() -> NotFound:
    return NotFound("no such page is open", remedy="search again")
