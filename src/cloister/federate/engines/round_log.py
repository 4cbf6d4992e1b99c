"""What a coordinator keeps: every round's ranker, who is in it, who is suspected, all attempts.

A round, its ranker and the ledger's record of the release are one transaction. A coordinator that
is killed goes on from its last round; what it had gathered since is not counted, and is gathered
again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from cloister.core.errors import Conflict, Damaged, DataError, NotFound
from cloister.federate.engines.round_messages import model_bytes, read_model
from cloister.federate.engines.suspicion import Suspicion
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.outbox import note_delivery
from cloister.privacy.ledger.tables import ENTRIES
from cloister.privacy.release import Release
from cloister.store.database import Database
from cloister.store.keyed_state import Json, KeyedState
from cloister.store.migrations import Migration, Schema

if TYPE_CHECKING:
    from alembic.operations import Operations

__all__ = ["LoggedRound", "OpenSession", "PastRound", "RoundLog"]

READERS: Final = "readers"
_NAME: Final = "cloister_federation_round"
_ROWS: Final = sa.table(
    _NAME,
    sa.column("training", sa.Text),
    sa.column("n_rounds", sa.BigInteger),
    sa.column("model", sa.LargeBinary),
    sa.column("sites", sa.Text),  # JSON: whose updates it rests on
    sa.column("entry", sa.BigInteger),  # of the ledger; 0 for the ranker that training began with
    sa.column("spoilt", sa.Text),  # where the sum was discarded: why; the ranker is the one before
    sa.column("spoilt_at", sa.Text),  # ISO 8601, UTC
)
_TRAININGS: Final = KeyedState("federation-trainings")  # by name: the agreement's digest
_NUMBERS: Final = KeyedState("federation-sites")  # by name: the number of each site
_COUNTED: Final = KeyedState("federation-counted")  # by name: the last sum opened with a site
_SUSPICION: Final = KeyedState("federation-suspicion")  # by name: who may have spoilt sums
_ATTEMPTS: Final = KeyedState("federation-attempts")  # by name: round and attempts begun
_OPEN: Final = KeyedState("federation-sessions")  # by name: sessions that lock pages of sites
_MOST_OPEN: Final = 64  # sites that stay away for so many sessions wait until pages are too old


def _create_table(operations: Operations) -> None:
    operations.create_table(
        _NAME,
        sa.Column("training", sa.Text, primary_key=True),
        sa.Column("n_rounds", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("model", sa.LargeBinary, nullable=False),
        sa.Column("sites", sa.Text, nullable=False),
        sa.Column("entry", sa.BigInteger, nullable=False),
    )


def _add_spoilt(operations: Operations) -> None:
    for column in ("spoilt", "spoilt_at"):
        operations.add_column(_NAME, sa.Column(column, sa.Text, nullable=True))


class LoggedRound(NamedTuple):
    """The state of a training after so many rounds.

    Parameters
    ----------
    n_rounds
        Rounds done.
    model
        The ranker's parameters.
    sites
        Whose updates are in the last sum.
    entry
        The ledger's entry of the ranker's release; 0 for the ranker that training began with.
    """

    n_rounds: int
    model: NDArray[np.float64]
    sites: tuple[str, ...]
    entry: int


class OpenSession(NamedTuple):
    """A session of secure aggregation that did not count a site, and may lock pages there.

    Parameters
    ----------
    session_id, members
        Which, and to whom it was announced.
    waiting
        Members whose pages may be locked.
    ends
        By member: its promise to reveal nothing more, as it sent it.
    """

    session_id: str
    members: tuple[str, ...]
    waiting: tuple[str, ...]
    ends: dict[str, bytes]


class PastRound(NamedTuple):
    """A round that was done.

    Parameters
    ----------
    round_number
        Which, from 0.
    recorded_at
        When its release, or that its sum was spoilt, was recorded: ISO 8601, UTC.
    sites
        Whose updates are in its sum.
    entry
        The ledger's entry of its ranker's release.
    spoilt
        Why its sum was discarded, and its ranker is the one before; empty where it counted.
    """

    round_number: int
    recorded_at: str
    sites: tuple[str, ...]
    entry: int
    spoilt: str = ""


class RoundLog:
    """The rounds of one training, in a database beside the coordinator's ledger.

    Parameters
    ----------
    database
        Where.
    training
        The training's name, and the party whose releases the ledger counts.
    """

    schema: ClassVar[Schema] = Schema(
        "federation-rounds",
        (
            Migration(1, "create the table", _create_table),
            Migration(2, "spoilt sums", _add_spoilt),
        ),
    )

    def __init__(self, database: Database, training: str) -> None:
        self._database = database
        self._training = training
        self.ledger = Ledger(database)
        database.migrate(KeyedState.schema)
        database.migrate(self.schema)

    def begin(self, agreed: str, model: NDArray[np.float64]) -> None:
        """Begin a training, or go on with it if the agreement is the same."""

        def work(connection: sa.Connection) -> None:
            known = _TRAININGS.get(connection, self._training)
            if known is None:
                _TRAININGS.put(connection, self._training, agreed, expected_version=0)
                self._insert(connection, LoggedRound(0, model, (), 0))
            elif known.value != agreed:
                raise Conflict(
                    "this training was begun by another agreement",
                    where=self._training,
                    remedy="go on with that one, or give the new training another name",
                )

        self._database.run(work)

    def last(self) -> LoggedRound:
        """Return where the training stands."""
        return self._database.run(self._last_in, read_only=True)

    def at(self, n_rounds: int) -> LoggedRound:
        """Return where the training stood after so many rounds; `NotFound` beyond the last."""

        def read(connection: sa.Connection) -> LoggedRound:
            found = connection.execute(self._states().where(_ROWS.c.n_rounds == n_rounds))
            row = found.one_or_none()
            if row is None:
                raise NotFound("this round is not done", where=f"{self._training}, {n_rounds}")
            return self._read(row)

        return self._database.run(read, read_only=True)

    def past(self, *, after: int = 0, limit: int = 500) -> tuple[list[PastRound], int]:
        """Return rounds in order, without the first ``after``, and how many there are in all."""
        at = sa.func.coalesce(_ROWS.c.spoilt_at, ENTRIES.c.recorded_at)
        query = (
            sa.select(_ROWS.c.n_rounds, at, _ROWS.c.sites, _ROWS.c.entry, _ROWS.c.spoilt)
            .join_from(_ROWS, ENTRIES, ENTRIES.c.number == _ROWS.c.entry, isouter=True)
            .where(_ROWS.c.training == self._training, _ROWS.c.n_rounds > after)
            .order_by(_ROWS.c.n_rounds)
            .limit(limit)
        )

        def read(connection: sa.Connection) -> tuple[list[PastRound], int]:
            rows = connection.execute(query).all()
            found = [
                PastRound(n - 1, at, tuple(json.loads(sites)), entry, why or "")
                for n, at, sites, entry, why in rows
            ]
            return found, self._n_rounds_in(connection)

        return self._database.run(read, read_only=True)

    def new_attempt(self, round_number: int, session_id: str, members: Iterable[str]) -> int:
        """Return the number of a new attempt at a round, written down before anybody is told.

        Its session is open from now on, until a round counts it or all its members are free of it.
        """
        names = tuple(members)

        def work(connection: sa.Connection) -> int:
            self._put_open(connection, OpenSession(session_id, names, names, {}))
            known = _ATTEMPTS.get(connection, self._training)
            same = known is not None and known.value["round"] == round_number
            attempt = known.value["attempt"] + 1 if known is not None and same else 0
            value = {"round": round_number, "attempt": attempt}
            _ATTEMPTS.put(connection, self._training, value)
            return attempt

        return self._database.run(work)

    def open_sessions(self) -> list[OpenSession]:
        """Return the sessions that may lock pages of sites, oldest first."""
        return self._database.run(self._open_in, read_only=True)

    def put_session(self, session: OpenSession) -> None:
        """Write down how an open session stands; it is dropped once nobody waits."""
        self._database.run(lambda connection: self._put_open(connection, session))

    def site_numbers(self, sites: Iterable[str]) -> dict[str, int]:
        """Return the number of each site, which it keeps for the whole training."""

        def work(connection: sa.Connection) -> dict[str, int]:
            known = _NUMBERS.get(connection, self._training)
            numbers: dict[str, int] = {} if known is None else dict(known.value)
            new = [site for site in sorted(sites) if site not in numbers]
            numbers |= {site: len(numbers) + i for i, site in enumerate(new)}
            if new:
                _NUMBERS.put(connection, self._training, numbers)
            return numbers

        return self._database.run(work)

    def last_counted(self) -> dict[str, int]:
        """Return for each site the last round whose sum was opened with its update in it."""
        return self._database.run(self._counted_in, read_only=True)

    def commit(
        self,
        before: LoggedRound,
        model: NDArray[np.float64],
        sites: tuple[str, ...],
        release: Release,
        *,
        session_id: str = "",
        also: Callable[[sa.Connection], None] = lambda connection: None,
    ) -> LoggedRound:
        """Write a round down with its release; `Conflict` if somebody else did so meanwhile.

        What ``also`` writes is in the same transaction, and so is that the session has counted its
        sites.
        """

        def work(connection: sa.Connection) -> LoggedRound:
            receipt = self.ledger.release_in(
                connection,
                release,
                model_bytes(model),
                party_id=self._training,
                recipient=READERS,
                purpose=f"round {before.n_rounds + 1}",
            )
            self._check_last(connection, before)
            if before.entry:  # the sites that answered have the ranker that they began from
                now = datetime.now(UTC).isoformat(timespec="microseconds")
                note_delivery(connection, before.entry, now)
            done = LoggedRound(before.n_rounds + 1, model, sites, receipt.number)
            self._insert(connection, done)
            self._note_opened(connection, done, session_id)
            suspicion = self._suspicion_in(connection)
            if suspicion.suspects:
                self._put_suspicion(connection, suspicion.after_counted(sites))
            also(connection)
            return done

        return self._database.run(work)

    def spoil(
        self,
        before: LoggedRound,
        sites: tuple[str, ...],
        why: str,
        change: Callable[[Suspicion], Suspicion],
        *,
        session_id: str = "",
    ) -> Suspicion:
        """Write down a round whose sum was discarded, and who is suspected now.

        The ranker stays. The sum was opened, so that what sites put into it is used up.
        """

        def work(connection: sa.Connection) -> Suspicion:
            self._check_last(connection, before)
            over = LoggedRound(before.n_rounds + 1, before.model, sites, before.entry)
            now = datetime.now(UTC).isoformat(timespec="microseconds")
            self._insert(connection, over, spoilt=why, spoilt_at=now)
            self._note_opened(connection, over, session_id)
            suspicion = change(self._suspicion_in(connection))
            return self._put_suspicion(connection, suspicion)

        return self._database.run(work)

    def suspicion(self) -> Suspicion:
        """Return who may have spoilt sums."""
        return self._database.run(self._suspicion_in, read_only=True)

    def n_spoilt(self) -> int:
        """Return how many sums of the training were discarded."""
        query = sa.select(sa.func.count()).where(
            _ROWS.c.training == self._training, _ROWS.c.spoilt.is_not(None)
        )
        return self._database.run(lambda c: int(c.scalar(query) or 0), read_only=True)

    def change_suspicion(self, change: Callable[[Suspicion], Suspicion]) -> Suspicion:
        """Change who is suspected, by an operator's word."""
        return self._database.run(
            lambda connection: self._put_suspicion(
                connection, change(self._suspicion_in(connection))
            )
        )

    def _suspicion_in(self, connection: sa.Connection) -> Suspicion:
        known = _SUSPICION.get(connection, self._training)
        return Suspicion() if known is None else Suspicion.from_json(known.value)

    def _put_suspicion(self, connection: sa.Connection, suspicion: Suspicion) -> Suspicion:
        _SUSPICION.put(connection, self._training, suspicion.to_json())
        return suspicion

    def _check_last(self, connection: sa.Connection, before: LoggedRound) -> None:
        if self._last_in(connection).n_rounds != before.n_rounds:
            raise Conflict("this round is done already", where=self._training)

    def _note_opened(self, connection: sa.Connection, done: LoggedRound, session_id: str) -> None:
        """Note whose updates are used up; other members of the session may have locked pages."""
        counted = self._counted_in(connection) | dict.fromkeys(done.sites, done.n_rounds - 1)
        _COUNTED.put(connection, self._training, counted)
        for one in self._open_in(connection):
            if one.session_id == session_id:
                left = tuple(site for site in one.waiting if site not in done.sites)
                self._put_open(connection, one._replace(waiting=left))

    def _open_in(self, connection: sa.Connection) -> list[OpenSession]:
        known = _OPEN.get(connection, self._training)
        return [
            OpenSession(
                one["session_id"],
                tuple(one["members"]),
                tuple(one["waiting"]),
                {site: bytes.fromhex(end) for site, end in one["ends"].items()},
            )
            for one in ([] if known is None else known.value)
        ]

    def _put_open(self, connection: sa.Connection, session: OpenSession) -> None:
        found = {one.session_id: one for one in self._open_in(connection)}
        found[session.session_id] = session
        value: list[Json] = [
            {
                "session_id": one.session_id,
                "members": list(one.members),
                "waiting": list(one.waiting),
                "ends": {site: end.hex() for site, end in one.ends.items()},
            }
            for one in found.values()
            if one.waiting
        ]
        _OPEN.put(connection, self._training, value[-_MOST_OPEN:])

    def _counted_in(self, connection: sa.Connection) -> dict[str, int]:
        known = _COUNTED.get(connection, self._training)
        return {} if known is None else dict(known.value)

    def _insert(self, connection: sa.Connection, state: LoggedRound, **spoilt: str) -> None:
        row: dict[str, Any] = {
            "training": self._training,
            "n_rounds": state.n_rounds,
            "model": model_bytes(state.model),
            "sites": json.dumps(state.sites),
            "entry": state.entry,
        }
        connection.execute(_ROWS.insert(), row | spoilt)

    def _n_rounds_in(self, connection: sa.Connection) -> int:
        query = sa.select(sa.func.max(_ROWS.c.n_rounds)).where(_ROWS.c.training == self._training)
        return int(connection.scalar(query) or 0)

    def _states(self) -> sa.Select[tuple[int, bytes, str, int]]:
        query = sa.select(_ROWS.c.n_rounds, _ROWS.c.model, _ROWS.c.sites, _ROWS.c.entry)
        return query.where(_ROWS.c.training == self._training)

    def _last_in(self, connection: sa.Connection) -> LoggedRound:
        newest = self._states().order_by(_ROWS.c.n_rounds.desc()).limit(1)
        return self._read(connection.execute(newest).one())

    def _read(self, row: sa.Row[tuple[int, bytes, str, int]]) -> LoggedRound:
        try:
            model = read_model(row.model)
        except DataError as error:
            raise Damaged(error.what, where=f"{self._training}, round {row.n_rounds}") from None
        return LoggedRound(row.n_rounds, model, tuple(json.loads(row.sites)), row.entry)
