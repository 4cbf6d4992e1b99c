"""Attacks of a coordinator that lies: what it tells sites, which sums it opens, what it repeats."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from numpy.typing import NDArray

import cloister.federate.engines.federation as federation_module
import cloister.federate.engines.secure_round as secure_round
from cloister.core.ids import AgentId
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.federation import SiteFederation
from cloister.federate.engines.in_process import InProcessEngine
from cloister.federate.engines.round_failed import RoundFailed
from cloister.federate.engines.round_log import RoundLog
from cloister.federate.engines.round_messages import RoundAnnouncement
from cloister.federate.engines.site import Site, SiteKeys
from cloister.federate.engines.site_call import SiteId
from cloister.federate.online.click_log import ClickLog, ClickLogSettings
from cloister.federate.online.click_trainer import ClickTrainer
from cloister.federate.online.page_table import ShownPage
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.ledger.limits import Consent
from cloister.privacy.secure_aggregation.server import Aggregate
from cloister.rank.ranker import RankerSettings
from cloister.store.database import Database

NAMES = tuple(SiteId(f"clinic-{letter}") for letter in "abcde")
TARGET = NAMES[2]
N_FEATURES = 6
AGREEMENT = FederationAgreement(
    name="pilot",
    ranker=RankerSettings(n_features=N_FEATURES),
    min_sites=4,
    n_colluders=1,
    secure_aggregation=True,
)
Floats = NDArray[np.float64]


class Killed(BaseException):
    """The coordinator was killed, or says so."""


class Federation:
    """Five sites with three users each, and a coordinator whose opened sums are kept."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.now = 1.7e9
        self.databases = {name: Database.open(folder / f"{name}.db") for name in (*NAMES, "hub")}
        identities = {name: SigningIdentity.generate() for name in NAMES}
        self.directory = Directory({name: one.public for name, one in identities.items()})
        rng = np.random.default_rng(7)
        self.logs = {name: self._log(name, rng) for name in NAMES}
        self.trainers = {name: ClickTrainer(log, AGREEMENT) for name, log in self.logs.items()}
        self.now += 100
        self.sites = {
            name: Site(
                name,
                AGREEMENT,
                self.trainers[name],
                self.databases[name],
                keys=SiteKeys(identities[name], self.directory),
                consents=(Consent(name="test", recipient="coordinator", purpose=AGREEMENT.name),),
            )
            for name in NAMES
        }
        self.engine = InProcessEngine(self.sites)
        self.coordinator = SiteFederation(
            self.engine, self.databases["hub"], AGREEMENT, directory=self.directory
        )

    def _log(self, name: SiteId, rng: np.random.Generator) -> ClickLog:
        settings = ClickLogSettings(settle_s=10)
        log = ClickLog(self.databases[name], settings, clock=lambda: self.now)
        for user in range(6):
            _searched(log, AgentId(f"{name}:{user // 2}"), rng)
        return log

    def search(self, name: SiteId) -> None:
        """Let a user search and click; the page is ready to be learnt from."""
        _searched(self.logs[name], AgentId(f"{name}:0"), np.random.default_rng(8))
        self.now += 100

    def update_of(self, name: SiteId) -> Floats:
        """Return what a site's users would teach; their pages are taken by it."""
        lesson = self.trainers[name].train(np.zeros(N_FEATURES), round=0)
        return np.append(lesson.weighted, lesson.n_interactions)

    def close(self) -> None:
        for database in self.databases.values():
            database.close()


def _searched(log: ClickLog, agent: AgentId, rng: np.random.Generator) -> None:
    features = rng.random((8, N_FEATURES)).astype(np.float32)
    shown = rng.permutation(8)[:5]
    page = ShownPage(agent, "0" * 64, features, np.zeros(8, np.float32), shown)
    log.click(log.show(page), agent, int(rng.integers(1, 6)))


@contextmanager
def federation(folder: Path) -> Iterator[Federation]:
    found = Federation(folder)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def target_update(tmp_path: Path) -> Floats:
    """What the coordinator wants to know: one site's update, from a twin of that site."""
    with federation(tmp_path / "twin") as twin:
        return twin.update_of(TARGET)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Floats]:
    """Keep every sum that a coordinator opens."""
    sums: list[Floats] = []
    run = secure_round.SecureRound.run

    def kept(self: Any, *given: Any) -> Aggregate:
        found = run(self, *given)
        total = AGREEMENT.fixed_point.decode(found.total, n_clients=len(found.client_ids))
        sums.append(total)
        return found

    monkeypatch.setattr(secure_round.SecureRound, "run", kept)
    return sums


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("other", [1e300, 1e37, 1e9, 0.5, -0.0])
def test_sites_that_are_told_different_rankers_form_no_sum(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: list[Floats],
    target_update: Floats,
    other: float,
) -> None:
    def lying(sites: Any, told: RoundAnnouncement, last_counted: Any) -> dict[SiteId, bytes]:
        false = told._replace(model=np.full(N_FEATURES, other))
        return {site: (told if site == TARGET else false).to_bytes() for site in sites}

    monkeypatch.setattr(secure_round, "announced_to", lying)
    with federation(tmp_path / "lied-to") as lied_to, suppress(RoundFailed):
        lied_to.coordinator.step()
    assert not opened, np.abs(opened[0] - target_update).max()


@pytest.mark.parametrize("without_first", [False, True])
def test_two_attempts_of_which_one_leaves_a_site_out_do_not_tell_its_update(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: list[Floats],
    target_update: Floats,
    without_first: bool,
) -> None:
    def killed(*given: Any, **named: Any) -> None:
        raise Killed

    with federation(tmp_path / "asked-twice") as asked_twice:
        monkeypatch.setattr(RoundLog, "commit", killed)
        asked = [NAMES, tuple(name for name in NAMES if name != TARGET)]
        for members in reversed(asked) if without_first else asked:
            monkeypatch.setattr(asked_twice.engine, "sites", lambda members=members: members)
            with suppress(Killed, RoundFailed):
                asked_twice.coordinator.step()
    sums = [*opened, np.zeros_like(opened[0])]
    assert not any(np.allclose(one, target_update) for one in sums)
    assert not any(np.allclose(one - two, target_update) for one in sums for two in sums)
    assert [one[-1] for one in opened] == [4 * 6 if without_first else 5 * 6]


def test_a_session_is_joined_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[Floats]
) -> None:
    monkeypatch.setattr(federation_module.secrets, "token_hex", lambda n: "ab" * n)
    with federation(tmp_path / "f") as found:
        found.coordinator.step()
        with pytest.raises(RoundFailed) as caught:
            found.coordinator.step()
    assert len(opened) == 1
    assert set(caught.value.faults.values()) == {"Conflict"}


# The state machine needs modules that earlier versions do not have.

N_STEPS = int(os.environ.get("LYING_STEPS", "600"))  # 10,000 for the figure in the documents
STEPS_OF_RUN = 40


def run_machine(
    n_steps: int, monkeypatch: pytest.MonkeyPatch, *, same_each_time: bool = False
) -> int:
    """Let Hypothesis take so many steps; return how many it took."""
    from federate.online.lying_coordinator import LyingCoordinator

    LyingCoordinator.n_steps = 0
    monkeypatch.setattr(logging.getLogger("cloister.federate.engines.site"), "disabled", True)
    run_state_machine_as_test(
        LyingCoordinator,
        settings=settings(
            max_examples=-(-n_steps // STEPS_OF_RUN),
            stateful_step_count=STEPS_OF_RUN,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            derandomize=same_each_time,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return LyingCoordinator.n_steps


def test_every_sum_that_a_lying_coordinator_opens_is_one_that_was_agreed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run_machine(N_STEPS, monkeypatch) >= 0.9 * N_STEPS


def test_the_machine_opens_an_honest_sum_and_none_of_sites_with_nothing_new() -> None:
    from federate.online.lying_coordinator import HONEST, LyingCoordinator

    machine = LyingCoordinator()
    try:
        for _ in range(2):
            machine.announce("new", 0, -1, 0.0, HONEST, False, 4)
            machine.no_sum_tells_more_than_was_agreed_on()
            n_pages = [[len(one.pages) for one in found.members] for found in machine.sums]
            assert n_pages == [[1, 1, 1]]
    finally:
        machine.teardown()


def test_pages_of_a_session_that_all_sites_ended_are_in_the_next_sum() -> None:
    from federate.online.lying_coordinator import HONEST, LyingCoordinator

    machine = LyingCoordinator()
    try:
        machine.announce("new", 0, -1, 0.0, HONEST, False, 2)
        for _ in range(2):
            machine.end(0, True, HONEST, "")
        machine.advance(HONEST, "", 2)
        machine.announce("new", 0, -1, 0.0, HONEST, False, 4)
        machine.no_sum_tells_more_than_was_agreed_on()
        assert [[len(one.pages) for one in found.members] for found in machine.sums] == [[1, 1, 1]]
    finally:
        machine.teardown()


def _no_announcement(patch: pytest.MonkeyPatch) -> str:
    """A session's context says nothing of its announcement."""
    patch.setattr(RoundAnnouncement, "digest", lambda self: "0" * 64)
    return "told differently"


def _small_quorum(patch: pytest.MonkeyPatch) -> str:
    """One promise too few frees pages."""
    from cloister.privacy.secure_aggregation.session import Session

    right = Session.n_to_abort
    patch.setattr(Session, "n_to_abort", lambda self, n: right(self, n) - 1)
    return "pages are in two sums"


def _forgetful_signer(patch: pytest.MonkeyPatch) -> str:
    """A site reveals shares in a session that it promised to have ended."""
    from cloister.federate.engines.site_sessions import SiteSessions

    end = Site._end_session

    def forget(self: Site, call: Any) -> bytes:
        under_way = self._open
        answer = end(self, call)
        self._open = under_way
        return answer

    patch.setattr(Site, "_end_session", forget)
    patch.setattr(SiteSessions, "end", lambda self, connection, key: ())
    return "pages are in two sums"


def _coordinators_word(patch: pytest.MonkeyPatch) -> str:
    """The next announcement frees the pages of those before."""
    from cloister.federate.engines.local_trainer import Settled
    from cloister.federate.engines.site_sessions import SiteSessions

    def free(self: Any, connection: Any, told: RoundAnnouncement, held: Any) -> Settled:
        return Settled(told.session_id, told.last_counted, frozenset(), frozenset(held))

    patch.setattr(SiteSessions, "settled", free)
    return "pages are in two sums"


def _empty_sites(patch: pytest.MonkeyPatch) -> str:
    """Sites with no new pages put in zeros."""

    def vector(self: Site, told: RoundAnnouncement) -> Floats:
        lesson = self._lesson(told)
        return np.append(lesson.weighted, float(lesson.n_interactions))

    patch.setattr(ClickTrainer, "is_ready", lambda self, **named: True)
    patch.setattr(Site, "_vector", vector)
    return "put in nothing"


@pytest.mark.parametrize(
    "plant",
    [_no_announcement, _small_quorum, _forgetful_signer, _coordinators_word, _empty_sites],
)
def test_the_machine_finds_a_planted_fault(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], str]
) -> None:
    found = plant(monkeypatch)
    with pytest.raises(AssertionError, match=found):
        run_machine(20_000, monkeypatch, same_each_time=True)
