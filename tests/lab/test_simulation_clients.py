"""Clients made from settings: who trains on what, and what each is measured by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.data.letor_writer import write_letor
from cloister.data.partitions import draw_shared_queries
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.data.worlds.intents import IntentsSettings, IntentsWorld
from cloister.federate.population import Population
from cloister.lab.simulation.clients import INTENT_FOLDS, Clients, make_clients
from cloister.lab.simulation.settings import SimulationSettings

FEATURES = "world:features?queries=40&documents=12&features=6&seed=2"
INTENTS = "world:intents?queries=12&documents=15&features=6&intents=3"


def clients_of(data: str | Path = FEATURES, **fields: Any) -> Clients:
    return make_clients(SimulationSettings(data=str(data), **{"clients": 10} | fields))


def made(n_queries: int, n_grades: int, seed: int = 1) -> RankingData:
    """Make queries of five documents in which every grade occurs."""
    rng = stream(seed, "test", "clients")
    labels = np.arange(n_queries * 5) % n_grades
    return RankingData(
        rng.normal(size=(n_queries * 5, 3)).astype(np.float32),
        rng.permutation(labels).astype(np.int8),
        np.arange(n_queries + 1) * 5,
        [str(100 + q) for q in range(n_queries)],
        [f"d{row}" for row in range(n_queries * 5)],
    )


def intents_folder(folder: Path, *, n_parts: int = 3, n_queries: int = 4) -> Path:
    """Write parts of LETOR lines with a table of two intents; features name query and row."""
    table = ["qid\tdocid\tgraded\tintent0\tintent1"]
    for part in range(n_parts):
        lines = []
        for query in range(part * n_queries, (part + 1) * n_queries):
            for row in range(3):
                lines.append(f"{row} qid:{query} 1:{query} 2:{row} #docid = q{query}r{row}")
                table.append(f"{query}\tq{query}r{row}\t{row}\t{row % 2}\t{int(row == 2)}")
        (folder / f"part{part + 1}.txt").write_text("\n".join(lines) + "\n")
    (folder / "intents.tsv").write_text("\n".join(table) + "\n")
    return folder


# --- partitions


@pytest.mark.parametrize(
    ("partition", "n_views"),
    [("iid", 1), ("iid-disjoint", 10), ("labels", 10), ("clicks", 3), ("clicks-mixed", 1)],
)
def test_partition_divides_the_training_part_and_all_are_measured_alike(
    partition: str, n_views: int
) -> None:
    clients = clients_of(partition=partition)
    fold = load_fold(FEATURES)
    assert len(clients.train) == len(clients.test) == 10
    assert len({id(view) for view in clients.train}) == n_views
    assert len({id(view) for view in clients.test}) == 1
    assert (clients.train[0].data.labels == fold.train.labels).all()
    assert (clients.test[0].data.labels == fold.test.labels).all()
    assert clients.shared is None
    Population(clients.train, clients.click_model)


def test_disjoint_clients_share_no_query() -> None:
    held = [view.queries for view in clients_of(partition="iid-disjoint").train]
    assert np.array_equal(np.sort(np.concatenate([q for q in held if q is not None])), range(40))


@pytest.mark.parametrize(("labels_per_client", "n"), [(1, 5), (2, 10)])
def test_clients_hold_as_many_labels_as_asked_for(labels_per_client: int, n: int) -> None:
    data = "world:features?queries=200&documents=12&features=6"
    clients = clients_of(data, partition="labels", labels_per_client=labels_per_client, clients=n)
    grades = clients.train[0].data.labels
    assert {len(np.unique(grades[view.rows])) for view in clients.train} == {labels_per_client}


def test_click_models_are_dealt_out_in_turn_or_mixed() -> None:
    names = ("perfect", "pbm-1")
    dealt = clients_of(partition="clicks", click_models=names, clients=5)
    assert [[m.name for m in view.click_models] for view in dealt.train] == [
        ["perfect"],
        ["pbm-1"],
        ["perfect"],
        ["pbm-1"],
        ["perfect"],
    ]
    mixed = clients_of(partition="clicks-mixed", click_models=names, clients=5)
    assert {tuple(m.name for m in view.click_models) for view in mixed.train} == {names}


def test_stop_rule_reaches_every_click_model() -> None:
    clients = clients_of(partition="clicks", stop="at_each_document", clients=3)
    for model in (clients.click_model, *(view.click_models[0] for view in clients.train)):
        assert model.table(10).stop_at_each


@pytest.mark.parametrize("partition", ["iid", "labels", "clicks", "iid-disjoint"])
def test_quantities_go_with_any_partition(partition: str) -> None:
    clients = clients_of(partition=partition, quantities=(2, 5))
    assert [view.queries_per_round for view in clients.train] == [2, 5] * 5
    assert {view.queries_per_round for view in clients.test} == {None}


def test_seed_decides_who_holds_what() -> None:
    held = [
        [view.queries.tolist() for view in clients_of(partition="iid-disjoint", seed=seed).train]
        for seed in (1, 1, 2)
    ]
    assert held[0] == held[1] != held[2]


# --- which data


def test_rankers_can_be_measured_on_the_training_part() -> None:
    clients = clients_of(evaluate_on="train")
    assert clients.test[0].data is clients.train[0].data


def test_test_part_can_come_from_elsewhere(tmp_path: Path) -> None:
    write_letor(made(6, 3), tmp_path / "train.txt")
    write_letor(made(9, 3, seed=2), tmp_path / "elsewhere.svm")
    clients = clients_of(tmp_path / "train.txt", test=str(tmp_path / "elsewhere.svm"))
    assert clients.train[0].data.n_queries == 6
    assert clients.test[0].data.n_queries == 9


def test_test_part_with_fewer_features_is_filled_up(tmp_path: Path) -> None:
    write_letor(made(6, 3), tmp_path / "train.txt")
    (tmp_path / "short.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.25 2:1\n")
    clients = clients_of(tmp_path / "train.txt", test=str(tmp_path / "short.txt"))
    assert clients.test[0].data.n_features == 3


def test_test_part_from_elsewhere_is_scaled_as_the_training_part(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1 qid:1 1:0\n0 qid:1 1:10\n")
    (tmp_path / "other.txt").write_text("1 qid:1 1:0\n0 qid:1 1:5\n")
    clients = clients_of(
        tmp_path / "train.txt", test=str(tmp_path / "other.txt"), normalise="global_minmax"
    )
    assert clients.train[0].data.features.ravel().tolist() == [0.0, 1.0]
    assert clients.test[0].data.features.ravel().tolist() == [0.0, 0.5]


def test_normalisation_reaches_the_reader(tmp_path: Path) -> None:
    write_letor(made(6, 3), tmp_path / "data.txt")
    raw = clients_of(tmp_path / "data.txt", normalise="none").train[0].data.features
    scaled = clients_of(tmp_path / "data.txt").train[0].data.features
    np.testing.assert_allclose(raw, made(6, 3).features, rtol=1e-6)
    assert scaled.min() == 0
    assert scaled.max() == 1


@pytest.mark.parametrize(("n_grades", "scale"), [(2, 2), (3, 3), (4, 5), (5, 5)])
def test_click_model_is_of_the_smallest_scale_that_holds_all_grades(
    n_grades: int, scale: int, tmp_path: Path
) -> None:
    write_letor(made(6, n_grades), tmp_path / "data.txt")
    assert clients_of(tmp_path / "data.txt").click_model.n_grades == scale


def test_click_model_knows_the_grades_of_the_test_part_too(tmp_path: Path) -> None:
    write_letor(made(6, 3), tmp_path / "train.txt")
    write_letor(made(6, 5), tmp_path / "other.txt")
    clients = clients_of(tmp_path / "train.txt", test=str(tmp_path / "other.txt"))
    assert clients.click_model.n_grades == 5


def test_all_click_models_know_the_same_grades(tmp_path: Path) -> None:
    write_letor(made(6, 3), tmp_path / "train.txt")
    write_letor(made(6, 5), tmp_path / "other.txt")
    clients = clients_of(
        tmp_path / "train.txt", test=str(tmp_path / "other.txt"), partition="clicks"
    )
    tables = Population(clients.train, clients.click_model).arrays.clicks
    assert tables.click.shape == (4, 5)  # three of clients' own and the default, five grades


# --- intents


def test_clients_keep_one_intent_of_every_query() -> None:
    clients = clients_of(INTENTS, partition="intents", clients=7)
    world = IntentsWorld(IntentsSettings(queries=12, documents=15, features=6, intents=3))
    for part, views in (("train", clients.train), ("test", clients.test)):
        labels = world.data(part).intent_labels
        for client, view in enumerate(views):
            np.testing.assert_array_equal(view.labels, labels[:, client % 3])


def test_shuffled_intents_are_a_permutation_in_every_query() -> None:
    clients = clients_of(INTENTS, partition="intents-shuffled", clients=3)
    world = IntentsWorld(IntentsSettings(queries=12, documents=15, features=6, intents=3))
    for part, views in (("train", clients.train), ("test", clients.test)):
        drawn = world.data(part)
        for query in range(12):
            rows = drawn.data.rows(query)
            found = sorted(view.labels[rows].tolist() for view in views if view.labels is not None)
            assert found == sorted(drawn.intent_labels[rows].T.tolist())
    columns = [np.array_equal(clients.train[0].labels, column) for column in labels_of(INTENTS).T]
    assert not any(columns)


def labels_of(address: str) -> np.ndarray:
    clients = clients_of(address, partition="intents", clients=3)
    return np.stack([np.asarray(view.labels) for view in clients.train], axis=1)


def test_merged_intents_are_the_highest_grade_of_any() -> None:
    clients = clients_of(INTENTS, partition="intents-merged")
    assert len({id(view) for view in clients.train}) == 1
    np.testing.assert_array_equal(clients.train[0].labels, labels_of(INTENTS).max(axis=1))


def test_some_intents_can_be_chosen() -> None:
    clients = clients_of(INTENTS, partition="intents", intents=(2, 0), clients=4)
    everything = labels_of(INTENTS)
    for client, intent in enumerate((2, 0, 2, 0)):
        np.testing.assert_array_equal(clients.train[client].labels, everything[:, intent])


@pytest.mark.parametrize("intents", [(3,), (-1,), (0, 7)])
def test_intent_that_is_not_there_is_refused(intents: tuple[int, ...]) -> None:
    with pytest.raises(SettingsError, match="intents: there are intents 0 to 2"):
        clients_of(INTENTS, partition="intents", intents=intents)


def test_world_without_intents_is_refused() -> None:
    with pytest.raises(SettingsError, match="this world has no intents"):
        clients_of(FEATURES, partition="intents")


def test_folds_of_intents_hold_out_each_query_once(tmp_path: Path) -> None:
    folder = intents_folder(tmp_path)
    held_out = []
    for fold in range(1, INTENT_FOLDS + 1):
        clients = clients_of(folder, partition="intents", fold=fold, normalise="none")
        # The first feature is the query, the second the row inside it.
        train, test = (
            {int(x) for x in views[0].data.features[:, 0]}
            for views in (clients.train, clients.test)
        )
        assert not train & test
        assert train | test == set(range(12))
        for views in (clients.train, clients.test):
            rows = views[0].data.features[:, 1].astype(int)
            np.testing.assert_array_equal(views[0].labels, rows % 2)
            np.testing.assert_array_equal(views[1].labels, rows == 2)
        held_out += sorted(test)
    assert sorted(held_out) == list(range(12))


@pytest.mark.parametrize("fold", [6, 100])
def test_fold_of_intents_that_is_not_there_is_refused(fold: int, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="fold: there are folds 1 to 5"):
        clients_of(intents_folder(tmp_path), partition="intents", fold=fold)


def test_intents_can_be_measured_on_the_training_part(tmp_path: Path) -> None:
    folder = intents_folder(tmp_path)
    clients = clients_of(folder, partition="intents", evaluate_on="train")
    assert clients.test[0].data is clients.train[0].data


def test_folds_of_the_clueweb09_intents_are_disjoint(real_data: Callable[[str], Path]) -> None:
    folder = real_data("ltr/clueweb09")
    sizes = []
    for fold in (1, 5):
        clients = clients_of(folder, partition="intents", intents=(1, 2, 3), fold=fold)
        sizes.append((clients.train[0].data.n_queries, clients.test[0].data.n_queries))
        together = clients.train[0].data.n_rows + clients.test[0].data.n_rows
        assert together == 26_646
        assert clients.click_model.n_grades == 2
    assert all(train + test == 61 and test in (12, 13) for train, test in sizes)


def test_intents_are_scaled_by_the_training_queries(tmp_path: Path) -> None:
    folder = intents_folder(tmp_path)
    clients = clients_of(folder, partition="intents", fold=5, normalise="global_minmax")
    train, test = (views[0].data.features[:, 0] for views in (clients.train, clients.test))
    # The last queries are held out: the largest number of a query in training is 1.
    assert train.max() == 1
    assert (np.diff(train[::3]) > 0).all()
    assert test.min() > 1


# --- data sharing


def test_shared_queries_are_added_to_what_every_client_holds() -> None:
    alone = clients_of(partition="labels")
    shared = clients_of(partition="labels", share_data=0.2)
    queries = draw_shared_queries(alone.train[0].data, 0.2, seed=1)
    assert len(queries) == 8
    for before, after in zip(alone.train, shared.train, strict=True):
        assert after.n_queries == before.n_queries + 8
        for i, query in enumerate(queries, before.n_queries):
            rows = after.data.rows(int(query))
            np.testing.assert_array_equal(after.query_rows(i), np.arange(rows.start, rows.stop))
    assert shared.shared is not None
    assert shared.shared.n_queries == 8
    expected = np.concatenate(
        [alone.train[0].data.features[alone.train[0].data.rows(int(q))] for q in queries]
    )
    np.testing.assert_array_equal(shared.shared.features, expected)


def test_shared_queries_and_quantities_go_together() -> None:
    clients = clients_of(partition="labels", share_data=0.2, quantities=(1, 2))
    assert [view.queries_per_round for view in clients.train] == [1, 2] * 5
