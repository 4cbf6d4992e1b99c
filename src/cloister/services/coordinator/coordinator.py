"""A coordinator without its HTTP: everything that its routes and its threads do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from cloister.core.errors import DataError, NotFound
from cloister.federate.database_update_store import DatabaseUpdateStore
from cloister.federate.engines.federation import SiteFederation, SiteRound
from cloister.federate.engines.https_engine import HttpsEngine
from cloister.federate.engines.roster import FederationRoster
from cloister.federate.engines.round_log import PastRound
from cloister.federate.engines.site_call import SiteId
from cloister.federate.engines.watching_engine import WatchingEngine
from cloister.federate.online.ranker_files import RankerFiles, ranker_bytes
from cloister.federate.online.trial_records import Trial
from cloister.federate.online.trials import Trials
from cloister.federate.online.votes import NodeVotes
from cloister.services.coordinator.messages import (
    CoordinatorStatus,
    RoundDone,
    RoundLine,
    RoundsPage,
    ServingAnswer,
    SuspicionAnswer,
    TrialAnswer,
    TrialPast,
)
from cloister.services.coordinator.round_keeper import RoundKeeper
from cloister.services.coordinator.schedule_state import ScheduleState
from cloister.services.coordinator.trial_keeper import TrialKeeper
from cloister.services.first_ranker import first_ranker
from cloister.services.service_file import CoordinatorServiceFile
from cloister.store.database import Database
from cloister.web.callers import Caller, Role
from cloister.web.client import PeerClient
from cloister.web.logs import log_event

__all__ = ["Coordinator", "opened_coordinator"]

LOOK_EVERY_S: Final = 0.5
ROUNDS_PAGE: Final = 500  # rounds told at a time
MOST_FAILURES: Final = 3  # in a row, where each attempt may cost privacy


class Coordinator:
    """The coordinator of a federation. Threads may share it; `opened_coordinator` makes it."""

    def __init__(
        self,
        file: CoordinatorServiceFile,
        roster: FederationRoster,
        database: Database,
        engine: WatchingEngine,
    ) -> None:
        self.roster = roster
        self._engine = engine
        first = first_ranker(roster.agreement.ranker)
        kept = None
        if file.keep_every is not None:
            kept = DatabaseUpdateStore(database, keep_every=file.keep_every)
        self.federation = SiteFederation(
            engine,
            database,
            roster.agreement,
            first=first,
            directory=roster.directory(),
            kept_updates=kept,
            timeout_s=file.schedule.timeout_s,
        )
        self.ledger = self.federation.ledger
        trials = Trials(database, RankerFiles(file.files), first, test=file.trials)
        state = ScheduleState(database, roster.agreement.name)
        self.trials = TrialKeeper(trials, file.schedule, state, n_nodes=len(roster.members))
        self.rounds = RoundKeeper(
            self.federation,
            state,
            every_s=file.schedule.round_every_s,
            after=self._after_round,
            most_failures=None if roster.agreement.privacy is None else MOST_FAILURES,
        )
        self._stop = threading.Event()
        self._look = threading.Thread(target=self._look_after_trials, name="trials", daemon=True)

    def start(self) -> None:
        """Begin to keep the schedules."""
        self.rounds.start()
        self._look.start()

    def close(self) -> None:
        """Keep no schedule any more; a round under way is finished."""
        self._stop.set()
        self.rounds.close()
        if self._look.is_alive():
            self._look.join()

    def serving(self) -> ServingAnswer:
        """Return what nodes rank with."""
        trials = self.trials.trials
        state = trials.serving()
        trial = trials.trial(state.trial) if state.trial else None
        if trial is not None and not trial.under_way:  # decided since the state was read
            trial = None
        return ServingAnswer(serving=state.serving, trial=_told(trial))

    def ranker(self, digest: str) -> bytes:
        """Return the bytes of a ranker that serves, served, or is or was on trial."""
        files = self.trials.trials.files
        if digest not in files:
            raise NotFound("no such ranker")
        return files.read_bytes(digest)

    def past_rounds(self, after: int = 0) -> RoundsPage:
        """Return rounds that were done, without the first ``after``; not all where many are."""
        found, n_rounds = self.federation.log.past(after=after, limit=ROUNDS_PAGE)
        lines = [_line(one, self.roster.site_ids) for one in found]
        return RoundsPage(rounds=lines, n_rounds=n_rounds)

    def ranker_after(self, n_rounds: int) -> bytes:
        """Return the bytes of the ranker after so many rounds; 0 for the first."""
        return ranker_bytes(self.federation.ranker_after(n_rounds))

    def take_votes(self, caller: Caller, trial_id: str, content: bytes) -> None:
        """Count a node's votes once."""
        votes = NodeVotes.from_bytes(content)
        if votes.trial != trial_id:
            raise DataError("votes of another trial", where="votes")
        self.trials.trials.record_votes(caller.name, votes)

    def try_newest(self, share: float) -> TrialAnswer | None:
        """Open a trial of the newest ranker."""
        return _told(self.trials.open(self.federation.ranker, share))

    def roll_back(self) -> ServingAnswer:
        """Let the ranker serve again that served before."""
        self.trials.trials.roll_back()
        return self.serving()

    def status(self) -> CoordinatorStatus:
        """Return how the training and its trials stand."""
        last = self.rounds.last
        return CoordinatorStatus(
            training=self.roster.agreement.name,
            n_rounds=self.federation.n_rounds,
            paused=self.rounds.paused,
            n_failed=self.rounds.n_failed,
            last_error=self.rounds.last_error,
            last_round=None if last is None else round_done(last),
            members=[member.name for member in self.roster.members],
            silent_nodes=list(self.silent_nodes()),
            suspicion=self._suspicion(),
            serving=self.serving(),
            trials=self._past_trials(),
        )

    def set_excluded(self, node: str, excluded: bool) -> None:
        """Ask a node in no round any more, or again."""
        (self.federation.exclude if excluded else self.federation.readmit)(node)
        log_event("node_excluded" if excluded else "node_readmitted", node=node)

    def _suspicion(self) -> SuspicionAnswer:
        found = self.federation.suspicion
        return SuspicionAnswer(
            n_spoilt=self.federation.log.n_spoilt(),
            suspects=found.suspects,
            left_out=found.left_out,
            named=list(found.named),
            late=found.late,
            stopped=found.stopped,
        )

    def silent_nodes(self) -> tuple[SiteId, ...]:
        """Return the nodes that are waited for."""
        return self._engine.silent()

    def on_trial(self) -> bool:
        """Say whether a trial is under way."""
        return self.trials.trials.trial() is not None

    def n_ledger_entries(self) -> int:
        """Return how many entries the ledger has."""
        return self.ledger.head().number

    def ready(self) -> dict[str, bool]:
        """Say of what the coordinator needs whether it is there."""
        return {"database": self.ledger.database.answers()}

    def _past_trials(self) -> list[TrialPast]:
        trials = self.trials.trials
        ended = ("promoted", "kept", "cancelled")
        names = [e.about["trial"] for e in trials.history() if e.what in ended]
        found = [trials.trial(name) for name in names]
        return [_past(one) for one in found if one is not None]

    def _after_round(self, done: SiteRound) -> None:
        self.trials.after_round(done.round_number + 1, lambda: self.federation.ranker)

    def _look_after_trials(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            try:
                self.trials.look()
            except Exception as error:  # whatever it is, the next look may pass
                log_event("trial_waits", level=logging.WARNING, error=type(error).__name__)


@contextmanager
def opened_coordinator(file: CoordinatorServiceFile) -> Iterator[Coordinator]:
    """Give a coordinator with its database and ways to nodes; all are closed at the end."""
    roster = file.opened_roster()
    with ExitStack() as stack:
        database = stack.enter_context(Database.open(file.state))
        clients = {
            SiteId(one.name): PeerClient(
                one.url, file.tls, federation=roster.name, role=Role.NODE, name=one.name
            )
            for one in roster.members
        }
        engine = stack.enter_context(HttpsEngine(clients))
        watching = stack.enter_context(WatchingEngine(engine))
        coordinator = Coordinator(file, roster, database, watching)
        stack.callback(coordinator.close)
        yield coordinator


def round_done(done: SiteRound) -> RoundDone:
    """Return a round as a message."""
    return RoundDone(
        round_number=done.round_number + 1,
        nodes=list(done.sites),
        silent=list(done.silent),
        faults={str(site): fault for site, fault in done.faults.items()},
        n_interactions=done.n_interactions,
    )


def _line(one: PastRound, members: Sequence[str]) -> RoundLine:
    return RoundLine(
        round_number=one.round_number + 1,
        recorded_at=one.recorded_at,
        nodes=list(one.sites),
        left_out=[name for name in members if name not in one.sites],
        entry=one.entry,
        spoilt=one.spoilt,
    )


def _told(trial: Trial | None) -> TrialAnswer | None:
    if trial is None:
        return None
    return TrialAnswer(
        trial_id=trial.trial_id,
        candidate=trial.candidate,
        share=trial.share,
        epsilon=trial.epsilon,
        state="open" if trial.state == "open" else "voting",
    )


def _past(trial: Trial) -> TrialPast:
    numbers = trial.decision
    return TrialPast(
        trial_id=trial.trial_id,
        candidate=trial.candidate,
        outcome=trial.state,
        margin=numbers.get("margin"),
        n_votes=numbers.get("n_votes"),
        threshold=numbers.get("threshold"),
    )
