"""Which pages a round has learnt from: each page counts in one round or in none.

A page is free, or taken for one round of one training. When the next round begins, the site is told
the last round in which its update counted: pages taken for that one are used up and deleted, those
taken since are free again. Both, and what is taken anew, are one transaction of the
caller's: a crash leaves all of it or nothing.

A page that another training has taken stays so until it is forgotten: whether that one counted it
is not known here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import sqlalchemy as sa

from cloister.federate.online.logged_training import LoggedPage
from cloister.federate.online.page_table import FREE, NO_TRIAL, PAGES, page_of

__all__ = ["Taking", "settle_rounds", "take_pages", "users_ready"]


class Taking(NamedTuple):
    """Which pages a round may take.

    Parameters
    ----------
    training, round
        For which they are taken.
    n_features
        Of the training's ranker; pages with others are left alone.
    settled_before
        The last time at which a page was shown that takes no more clicks.
    """

    training: str
    round: int
    n_features: int
    settled_before: int


def settle_rounds(connection: sa.Connection, training: str, last_counted: int) -> None:
    """Delete the pages that have counted, and free the others that were taken.

    A site trains in a round before it counts there, so no page is left of a round before the last
    that counted, unless the database was restored from a backup. Such a page may have counted, and
    is deleted.
    """
    taken = PAGES.c.taken_by == training
    connection.execute(PAGES.delete().where(taken, PAGES.c.taken_round <= last_counted))
    connection.execute(PAGES.update().where(taken).values(taken_by=FREE, taken_round=-1))


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
        connection.execute(this.values(taken_by=taking.training, taken_round=taking.round), chosen)
    return _taken(connection, taking)


def _taken(connection: sa.Connection, taking: Taking) -> list[list[LoggedPage]]:
    columns = (PAGES.c.features, PAGES.c.drawn, PAGES.c.places, PAGES.c.clicks)
    query = (
        sa.select(PAGES.c.agent, PAGES.c.n_features, *columns)
        .where(PAGES.c.taken_by == taking.training, PAGES.c.taken_round == taking.round)
        .order_by(PAGES.c.agent, PAGES.c.shown_at, PAGES.c.page_id)
    )
    by_user: dict[str, list[LoggedPage]] = {}
    for row in connection.execute(query):
        by_user.setdefault(row.agent, []).append(page_of(row))
    return list(by_user.values())


def _ready(taking: Taking) -> sa.ColumnElement[bool]:
    return sa.and_(
        PAGES.c.taken_by == FREE,
        PAGES.c.trial == NO_TRIAL,
        PAGES.c.n_features == taking.n_features,
        PAGES.c.shown_at <= taking.settled_before,
    )
