"""A coordinator that lies as it likes, with one site on its side, against three honest sites.

It runs many sessions at once, tells sites different things, mixes rosters, leaves messages out,
sends old ones again and forges what it has no key for. It knows all that the fourth site knows, and
signs with that site's key. The sites, their databases and the cryptography are real.

What it can open is worked out from the shares that left the sites, and then opened: each sum is
computed from nothing but messages, and compared with what its members put in.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from numpy.typing import NDArray

from cloister.core.ids import AgentId
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.local_trainer import SiteLesson
from cloister.federate.engines.round_messages import RoundAnnouncement, UnreadShares
from cloister.federate.engines.session_end import EndReply, EndRequest, SessionEnd
from cloister.federate.engines.site import Site, SiteKeys
from cloister.federate.engines.site_call import (
    PROTOCOL_VERSION,
    SiteCall,
    SiteId,
    SiteMethod,
    SiteReply,
)
from cloister.federate.engines.site_memory import SiteMemory
from cloister.federate.online.click_log import ClickLog, ClickLogSettings
from cloister.federate.online.click_trainer import ClickTrainer
from cloister.federate.online.page_table import PAGES, ShownPage
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.ledger.limits import Consent
from cloister.privacy.secure_aggregation import AggregationClient
from cloister.privacy.secure_aggregation.keys import MASK, KeyPair
from cloister.privacy.secure_aggregation.masks import SEED_BYTES, MaskStream
from cloister.privacy.secure_aggregation.messages import (
    AdvertisedKeys,
    DeliveredShares,
    MaskedInput,
    RevealedShares,
    Roster,
    SealedShares,
    SharedKeys,
    SurvivorSet,
    SurvivorSignature,
    SurvivorSignatures,
)
from cloister.privacy.secure_aggregation.shamir import reconstruct
from cloister.privacy.secure_aggregation.transcript import SURVIVING, Transcript
from cloister.rank.ranker import RankerSettings
from cloister.store.database import Database

A, B, C = HONEST = tuple(map(SiteId, ("clinic-a", "clinic-b", "clinic-c")))
MALLORY = SiteId("mallory")
N_FEATURES = 2
AGREEMENT = FederationAgreement(
    name="pilot",
    ranker=RankerSettings(n_features=N_FEATURES),
    secure_aggregation=True,
    min_sites=3,
    n_colluders=1,
)
IDENTITIES = {site: SigningIdentity.generate() for site in (*HONEST, MALLORY)}
DIRECTORY = Directory({site: one.public for site, one in IDENTITIES.items()})


@cache
def _empty_database() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "empty.db")
        with Database.open(path) as database:
            SiteMemory(database, A)
            ClickLog(database)
        return path.read_bytes()


def told_alike(told: RoundAnnouncement) -> bytes:
    """Return what must be the same at all sites of a sum, by a definition of its own."""
    return told._replace(last_counted=-1).to_bytes()


class RecordingTrainer(ClickTrainer):
    """Keeps what it taught last, so that a sum can be compared with it."""

    lesson: SiteLesson

    def train(self, *given: Any, **named: Any) -> SiteLesson:
        self.lesson = super().train(*given, **named)
        return self.lesson


class Shown(NamedTuple):
    """A roster as some sites are shown it, with Mallory's keys in it."""

    roster: Roster
    transcript: Transcript
    mallory: AggregationClient | None

    @property
    def digest(self) -> bytes:
        return self.transcript.digest

    def place(self, site: str) -> int | None:
        names = [entry.client_id for entry in self.roster.entries]
        return names.index(site) if site in names else None


class Masked(NamedTuple):
    """A masked input that left an honest site, and what only the test knows of it."""

    site: SiteId
    place: int
    told: bytes
    sharers: tuple[int, ...]
    values: NDArray[np.uint64]
    put_in: NDArray[np.uint64]
    pages: frozenset[str]


class Sum(NamedTuple):
    """A sum that the coordinator can open."""

    members: tuple[Masked, ...]
    n_colluders: int
    total: NDArray[np.uint64]


@dataclass
class Knowledge:
    """All that the coordinator and Mallory have seen of one roster."""

    shown: Shown
    packets: dict[int, tuple[SealedShares, ...]] = field(default_factory=dict)
    masked: dict[int, Masked] = field(default_factory=dict)
    signatures: dict[bytes, dict[int, bytes]] = field(default_factory=dict)
    seed_shares: dict[int, dict[int, int]] = field(default_factory=dict)
    key_shares: dict[int, dict[int, int]] = field(default_factory=dict)

    def learn(self, kind: str, owner: int, holder: int, share: int) -> None:
        getattr(self, kind).setdefault(owner, {})[holder] = share

    def secret(self, shares: dict[int, int]) -> bytes | None:
        """Return a secret if enough shares of it are known; holders are all, in order."""
        threshold = self.shown.transcript.plan.threshold
        if len(shares) < threshold:
            return None
        points = {holder + 1: share for holder, share in sorted(shares.items())[:threshold]}
        return reconstruct(points, threshold).to_bytes(SEED_BYTES, "big")

    def sums(self) -> list[Sum]:
        """Return every smallest sum that can be opened: its masks cancel or are known."""
        keys = {place: self._mask_key(place) for place in range(len(self.shown.roster.entries))}
        left, found = set(self.masked), []
        while left:
            group, closed = {left.pop()}, True
            ahead = list(group)
            while ahead:
                here = ahead.pop()
                for peer in self.masked[here].sharers:
                    if peer == here or keys[peer] or keys[here]:
                        continue
                    other = self.masked.get(peer)
                    if other is None or here not in other.sharers:
                        closed = False
                    elif peer not in group:
                        group.add(peer)
                        ahead.append(peer)
            left -= group
            seeds = {place: self.secret(self.seed_shares.get(place, {})) for place in group}
            if closed and all(seeds.values()):
                found.append(self._opened(sorted(group), seeds, keys))
        return found

    def _mask_key(self, place: int) -> KeyPair | None:
        if place == self.shown.place(MALLORY) and self.shown.mallory is not None:
            return self.shown.mallory._mask
        secret = self.secret(self.key_shares.get(place, {}))
        return None if secret is None else KeyPair.from_private_bytes(secret)

    def _opened(self, group: list[int], seeds: dict[int, Any], keys: dict[int, Any]) -> Sum:
        """Take the masks away, with nothing but what was seen."""
        members = tuple(self.masked[place] for place in group)
        total = np.sum([one.values for one in members], axis=0, dtype=np.uint64)
        stream = MaskStream(len(total))
        entries, digest = self.shown.transcript.entries, self.shown.digest
        for one in members:
            stream.subtract(total, seeds[one.place])
            for peer in one.sharers:
                known, other = (peer, one.place) if keys[peer] else (one.place, peer)
                if peer == one.place or keys[known] is None:
                    continue
                low, high = sorted((peer, one.place))
                seed = keys[known].agree(entries[other].mask_key, MASK, digest, low, high)
                (stream.subtract if one.place < peer else stream.add)(total, seed)
        return Sum(members, int(self.shown.mallory is not None), total)


@dataclass
class Target:
    """An honest site, and how far the coordinator has led it in the session under way."""

    site: Site
    trainer: RecordingTrainer
    log: ClickLog
    database: Database
    told: RoundAnnouncement | None = None
    keys: AdvertisedKeys | None = None
    known: Knowledge | None = None
    sharers: tuple[int, ...] = ()
    survivors: tuple[int, ...] = ()
    stage: SiteMethod = SiteMethod.ADVERTISE_KEYS

    def place(self) -> int:
        assert self.known is not None
        place = self.known.shown.place(self.site.site_id)
        assert place is not None
        return place

    def pages(self) -> frozenset[str]:
        """Return the pages that the session under way holds."""
        assert self.told is not None
        query = sa.select(PAGES.c.page_id).where(PAGES.c.taken_session == self.told.session_id)
        with self.database.reading() as connection:
            return frozenset(connection.scalars(query))


SITES = st.sampled_from([HONEST] * 6 + [(A,), (B,), (C,), (A, B), (B, C), (A, C)])
ENDING = st.sampled_from([HONEST] * 3 + [(A,), (B,), (C,)])
LIES = st.sampled_from([""] * 6 + ["leave one out", "leave Mallory out", "leave another out"])


class LyingCoordinator(RuleBasedStateMachine):
    """Each rule is one lie, or one honest step that a lie may need."""

    n_steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="lying-"))
        self.now = 1_700_000_000.0
        self.attempt = 0
        self.session_ids: list[str] = []
        self.last: RoundAnnouncement | None = None
        self.targets = {name: self._target(name) for name in HONEST}
        self.advertised: dict[tuple[str, bytes], dict[str, AdvertisedKeys]] = {}
        self.known: dict[bytes, Knowledge] = {}
        self.shown: dict[Any, Shown] = {}
        self.ends: dict[str, dict[str, SessionEnd]] = {}
        self.calls: list[SiteCall] = []
        self.sums: list[Sum] = []
        self.news = False
        for name in HONEST:
            self._search(name)

    def teardown(self) -> None:
        for target in self.targets.values():
            target.database.close()
        shutil.rmtree(self.folder)

    # What it can do.

    @rule(what=st.sampled_from(["new"] * 4 + ["same", "other", "old"]),
          round=st.sampled_from([0, 0, 0, 1]), counted=st.sampled_from([-1, 0]),
          shift=st.sampled_from([0.0, 0.0, 0.5]), to=SITES,
          split=st.sampled_from([False] * 3 + [True]),
          n_stages=st.sampled_from([0, 2, 2, 4, 4]))  # fmt: skip
    def announce(
        self,
        what: str,
        round: int,
        counted: int,
        shift: float,
        to: tuple[SiteId, ...],
        split: bool,
        n_stages: int,
    ) -> None:
        """Announce a session, and lead sites through its first stages.

        It is a new one, the last one to others, the last one in other words, or an old one. With a
        split, the last of the sites is told something else than the others.
        """
        LyingCoordinator.n_steps += 1
        told = self.last
        if what != "same" or told is None:
            session_id = hashlib.sha256(bytes((len(self.session_ids),))).hexdigest()
            if what in ("other", "old") and told is not None:
                session_id = told.session_id if what == "other" else self.session_ids[0]
            self.session_ids.append(session_id)
            self.attempt += 1
            told = RoundAnnouncement(
                AGREEMENT.name, AGREEMENT.digest(), round, self.attempt, -1,
                (*HONEST, MALLORY), session_id, np.full(N_FEATURES, shift if round else 0.0),
            )  # fmt: skip
        self.last = told
        self.attempt += 1
        for name in to:
            if split and name == to[-1]:
                told = told._replace(attempt=self.attempt)
            own = told._replace(last_counted=min(counted, told.round_number - 1))
            answer = self._call(name, SiteMethod.ADVERTISE_KEYS, own.to_bytes())
            if answer is not None:
                keys = AdvertisedKeys.from_bytes(answer)
                target = self.targets[name]
                target.told, target.keys, target.known = told, keys, None
                target.stage = SiteMethod.SHARE_KEYS
                self.advertised.setdefault((told.session_id, keys.context), {})[name] = keys
        self._lead(to, "", n_stages)

    @rule(to=SITES, lie=LIES, n_stages=st.sampled_from([1, 2, 2, 4]))
    def advance(self, to: tuple[SiteId, ...], lie: str, n_stages: int) -> None:
        """Lead sites through the stages that are next for each, with a lie or without one."""
        LyingCoordinator.n_steps += 1
        self._lead(to, lie, n_stages)

    @rule(session=st.integers(0, 9), current=st.sampled_from([True] * 3 + [False]), to=ENDING,
          lie=st.sampled_from(["", "", "hold back", "forge"]))  # fmt: skip
    def end(self, session: int, current: bool, to: tuple[SiteId, ...], lie: str) -> None:
        """Ask sites to end a session, with promises that others gave, or that it forges."""
        LyingCoordinator.n_steps += 1
        session_id = hashlib.sha256(bytes((session,))).hexdigest()
        if current and self.last is not None:
            session_id = self.last.session_id
        key = (AGREEMENT.name, session_id)
        given = self.ends.setdefault(session_id, {})
        given[MALLORY] = SessionEnd.sign(IDENTITIES[MALLORY], *key, MALLORY, ())
        for name in to:
            ends = [] if lie == "hold back" else list(given.values())
            if lie == "forge":
                ends += [SessionEnd.sign(IDENTITIES[MALLORY], *key, one, ()) for one in HONEST]
                ends += [end._replace(revealed=()) for end in given.values()]
                other = [end for ends_ in self.ends.values() for end in ends_.values()]
                ends += other + [given[MALLORY]] * 3
            request = EndRequest(*key, tuple(ends)).to_bytes()
            answer = self._call(name, SiteMethod.END_SESSION, request)
            if answer is not None:
                given[name] = EndReply.from_bytes(answer).end

    @rule(what=st.sampled_from(["search everywhere"] * 4 + ["search", "replay", "restart"]),
          name=st.sampled_from(HONEST), number=st.integers(0, 50))  # fmt: skip
    def disturb(self, what: str, name: SiteId, number: int) -> None:
        """Start a site again, let users search and click, or send an old call to whomever."""
        LyingCoordinator.n_steps += 1
        target = self.targets[name]
        if what == "restart":
            target.site = self._site(name, target.trainer, target.database)
        elif what.startswith("search"):
            for one in HONEST if what == "search everywhere" else (name,):
                self._search(one)
        elif self.calls:
            call = self.calls[-1 - number % len(self.calls)]
            self._see(name, call, SiteReply.from_bytes(target.site.answer(call.to_bytes())))

    # What must hold.

    @invariant()
    def no_sum_tells_more_than_was_agreed_on(self) -> None:
        if not self.news:
            return
        self.news = False
        self.sums = [one for known in self.known.values() for one in known.sums()]
        seen: set[tuple[SiteId, str]] = set()
        for one in self.sums:
            put_in = np.sum([member.put_in for member in one.members], axis=0, dtype=np.uint64)
            np.testing.assert_array_equal(one.total, put_in)  # it is opened indeed
            assert len({member.told for member in one.members}) == 1, "told differently"
            n_honest = len(one.members)
            assert n_honest >= AGREEMENT.min_sites - AGREEMENT.n_colluders, "too few honest sites"
            assert n_honest + one.n_colluders >= AGREEMENT.min_sites, "too few sites"
            assert all(member.pages for member in one.members), "a site put in nothing"
            pages = {(member.site, page) for member in one.members for page in member.pages}
            assert not seen & pages, "pages are in two sums"
            seen |= pages

    # How it does it.

    def _target(self, name: SiteId) -> Target:
        path = self.folder / f"{name}.db"
        path.write_bytes(_empty_database())
        path.chmod(0o600)
        database = Database.open(path)
        log = ClickLog(database, ClickLogSettings(settle_s=0.5), clock=lambda: self.now)
        trainer = RecordingTrainer(log, AGREEMENT)
        return Target(self._site(name, trainer, database), trainer, log, database)

    def _site(self, name: SiteId, trainer: ClickTrainer, database: Database) -> Site:
        keys = SiteKeys(IDENTITIES[name], DIRECTORY)
        agreed = (Consent(name="test", recipient="coordinator", purpose=AGREEMENT.name),)
        return Site(name, AGREEMENT, trainer, database, keys=keys, consents=agreed)

    def _search(self, name: SiteId) -> None:
        self.now += 1.0
        rng = np.random.default_rng(int(self.now))
        agent = AgentId(f"{name}:ann")
        features = rng.random((3, N_FEATURES)).astype(np.float32)
        page = ShownPage(agent, "0" * 64, features, np.zeros(3, np.float32), np.arange(3))
        log = self.targets[name].log
        log.click(log.show(page), agent, 2)
        self.now += 1.0

    def _call(self, name: SiteId, method: SiteMethod, payload: bytes) -> bytes | None:
        number = 0 if self.last is None else self.last.round_number
        told = self.targets[name].told
        if told is not None and method is not SiteMethod.ADVERTISE_KEYS:
            number = told.round_number
        call = SiteCall(method, number, PROTOCOL_VERSION, payload)
        self.calls = [*self.calls[-50:], call]
        reply = SiteReply.from_bytes(self.targets[name].site.answer(call.to_bytes()))
        assert reply.fault != "InternalError"
        return None if reply.fault else self._see(name, call, reply)

    def _see(self, name: SiteId, call: SiteCall, reply: SiteReply) -> bytes:
        """Learn all that is in a reply, whatever it was asked for."""
        target = self.targets[name]
        if reply.fault or target.known is None:
            return reply.payload
        if call.method is SiteMethod.REVEAL_SHARES:
            message = RevealedShares.from_bytes(reply.payload)
            known = target.known
            if message.context == known.shown.roster.context and message.sender == target.place():
                for owner, share in message.seed_shares:
                    known.learn("seed_shares", owner, message.sender, share)
                for owner, share in message.key_shares:
                    known.learn("key_shares", owner, message.sender, share)
                self.news = True
        return reply.payload

    def _lead(self, to: tuple[SiteId, ...], lie: str, n_stages: int) -> None:
        stages: dict[SiteMethod, Callable[[SiteId, Target, str], None]] = {
            SiteMethod.SHARE_KEYS: self._share,
            SiteMethod.MASK_INPUT: self._mask,
            SiteMethod.SIGN_SURVIVORS: self._sign,
            SiteMethod.REVEAL_SHARES: self._reveal,
        }
        for _ in range(n_stages):
            now = {name: self.targets[name].stage for name in to}
            for name, stage in now.items():
                if stage in stages:
                    stages[stage](name, self.targets[name], lie)

    def _share(self, name: SiteId, target: Target, lie: str) -> None:
        assert target.told is not None
        assert target.keys is not None
        there = self.advertised[target.told.session_id, target.keys.context]
        names = sorted({*there, *(() if lie == "leave Mallory out" else (MALLORY,))})
        if lie == "leave one out":
            names = [one for one in names if one != next(n for n in HONEST if n != name)]
        known = self._roster(target, tuple(names))
        answer = self._call(name, SiteMethod.SHARE_KEYS, known.shown.roster.to_bytes())
        if answer is None:
            return
        shared = SharedKeys.from_bytes(answer)
        target.known, target.stage = known, SiteMethod.MASK_INPUT
        known.packets[shared.sender] = shared.packets
        place = known.shown.place(MALLORY)
        for packet in shared.packets if place is not None else ():
            if packet.peer == place and known.shown.mallory is not None:
                opened = known.shown.mallory._packets._opened(packet._replace(peer=shared.sender))
                assert opened is not None
                known.learn("seed_shares", shared.sender, place, opened[0])
                known.learn("key_shares", shared.sender, place, opened[1])

    def _roster(self, target: Target, names: tuple[str, ...]) -> Knowledge:
        """Return a roster of these sites; the same one whenever it is asked for."""
        assert target.told is not None
        assert target.keys is not None
        context = target.keys.context
        entries = dict(self.advertised[target.told.session_id, context])
        key = context, names, tuple(entries.get(one) for one in names)
        made = self.shown.get(key)
        if made is None:
            session = AGREEMENT.session(
                target.told.session_id, target.told.members, announced=target.told.digest()
            )
            mallory = None
            if MALLORY in names:
                mallory = AggregationClient(session, MALLORY, IDENTITIES[MALLORY], DIRECTORY)
                entries[MALLORY] = mallory.advertise_keys()
            roster = Roster(context, tuple(entries[one] for one in names))
            try:
                transcript = Transcript(session, roster)
                made = Shown(roster, transcript, mallory)
                packets = {} if mallory is None else _packets_of(made)
            except Exception:  # too few for a graph: sites will refuse it as well
                return Knowledge(Shown(roster, None, None))  # type: ignore[arg-type]
            self.shown[key] = made
            self.known[made.digest] = Knowledge(made, packets)
        return self.known[made.digest]

    def _mask(self, name: SiteId, target: Target, lie: str) -> None:
        known, place = target.known, target.place()
        assert known is not None
        assert target.told is not None
        sharers = _less(sorted(known.packets), lie, known, place)
        packets = [
            packet._replace(peer=sender)
            for sender in sharers
            for packet in known.packets[sender]
            if packet.peer == place and sender != place
        ]
        context = known.shown.roster.context
        told = DeliveredShares(context, place, tuple(sharers), tuple(packets))
        answer = self._call(name, SiteMethod.MASK_INPUT, told.to_bytes())
        if answer is None or UnreadShares.is_in(answer):
            return
        lesson = target.trainer.lesson
        vector = np.append(lesson.weighted, float(lesson.n_interactions))
        values = MaskedInput.from_bytes(answer).values
        if place in known.masked:  # the same call again: its pages may be gone by now
            np.testing.assert_array_equal(values, known.masked[place].values)
        else:
            known.masked[place] = Masked(
                name, place, told_alike(target.told), tuple(sharers), values,
                AGREEMENT.fixed_point.encode(vector), target.pages(),
            )  # fmt: skip
        target.sharers, target.stage = tuple(sharers), SiteMethod.SIGN_SURVIVORS
        self.news = True

    def _sign(self, name: SiteId, target: Target, lie: str) -> None:
        known, place = target.known, target.place()
        assert known is not None
        mallory = known.shown.place(MALLORY)
        there = sorted({*known.masked, *(() if mallory is None else (mallory,))})
        survivors = tuple(_less(there, lie, known, place))
        told = SurvivorSet(known.shown.roster.context, survivors)
        answer = self._call(name, SiteMethod.SIGN_SURVIVORS, told.to_bytes())
        if answer is None:
            return
        target.survivors, target.stage = survivors, SiteMethod.REVEAL_SHARES
        sets = known.shown.transcript.signed_sets(target.sharers, survivors)
        signature = SurvivorSignature.from_bytes(answer).signature
        known.signatures.setdefault(sets, {})[place] = signature

    def _reveal(self, name: SiteId, target: Target, lie: str) -> None:
        known = target.known
        assert known is not None
        sets = known.shown.transcript.signed_sets(target.sharers, target.survivors)
        signatures = dict(known.signatures.get(sets, {}))
        mallory = known.shown.place(MALLORY)
        if mallory is not None:  # signs whatever helps
            signatures[mallory] = IDENTITIES[MALLORY].sign(SURVIVING, sets)
        told = SurvivorSignatures(known.shown.roster.context, tuple(sorted(signatures.items())))
        self._call(name, SiteMethod.REVEAL_SHARES, told.to_bytes())
        target.stage = SiteMethod.ADVERTISE_KEYS


def _packets_of(shown: Shown) -> dict[int, tuple[SealedShares, ...]]:
    """Return what Mallory sends to the sites of a roster, as an honest site would."""
    assert shown.mallory is not None
    shared = shown.mallory.share_keys(shown.roster)
    return {shared.sender: shared.packets}


def _less(places: Iterable[int], lie: str, known: Knowledge, own: int) -> list[int]:
    """Return places as a site is told them."""
    found = list(places)
    others = [place for place in found if place != own]
    mallory = known.shown.place(MALLORY)
    match lie:
        case "leave one out" if others:
            found.remove(others[0])
        case "leave another out" if others:
            found.remove(others[-1])
        case "leave Mallory out" if mallory in found:
            found.remove(mallory)
    return found
