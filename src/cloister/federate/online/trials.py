"""Which ranker serves, and how a new one comes to: tried on a share of traffic, voted on, decided.

A coordinator's state machine. Every change is one transaction with a line in the history, so a
coordinator that is killed goes on where it stood. A candidate comes to serve by winning a trial and
in no other way; a ranker that serves is replaced by a promotion or by going back.

The error of a decision is bounded for each trial apart: of many worthless candidates, a share of up
to alpha is promoted. Votes are decided on once, whoever has voted by then; a trial cannot be looked
at and prolonged. A node that lies about its votes can decide a trial: what it sends is noise and
sums, and nobody can check them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa

from cloister.core.errors import Conflict, DataError, NotFound, SettingsError
from cloister.core.ids import checked_id
from cloister.federate.online.noisy_sign_test import SignTest, VoteCounts
from cloister.federate.online.ranker_files import RankerFiles
from cloister.federate.online.trial_records import (
    Event,
    Serving,
    Trial,
    add_event,
    events_in,
    put_serving,
    put_trial,
    serving_in,
    trial_in,
)
from cloister.federate.online.votes import NodeVotes
from cloister.rank.ranker import Ranker
from cloister.store.database import Database
from cloister.store.keyed_state import KeyedState

__all__ = ["Trials"]

T = TypeVar("T")


def _now() -> datetime:
    return datetime.now(UTC)


class Trials:
    """The rankers that serve a federation, and their trials. Threads and processes may share it.

    Parameters
    ----------
    database
        The coordinator's.
    files
        Where rankers are kept.
    first
        The ranker that serves before any has won a trial; it counts the first time only.
    test
        How votes are judged of trials that are opened from now on; a trial under way keeps to what
        held when it was opened.
    clock
        Tells the time of events.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from cloister.rank.ranker import RankerSettings
    >>> first = Ranker.initial(RankerSettings(n_features=2))
    >>> with TemporaryDirectory() as folder, Database.open(Path(folder, "state.db")) as database:
    ...     trials = Trials(database, RankerFiles(Path(folder, "rankers")), first)
    ...     trial = trials.open_trial(first.with_parameters(np.ones(2)), share=0.2)
    ...     trials.record_votes("clinic-a", NodeVotes(
    ...         trial=trial.trial_id, epsilon=1.0, wins=60, losses=20))
    ...     decided = trials.decide()
    ...     decided.state, trials.serving().serving == trial.candidate
    ('promoted', True)
    """

    def __init__(
        self,
        database: Database,
        files: RankerFiles,
        first: Ranker,
        *,
        test: SignTest | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self.files = files
        self._database = database
        self._test = test or SignTest()
        self._clock = clock
        database.migrate(KeyedState.schema)
        if self._read(serving_in) is None:
            self._write(partial(self._begin, files.put(first)))

    def serving(self) -> Serving:
        """Return which ranker serves."""
        return self._read(_serving)

    def ranker(self) -> Ranker:
        """Return the ranker that serves."""
        return self.files.read(self.serving().serving)

    def trial(self, trial_id: str | None = None) -> Trial | None:
        """Return a trial by its id, or the one under way, if there is one."""

        def work(connection: sa.Connection) -> Trial | None:
            found = trial_id or _serving(connection).trial
            return trial_in(connection, found) if found else None

        return self._read(work)

    def history(self, last: int | None = None) -> list[Event]:
        """Return all that happened, or the last so many events; oldest first."""
        if last is not None and last < 0:
            raise SettingsError(f"must not be negative (given: {last})", where="last")
        return self._read(partial(events_in, last=last))

    def open_trial(self, candidate: Ranker, share: float) -> Trial:
        """Begin to try a ranker on a share of searches.

        Raises
        ------
        Conflict
            A trial is under way, or the candidate serves already, or it was rolled back.
        """
        if not 0 < share <= 1:
            raise SettingsError(f"must lie in (0, 1] (given: {share})", where="share")
        digest = self.files.put(candidate)

        def work(connection: sa.Connection) -> Trial:
            state = _serving(connection)
            _check_candidate(state, digest)
            name, test = secrets.token_hex(16), self._test
            trial = Trial(
                name,
                state.serving,
                digest,
                share,
                test.epsilon,
                alpha=test.alpha,
                min_votes=test.min_votes,
                opened_at=self._time(),
            )
            put_trial(connection, trial)
            put_serving(connection, state._replace(trial=name))
            self._note(connection, "opened", trial=name, candidate=digest, share=share)
            return trial

        return self._write(work)

    def call_votes(self) -> Trial:
        """Stop showing the candidate, so that nodes cast their votes; again changes nothing."""

        def work(connection: sa.Connection) -> Trial:
            trial = _under_way(connection)
            if trial.state == "open":
                trial = trial._replace(state="voting", voting_at=self._time())
                put_trial(connection, trial)
                self._note(connection, "voting", trial=trial.trial_id)
            return trial

        return self._write(work)

    def record_votes(self, node: str, votes: NodeVotes) -> None:
        """Count a node's votes once; the same votes again change nothing, others are a `Conflict`.

        The caller has verified that they come from this node.
        """
        checked_id(node)

        def work(connection: sa.Connection) -> None:
            trial = trial_in(connection, votes.trial)
            counts = VoteCounts(votes.wins, votes.losses)
            if votes.epsilon != trial.epsilon:
                raise DataError(
                    f"votes have noise of epsilon {votes.epsilon}, the trial's is {trial.epsilon}",
                    where=node,
                    remedy="agree on one epsilon for the votes of all nodes",
                )
            if trial.votes.get(node) == counts:
                return
            if node in trial.votes or not trial.under_way:
                raise Conflict("the node has voted, or the trial is over", where=node)
            put_trial(connection, trial._replace(votes=trial.votes | {node: counts}))
            self._note(connection, "voted", trial=trial.trial_id, node=node)

        self._write(work)

    def decide(self) -> Trial:
        """Promote the candidate if it is better by the votes; the trial is over either way."""

        def work(connection: sa.Connection) -> Trial:
            trial, state = _under_way(connection), _serving(connection)
            verdict = trial.test.verdict(list(trial.votes.values()))
            numbers = verdict._asdict() | {"alpha": trial.alpha}
            trial = trial._replace(state="promoted" if verdict.better else "kept", decision=numbers)
            if verdict.better:
                before = (*state.before, state.serving)
                state = state._replace(serving=trial.candidate, before=before)
            self._end(connection, state, trial, **numbers)
            return trial

        return self._write(work)

    def cancel_trial(self) -> Trial:
        """End the trial under way without a decision."""

        def work(connection: sa.Connection) -> Trial:
            trial = _under_way(connection)._replace(state="cancelled")
            self._end(connection, _serving(connection), trial)
            return trial

        return self._write(work)

    def roll_back(self) -> Serving:
        """Let the ranker serve again that served before; what served now is never tried again.

        A trial under way is cancelled. Going back again goes one ranker further back.
        """

        def work(connection: sa.Connection) -> Serving:
            state = _serving(connection)
            if not state.before:
                raise Conflict("no ranker served before", remedy="try another candidate instead")
            if state.trial:
                trial = trial_in(connection, state.trial)._replace(state="cancelled")
                self._end(connection, state, trial)
            state = Serving(
                state.before[-1], state.before[:-1], (*state.rolled_back, state.serving)
            )
            put_serving(connection, state)
            self._note(connection, "rolled back", to=state.serving, of=state.rolled_back[-1])
            return state

        return self._write(work)

    def _begin(self, digest: str, connection: sa.Connection) -> None:
        if serving_in(connection) is None:
            put_serving(connection, Serving(digest))
            self._note(connection, "began", ranker=digest)

    def _end(self, connection: sa.Connection, state: Serving, trial: Trial, **numbers: Any) -> None:
        put_trial(connection, trial)
        put_serving(connection, state._replace(trial=""))
        self._note(connection, trial.state, trial=trial.trial_id, **numbers)

    def _note(self, connection: sa.Connection, what: str, **about: Any) -> None:
        add_event(connection, self._time(), what, **about)

    def _time(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="seconds")

    def _read(self, work: Callable[[sa.Connection], T]) -> T:
        return self._database.run(work, read_only=True)

    def _write(self, work: Callable[[sa.Connection], T]) -> T:
        return self._database.run(work)


def _serving(connection: sa.Connection) -> Serving:
    state = serving_in(connection)
    if state is None:
        raise NotFound("no ranker serves yet", where="Trials")
    return state


def _under_way(connection: sa.Connection) -> Trial:
    state = _serving(connection)
    if not state.trial:
        raise Conflict("no trial is under way", where="Trials", remedy="open one")
    return trial_in(connection, state.trial)


def _check_candidate(state: Serving, digest: str) -> None:
    if state.trial:
        raise Conflict("a trial is under way", where=state.trial, remedy="decide or cancel it")
    if digest == state.serving:
        raise Conflict(
            "the newest ranker serves already: nothing was learnt since",
            where=digest,
            remedy="run a round with new clicks first",
        )
    if digest in state.rolled_back:
        raise Conflict(
            "the candidate was rolled back", where=digest, remedy="train on, and try what comes"
        )
