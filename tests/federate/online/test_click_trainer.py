"""Real users' lessons: what is learnt, and that no page is lost and none counts twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloister.core.ids import AgentId
from cloister.federate.engines.agreement import FederationAgreement, SitePrivacy
from cloister.federate.engines.local_trainer import Settled
from cloister.federate.fpdgd import FpdgdSettings
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.click_trainer import ClickTrainer
from cloister.federate.online.logged_training import flat_pages, train_users
from cloister.federate.online.page_table import PAGES, page_of
from cloister.rank.ranker import RankerSettings
from cloister.store.database import Database
from federate.online.made_pages import ANN, BOB, N_FEATURES, Clock, made_log, made_page

MODEL = np.linspace(-1, 1, N_FEATURES)


class Killed(BaseException):
    """The process was killed."""


def agreed(**fields: Any) -> FederationAgreement:
    usual: dict[str, Any] = {"name": "pilot", "ranker": RankerSettings(n_features=N_FEATURES)}
    return FederationAgreement(**(usual | fields))


def private(**fields: Any) -> FederationAgreement:
    privacy = SitePrivacy(epsilon=4.0, delta=1e-6, n_rounds=5, n_users=30, clip_norm=0.01)
    return agreed(secure_aggregation=True, min_sites=2, privacy=privacy, **fields)


def fill(log: ClickLog, *agents: AgentId, seed: int = 0) -> list[str]:
    """Show a page to each agent, and let it click the second document."""
    ids = [log.show(made_page(agent, seed=seed + i)) for i, agent in enumerate(agents)]
    for page_id, agent in zip(ids, agents, strict=True):
        log.click(page_id, agent, 2)
    return ids


def taken(database: Database, round: int) -> list[str]:
    query = sa.select(PAGES.c.page_id).where(PAGES.c.taken_round == round)
    with database.reading() as connection:
        return sorted(connection.scalars(query))


def test_each_user_learns_from_its_oldest_settled_pages(database: Database) -> None:
    clock = Clock()
    log = made_log(database, clock, settle_s=100)
    for seed, agent in enumerate((ANN, BOB, ANN, ANN)):
        fill(log, agent, seed=seed)
        clock.now += 1
    clock.now += 100
    fill(log, ANN, BOB, seed=10)  # too new
    with database.reading() as connection:
        every = list(connection.execute(sa.select(PAGES).order_by(PAGES.c.shown_at)))
    own = {a: [page_of(row) for row in every[:4] if row.agent == a] for a in (ANN, BOB)}
    lesson = ClickTrainer(log, agreed(), max_pages=2).train(MODEL, round=3)
    pages = flat_pages([own[ANN][:2], own[BOB]], N_FEATURES)
    expected = train_users(pages, MODEL, agreed().ranker, FpdgdSettings(), round=3)
    np.testing.assert_array_equal(lesson.updates, expected)
    assert expected.any(axis=1).all()
    np.testing.assert_allclose(lesson.weighted, 2.0 * expected[0] + expected[1], rtol=1e-6)
    assert lesson.n_interactions == 3


def test_pages_of_trials_and_of_other_features_are_left_alone(database: Database) -> None:
    log = made_log(database, settle_s=0)
    log.show(made_page(trial="t1", teams=(0, 1, 0, 1)))
    log.show(made_page(n_features=7))
    lesson = ClickTrainer(log, agreed()).train(MODEL, round=0)
    assert (lesson.n_interactions, lesson.updates.shape) == (0, (0, N_FEATURES))
    assert not lesson.weighted.any()


def test_with_privacy_updates_are_clipped_and_users_count_alike(database: Database) -> None:
    clock = Clock()
    log = made_log(database, clock, settle_s=1)
    for seed in range(3):
        fill(log, ANN, seed=seed)
    fill(log, BOB)
    clock.now += 1
    lesson = ClickTrainer(log, private()).train(MODEL, round=0)
    lengths = np.linalg.norm(lesson.updates.astype(np.float64), axis=1)
    assert lengths.max() <= 0.01
    assert lengths.min() > 0.009
    np.testing.assert_allclose(lesson.weighted, lesson.updates.sum(axis=0), rtol=1e-6)


def test_coins_are_thrown_anew_for_each_attempt_and_by_no_seed(database: Database) -> None:
    log = made_log(database, settle_s=0)
    for number in range(40):
        log.show(made_page(AgentId(f"clinic-a:{number}")))
    trainer = ClickTrainer(log, private(sampling_rate=0.5))
    assert not trainer.simulated
    chosen = []
    for attempt in range(6):
        trainer.train(MODEL, round=0, attempt=attempt)
        chosen.append(tuple(taken(database, 0)))
    assert len(set(chosen)) > 1  # all equal with a chance of 2^-200
    assert 60 < sum(map(len, chosen)) < 180  # 120 expected


def test_pages_taken_by_another_training_are_not_learnt_from_again(database: Database) -> None:
    log = made_log(database, settle_s=0)
    log.show(made_page())
    assert ClickTrainer(log, agreed()).train(MODEL, round=0).n_interactions == 1
    other = ClickTrainer(log, agreed(name="second"))
    assert other.train(MODEL, round=0).n_interactions == 0
    assert log.state().n_locked == 1


def test_pages_taken_before_a_backup_was_restored_are_not_learnt_from_again(
    database: Database,
) -> None:
    log = made_log(database, settle_s=0)
    log.show(made_page())
    trainer = ClickTrainer(log, agreed())
    trainer.train(MODEL, round=3, settled=Settled(last_counted=2))
    assert trainer.train(MODEL, round=9, settled=Settled(last_counted=8)).n_interactions == 0
    assert log.state().n_pages == 0


class Coordinator:
    """Calls a site round after round, as a coordinator does; knows which pages have counted."""

    def __init__(self, database: Database, agreement: FederationAgreement) -> None:
        self.database = database
        self.log = made_log(database, settle_s=0)
        self.agreement = agreement
        self.round = self.attempt = 0
        self.last_counted = -1
        self.shown: list[str] = []
        self.counted: list[str] = []

    def show(self, n_pages: int) -> None:
        for number in range(n_pages):
            agent = AgentId(f"clinic-a:{number % 3}")
            self.shown.append(self.log.show(made_page(agent, seed=len(self.shown))))

    def train(self) -> int:
        """Let a trainer that was started anew train; return what its lesson rests on."""
        trainer = ClickTrainer(self.log, self.agreement, max_pages=2)
        lesson = trainer.train(
            MODEL,
            round=self.round,
            attempt=self.attempt,
            settled=Settled(last_counted=self.last_counted),
        )
        self.attempt += 1
        return lesson.n_interactions

    def count(self) -> int:
        n_pages = self.train()
        pages = taken(self.database, self.round)
        assert n_pages == len(pages)
        self.counted += pages
        self.last_counted, self.round, self.attempt = self.round, self.round + 1, 0
        return n_pages

    def fail(self) -> None:
        """An attempt fails after the site has trained; the round is begun again."""
        self.train()

    def go_on_without(self) -> None:
        """The round ends, and the site's update is not in it."""
        self.train()
        self.round, self.attempt = self.round + 1, 0

    def die(self, *, committed: bool) -> None:
        """The site is killed at the end of its transaction, before or after the commit."""
        run = self.database.run

        def killed(work: Callable[[sa.Connection], Any], **options: Any) -> Any:
            def cut_short(connection: sa.Connection) -> Any:
                work(connection)
                raise Killed

            run(work if committed else cut_short, **options)
            raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.database, "run", killed)
            with pytest.raises(Killed):
                self.train()
        self.attempt += 1


STEPS: dict[str, Callable[[Coordinator], object]] = {
    "counts": Coordinator.count,
    "fails": Coordinator.fail,
    "goes on without": Coordinator.go_on_without,
    "dies before the commit": lambda it: it.die(committed=False),
    "dies after the commit": lambda it: it.die(committed=True),
}


def assert_all_count_once(coordinator: Coordinator) -> None:
    for _ in range(len(coordinator.shown) + 1):
        if not coordinator.count():
            break
    assert sorted(coordinator.counted) == sorted(coordinator.shown)
    coordinator.count()
    assert coordinator.log.state().n_pages == 0


def test_no_page_is_lost_and_none_counts_twice(database: Database) -> None:
    coordinator = Coordinator(database, agreed())
    for step in STEPS.values():
        coordinator.show(3)
        step(coordinator)
    assert_all_count_once(coordinator)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(sorted(STEPS))), max_size=8))
def test_no_order_of_faults_loses_a_page_or_counts_it_twice(
    tmp_path: Path, steps: list[tuple[int, str]]
) -> None:
    path = tmp_path / "node.db"
    path.unlink(missing_ok=True)
    for left in tmp_path.glob("node.db-*"):
        left.unlink()
    with Database.open(path) as database:
        coordinator = Coordinator(database, agreed())
        for n_pages, step in steps:
            coordinator.show(n_pages)
            STEPS[step](coordinator)
        assert_all_count_once(coordinator)
