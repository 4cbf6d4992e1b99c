"""A site of a federation: many users next to their data, and the site's side of every round.

The same call again gives the same answer, also after a restart. Masks of secure aggregation are
kept in memory alone: a site that is started again in the middle of a session takes no further part
in it, and comes back with the next one.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import CloisterError, Conflict, DataError, SettingsError
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.local_trainer import LocalTrainer, SiteLesson
from cloister.federate.engines.round_failed import NothingLearnt
from cloister.federate.engines.round_messages import RoundAnnouncement, SiteUpdate, UnreadShares
from cloister.federate.engines.session_end import EndReply, EndRequest, SessionEnd
from cloister.federate.engines.site_call import (
    NO_CALL,
    SiteCall,
    SiteId,
    SiteMethod,
    SiteReply,
    call_id_of,
)
from cloister.federate.engines.site_memory import SiteAnswer, SiteMemory, TrainedOn
from cloister.federate.engines.site_sessions import SessionKey
from cloister.privacy.clipping import clipped
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Consent, Limit
from cloister.privacy.mechanisms.noise_source import NoiseSource
from cloister.privacy.secure_aggregation.client import AggregationClient
from cloister.privacy.secure_aggregation.errors import AggregationFailed
from cloister.privacy.secure_aggregation.messages import (
    DeliveredShares,
    Roster,
    SurvivorSet,
    SurvivorSignatures,
)
from cloister.rank.ranker import LARGEST_PARAMETER, Ranker
from cloister.store.database import Database

__all__ = ["Site", "SiteKeys"]

_log: Final = logging.getLogger(__name__)
_NOTHING: Final = "no new pages to learn from"
_ROUNDING: Final = 1e-9  # sums of doubles: far more than they can be off


class SiteKeys(NamedTuple):
    """What a site needs for secure aggregation.

    Parameters
    ----------
    identity
        Its signing key.
    directory
        The public signing keys of all sites, from somebody whom it trusts.
    source
        Of its share of the noise; only where privacy was agreed on.
    """

    identity: SigningIdentity
    directory: Directory
    source: NoiseSource | None = None


class _Open(NamedTuple):
    """The session under way."""

    told: RoundAnnouncement
    client: AggregationClient


class Site:
    """One site's side of a training. Threads may share it; calls take turns, but for a hello.

    It trusts the transport to let nobody but the coordinator call. Against a coordinator that
    lies: it trains by its own agreement, takes part in a session once, begins no attempt that is
    not newer than all before, and records each release before it leaves, or refuses it. With
    secure aggregation it shares a sum only with sites that were told the same, and refuses a
    ranker that the rounds since its last one cannot have led to. Without noise it stays out of a
    sum to which it has nothing to add: sites that put in nothing would hide nobody.

    Parameters
    ----------
    site_id
        Its name.
    agreement
        Its own copy of what was agreed on.
    trainer
        Its users.
    database
        Its memory and its ledger.
    keys
        For secure aggregation.
    first
        The ranker that the training begins with, as all sites agreed; untrained unless given.
    limits, consents
        What its releases may cost at most, by level, where that is not the standard; and who agreed
        to releases without a bound. Without either it has the standard limits, and makes no release
        without a bound. A site of a simulated training has limits only where they are named. Where
        all rounds would fit a limit at the agreement's ``order`` alone, it needs that order.
    """

    def __init__(
        self,
        site_id: SiteId,
        agreement: FederationAgreement,
        trainer: LocalTrainer,
        database: Database,
        *,
        keys: SiteKeys | None = None,
        first: Ranker | None = None,
        limits: tuple[Limit, ...] = (),
        consents: tuple[Consent, ...] = (),
    ) -> None:
        _check_setup(agreement, trainer, keys)
        self.site_id = site_id
        self._agreement = agreement
        self._trainer = trainer
        most = None if agreement.privacy is None else agreement.privacy.n_rounds
        self._memory = SiteMemory(database, site_id, most_releases=most, consents=consents)
        if limits or not agreement.simulated:
            self.ledger.begin_limits(site_id, limits)
        self._check_order()
        self._keys = keys
        start = first or Ranker.initial(agreement.ranker)
        self._start = TrainedOn(0, start.parameters.astype(np.float64))
        self._open: _Open | None = None
        self._lock = threading.Lock()

    def _check_order(self) -> None:
        """Refuse to begin a training whose rounds would fit a limit at the plan's order alone."""
        agreed = self._agreement
        if agreed.privacy is None or agreed.order is None or self.last_round() >= 0:
            return
        planned, n_rounds = agreed.release(), agreed.privacy.n_rounds
        self.ledger.check_plan(planned, n_rounds, party_id=self.site_id, order=agreed.order)

    @property
    def ledger(self) -> Ledger:
        """The site's ledger: what the coordinator got."""
        return self._memory.ledger

    def last_round(self) -> int:
        """Return the last round that was begun here; -1 for none."""
        return self._memory.last_round(self._agreement.name)

    def answer(self, content: bytes) -> bytes:
        """Answer a call as an engine brings it; what goes wrong becomes a fault, and is logged."""
        try:
            call = SiteCall.from_bytes(content)
        except CloisterError as error:
            _log.warning("%s: a call was refused: %s", self.site_id, error)
            return SiteReply(NO_CALL, b"", type(error).__name__).to_bytes()
        call_id = call_id_of(call)
        try:
            return SiteReply(call_id, self.handle(call)).to_bytes()
        except CloisterError as error:
            _log.warning("%s: %s was refused: %s", self.site_id, call.method, error)
            return SiteReply(call_id, b"", type(error).__name__).to_bytes()
        except Exception:
            _log.exception("%s: %s failed", self.site_id, call.method)
            return SiteReply(call_id, b"", "InternalError").to_bytes()

    def handle(self, call: SiteCall) -> bytes:
        """Answer a call, or raise; an equal call gets the answer that it got before."""
        if call.method is SiteMethod.HELLO:  # also while it trains
            return self._agreement.digest().encode()
        with self._lock:
            if call.method is SiteMethod.END_SESSION:
                return self._end_session(call)
            call_id = call_id_of(call)
            given = self._memory.answer_to(call_id)
            if given is not None:
                return given
            if call.method is SiteMethod.TRAIN:
                return self._train(call, call_id)
            if call.method is SiteMethod.ADVERTISE_KEYS:
                return self._advertise_keys(call, call_id)
            return self._next_stage(call, call_id)

    def _train(self, call: SiteCall, call_id: bytes) -> bytes:
        told = self._announced(call, secure=False)
        lesson = self._lesson(told)
        mean = lesson.weighted / max(1, lesson.n_interactions)
        content = SiteUpdate(lesson.n_interactions, mean).to_bytes()
        return self._memory.begin(told, SiteAnswer(call_id, content, self._agreement.release()))

    def _advertise_keys(self, call: SiteCall, call_id: bytes) -> bytes:
        """Join a session: that it was begun is on disk before keys leave.

        A site that would refuse to release refuses here, before any other has released.
        """
        told = self._announced(call, secure=True)
        self._memory.check_release(told, self._agreement.release())
        if self._agreement.privacy is None:
            settled = self._memory.settled(told, self._trainer.held_sessions())
            if not self._trainer.is_ready(round=told.round_number, settled=settled):
                raise NothingLearnt(_NOTHING, where=self.site_id)
        keys = self._required_keys()
        session = self._agreement.session(told.session_id, told.members, announced=told.digest())
        self._open = None
        client = AggregationClient(session, self.site_id, keys.identity, keys.directory)
        content = client.advertise_keys().to_bytes()
        answer = self._memory.begin(told, SiteAnswer(call_id, content))
        self._open = _Open(told, client)
        return answer

    def _next_stage(self, call: SiteCall, call_id: bytes) -> bytes:
        """Go on with the session under way; the client refuses what is out of order."""
        if self._open is None or self._open.told.round_number != call.round_number:
            raise AggregationFailed(
                "no such session is under way here: it is over, or this site was started again",
                where=self.site_id,
            )
        told, client = self._open
        sessions = self._memory.sessions
        content, release, in_session = b"", None, None
        match call.method:
            case SiteMethod.SHARE_KEYS:
                content = client.share_keys(Roster.from_bytes(call.payload)).to_bytes()
            case SiteMethod.MASK_INPUT:
                if unread := _unread_by(client, DeliveredShares.from_bytes(call.payload)):
                    self._open = None  # its part is over, and nothing was released
                    return unread.to_bytes()
                content = client.mask_input(self._vector(told)).to_bytes()
                release = self._agreement.release()
                in_session = partial(
                    sessions.mask, holders=client.holders, n_to_abort=client.n_to_abort
                )
            case SiteMethod.SIGN_SURVIVORS:
                content = client.sign_survivors(SurvivorSet.from_bytes(call.payload)).to_bytes()
            case _:
                signed = SurvivorSignatures.from_bytes(call.payload)
                content = client.reveal_shares(signed).to_bytes()
                in_session = partial(sessions.reveal, owners=client.survivors)
        return self._kept(told, SiteAnswer(call_id, content, release, in_session))

    def _kept(self, told: RoundAnnouncement, answer: SiteAnswer) -> bytes:
        try:
            return self._memory.go_on(told, answer)
        except BaseException:
            self._open = None  # the client went on without its answer: its part is over
            raise

    def _end_session(self, call: SiteCall) -> bytes:
        """Promise to reveal no more in a session, and free its pages if enough others promised.

        The promise is on disk, and the session's secrets are dropped, before anything is signed.
        """
        asked = EndRequest.from_bytes(call.payload)
        keys, name = self._required_keys(), self._agreement.name
        if asked.training != name or not self._agreement.secure_aggregation:
            raise Conflict("another training", where=self.site_id)
        key = SessionKey(name, asked.session_id)
        revealed = self._memory.end_session(key)
        if self._open is not None and self._open.told.session_id == asked.session_id:
            self._open = None
        own = SessionEnd.sign(keys.identity, *key, self.site_id, revealed)
        promised = {
            end.site
            for end in (own, *asked.ends)
            if self.site_id not in end.revealed and end.is_signed(keys.directory, *key)
        }
        return EndReply(own, self._memory.free_pages(key, promised)).to_bytes()

    def _vector(self, told: RoundAnnouncement) -> NDArray[np.generic]:
        """Train, and return what secure aggregation adds up."""
        lesson = self._lesson(told)
        protection = self._agreement.protection
        if protection is None:
            if not lesson.n_interactions:  # coins, or pages that were deleted meanwhile
                self._open = None
                raise NothingLearnt(_NOTHING, where=self.site_id)
            return np.append(lesson.weighted, float(lesson.n_interactions))
        source = self._required_keys().source
        if source is None:
            raise SettingsError("a share of noise needs a source", where="SiteKeys.source")
        return protection.protected_sum(lesson.updates, source)

    def _lesson(self, told: RoundAnnouncement) -> SiteLesson:
        """Train; without privacy, shorten the mean update to what was agreed on."""
        lesson = self._trainer.train(
            told.model,
            round=told.round_number,
            attempt=told.attempt,
            settled=self._memory.settled(told, self._trainer.held_sessions()),
        )
        if self._agreement.privacy is not None or not lesson.n_interactions:
            return lesson
        most = self._agreement.largest_update * lesson.n_interactions
        return lesson._replace(weighted=clipped(lesson.weighted, most))

    def _announced(self, call: SiteCall, *, secure: bool) -> RoundAnnouncement:
        """Read an announcement, and check it against what was agreed on."""
        told = RoundAnnouncement.from_bytes(call.payload)
        agreed = self._agreement
        if (told.training, told.agreed) != (agreed.name, agreed.digest()):
            raise Conflict(
                "the coordinator runs by another agreement",
                where=self.site_id,
                remedy="give the coordinator and all sites the same agreement",
            )
        if secure != agreed.secure_aggregation:
            raise AggregationFailed("not what was agreed on for this training", where=self.site_id)
        fits = told.round_number == call.round_number and bool(told.session_id) == secure
        if not fits or len(told.model) != agreed.n_parameters:
            raise DataError("the announcement does not fit its call", where=self.site_id)
        privacy = agreed.privacy
        if privacy is not None and told.round_number >= privacy.n_rounds:
            raise DataError("more rounds than were agreed on", where=self.site_id)
        self._memory.check_new(told)
        self._check_ranker(told)
        return told

    def _check_ranker(self, told: RoundAnnouncement) -> None:
        """Refuse a ranker whose scores may overflow, or that honest rounds cannot have led to.

        In the open the coordinator sees every update anyway: there any distance is allowed.
        """
        agreed, keys = self._agreement, self._keys
        if np.abs(told.model).max() > LARGEST_PARAMETER:
            raise DataError("scores of this ranker may overflow", where=self.site_id)
        if not agreed.secure_aggregation or keys is None:
            return
        known = self._memory.trained_on(agreed.name) or self._start
        n_rounds = told.round_number - known.round_number
        if n_rounds == 0:
            is_near = np.array_equal(told.model, known.model)
        else:
            distance = float(np.linalg.norm(told.model - known.model))
            reach = n_rounds * agreed.largest_step(len(keys.directory))
            is_near = distance <= reach + _ROUNDING * (1 + float(np.linalg.norm(known.model)))
        if not is_near:
            raise Conflict(
                f"{n_rounds} rounds cannot have led to this ranker",
                where=self.site_id,
                remedy="begin a new training with all sites if the ranker was replaced",
            )

    def _required_keys(self) -> SiteKeys:
        if self._keys is None:
            raise SettingsError("secure aggregation needs keys", where="Site.keys")
        return self._keys


def _unread_by(client: AggregationClient, delivered: DeliveredShares) -> UnreadShares | None:
    """Take the others' shares; name whose could not be read."""
    try:
        client.receive_shares(delivered)
    except AggregationFailed:
        if not client.unreadable:
            raise
    return UnreadShares(client.unreadable) if client.unreadable else None


def _check_setup(
    agreement: FederationAgreement, trainer: LocalTrainer, keys: SiteKeys | None
) -> None:
    """Refuse a site that could not do what was agreed on."""
    if agreement.secure_aggregation and keys is None:
        raise SettingsError("secure aggregation needs keys", where="Site.keys")
    source = None if keys is None else keys.source
    if agreement.privacy is not None and source is None:
        raise SettingsError("a share of noise needs a source", where="SiteKeys.source")
    if agreement.privacy is None or agreement.simulated or source is None:
        return
    if source.simulated or (agreement.sampling_rate < 1 and trainer.simulated):
        raise SettingsError(
            "noise and coins from a seed protect nobody",
            where="Site",
            remedy="use SecureNoise and hidden coins, or agree on a simulation",
        )
