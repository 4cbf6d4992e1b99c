"""The click log: who may click what, what is kept, and for how long."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sqlalchemy as sa

from cloister.core.errors import DataError, NotFound
from cloister.core.ids import AgentId
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.local_trainer import Settled
from cloister.federate.online.click_log import LogState
from cloister.federate.online.click_trainer import ClickTrainer
from cloister.federate.online.page_table import PAGES, ShownPage, page_of
from cloister.rank.ranker import RankerSettings
from cloister.store.database import Database
from federate.online.made_pages import ANN, BOB, N_FEATURES, RANKER, Clock, made_log, made_page


def rows(database: Database) -> list[sa.Row]:
    with database.reading() as connection:
        return list(connection.execute(sa.select(PAGES).order_by(PAGES.c.shown_at)))


def test_a_page_comes_back_as_it_was_shown_with_its_clicks(database: Database) -> None:
    log, shown = made_log(database), made_page()
    page_id = log.show(shown)
    log.click(page_id, ANN, 1)
    log.click(page_id, ANN, 3)
    log.click(page_id, ANN, 3)
    (row,) = rows(database)
    page = page_of(row)
    np.testing.assert_array_equal(page.features, shown.features)
    np.testing.assert_array_equal(page.drawn, shown.drawn)
    np.testing.assert_array_equal(page.places, shown.places)
    assert page.clicked.tolist() == [True, False, True, False]
    assert (row.agent, row.ranker, row.trial) == (ANN, RANKER, "")


def test_the_log_has_no_place_for_a_query_or_a_document(database: Database) -> None:
    made_log(database)
    columns = {
        column["name"] for column in sa.inspect(_connection(database)).get_columns(PAGES.name)
    }
    assert columns == {
        "page_id", "agent", "shown_at", "ranker", "trial", "n_features", "features", "drawn",
        "places", "teams", "clicks", "taken_by", "taken_round",
        "taken_session",
    }  # fmt: skip


def _connection(database: Database) -> sa.Engine:
    return database._engines["reading"]


def test_every_refused_click_looks_the_same_and_changes_nothing(database: Database) -> None:
    clock = Clock()
    log = made_log(database, clock, settle_s=60)
    old = log.show(made_page())
    clock.now += 60
    page_id = log.show(made_page())
    refused = [
        (page_id, BOB, 1),  # somebody else's
        ("x" * 32, ANN, 1),  # unknown
        ("a\x00b", ANN, 1),  # no page's name at all
        ("", ANN, 1),
        (page_id, ANN, 0),
        (page_id, ANN, 5),
        (page_id, ANN, -1),
        (old, ANN, 1),  # takes no more clicks
    ]
    said = set()
    for one in refused:
        with pytest.raises(NotFound) as caught:
            log.click(*one)
        said.add((str(caught.value), caught.value.where))
    assert len(said) == 1
    assert not any(any(row.clicks) for row in rows(database))


def test_a_page_that_was_left_is_ready_and_takes_no_click(database: Database) -> None:
    clock = Clock()
    log = made_log(database, clock, settle_s=600)
    first = log.show(made_page())
    clock.now += 1
    second = log.show(made_page())
    log.click(second, ANN, 2)
    for page_id, who in ((first, BOB), ("x" * 32, ANN), ("", ANN)):
        with pytest.raises(NotFound):
            log.leave(page_id, who)
    assert log.state().n_ready == 0
    log.leave(second, ANN)
    log.leave(first, ANN)
    assert (log.state().n_open, log.state().n_ready) == (0, 2)
    for page_id in (first, second):
        with pytest.raises(NotFound):
            log.click(page_id, ANN, 1)
        with pytest.raises(NotFound):  # it was left already
            log.leave(page_id, ANN)
    assert [any(row.clicks) for row in rows(database)] == [False, True]


def test_a_page_that_a_round_has_taken_takes_no_click_though_the_clock_is_set_back(
    database: Database,
) -> None:
    clock = Clock()
    log = made_log(database, clock, settle_s=600)
    page_id = log.show(made_page())
    clock.now += 700
    agreement = FederationAgreement(name="pilot", ranker=RankerSettings(n_features=N_FEATURES))
    assert ClickTrainer(log, agreement).train(np.zeros(N_FEATURES), round=0).n_interactions == 1
    clock.now -= 400
    with pytest.raises(NotFound):
        log.click(page_id, ANN, 2)
    assert not any(rows(database)[0].clicks)


def test_pages_of_trials_that_are_over_are_forgotten_and_no_others(database: Database) -> None:
    log = made_log(database)
    usual = log.show(made_page())
    under_way = log.show(made_page(trial="t2", teams=(0, 1, 0, 1)))
    for trial in ("t1", "t3", "t1"):
        log.show(made_page(trial=trial, teams=(0, 1, 0, 1)))
    assert log.forget_trials_but("t2") == 3
    assert {row.page_id for row in rows(database)} == {usual, under_way}
    assert log.forget_trials_but("t2") == 0
    assert log.forget_trials_but(None) == 1
    assert [row.page_id for row in rows(database)] == [usual]


def test_clicks_at_the_same_time_are_all_kept(database: Database) -> None:
    log = made_log(database)
    page_id = log.show(made_page())
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(log.click, page_id, ANN, rank) for rank in (1, 2, 3, 4)]
        for one in done:
            one.result()
    (row,) = rows(database)
    assert bytes(row.clicks) == b"\x01\x01\x01\x01"


def test_page_ids_are_long_and_never_the_same(database: Database) -> None:
    log = made_log(database)
    found = {log.show(made_page()) for _ in range(20)}
    assert len(found) == 20
    assert all(len(one) == 32 for one in found)  # 192 random bits


def test_a_user_is_forgotten_whole_and_nobody_else(database: Database) -> None:
    log = made_log(database)
    for agent in (ANN, BOB, ANN):
        log.show(made_page(agent))
    log.show(made_page(ANN, trial="t1", teams=(0, 1, 0, 1)))
    assert log.forget_user(ANN) == 3
    assert [row.agent for row in rows(database)] == [BOB]
    assert log.forget_user(ANN) == 0


def test_pages_are_forgotten_when_they_are_old(database: Database) -> None:
    clock = Clock()
    log = made_log(database, clock, settle_s=10, keep_s=100)
    log.show(made_page())
    clock.now += 70
    second = log.show(made_page())
    clock.now += 31
    assert log.forget_old() == 1
    assert [row.page_id for row in rows(database)] == [second]
    assert log.forget_older_than(31) == 0
    assert log.forget_older_than(30) == 1


def test_the_oldest_pages_of_a_user_go_when_the_quota_is_full_and_nobody_elses(
    database: Database,
) -> None:
    clock = Clock()
    log = made_log(database, clock, max_pages_of_user=3)
    bobs = log.show(made_page(BOB))
    shown = []
    for _ in range(5):
        clock.now += 1
        shown.append(log.show(made_page()))
    assert [row.page_id for row in rows(database)] == [bobs, *shown[2:]]


def test_large_pages_fill_the_quota_by_their_bytes(database: Database) -> None:
    clock = Clock()
    size = 6 * N_FEATURES * 4 + 6 * 4 + 4 * 4 + 4  # features, scores, places, clicks
    log = made_log(database, clock, max_bytes_of_user=3 * size - 1)
    shown = []
    for _ in range(4):
        clock.now += 1
        shown.append(log.show(made_page()))
    assert [row.page_id for row in rows(database)] == shown[2:]
    small = made_log(database, clock, max_bytes_of_user=1)
    clock.now += 1
    assert [small.show(made_page())] == [row.page_id for row in rows(database)]


def test_a_page_that_a_round_has_taken_stays_though_the_quota_is_full(database: Database) -> None:
    clock = Clock()
    log = made_log(database, clock, settle_s=0, max_pages_of_user=3)
    taken = {log.show(made_page()) for _ in range(2)}
    agreement = FederationAgreement(name="pilot", ranker=RankerSettings(n_features=N_FEATURES))
    trainer = ClickTrainer(log, agreement)
    assert trainer.train(np.zeros(N_FEATURES), round=0).n_interactions == 2
    shown = []
    for _ in range(4):
        clock.now += 1
        shown.append(log.show(made_page()))
    assert {row.page_id for row in rows(database)} == {*taken, shown[-1]}
    for _ in range(3):
        clock.now += 1
        full = made_log(database, clock, settle_s=0, max_pages_of_user=1)
        last = full.show(made_page())
    assert {row.page_id for row in rows(database)} == {*taken, last}


def test_pages_that_stay_locked_fill_a_users_quota_and_no_more(database: Database) -> None:
    clock = Clock()
    log = made_log(database, clock, settle_s=0, max_pages_of_user=3)
    agreement = FederationAgreement(name="pilot", ranker=RankerSettings(n_features=4))
    trainer = ClickTrainer(log, agreement)
    for number in range(8):
        clock.now += 1
        page = made_page()
        log.show(page)
        clock.now += 1
        trainer.train(np.zeros(4), round=number, settled=Settled(session_id=f"{number:064x}"))
        assert log.count_user(page.agent_id) <= 3 + 1


def test_the_state_tells_open_ready_and_trial_pages_apart(database: Database) -> None:
    clock = Clock()
    log = made_log(database, clock, settle_s=10)
    assert log.state() == LogState(0, 0, 0, 0, 0)
    log.show(made_page())
    log.show(made_page(trial="t1", teams=(0, 1, 0, 1)))
    clock.now += 10
    log.show(made_page())
    assert log.state() == LogState(3, 1, 1, 0, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        made_page()._replace(drawn=np.zeros(5)),
        made_page()._replace(drawn=np.full(6, np.nan)),
        made_page()._replace(features=np.full((6, 4), np.inf)),
        made_page()._replace(places=np.array([0, 0])),
        made_page()._replace(places=np.array([0, 6])),
        made_page()._replace(places=np.array([], int)),
        made_page()._replace(places=np.array([0.0, 1.0])),
        made_page()._replace(features=np.empty((6, 0))),
        made_page()._replace(trial="t1"),
        made_page()._replace(teams=(0, 1, 0, 1)),
        made_page()._replace(agent_id=AgentId("")),
    ],
)
def test_what_is_no_page_is_refused(tmp_path: object, wrong: ShownPage) -> None:
    with Database.open(f"{tmp_path}/node.db") as database:
        with pytest.raises(DataError):
            made_log(database).show(wrong)
        assert not rows(database)
