"""What a site remembers on disk: which rounds it began, what it answered, and what it released.

An answer, the round that it belongs to and the record of what it releases are one transaction,
made before the answer leaves. A site that is killed has done all of it or nothing, and answers an
equal call with the same bytes afterwards. Answers are dropped when the next round or attempt
begins, and so is the ledger's copy of what was released; calls of those before are refused. The
last ranker that the site trained on stays, and so do all sessions (`site_sessions`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from cloister.core.errors import BudgetExceeded, Conflict
from cloister.federate.engines.local_trainer import Settled
from cloister.federate.engines.round_messages import RoundAnnouncement, model_bytes, read_model
from cloister.federate.engines.site_call import SiteId
from cloister.federate.engines.site_sessions import SESSIONS_MIGRATION, SessionKey, SiteSessions
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Consent
from cloister.privacy.ledger.outbox import note_delivery
from cloister.privacy.release import Release
from cloister.store.database import Database
from cloister.store.keyed_state import KeyedState
from cloister.store.migrations import Migration, Schema

if TYPE_CHECKING:
    from alembic.operations import Operations

__all__ = ["SiteAnswer", "SiteMemory", "TrainedOn"]

COORDINATOR: Final = "coordinator"
_NAME: Final = "cloister_site_answer"
_ANSWERS: Final = sa.table(
    _NAME,
    sa.column("call_id", sa.LargeBinary),
    sa.column("training", sa.Text),
    sa.column("content", sa.LargeBinary),
)
_ROUNDS: Final = KeyedState("site-rounds")  # by training: round, attempt, ledger entry, releases
_RANKERS: Final = KeyedState("site-rankers")  # by training: the last that was trained on


def _create_table(operations: Operations) -> None:
    operations.create_table(
        _NAME,
        sa.Column("call_id", sa.LargeBinary, primary_key=True),
        sa.Column("training", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )


class SiteAnswer(NamedTuple):
    """What a site is about to send.

    Parameters
    ----------
    call_id
        The call that it answers.
    content
        The bytes.
    release
        What they release, where they do.
    in_session
        What the site remembers of the session together with the answer.
    """

    call_id: bytes
    content: bytes
    release: Release | None = None
    in_session: Callable[[sa.Connection, SessionKey], None] | None = None


class TrainedOn(NamedTuple):
    """The last ranker that a site has trained on, and in which round."""

    round_number: int
    model: NDArray[np.float64]


class SiteMemory:
    """The memory of one site, in a database of its own.

    Parameters
    ----------
    database
        Where it is kept, beside the site's ledger.
    site
        Whose it is, and whose privacy its releases cost.
    most_releases
        Of one training; any number unless given.
    consents
        Who agreed to releases without a bound.
    """

    schema: ClassVar[Schema] = Schema(
        "site-answers", (Migration(1, "create the table", _create_table), SESSIONS_MIGRATION)
    )

    def __init__(
        self,
        database: Database,
        site: SiteId,
        *,
        most_releases: int | None = None,
        consents: tuple[Consent, ...] = (),
    ) -> None:
        self._database = database
        self._most_releases = most_releases
        self._site = site
        self.ledger = Ledger(database, consents=consents)
        self.sessions = SiteSessions()
        database.migrate(KeyedState.schema)
        database.migrate(self.schema)

    def answer_to(self, call_id: bytes) -> bytes | None:
        """Return the answer that was given to a call, if it is of the round under way."""
        return self._database.run(lambda c: _answer_in(c, call_id), read_only=True)

    def last_round(self, training: str) -> int:
        """Return the last round of a training that was begun; -1 for none."""
        found = self._database.run(lambda c: _ROUNDS.get(c, training), read_only=True)
        return -1 if found is None else int(found.value["round"])

    def trained_on(self, training: str) -> TrainedOn | None:
        """Return the last ranker of a training from which the site released what it learnt."""
        found = self._database.run(lambda c: _RANKERS.get(c, training), read_only=True)
        if found is None:
            return None
        return TrainedOn(found.value["round"], read_model(bytes.fromhex(found.value["model"])))

    def settled(self, told: RoundAnnouncement, held: Collection[str]) -> Settled:
        """Return what became of the sessions that hold pages.

        That the last round counted is written down first: a page of it is never free again.
        """
        if not told.session_id:
            return Settled(last_counted=told.last_counted)

        def work(connection: sa.Connection) -> Settled:
            self.sessions.count(connection, told.training, told.last_counted)
            return self.sessions.settled(connection, told, held)

        return self._database.run(work)

    def end_session(self, key: SessionKey) -> tuple[str, ...]:
        """Promise on disk to reveal no more; return of whose seeds shares have left."""
        return self._database.run(lambda connection: self.sessions.end(connection, key))

    def free_pages(self, key: SessionKey, promised: Collection[str]) -> bool:
        """Free a session's pages if enough holders have promised; say whether any are locked."""
        return self._database.run(lambda c: self.sessions.free(c, key, promised))

    def check_new(self, told: RoundAnnouncement) -> None:
        """Raise `Conflict` unless this attempt comes after all others, in a session of its own."""

        def work(connection: sa.Connection) -> None:
            _check_new(told, _round_in(connection, told))
            self.sessions.check_new(connection, told)

        self._database.run(work, read_only=True)

    def check_release(self, told: RoundAnnouncement, release: Release) -> None:
        """Raise `BudgetExceeded` if it is known already that a release will be refused."""
        last = self._database.run(lambda c: _round_in(c, told), read_only=True)
        self._check_number(told, last.get("n_releases", 0) + 1)
        self.ledger.check(release, **self._label(told))

    def begin(self, told: RoundAnnouncement, answer: SiteAnswer) -> bytes:
        """Begin a round, with its first answer; all answers of the rounds before are dropped."""

        def work(connection: sa.Connection) -> bytes:
            entry = self._release(connection, told, answer)
            last = _round_in(connection, told)
            _check_new(told, last)
            if last.get("entry"):
                # Whether or not it was counted, or has even left: from here on the bytes are sent
                # no more, since calls of earlier attempts are refused. The ledger need not keep
                # them; the entry stays, with its cost, as they may have arrived.
                now = datetime.now(UTC).isoformat(timespec="microseconds")
                note_delivery(connection, last["entry"], now)
            connection.execute(_ANSWERS.delete().where(_ANSWERS.c.training == told.training))
            self._put_round(connection, told, entry, last)
            self.sessions.join(connection, told)
            return _put_answer(connection, told, answer)

        return self._database.run(work)

    def go_on(self, told: RoundAnnouncement, answer: SiteAnswer) -> bytes:
        """Keep a later answer of the round under way; `Conflict` if another has begun since."""

        def work(connection: sa.Connection) -> bytes:
            entry = self._release(connection, told, answer)
            last = _round_in(connection, told)
            if (last.get("round"), last.get("attempt")) != (told.round_number, told.attempt):
                raise _over(told)
            key = SessionKey(told.training, told.session_id)
            self.sessions.check_open(connection, key)
            if answer.in_session is not None:
                answer.in_session(connection, key)
            if entry:
                self._put_round(connection, told, entry, last)
            return _put_answer(connection, told, answer)

        return self._database.run(work)

    def _release(
        self, connection: sa.Connection, told: RoundAnnouncement, answer: SiteAnswer
    ) -> int:
        """Record what leaves, or refuse; return the entry's number, 0 where nothing is released."""
        if answer.release is None:
            return 0
        receipt = self.ledger.release_in(
            connection, answer.release, answer.content, **self._label(told)
        )
        return receipt.number

    def _label(self, told: RoundAnnouncement) -> dict[str, str]:
        return {"party_id": self._site, "recipient": COORDINATOR, "purpose": told.called}

    def _put_round(
        self, connection: sa.Connection, told: RoundAnnouncement, entry: int, last: dict[str, Any]
    ) -> None:
        n_releases = last.get("n_releases", 0) + (entry > 0)
        if entry:
            model = model_bytes(told.model).hex()
            _RANKERS.put(connection, told.training, {"round": told.round_number, "model": model})
        self._check_number(told, n_releases)
        value = {"round": told.round_number, "attempt": told.attempt}
        _ROUNDS.put(connection, told.training, value | {"entry": entry, "n_releases": n_releases})

    def _check_number(self, told: RoundAnnouncement, n_releases: int) -> None:
        if self._most_releases is not None and n_releases > self._most_releases:
            raise BudgetExceeded(
                f"{self._most_releases} releases were agreed on, failed attempts among them",
                where=told.training,
                remedy="agree on a new training",
            )


def _answer_in(connection: sa.Connection, call_id: bytes) -> bytes | None:
    query = sa.select(_ANSWERS.c.content).where(_ANSWERS.c.call_id == call_id)
    found: bytes | None = connection.scalar(query)
    return found


def _put_answer(connection: sa.Connection, told: RoundAnnouncement, answer: SiteAnswer) -> bytes:
    row = {"call_id": answer.call_id, "training": told.training, "content": answer.content}
    connection.execute(_ANSWERS.insert(), row)
    return answer.content


def _round_in(connection: sa.Connection, told: RoundAnnouncement) -> dict[str, Any]:
    found = _ROUNDS.get(connection, told.training)
    return {} if found is None else dict(found.value)


def _check_new(told: RoundAnnouncement, last: dict[str, Any]) -> None:
    if last and (told.round_number, told.attempt) <= (last["round"], last["attempt"]):
        raise _over(told)


def _over(told: RoundAnnouncement) -> Conflict:
    return Conflict(
        "this attempt was begun already, or another has begun since",
        where=told.called,
        remedy="begin a new attempt; another training has another name",
    )
