"""The table of pages that users were shown: what it holds, and how a page becomes a row.

A row says who was shown a page, when, and what a ranker needs to learn from it. It has no text of a
query and no name of a document. Feature vectors are numbers about documents all the same: who can
read the table and the documents may tell which they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from cloister.core.errors import Damaged, DataError, SettingsError
from cloister.core.ids import AgentId, checked_id
from cloister.federate.online.logged_training import LoggedPage
from cloister.rank.ranker import LARGEST_FEATURE
from cloister.store.migrations import Migration, Schema

if TYPE_CHECKING:
    from alembic.operations import Operations

__all__ = [
    "FREE",
    "NO_SESSION",
    "NO_TRIAL",
    "PAGES",
    "PAGE_SCHEMA",
    "ShownPage",
    "page_of",
    "row_of",
    "teams_of",
]

MOST_CANDIDATES: Final = 10_000
NO_TRIAL: Final = ""
FREE: Final = ""  # taken by no training
NO_SESSION: Final = ""  # taken in the open, or by a version that did not say
_NAME: Final = "cloister_shown_page"

PAGES: Final = sa.table(
    _NAME,
    sa.column("page_id", sa.Text),
    sa.column("agent", sa.Text),
    sa.column("shown_at", sa.BigInteger),  # microseconds since 1970
    sa.column("ranker", sa.Text),  # SHA-256 of the ranker that served
    sa.column("trial", sa.Text),
    sa.column("n_features", sa.BigInteger),
    sa.column("features", sa.LargeBinary),  # candidates x features, single precision
    sa.column("drawn", sa.LargeBinary),  # scores of candidates, single precision
    sa.column("places", sa.LargeBinary),  # shown, best rank first, 32 bits each
    sa.column("teams", sa.LargeBinary),  # of a trial: who picked each, 8 bits
    sa.column("clicks", sa.LargeBinary),  # 0 or 1 for each rank
    sa.column("taken_by", sa.Text),  # the training
    sa.column("taken_round", sa.BigInteger),
    sa.column("taken_session", sa.Text),  # of secure aggregation; empty in the open
)


def _create_table(operations: Operations) -> None:
    operations.create_table(
        _NAME,
        sa.Column("page_id", sa.Text, primary_key=True),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("shown_at", sa.BigInteger, nullable=False),
        sa.Column("ranker", sa.Text, nullable=False),
        sa.Column("trial", sa.Text, nullable=False),
        sa.Column("n_features", sa.BigInteger, nullable=False),
        sa.Column("features", sa.LargeBinary, nullable=False),
        sa.Column("drawn", sa.LargeBinary, nullable=False),
        sa.Column("places", sa.LargeBinary, nullable=False),
        sa.Column("teams", sa.LargeBinary, nullable=False),
        sa.Column("clicks", sa.LargeBinary, nullable=False),
        sa.Column("taken_by", sa.Text, nullable=False),
        sa.Column("taken_round", sa.BigInteger, nullable=False),
    )
    for column in ("agent", "shown_at", "trial", "taken_by"):
        operations.create_index(f"{_NAME}_{column}", _NAME, [column])


def _add_session(operations: Operations) -> None:
    session = sa.Column("taken_session", sa.Text, nullable=False, server_default=NO_SESSION)
    operations.add_column(_NAME, session)


PAGE_SCHEMA: Final = Schema(
    "shown-pages",
    (
        Migration(1, "create the table", _create_table),
        Migration(2, "say for which session a page was taken", _add_session),
    ),
)


class ShownPage(NamedTuple):
    """A page as a user is about to be shown it.

    Parameters
    ----------
    agent_id
        The user.
    ranker
        SHA-256 of the ranker that serves.
    features
        Feature vectors of all candidates of the query.
    drawn
        The scores that the page was drawn from, one a candidate.
    places
        Places of the documents shown, best rank first.
    trial
        The trial that the page belongs to; none unless given.
    teams
        Of a trial: who picked each document (`cloister.rank.team_draft`).
    """

    agent_id: AgentId
    ranker: str
    features: NDArray[Any]
    drawn: NDArray[Any]
    places: NDArray[Any]
    trial: str = NO_TRIAL
    teams: NDArray[Any] | tuple[int, ...] = ()


def row_of(shown: ShownPage) -> dict[str, Any]:
    """Return a page as a row, less its id and time; raise `DataError` where it is no page."""
    features = np.ascontiguousarray(shown.features, "<f4")
    drawn = np.ascontiguousarray(shown.drawn, "<f4")
    places, teams = np.asarray(shown.places), np.asarray(shown.teams, np.int8)
    _check(features, drawn, places)
    if len(teams) != (len(places) if shown.trial else 0):
        raise DataError("a trial's page names who picked each document", where="page")
    return {
        "agent": _checked_agent(shown.agent_id),
        "ranker": shown.ranker,
        "trial": checked_id(shown.trial) if shown.trial else NO_TRIAL,
        "n_features": features.shape[1],
        "features": features.tobytes(),
        "drawn": drawn.tobytes(),
        "places": places.astype("<i4").tobytes(),
        "teams": teams.tobytes(),
        "clicks": bytes(len(places)),
        "taken_by": FREE,
        "taken_round": -1,
        "taken_session": NO_SESSION,
    }


def page_of(row: Any) -> LoggedPage:
    """Return what a row teaches."""
    try:
        features = np.frombuffer(row.features, "<f4").reshape(-1, row.n_features)
        drawn = np.frombuffer(row.drawn, "<f4")
        places = np.frombuffer(row.places, "<i4").astype(np.int64)
        clicked = np.frombuffer(row.clicks, np.int8) != 0
        _check(features, drawn, places)
        if clicked.shape != places.shape:
            raise DataError("clicks on other documents")
    except (ValueError, DataError):
        raise Damaged("a logged page cannot be read", where=_NAME) from None
    return LoggedPage(
        features.astype(np.float32), drawn.astype(np.float32), places, clicked.astype(np.bool_)
    )


def teams_of(row: Any) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Return who picked each document of a trial's page, and which were clicked."""
    return np.frombuffer(row.teams, np.int8), np.frombuffer(row.clicks, np.int8) != 0


def _check(features: NDArray[Any], drawn: NDArray[Any], places: NDArray[Any]) -> None:
    n = len(drawn)
    sound = (
        features.ndim == 2
        and features.shape[1] >= 1
        and 1 <= n <= MOST_CANDIDATES
        and len(features) == n
        and drawn.ndim == places.ndim == 1
        and bool((np.abs(features) <= LARGEST_FEATURE).all() and np.isfinite(drawn).all())
        and len(places) >= 1
        and np.issubdtype(places.dtype, np.integer)
        and bool(((places >= 0) & (places < n)).all())
        and len(np.unique(places)) == len(places)
    )
    if not sound:
        raise DataError(
            f"a page needs features up to {LARGEST_FEATURE:g} and finite scores of its candidates,"
            " and different ones shown",
            where="page",
        )


def _checked_agent(agent_id: AgentId) -> str:
    try:
        return checked_id(agent_id)
    except SettingsError as error:
        raise DataError(error.what, where="agent") from None
