"""A node's statistics and its serving ranker: what is kept, sent again, refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cloister.core.errors import BudgetExceeded, Conflict, DataError, NotFound
from cloister.core.ids import DocId, PodId, ServerId, content_id
from cloister.core.rights import Rights
from cloister.federate.online.ranker_files import RankerFiles, ranker_bytes
from cloister.index.shard import IndexedDocument, Shard
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.statement import overview
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.search.noisy_statistics_settings import NoisyStatisticsSettings
from cloister.services.coordinator.messages import ServingAnswer, TrialAnswer
from cloister.services.node.publishing import Publisher
from cloister.services.node.serving_ranker import ServingRanker
from cloister.services.service_file import PublishingSettings
from cloister.store.database import Database
from cloister.store.files import Files
from cloister.web.refusals import PeerUnreachable

NAME = ServerId("clinic-a")
NOISE = NoisyStatisticsSettings(epsilon=1.0)


class Broker:
    """Takes tables, or is away, or refuses them."""

    def __init__(self, takes: str = "") -> None:
        self.away = False
        self.takes = takes  # nothing: a broker that does not say
        self.refuses = ""
        self.got: list[bytes] = []
        self.n_asked = 0

    def form(self) -> str:
        if self.away:
            raise PeerUnreachable("no answer")
        if not self.takes:
            raise NotFound("nothing here")
        return self.takes

    def publish(self, content: bytes) -> None:
        self.n_asked += 1
        if self.away:
            raise PeerUnreachable("no answer")
        if self.refuses:
            raise DataError(self.refuses)
        self.got.append(content)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path / "state.db") as opened:
        yield opened


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard.open(tmp_path / "index", server_id=NAME) as opened:
        opened.add(
            [
                IndexedDocument(DocId(f"d{n}"), PodId(f"p{n}"), "cough and fever", Rights())
                for n in range(9)
            ]
        )
        opened.commit()
        yield opened


def publisher(
    tmp_path: Path,
    database: Database,
    shard: Shard,
    form: str,
    clock: Callable[[], float] = time.monotonic,
) -> Publisher:
    settings = PublishingSettings(form=form, noise=NOISE, threshold=2)  # type: ignore[arg-type]
    files = Files(tmp_path / "files")
    return Publisher(NAME, shard, Ledger(database), files, settings, clock=clock)


@pytest.mark.parametrize("form", ["noisy", "threshold", "exact"])
def test_tables_are_recorded_before_they_leave_and_sent_until_they_arrived(
    tmp_path: Path, database: Database, shard: Shard, form: str
) -> None:
    broker, ledger = Broker(), Ledger(database)
    made = publisher(tmp_path, database, shard, form)
    digest = made.make()
    n_entries = len(ledger.entries())
    assert n_entries >= 1
    assert len(ledger.pending()) == n_entries
    broker.away = True
    with pytest.raises(PeerUnreachable):
        made.send(broker)  # type: ignore[arg-type]
    broker.away = False
    again = publisher(tmp_path, database, shard, form)  # the node was killed and started again
    assert again.send(broker)  # type: ignore[arg-type]
    assert [content_id(one) for one in broker.got] == [digest]
    assert not again.send(broker)  # type: ignore[arg-type]
    assert ledger.pending() == []
    assert len(ledger.entries()) == n_entries  # the same tables, not noised anew


def test_a_node_and_a_broker_that_do_not_agree_on_a_form_publish_nothing(
    tmp_path: Path, database: Database, shard: Shard
) -> None:
    made, broker = publisher(tmp_path, database, shard, "threshold"), Broker(takes="noisy")
    with pytest.raises(Conflict, match="publishes threshold tables, and the broker takes noisy"):
        made.require_form(broker)  # type: ignore[arg-type]
    for agreed in (Broker(takes="threshold"), Broker()):
        made.require_form(agreed)  # type: ignore[arg-type]
    made.make()  # as before a crash, or while the broker was away
    assert not made.send(broker)  # type: ignore[arg-type]
    assert broker.n_asked == 0
    assert made.state()["failed"].startswith("not sent: this node publishes threshold tables")
    (failed,) = overview(Ledger(database)).failures
    assert failed.reason == made.state()["failed"]
    assert Ledger(database).pending() == []


@pytest.mark.parametrize("form", ["noisy", "threshold"])
def test_what_the_broker_refuses_has_failed_and_stays_charged(
    tmp_path: Path, database: Database, shard: Shard, form: str
) -> None:
    made, broker, ledger = (
        publisher(tmp_path, database, shard, form),
        Broker(form),
        Ledger(database),
    )
    broker.refuses = "tables of another kind"
    made.make()
    spent = overview(ledger).statements[0].real
    assert not made.send(broker)  # type: ignore[arg-type]
    for _ in range(3):
        assert not made.send(broker)  # type: ignore[arg-type]
    assert broker.n_asked == 1
    assert made.state()["failed"] == "sent, and refused by the broker: tables of another kind"
    seen = overview(ledger)
    assert [one.number for one in seen.failures] == [one.number for one in ledger.entries()]
    assert (seen.statements[0].real, seen.statements[0].n_pending) == (spent, 0)
    assert check_ledger(ledger).n_pending == 0
    broker.refuses = ""
    digest = made.make()
    assert made.send(broker)  # type: ignore[arg-type]
    assert (made.state()["digest"], made.state().get("failed")) == (digest, None)


def test_a_broker_that_is_away_is_asked_less_and_less_often(
    tmp_path: Path, database: Database, shard: Shard
) -> None:
    now = [0.0]
    made = publisher(tmp_path, database, shard, "noisy", clock=lambda: now[0])
    broker, tried = Broker(), list[float]()
    broker.away = True
    made.make()
    while now[0] < 3600:
        with suppress(PeerUnreachable):
            made.send(broker)  # type: ignore[arg-type]
        if broker.n_asked > len(tried):
            tried.append(now[0])
        now[0] += 5
    assert tried[:6] == [0, 5, 15, 35, 75, 155]
    assert max(b - a for a, b in pairwise(tried)) == 600
    broker.away = False
    assert not made.send(broker)  # type: ignore[arg-type]
    now[0] += 600
    assert made.send(broker)  # type: ignore[arg-type]


def test_a_version_beyond_the_limit_is_refused_and_the_last_one_stays(
    tmp_path: Path, database: Database, shard: Shard
) -> None:
    ledger = Ledger(database)
    ledger.set_limit(NAME, Limit(epsilon=1.2, delta=1e-5), purpose="pilot")
    made = publisher(tmp_path, database, shard, "noisy")
    digest = made.make()
    with pytest.raises(BudgetExceeded):
        made.make()
    assert made.state()["digest"] == digest


class Coordinator:
    """Says what serves, and has rankers."""

    def __init__(self, *rankers: Ranker) -> None:
        self.rankers = {content_id(ranker_bytes(one)): ranker_bytes(one) for one in rankers}
        self.told = ServingAnswer(serving=next(iter(self.rankers)))
        self.n_fetched = 0

    def serving(self) -> ServingAnswer:
        return self.told

    def ranker(self, digest: str) -> bytes:
        self.n_fetched += 1
        return self.rankers[digest]


SETTINGS = RankerSettings(n_features=2)
ONE, TWO = (Ranker(SETTINGS, np.full(2, value, np.float32)) for value in (1.0, 2.0))


def opened(tmp_path: Path, database: Database) -> ServingRanker:
    return ServingRanker(database, RankerFiles(tmp_path / "rankers"), SETTINGS, votes_epsilon=1.0)


def test_a_node_serves_what_the_coordinator_says_also_after_a_restart_without_it(
    tmp_path: Path, database: Database
) -> None:
    coordinator = Coordinator(ONE, TWO)
    one, two = coordinator.rankers
    serving = opened(tmp_path, database)
    assert serving.now.ranker.parameters.tolist() == [0.0, 0.0]
    assert serving.refresh(coordinator)  # type: ignore[arg-type]
    assert not serving.refresh(coordinator)  # type: ignore[arg-type]
    assert serving.now.digest == one
    trial = TrialAnswer(trial_id="0" * 32, candidate=two, share=0.5, epsilon=1.0, state="open")
    coordinator.told = ServingAnswer(serving=one, trial=trial)
    serving.refresh(coordinator)  # type: ignore[arg-type]
    for now in (serving.now, opened(tmp_path, database).now):
        assert now.digest == one
        assert now.tried is not None
        assert now.tried.ranker.parameters.tolist() == [2.0, 2.0]
    assert coordinator.n_fetched == 2
    voting = trial.model_copy(update={"state": "voting"})
    coordinator.told = ServingAnswer(serving=one, trial=voting)
    serving.refresh(coordinator)  # type: ignore[arg-type]
    assert serving.now.tried is None  # no more pages are shown in the trial
    assert serving.trial == voting


def test_a_ranker_of_another_make_is_not_served(tmp_path: Path, database: Database) -> None:
    other = Ranker(RankerSettings(n_features=3), np.zeros(3, np.float32))
    serving = opened(tmp_path, database)
    with pytest.raises(DataError, match="another make"):
        serving.refresh(Coordinator(other))  # type: ignore[arg-type]
    assert serving.now.ranker.parameters.tolist() == [0.0, 0.0]


def test_a_node_takes_no_part_in_a_trial_whose_votes_cost_something_else(
    tmp_path: Path, database: Database
) -> None:
    coordinator = Coordinator(ONE, TWO)
    one, two = coordinator.rankers
    trial = TrialAnswer(trial_id="0" * 32, candidate=two, share=0.5, epsilon=9.0, state="open")
    coordinator.told = ServingAnswer(serving=one, trial=trial)
    serving = opened(tmp_path, database)
    serving.refresh(coordinator)  # type: ignore[arg-type]
    assert serving.now.digest == one
    assert serving.now.tried is None
    assert serving.trial is None


def test_a_node_whose_ranker_file_is_gone_starts_and_fetches_it_again(
    tmp_path: Path, database: Database
) -> None:
    coordinator = Coordinator(ONE)
    opened(tmp_path, database).refresh(coordinator)  # type: ignore[arg-type]
    for path in (tmp_path / "rankers").glob("??/*"):
        path.unlink()
    serving = opened(tmp_path, database)
    assert serving.now.ranker.parameters.tolist() == [0.0, 0.0]
    serving.refresh(coordinator)  # type: ignore[arg-type]
    assert serving.now.ranker.parameters.tolist() == [1.0, 1.0]


def test_new_tables_that_are_made_while_others_are_sent_are_sent_too(
    tmp_path: Path, database: Database, shard: Shard
) -> None:
    made, broker = publisher(tmp_path, database, shard, "noisy"), Broker()
    making = threading.Thread(target=made.make)
    take = broker.publish

    def slowly(content: bytes) -> None:
        if not broker.got:
            making.start()
            making.join(0.2)
        take(content)

    broker.publish = slowly  # type: ignore[method-assign]
    made.make()
    made.send(broker)  # type: ignore[arg-type]
    making.join()
    made.send(broker)  # type: ignore[arg-type]
    assert made.state()["arrived"]
    assert content_id(broker.got[-1]) == made.state()["digest"]
    assert len(broker.got) == 2
    assert Ledger(database).pending() == []
