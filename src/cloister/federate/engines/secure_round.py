"""The coordinator's side of a round with secure aggregation: one call a stage to every site left.

A site that is silent at a stage, refuses, or sends what cannot be right has dropped out, and is not
called again in this session. Too few sites left end it with `RoundFailed`, and no sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cloister.core.errors import CloisterError
from cloister.federate.engines.engine import Engine, ask_sites
from cloister.federate.engines.round_failed import NothingLearnt, RoundFailed
from cloister.federate.engines.round_messages import (
    RoundAnnouncement,
    UnreadShares,
    announced_to,
)
from cloister.federate.engines.site_call import SiteId, SiteMethod
from cloister.privacy.identity import Directory
from cloister.privacy.secure_aggregation.errors import AggregationFailed
from cloister.privacy.secure_aggregation.messages import (
    AdvertisedKeys,
    MaskedInput,
    RevealedShares,
    Roster,
    SharedKeys,
    SurvivorSignature,
)
from cloister.privacy.secure_aggregation.server import Aggregate, AggregationServer
from cloister.privacy.secure_aggregation.session import Session

__all__ = ["SecureRound"]


class SecureRound:
    """One session, from its announcement to the sum.

    Parameters
    ----------
    engine
        Carries the calls.
    session
        The session's parameters.
    directory
        The public signing keys of all sites.
    timeout_s
        How long a stage waits.
    """

    def __init__(
        self, engine: Engine, session: Session, directory: Directory, *, timeout_s: float
    ) -> None:
        self._engine = engine
        self._session = session
        self._server = AggregationServer(session, directory)
        self._timeout_s = timeout_s
        self._round = 0
        self._places: dict[SiteId, int] = {}
        self.silent: list[SiteId] = []
        self.late: list[SiteId] = []  # fell silent after others had released
        self.dropped: list[SiteId] = []  # silent or wrong once others may have released
        self.faults: dict[SiteId, str] = {}
        self.accused: dict[SiteId, tuple[SiteId, ...]] = {}  # whose shares a site could not read
        self.released = False  # whether any masked input came

    def liars(self) -> tuple[SiteId, ...]:
        """Return the sites that are proven to have sent what no honest site sends."""
        return tuple(map(SiteId, self._server.liars()))

    def run(self, told: RoundAnnouncement, last_counted: Mapping[str, int]) -> Aggregate:
        """Run all stages; return the sum over the sites that survived, or raise `RoundFailed`."""
        try:
            return self._run(told, last_counted)
        except AggregationFailed as error:
            self.faults |= dict.fromkeys(self.liars(), "AggregationFailed")
            idle = sum(fault == NothingLearnt.__name__ for fault in self.faults.values())
            raise RoundFailed(
                f"{error.what} ({idle} sites have no new pages)" if idle else error.what,
                where=error.where,
                remedy="wait until users of more sites have searched" if idle else error.remedy,
                silent=self.silent,
                faults=self.faults,
            ) from error

    def _run(self, told: RoundAnnouncement, last_counted: Mapping[str, int]) -> Aggregate:
        server = self._server
        self._round = told.round_number
        members = announced_to(map(SiteId, self._session.members), told, last_counted)
        self._stage(SiteMethod.ADVERTISE_KEYS, members, self._take_keys)
        roster = server.close_keys()
        self._places = {SiteId(entry.client_id): i for i, entry in enumerate(roster.entries)}
        self._stage(SiteMethod.SHARE_KEYS, self._to_all(roster), self._take_shares)
        delivered = {SiteId(s): m.to_bytes() for s, m in server.close_shares().items()}
        sent = self._stage(SiteMethod.MASK_INPUT, delivered, self._take_input)
        survivors = server.close_inputs().to_bytes()
        self._stage(SiteMethod.SIGN_SURVIVORS, dict.fromkeys(sent, survivors), self._take_signature)
        signed = {SiteId(s): m.to_bytes() for s, m in server.close_signatures().items()}
        self._stage(SiteMethod.REVEAL_SHARES, signed, self._take_revealed)
        return server.close()

    def _stage(
        self,
        method: SiteMethod,
        payloads: Mapping[SiteId, bytes],
        take: Callable[[SiteId, bytes], None],
    ) -> list[SiteId]:
        """Call sites and take their answers; return those whose answers were right."""
        heard = ask_sites(self._engine, method, self._round, payloads, timeout_s=self._timeout_s)
        self.silent += heard.silent
        if method in (SiteMethod.SIGN_SURVIVORS, SiteMethod.REVEAL_SHARES):
            self.late += heard.silent
        self.faults |= heard.faults
        right = []
        for site, answer in heard.answers.items():
            try:
                take(site, answer)
                right.append(site)
            except CloisterError as error:
                self.faults[site] = type(error).__name__
        if method in (SiteMethod.MASK_INPUT, SiteMethod.SIGN_SURVIVORS, SiteMethod.REVEAL_SHARES):
            self.dropped += [site for site in payloads if site not in (*right, *self.accused)]
        return right

    def _to_all(self, roster: Roster) -> dict[SiteId, bytes]:
        return dict.fromkeys(self._places, roster.to_bytes())

    def _take_keys(self, site: SiteId, answer: bytes) -> None:
        keys = AdvertisedKeys.from_bytes(answer)
        if keys.client_id != site:
            raise AggregationFailed("keys of somebody else", where=site)
        self._server.add_keys(keys)

    def _take_shares(self, site: SiteId, answer: bytes) -> None:
        shares = SharedKeys.from_bytes(answer)
        self._check_sender(site, shares.sender)
        self._server.add_shares(shares)

    def _take_input(self, site: SiteId, answer: bytes) -> None:
        if UnreadShares.is_in(answer):
            others = self._places.keys() - {site}
            owners = {SiteId(name) for name in UnreadShares.from_bytes(answer).owners}
            if owners and owners <= others:
                self.accused[site] = tuple(sorted(owners))
            raise AggregationFailed("it could not read others' shares", where=site)
        masked = MaskedInput.from_bytes(answer)
        self._check_sender(site, masked.sender)
        self._server.add_input(masked)
        self.released = True

    def _take_signature(self, site: SiteId, answer: bytes) -> None:
        signature = SurvivorSignature.from_bytes(answer)
        self._check_sender(site, signature.sender)
        self._server.add_signature(signature)

    def _take_revealed(self, site: SiteId, answer: bytes) -> None:
        revealed = RevealedShares.from_bytes(answer)
        self._check_sender(site, revealed.sender)
        self._server.add_revealed(revealed)

    def _check_sender(self, site: SiteId, sender: int) -> None:
        """See that a message without a signature is of the site that the engine names."""
        if self._places.get(site) != sender:
            raise AggregationFailed("a message in somebody else's name", where=site)
