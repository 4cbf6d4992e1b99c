"""A federation of sites, round by round, on any engine.

A step announces the round with its ranker, gathers what sites have learnt, in the open or by secure
aggregation, and writes the new ranker, the round and the ledger's record of its release in one
transaction. A site's update is counted once or not at all: what was gathered before a crash is
forgotten, the round begins again from the last ranker, and a site that answered already gives the
same answer or joins a new session.

What comes out of secure aggregation is one sum, and one site can put anything into it. A sum that
honest sites cannot make is discarded, and `Suspicion` says whom the next rounds leave out.

A session that does not count a site may lock pages there. The coordinator asks its members to
promise that they reveal nothing more in it, and hands each site the others' promises: these free
the pages (`session_end`). It goes on asking at every step, also after a crash.

The coordinator must be the only one with its database; of two, one gets a `Conflict` in each round.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from cloister.core.errors import BudgetExceeded, DataError, NotFound, SettingsError
from cloister.federate.database_update_store import DatabaseUpdateStore, kept_in
from cloister.federate.engines.agreement import ROUNDING, FederationAgreement, SitePrivacy
from cloister.federate.engines.engine import Engine, ask_sites
from cloister.federate.engines.plain_round import gather_updates
from cloister.federate.engines.round_failed import RoundFailed, RoundSpoilt, TrainingStopped
from cloister.federate.engines.round_log import LoggedRound, OpenSession, RoundLog
from cloister.federate.engines.round_messages import RoundAnnouncement
from cloister.federate.engines.secure_round import SecureRound
from cloister.federate.engines.session_end import EndReply, EndRequest, SessionEnd
from cloister.federate.engines.site_call import SiteId, SiteMethod
from cloister.federate.engines.suspicion import Suspicion
from cloister.federate.fedavg import averaged, checked
from cloister.federate.local_training import RoundSums
from cloister.federate.rules import make_rule
from cloister.federate.tampering import Sent
from cloister.federate.update_store import MemoryUpdateStore
from cloister.privacy.identity import Directory
from cloister.privacy.ledger.ledger import Ledger
from cloister.rank.ranker import Ranker
from cloister.store.database import Database

__all__ = ["SiteFederation", "SiteRound"]

Floats = NDArray[np.float64]
_MOST_REST: Final = 64  # passes over open sessions; there are two in a step


class SiteRound(NamedTuple):
    """What became of a round.

    Parameters
    ----------
    round_number
        Which, from 0.
    sites
        Whose updates are in the new ranker.
    silent
        Sites that did not answer in time; they are called again in the next round.
    faults
        The kind of error of each site that refused, or was refused.
    n_interactions
        What the new ranker rests on; None where that is not revealed.
    """

    round_number: int
    sites: tuple[SiteId, ...]
    silent: tuple[SiteId, ...]
    faults: dict[SiteId, str]
    n_interactions: int | None


class _Gathered(NamedTuple):
    """The next ranker, what became of the round, single updates where seen, and its session."""

    model: Floats
    done: SiteRound
    sent: Sent | None = None
    session_id: str = ""


class _Rest(NamedTuple):
    """How often a site gave no answer, and how many passes over open sessions leave it alone."""

    n_silent: int
    n_left: int


class SiteFederation:
    """The coordinator's side of a training among sites.

    Parameters
    ----------
    engine
        Carries calls to sites.
    database
        Rounds, rankers and the ledger; a training that is in it goes on where it stood.
    agreement
        What was agreed on with all sites.
    first
        The ranker that a new training begins with; untrained unless given.
    directory
        With secure aggregation: the public signing keys of all sites.
    kept_updates
        Where sites' updates are kept for unlearning, in the same database; not with secure
        aggregation, where no update is seen.
    timeout_s
        How long a call to sites waits.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from cloister.data.clicks import click_model
    >>> from cloister.data.partitions import iid
    >>> from cloister.data.source import load_fold
    >>> from cloister.federate.engines.in_process import InProcessEngine
    >>> from cloister.federate.engines.local_trainer import PopulationTrainer
    >>> from cloister.federate.engines.site import Site
    >>> from cloister.federate.population import Population
    >>> from cloister.rank.ranker import RankerSettings
    >>> train = load_fold("world:features?queries=20&documents=9&features=4").train
    >>> users = Population(iid(train, 10), click_model("perfect", 5))
    >>> agreed = FederationAgreement(
    ...     name="pilot", ranker=RankerSettings(n_features=4), simulated=True)
    >>> with (
    ...     TemporaryDirectory() as folder,
    ...     Database.open(Path(folder, "site.db")) as site_state,
    ...     Database.open(Path(folder, "coordinator.db")) as state,
    ... ):
    ...     trainer = PopulationTrainer(users, agreed, seed=1)
    ...     engine = InProcessEngine({SiteId("clinic-a"): Site(
    ...         SiteId("clinic-a"), agreed, trainer, site_state)})
    ...     federation = SiteFederation(engine, state, agreed)
    ...     federation.step()
    SiteRound(round_number=0, sites=('clinic-a',), silent=(), faults={}, n_interactions=40)
    """

    def __init__(
        self,
        engine: Engine,
        database: Database,
        agreement: FederationAgreement,
        *,
        first: Ranker | None = None,
        directory: Directory | None = None,
        kept_updates: DatabaseUpdateStore | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        if agreement.secure_aggregation and directory is None:
            raise SettingsError("secure aggregation needs the sites' keys", where="directory")
        if kept_updates is not None and (
            agreement.secure_aggregation or kept_updates.database is not database
        ):
            raise SettingsError(
                "updates are kept in the federation's own database, and where they are seen",
                where="kept_updates",
            )
        self.kept_updates = kept_updates
        self._engine = engine
        self._agreement = agreement
        self._directory = directory or Directory()
        self._timeout_s = timeout_s
        self._faulted: set[SiteId] = set()  # in attempts at the round under way
        self._rests: dict[SiteId, _Rest] = {}
        self._told: dict[str, dict[SiteId, int]] = {}  # by session: promises that a site knows of
        self._rule = make_rule(agreement.rule, n_attackers=agreement.n_attackers)
        self._log = RoundLog(database, agreement.name)
        start = first or Ranker.initial(agreement.ranker)
        if start.settings != agreement.ranker:
            raise SettingsError("another ranker was agreed on", where="first")
        self._log.begin(agreement.digest(), start.parameters.astype(np.float64))

    @property
    def ledger(self) -> Ledger:
        """The coordinator's ledger: what readers of rankers got."""
        return self._log.ledger

    @property
    def log(self) -> RoundLog:
        """The rounds done so far, to read."""
        return self._log

    @property
    def n_rounds(self) -> int:
        """Rounds done so far."""
        return self._log.last().n_rounds

    @property
    def model(self) -> Floats:
        """The parameters of the last round's ranker, in double precision."""
        return self._log.last().model

    @property
    def ranker(self) -> Ranker:
        """The last round's ranker."""
        return Ranker(self._agreement.ranker, self.model.astype(np.float32))

    def ranker_after(self, n_rounds: int) -> Ranker:
        """Return the ranker after so many rounds; 0 for the first, `NotFound` beyond the last."""
        return Ranker(self._agreement.ranker, self._log.at(n_rounds).model.astype(np.float32))

    @property
    def suspicion(self) -> Suspicion:
        """Who may have spoilt sums, whom rounds leave out, and why training is stopped."""
        return self._log.suspicion()

    def resume(self) -> None:
        """Let training go on that stopped over spoilt sums; whom it suspects stays."""
        self._log.change_suspicion(Suspicion.resumed)

    def exclude(self, site: str) -> None:
        """Ask a site no more, and suspect nobody else, by an operator's word."""
        if site not in self._directory:
            raise NotFound("no such site", where=site, remedy="name a site of the roster")
        self._log.change_suspicion(lambda suspicion: suspicion.excluded(site))

    def readmit(self, site: str) -> None:
        """Ask a site again that was named or suspected, by an operator's word."""
        self._log.change_suspicion(lambda suspicion: suspicion.readmitted(site))

    def step(self) -> SiteRound:
        """Train for one round.

        A round with too few sites raises `RoundFailed` and changes nothing here; the next step
        begins it again. What sites released in it stays on their own ledgers. With secure
        aggregation, sites that refused in it are left out of further attempts at this round, if
        enough others are left: refusing each time would cost those their budgets.

        A sum that honest sites cannot make raises `RoundSpoilt`: the round is over without a new
        ranker. After too many of them, `TrainingStopped`, until `resume`.
        """
        self._end_sessions()
        last = self._log.last()
        privacy = self._agreement.privacy
        if privacy is not None and last.n_rounds >= privacy.n_rounds:
            raise BudgetExceeded(
                f"the noise was chosen for {privacy.n_rounds} rounds",
                where="n_rounds",
                remedy="agree on a new training with more rounds",
            )
        secure = self._agreement.secure_aggregation
        model, done, sent, session_id = (
            self._secure_round(last) if secure else self._plain_round(last)
        )

        def keep(connection: sa.Connection) -> None:
            if self.kept_updates is not None and sent is not None:
                _keep_in(connection, self.kept_updates, sent)

        release = self._agreement.ranker_release()
        self._log.commit(last, model, done.sites, release, session_id=session_id, also=keep)
        self._end_sessions()
        self._faulted.clear()
        return done

    def _announcement(self, last: LoggedRound) -> RoundAnnouncement:
        """Return what all sites are told: the same again where a plain round begins again."""
        agreed = self._agreement
        return RoundAnnouncement(
            agreed.name, agreed.digest(), last.n_rounds, 0, -1, (), "", last.model
        )

    def _plain_round(self, last: LoggedRound) -> _Gathered:
        """Gather sites' mean updates in the open, and add them up by the rule."""
        told, counted = self._announcement(last), self._log.last_counted()
        longest = self._agreement.largest_step(len(self._engine.sites()))
        came = gather_updates(
            self._engine, told, counted, longest=longest, timeout_s=self._timeout_s
        )
        self._require_enough(len(came.sites), last, came.silent, came.faults)
        known = self._log.site_numbers(self._engine.sites())
        numbers = np.array([known[site] for site in came.sites], np.int64)
        chosen = self._rule.aggregate(
            came.differences, numbers, n_interactions=came.n_interactions, round=last.n_rounds
        )
        used = tuple(site for site, was in zip(came.sites, chosen.used, strict=True) if was)
        n = int(came.n_interactions[chosen.used].sum())
        done = SiteRound(last.n_rounds, used, came.silent, came.faults, n)
        sent = Sent(came.differences, numbers, last.model, last.n_rounds)
        return _Gathered(checked(last.model + chosen.update), done, sent)

    def _secure_round(self, last: LoggedRound) -> _Gathered:
        """Gather the sum over sites by secure aggregation, in a session of its own."""
        agreed = self._agreement
        suspicion = self.suspicion
        if suspicion.stopped:
            raise TrainingStopped(
                suspicion.stopped,
                where=agreed.name,
                remedy="exclude the site that misbehaves, or resume training",
            )
        members = self._members(suspicion)
        if suspicion.named and len(members) < agreed.min_sites:
            raise RoundFailed(
                f"without {', '.join(suspicion.named)} {len(members)} sites are left; "
                f"{agreed.min_sites} are needed",
                where=f"round {last.n_rounds + 1}",
                remedy="readmit a site, or agree on a new training",
            )
        self._require_enough(len(members), last)
        session_id = secrets.token_hex(32)
        told = self._announcement(last)._replace(
            attempt=self._log.new_attempt(last.n_rounds, session_id, members),
            members=tuple(sorted(members)),
            session_id=session_id,
        )
        session = agreed.session(session_id, members, announced=told.digest())
        gathering = SecureRound(self._engine, session, self._directory, timeout_s=self._timeout_s)
        try:
            found = gathering.run(told, self._log.last_counted())
        except RoundFailed as error:
            self._judge(gathering, failed=True)
            self._faulted |= error.faults.keys() | set(gathering.late)
            self._end_sessions()
            raise
        self._judge(gathering, failed=False)
        sites = tuple(SiteId(name) for name in found.client_ids)
        faults = gathering.faults | {SiteId(name): "AggregationFailed" for name in found.liars}
        done = SiteRound(last.n_rounds, sites, tuple(gathering.silent), faults, None)
        try:
            if agreed.privacy is not None:
                model = self._private_model(last.model, found.total, len(sites), agreed.privacy)
                return _Gathered(model, done, session_id=session_id)
            model, n_interactions = self._mean_model(last.model, found.total, len(sites))
            done = done._replace(n_interactions=n_interactions)
            return _Gathered(model, done, session_id=session_id)
        except DataError as error:
            raise self._spoilt(last, done, session_id, error.what) from error

    def _end_sessions(self) -> None:
        """Have members end the sessions that may lock pages, and hand their promises round.

        A site that gives no answer is not asked again in this pass. The second time in a row it is
        left alone for one pass more, then for two, four and so on: one that never answers would
        cost every session a timeout.
        """
        left_alone = {site for site, rest in self._rests.items() if rest.n_left}
        self._rests |= {
            site: rest._replace(n_left=max(0, rest.n_left - 1))
            for site, rest in self._rests.items()
        }
        sessions = self._log.open_sessions()
        self._told = {one.session_id: self._told.get(one.session_id, {}) for one in sessions}
        for session in sessions:
            before = None
            while session != before and session.waiting:  # until nothing new is promised
                before = session
                session = self._ended(session, left_alone)
            self._log.put_session(session)

    def _ended(self, session: OpenSession, left_alone: set[SiteId]) -> OpenSession:
        """Ask members that are there; return the session with their promises, less who is free.

        Asked are those that have not promised, and those that wait and do not know all promises.
        """
        ends, waiting = dict(session.ends), list(session.waiting)
        told = self._told[session.session_id]
        payloads = {}
        known = tuple(SessionEnd.from_bytes(end) for end in ends.values())
        request = EndRequest(self._agreement.name, session.session_id, known).to_bytes()
        for site in self._engine.sites():
            lacks = site in waiting and told.get(site, -1) < len(ends)
            if site in session.members and site not in left_alone and (site not in ends or lacks):
                payloads[site] = request
        method, number = SiteMethod.END_SESSION, 0
        heard = ask_sites(self._engine, method, number, payloads, timeout_s=self._timeout_s)
        for site, answer in heard.answers.items():
            try:
                end, locked = EndReply.from_bytes(answer)
            except DataError:
                continue
            if end.site == site:
                ends[site] = end.to_bytes()
                told[site] = len(known)
                self._rests.pop(site, None)
            if site in waiting and not locked:
                waiting.remove(site)
        for site in payloads.keys() - told.keys():
            n = self._rests.get(site, _Rest(0, 0)).n_silent + 1
            self._rests[site] = _Rest(n, 0 if n == 1 else min(2 ** (n - 2), _MOST_REST))
            left_alone.add(site)
        return session._replace(ends=ends, waiting=tuple(waiting))

    def _spoilt(self, last: LoggedRound, done: SiteRound, session_id: str, why: str) -> RoundSpoilt:
        """Write down that a sum was spoilt, and by whom it may have been; return the error."""
        suspicion = self._log.spoil(
            last,
            done.sites,
            why,
            lambda before: self._or_stopped(before.after_spoilt(done.sites)),
            session_id=session_id,
        )
        self._faulted.clear()
        return RoundSpoilt(
            f"the sum is spoilt and discarded: {why}",
            where=f"round {last.n_rounds + 1}",
            remedy=suspicion.told(),
            silent=done.silent,
            faults=done.faults,
            suspicion=suspicion,
        )

    def _judge(self, gathering: SecureRound, *, failed: bool) -> None:
        """Write down what a session has shown of sites that misbehave."""
        accused = gathering.accused.items()
        pairs = {frozenset((site, owner)) for site, owners in accused for owner in owners}
        liars = gathering.liars()
        wasted = failed and gathering.released and self._agreement.privacy is not None
        if not (pairs or liars or wasted):
            return

        def change(suspicion: Suspicion) -> Suspicion:
            if wasted:
                suspicion = suspicion.one_more(gathering.dropped)
            if pairs:
                suspicion = suspicion.accused(pairs)
            for liar in liars:
                suspicion = suspicion.excluded(liar)
            return self._or_stopped(suspicion) if failed else suspicion

        self._log.change_suspicion(change)

    def _or_stopped(self, after: Suspicion) -> Suspicion:
        """Stop training where a suspect cannot be missed, or where too much was spoilt."""
        agreed = self._agreement
        n_left = len(self._known()) - len(after.named) - bool(after.left_out)
        if (after.left_out or after.named) and n_left < agreed.min_sites:
            return after.without_leaving_out(
                f"a round was spoilt; without {after.left_out or after.named[-1]} {n_left} sites "
                f"are left, and {agreed.min_sites} are needed"
            )
        if after.n_spoilt >= agreed.most_spoilt:
            return after._replace(stopped=f"{after.n_spoilt} rounds were spoilt")
        return after

    def _known(self) -> list[SiteId]:
        return [site for site in self._engine.sites() if site in self._directory]

    def _members(self, suspicion: Suspicion) -> list[SiteId]:
        """Return whom a session is announced to."""
        out = {suspicion.left_out, *suspicion.named}
        known = [site for site in self._known() if site not in out]
        sound = [site for site in known if site not in self._faulted]
        return sound if len(sound) >= self._agreement.min_sites else known

    def _require_enough(
        self,
        n_sites: int,
        last: LoggedRound,
        silent: tuple[SiteId, ...] = (),
        faults: Mapping[SiteId, str] | None = None,
    ) -> None:
        if n_sites < self._agreement.min_sites:
            raise RoundFailed(
                f"{n_sites} sites answered; {self._agreement.min_sites} are needed",
                where=f"round {last.n_rounds + 1}",
                remedy="step again when more sites answer",
                silent=silent,
                faults=faults,
            )

    def _private_model(
        self, model: Floats, total: NDArray[np.uint64], n_sites: int, privacy: SitePrivacy
    ) -> Floats:
        """Move the ranker by the noisy sum over the number of users that was expected."""
        protection = self._agreement.protection
        if protection is None:
            raise SettingsError("privacy was agreed on without a protection", where="agreement")
        counts = protection.fixed_point.decode_counts(total, n_clients=n_sites)
        moved, most = protection.decoded(counts), self._agreement.longest_sum(n_sites)
        _check_length(moved, most, f"{privacy.n_users} users and the noise of {n_sites} sites")
        n_expected = privacy.n_users * self._agreement.sampling_rate
        return checked(model + privacy.server_rate * moved / n_expected)

    def _mean_model(
        self, model: Floats, total: NDArray[np.uint64], n_sites: int
    ) -> tuple[Floats, int]:
        """Move the ranker by the mean update; return it with the number of interactions."""
        agreed = self._agreement
        values = agreed.fixed_point.decode(total, n_clients=n_sites)
        moved, n = values[:-1], values[-1]
        if n < 0 or n != round(n):
            raise DataError(f"{n:g} is no number of interactions")
        _check_length(moved, agreed.largest_update * n, f"{n:g} interactions")
        sums = RoundSums(moved[None], values[-1:], 0.0, 0.0, 0.0)
        return averaged(model[None], sums)[0], round(n)


def _check_length(moved: Floats, most: float, of: str) -> None:
    """Refuse a sum that is longer than honest sites can make it."""
    length = float(np.linalg.norm(moved))
    if length > most * ROUNDING:
        raise DataError(f"its length is {length:.3g}, and {of} make {most:.3g} at most")


def _keep_in(connection: sa.Connection, store: DatabaseUpdateStore, sent: Sent) -> None:
    """Keep a round's updates inside the transaction that writes the round."""
    new = MemoryUpdateStore(keep_every=store.keep_every, keep=store.keep)
    new.observe(sent)
    if kept := new.kept_rounds():
        store.replace_in(connection, [*kept_in(connection), *kept])
