"""Which pages a round has learnt from: each page counts in one round or in none.

A page is free, or taken for one round of one training. With secure aggregation it is locked to one
session. When the next round begins, pages whose round has counted are deleted. In the open, those
taken since are free again, by the coordinator's word. With secure aggregation a page is free again
only if its session can never be opened (`Settled.free`); else it stays locked until it is too old.
Deleting, freeing and taking are one transaction of the caller's: a crash leaves all of it or
nothing.

A page that another training has taken stays so until it is forgotten: whether that one counted it
is not known here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import sqlalchemy as sa

from cloister.federate.engines.local_trainer import Settled
from cloister.federate.online.logged_training import LoggedPage
from cloister.federate.online.page_table import FREE, NO_SESSION, NO_TRIAL, PAGES, page_of

__all__ = ["Taking", "held_sessions", "settle_rounds", "take_pages", "users_ready"]


class Taking(NamedTuple):
    """Which pages a round may take.

    Parameters
    ----------
    training, round
        For which they are taken.
    settled
        For which session they are taken, and what became of the pages that were taken before.
    n_features
        Of the training's ranker; pages with others are left alone.
    settled_before
        The last time at which a page was shown that takes no more clicks.
    """

    training: str
    round: int
    settled: Settled
    n_features: int
    settled_before: int


def settle_rounds(connection: sa.Connection, taking: Taking) -> None:
    """Delete the pages that have counted, and free those that may be learnt from again.

    In the open, a site trains in a round before it counts there, so no page is left of a round
    before the last that counted, unless the database was restored from a backup. Such a page may
    have counted, and is deleted.
    """
    connection.execute(PAGES.delete().where(_has_counted(taking)))
    free = {"taken_by": FREE, "taken_round": -1, "taken_session": NO_SESSION}
    connection.execute(PAGES.update().where(_is_freed(taking)).values(**free))


def held_sessions(connection: sa.Connection, training: str) -> frozenset[str]:
    """Return the sessions for which pages were taken that are still there."""
    query = sa.select(PAGES.c.taken_session).where(PAGES.c.taken_by == training).distinct()
    return frozenset(connection.scalars(query)) - {NO_SESSION}


def users_ready(connection: sa.Connection, taking: Taking) -> list[str]:
    """Return the users who have pages to learn from, in order."""
    query = sa.select(PAGES.c.agent).where(_ready(taking)).distinct()
    return sorted(connection.scalars(query))


def take_pages(
    connection: sa.Connection, taking: Taking, users: Collection[str], most: int
) -> list[list[LoggedPage]]:
    """Take up to ``most`` pages of each user, oldest first; return them user by user."""
    wanted = set(users)
    place = sa.func.row_number().over(
        partition_by=PAGES.c.agent, order_by=[PAGES.c.shown_at, PAGES.c.page_id]
    )
    ready = sa.select(PAGES.c.page_id, PAGES.c.agent, place.label("place"))
    numbered = ready.where(_ready(taking)).subquery()
    oldest = sa.select(numbered.c.page_id, numbered.c.agent).where(numbered.c.place <= most)
    chosen = [{"b_id": row.page_id} for row in connection.execute(oldest) if row.agent in wanted]
    if chosen:
        this = PAGES.update().where(PAGES.c.page_id == sa.bindparam("b_id"))
        values = {
            "taken_by": taking.training,
            "taken_round": taking.round,
            "taken_session": taking.settled.session_id,
        }
        connection.execute(this.values(**values), chosen)
    return _taken(connection, taking)


def _taken(connection: sa.Connection, taking: Taking) -> list[list[LoggedPage]]:
    columns = (PAGES.c.features, PAGES.c.drawn, PAGES.c.places, PAGES.c.clicks)
    query = (
        sa.select(PAGES.c.agent, PAGES.c.n_features, *columns)
        .where(PAGES.c.taken_by == taking.training, PAGES.c.taken_round == taking.round)
        .where(PAGES.c.taken_session == taking.settled.session_id)
        .order_by(PAGES.c.agent, PAGES.c.shown_at, PAGES.c.page_id)
    )
    by_user: dict[str, list[LoggedPage]] = {}
    for row in connection.execute(query):
        by_user.setdefault(row.agent, []).append(page_of(row))
    return list(by_user.values())


def _has_counted(taking: Taking) -> sa.ColumnElement[bool]:
    """Return the condition of pages that are used up."""
    settled = taking.settled
    plain = (PAGES.c.taken_session == NO_SESSION) & (PAGES.c.taken_round <= settled.last_counted)
    counted = PAGES.c.taken_session.in_(sorted(settled.counted))
    return (PAGES.c.taken_by == taking.training) & (plain | counted)


def _is_freed(taking: Taking) -> sa.ColumnElement[bool]:
    """Return the condition of pages that were taken and may be learnt from again.

    With secure aggregation, pages of no known session stay locked: an earlier version took them.
    """
    settled = taking.settled
    free = [NO_SESSION] if settled.session_id == NO_SESSION else sorted(settled.free)
    return (PAGES.c.taken_by == taking.training) & PAGES.c.taken_session.in_(free)


def _ready(taking: Taking) -> sa.ColumnElement[bool]:
    return sa.and_(
        PAGES.c.taken_by == FREE,
        PAGES.c.trial == NO_TRIAL,
        PAGES.c.n_features == taking.n_features,
        PAGES.c.shown_at <= taking.settled_before,
    )
