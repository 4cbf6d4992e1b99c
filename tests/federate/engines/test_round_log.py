"""The history of a training: its rounds in order, and the ranker after each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from cloister.core.errors import NotFound
from cloister.federate.engines.round_log import RoundLog
from cloister.federate.engines.site_call import SiteMethod
from cloister.store.database import Database
from federate.engines.made_federation import SITES, A, B, C, MakeScene, agreed, lost, secure

N_ROUNDS = 5


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path / "coordinator.db") as opened:
        yield opened


def begun(database: Database, training: str) -> RoundLog:
    log = RoundLog(database, training)
    log.begin("agreed", np.zeros(5))
    return log


def trained(database: Database, training: str, n_rounds: int = N_ROUNDS) -> RoundLog:
    log = begun(database, training)
    for number in range(n_rounds):
        sites = (str(A), str(C)) if number == 1 else tuple(map(str, SITES))
        log.commit(log.last(), np.full(5, number + 1.0), sites, agreed().ranker_release())
    return log


def test_a_training_without_rounds_has_a_first_ranker_and_no_history(database: Database) -> None:
    log = begun(database, "pilot")
    assert log.past() == ([], 0)
    assert log.at(0).model.tolist() == [0.0] * 5
    with pytest.raises(NotFound):
        log.at(1)


def test_rounds_come_in_order_with_their_sites_and_the_time_of_their_entry(
    database: Database,
) -> None:
    log = trained(database, "pilot")
    rounds, n_rounds = log.past()
    assert n_rounds == N_ROUNDS
    assert [one.round_number for one in rounds] == list(range(N_ROUNDS))
    assert rounds[1].sites == (A, C)
    entries = {one.number: one for one in log.ledger.entries()}
    for one in rounds:
        entry = entries[one.entry]
        assert entry.purpose == f"round {one.round_number + 1}"
        assert one.recorded_at == entry.recorded_at
        age = datetime.now(UTC) - datetime.fromisoformat(one.recorded_at)
        assert timedelta(0) <= age < timedelta(minutes=1)


def test_pages_of_a_history_are_the_whole_of_it(database: Database) -> None:
    log = trained(database, "pilot")
    pages = [log.past(after=after, limit=2)[0] for after in (0, 2, 4, 6, 2**53)]
    assert [len(page) for page in pages] == [2, 2, 1, 0, 0]
    assert [one for page in pages for one in page] == log.past()[0]


def test_trainings_beside_each_other_have_histories_of_their_own(database: Database) -> None:
    one, other = trained(database, "pilot"), trained(database, "second", 2)
    assert [found.round_number for found in other.past()[0]] == [0, 1]
    assert other.past()[1] == 2
    assert not {found.entry for found in one.past()[0]} & {found.entry for found in other.past()[0]}
    with pytest.raises(NotFound):
        other.at(3)


def test_the_ranker_after_each_round_is_the_one_that_the_federation_had_then(
    make_scene: MakeScene,
) -> None:
    scene = make_scene(secure())
    federation = scene.coordinator()
    seen = [federation.ranker]
    for number in range(3):
        scene.engine.faults = {(B, SiteMethod.MASK_INPUT): lost} if number == 1 else {}
        federation.step()
        seen.append(federation.ranker)
    again = scene.coordinator()
    for n_rounds, ranker in enumerate(seen):
        found = again.ranker_after(n_rounds)
        assert found.settings == ranker.settings
        np.testing.assert_array_equal(found.parameters, ranker.parameters)
    assert [one.sites for one in again.log.past()[0]] == [SITES, (A, C), SITES]
    with pytest.raises(NotFound):
        again.ranker_after(4)
