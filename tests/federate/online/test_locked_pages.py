"""Pages in a masked input: locked to their session, and free again by other sites' promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from cloister.federate.engines.federation import SiteFederation
from cloister.federate.engines.round_failed import RoundFailed
from cloister.federate.engines.round_messages import RoundAnnouncement
from cloister.federate.engines.session_end import EndReply, EndRequest, SessionEnd
from cloister.federate.engines.site_call import (
    PROTOCOL_VERSION,
    SiteCall,
    SiteId,
    SiteMethod,
    SiteReply,
)
from federate.online.test_lying_coordinator import (
    AGREEMENT,
    N_FEATURES,
    NAMES,
    TARGET,
    Federation,
    Killed,
)

ALL_PAGES = 6 * len(NAMES)
LATE = SiteMethod.SIGN_SURVIVORS  # all masked inputs have left by then


class LossyEngine:
    """Loses calls, or replies, by site and method; may kill the coordinator before a method."""

    def __init__(self, found: Federation) -> None:
        self._engine = found.engine
        self.lost: set[tuple[SiteId, SiteMethod]] = set()
        self.unanswered: set[tuple[SiteId, SiteMethod]] = set()
        self.kill_before: SiteMethod | None = None

    def sites(self) -> tuple[SiteId, ...]:
        return NAMES

    def call(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[SiteId, SiteReply]:
        method = next(iter(calls.values())).method
        if method is self.kill_before:
            raise Killed
        heard = {site: call for site, call in calls.items() if (site, method) not in self.lost}
        replies = self._engine.call(heard, timeout_s)
        return {s: reply for s, reply in replies.items() if (s, method) not in self.unanswered}


class Scene:
    """Five sites behind an engine that loses messages."""

    def __init__(self, folder: Path) -> None:
        self.found = Federation(folder)
        self.engine = LossyEngine(self.found)
        self.coordinator = self.start()

    def start(self) -> SiteFederation:
        """Start the coordinator, or start it again."""
        hub, directory = self.found.databases["hub"], self.found.directory
        self.coordinator = SiteFederation(self.engine, hub, AGREEMENT, directory=directory)
        return self.coordinator

    def n_locked(self) -> list[int]:
        return [log.state().n_locked for log in self.found.logs.values()]

    def n_ready(self) -> list[int]:
        return [log.state().n_ready for log in self.found.logs.values()]

    def ask(self, site: SiteId, method: SiteMethod, payload: bytes) -> SiteReply:
        call = SiteCall(method, 0, PROTOCOL_VERSION, payload)
        return SiteReply.from_bytes(self.found.sites[site].answer(call.to_bytes()))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path / "f")
    yield made
    made.found.close()


def test_pages_of_a_failed_attempt_are_in_the_next(scene: Scene) -> None:
    scene.engine.lost = {(site, LATE) for site in NAMES[:2]}
    with pytest.raises(RoundFailed):
        scene.coordinator.step()
    scene.engine.lost.clear()
    assert scene.coordinator.step().n_interactions == ALL_PAGES
    assert not scene.coordinator.log.open_sessions()


def test_a_site_whose_masked_input_came_too_late_is_in_the_next_round(scene: Scene) -> None:
    scene.engine.unanswered = {(TARGET, SiteMethod.MASK_INPUT)}
    assert scene.coordinator.step().n_interactions == ALL_PAGES - 6
    scene.engine.unanswered.clear()
    with pytest.raises(RoundFailed, match="1 clients advertised keys") as caught:
        scene.coordinator.step()  # the others have nothing new: it would stand alone
    assert caught.value.faults == {s: "NothingLearnt" for s in NAMES if s != TARGET}
    for name in NAMES:
        scene.found.search(name)
    done = scene.coordinator.step()
    assert (done.sites, done.n_interactions) == (NAMES, 6 + 5)


def test_pages_come_back_after_a_coordinator_was_killed(scene: Scene) -> None:
    scene.engine.kill_before = LATE
    with pytest.raises(Killed):
        scene.coordinator.step()
    assert scene.n_locked() == [6] * 5
    scene.engine.kill_before = None
    assert scene.start().step().n_interactions == ALL_PAGES


def test_without_enough_promises_pages_stay_locked_until_sites_are_back(scene: Scene) -> None:
    away = {(site, method) for site in NAMES[:3] for method in (LATE, SiteMethod.END_SESSION)}
    scene.engine.lost = away  # three of five promises are needed
    for _ in range(2):
        with pytest.raises(RoundFailed):
            scene.coordinator.step()
    assert scene.n_locked() == [6] * 5
    assert scene.n_ready() == [0] * 5
    scene.engine.lost.clear()
    assert scene.coordinator.step().n_interactions == ALL_PAGES


def test_two_sites_may_be_away_of_five(scene: Scene) -> None:
    away = {(site, method) for site in NAMES[:2] for method in (LATE, SiteMethod.END_SESSION)}
    scene.engine.lost = away
    with pytest.raises(RoundFailed):
        scene.coordinator.step()
    scene.engine.lost.clear()
    (session,) = scene.coordinator.log.open_sessions()
    assert session.waiting == NAMES[:2]
    assert scene.coordinator.step().n_interactions == ALL_PAGES


def test_locked_pages_are_forgotten_when_they_are_old(scene: Scene) -> None:
    scene.engine.kill_before = LATE
    with pytest.raises(Killed):
        scene.coordinator.step()
    scene.found.now += 31 * 86400
    assert [log.forget_old() for log in scene.found.logs.values()] == [6] * 5


def test_a_site_that_promised_joins_and_reveals_no_more(scene: Scene) -> None:
    session_id = "ab" * 32
    request = EndRequest(AGREEMENT.name, session_id).to_bytes()
    first = scene.ask(TARGET, SiteMethod.END_SESSION, request)
    again = scene.ask(TARGET, SiteMethod.END_SESSION, request)
    assert first == again  # the same promise, however often it is asked for
    told = RoundAnnouncement(
        AGREEMENT.name, AGREEMENT.digest(), 0, 0, -1, NAMES, session_id, np.zeros(N_FEATURES)
    )
    assert scene.ask(TARGET, SiteMethod.ADVERTISE_KEYS, told.to_bytes()).fault == "Conflict"


def test_a_promise_names_whose_seeds_were_opened_and_frees_nobody_of_them(scene: Scene) -> None:
    scene.engine.unanswered = {(TARGET, SiteMethod.MASK_INPUT), (TARGET, SiteMethod.END_SESSION)}
    scene.coordinator.step()
    (session,) = scene.coordinator.log.open_sessions()
    ends = [SessionEnd.from_bytes(end) for end in session.ends.values()]
    others = tuple(name for name in NAMES if name != TARGET)
    assert [end.revealed for end in ends] == [others] * 4
    key = AGREEMENT.name, session.session_id
    assert all(end.is_signed(scene.found.directory, *key) for end in ends)
    assert not ends[0]._replace(revealed=()).is_signed(scene.found.directory, *key)
    request = EndRequest(*key, tuple(ends)).to_bytes()
    locked = {
        site: EndReply.from_bytes(scene.ask(site, SiteMethod.END_SESSION, request).payload).locked
        for site in NAMES
    }
    assert locked == dict.fromkeys(others, True) | {TARGET: False}


@pytest.mark.parametrize("shift", [0.0, 0.5, 1e-12])
def test_a_site_accepts_the_agreed_start_alone_in_round_0(scene: Scene, shift: float) -> None:
    told = RoundAnnouncement(
        AGREEMENT.name, AGREEMENT.digest(), 0, 0, -1, NAMES, "cd" * 32, np.full(N_FEATURES, shift)
    )
    reply = scene.ask(TARGET, SiteMethod.ADVERTISE_KEYS, told.to_bytes())
    assert reply.fault == ("Conflict" if shift else "")


@pytest.mark.parametrize(("round_number", "length", "fault"), [
    (1, 1.0, ""), (1, 1.01, "Conflict"), (3, 3.0, ""), (3, 3.01, "Conflict"),
])  # fmt: skip
def test_a_site_accepts_rankers_that_the_rounds_between_can_have_led_to(
    scene: Scene, round_number: int, length: float, fault: str
) -> None:
    model = np.zeros(N_FEATURES)
    model[1] = length
    told = RoundAnnouncement(
        AGREEMENT.name, AGREEMENT.digest(), round_number, 0, -1, NAMES, "cd" * 32, model
    )
    call = SiteCall(SiteMethod.ADVERTISE_KEYS, round_number, PROTOCOL_VERSION, told.to_bytes())
    reply = SiteReply.from_bytes(scene.found.sites[TARGET].answer(call.to_bytes()))
    assert reply.fault == fault
