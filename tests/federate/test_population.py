"""Who takes part, how features are stored, and input that cannot be trained on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.data.clicks import click_model
from cloister.data.partitions import ClientView, by_quantity, iid
from cloister.data.ranking_data import RankingData
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.learner import RoundOutcome
from cloister.federate.participation import draw_participants
from cloister.federate.population import Population
from cloister.measure.ndcg import ideal_dcg
from cloister.rank.ranker import Ranker, RankerSettings
from federate.made_clients import NAVIGATIONAL, PARTITIONS, PERFECT, divided, ragged
from measure import literal as literal_measures

DATA = ragged(1)


def one_round(
    data: RankingData, *, kind: Any = "linear", click: str = "perfect", n_clients: int = 8
) -> tuple[RoundOutcome, np.ndarray]:
    """Train untrained rankers for a round; return what users saw, and the change."""
    population = Population(iid(data, n_clients), click_model(click, 3))
    made_of = RankerSettings(kind=kind, n_features=data.n_features, hidden=3)
    first = Ranker.initial(made_of)
    learner = FPDGD(population, first, seed=1)
    return learner.step(), learner.ranker.parameters - first.parameters


def queries(*labels: list[int]) -> RankingData:
    """Make queries whose documents have these grades, with random features."""
    grades = np.array([grade for query in labels for grade in query], np.int8)
    features = stream(1, "test", "queries").normal(size=(len(grades), 4)).astype(np.float32)
    return RankingData(features, grades, np.cumsum([0, *map(len, labels)]))


# --- what kernels read


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("page_length", [3, 10])
def test_ideals_are_those_of_the_documents_that_a_client_holds(
    partition: str, page_length: int
) -> None:
    population = Population(divided(DATA, partition, seed=2), PERFECT, page_length=page_length)
    flat = population.arrays.views
    for client, view in enumerate(population.views):
        first = flat.holding_bounds[flat.holding[client]]
        found = population.arrays.ideals[flat.label_set[client]]
        for i in range(view.n_queries):
            best = sorted(view.query_labels(i).tolist(), reverse=True)
            assert found[first + i] == pytest.approx(literal_measures.dcg(best, 10), rel=1e-12)


def test_ideals_equal_those_of_the_measure() -> None:
    population = Population(iid(DATA, 2), PERFECT)
    expected = ideal_dcg(DATA.labels, DATA.offsets, k=10)
    np.testing.assert_array_equal(population.arrays.ideals[0], expected)


def test_clients_issue_their_own_number_of_queries_or_the_given_one() -> None:
    views = (*by_quantity(DATA, (7, 2)), ClientView(DATA))
    population = Population(views, PERFECT)
    assert population.n_interactions(4).tolist() == [7, 2, 4]
    assert population.n_clients == 3
    assert population.most_documents == 8


def test_features_of_any_width_and_order_are_read() -> None:
    wide = np.asfortranarray(DATA.features.astype(np.float64))
    packed = Population(iid(replace(DATA, features=wide), 2), PERFECT).arrays.features
    assert packed.dtype == np.float32
    assert packed.flags.c_contiguous
    np.testing.assert_array_equal(packed[:, :5], DATA.features)


# --- half precision


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    scale=st.sampled_from([1e-30, 1e-3, 1.0, 255.0, 1e30]),
    offset=st.sampled_from([0.0, -1.0, 1000.0]),
)
def test_stored_features_are_within_half_a_unit_but_for_a_constant(
    seed: int, scale: float, offset: float
) -> None:
    features = stream(seed, "half").normal(size=(20, 5)) * scale + offset * scale
    data = RankingData(features.astype(np.float32), np.zeros(20, np.int8), np.array([0, 20]))
    arrays = Population(iid(data, 1), PERFECT, precision="half").arrays
    assert arrays.features.dtype == np.int16
    assert arrays.features.nbytes == 20 * 8 * 2
    units = arrays.units[:5].astype(np.float64)
    exact = data.features.astype(np.float64)
    assert units == pytest.approx(np.ptp(exact, axis=0) / 65_535, rel=1e-6)
    error = arrays.features[:, :5] * units - (exact - exact.min(axis=0)) + 32_768 * units
    # The unit is a single-precision number: 65,535 of them miss the range by a 250th of one.
    assert (np.abs(error) <= 0.505 * units).all()
    assert not arrays.features[:, 5:].any()
    assert not arrays.units[5:].any()


def test_constant_columns_weigh_nothing_in_half_precision() -> None:
    features = DATA.features.copy()
    features[:, 1] = 3.0e5
    population = Population(iid(replace(DATA, features=features), 9), PERFECT, precision="half")
    assert population.arrays.units[1] == 0
    first = Ranker(RankerSettings(n_features=5), np.array([0.5, 100.0, 0.0, 0.1, 0.2]))
    learner = FPDGD(population, first, seed=1)
    learner.step()
    assert learner.ranker.parameters[1] == np.float32(100.0)
    assert (learner.ranker.parameters[[0, 2, 3, 4]] != first.parameters[[0, 2, 3, 4]]).all()


def test_many_rows_are_stored_block_by_block_alike() -> None:
    n = 65_536 + 100  # one block of rows and a part of the next
    features = stream(1, "rows").random((n, 1), dtype=np.float32)
    data = RankingData(features, np.zeros(n, np.int8), np.array([0, n]))
    stored = Population(iid(data, 1), PERFECT, precision="half").arrays.features[:, 0]
    order = np.argsort(features[:, 0], kind="stable")
    assert (np.diff(stored[order]) >= 0).all()
    assert (stored.min(), stored.max()) == (-32_768, 32_767)


# --- input that cannot be trained on: a clear error


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e39])
@pytest.mark.parametrize("precision", ["single", "half"])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (17, 4)])
def test_feature_that_is_not_finite_is_refused_by_row_and_feature(
    value: float, precision: Any, row: int, column: int
) -> None:
    features = DATA.features.astype(np.float64)
    features[row, column] = value
    with pytest.raises(DataError, match=f"row {row}, feature {column + 1}: .*not finite") as caught:
        Population(iid(replace(DATA, features=features), 3), PERFECT, precision=precision)
    assert "LetorSettings(null=" in caught.value.remedy


def test_first_of_several_features_that_are_not_finite_is_named() -> None:
    features = DATA.features.copy()
    features[9, 3] = features[9, 1] = features[12, 0] = np.nan
    with pytest.raises(DataError, match="row 9, feature 2"):
        Population(iid(replace(DATA, features=features), 3), PERFECT)


def test_client_without_queries_is_refused_by_number() -> None:
    nobody = ClientView(DATA, queries=np.empty(0, np.int64))
    views = (ClientView(DATA), ClientView(DATA), nobody, ClientView(DATA))
    with pytest.raises(DataError, match="client 2: the client has no query"):
        Population(views, PERFECT)


def test_data_without_queries_is_refused() -> None:
    empty = RankingData(np.empty((0, 3), np.float32), np.empty(0, np.int8), np.array([0]))
    with pytest.raises(DataError, match="client 0: the client has no query"):
        Population(iid(empty, 2), PERFECT)


def test_federation_of_nobody_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least one client"):
        Population((), PERFECT)


@pytest.mark.parametrize("page_length", [0, -1, 1001])
def test_pages_of_no_length_or_too_long_are_refused(page_length: int) -> None:
    with pytest.raises(SettingsError, match="page_length: must be 1 to 1000"):
        Population(iid(DATA, 2), PERFECT, page_length=page_length)


def test_grade_that_the_click_model_does_not_know_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"perfect knows the grades 0 to 1, .* grade 2"):
        Population(iid(DATA, 2), click_model("perfect", 2))


def test_own_label_that_the_click_model_does_not_know_is_refused() -> None:
    own = ClientView(DATA, labels=np.full(DATA.n_rows, 3, np.int8))
    with pytest.raises(SettingsError, match=r"perfect knows .* grade 3"):
        Population((ClientView(DATA), own), PERFECT)


def test_own_click_model_of_another_scale_is_refused() -> None:
    other = ClientView(DATA, click_models=(click_model("navigational", 5),))
    with pytest.raises(SettingsError, match="same number of grades"):
        Population((ClientView(DATA), other), PERFECT)


def test_grade_below_zero_is_refused() -> None:
    labels = DATA.labels.copy()
    labels[3] = -1
    with pytest.raises(DataError, match="below 0"):
        Population(iid(replace(DATA, labels=labels), 2), PERFECT)


def test_clients_of_two_data_sets_are_refused() -> None:
    with pytest.raises(DataError, match="one data set"):
        Population((ClientView(DATA), ClientView(ragged(2))), PERFECT)


# --- input that teaches nothing: a no-op


@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize(
    ("data", "click", "seen"),
    [
        (queries([2], [2]), "perfect", (32, 1.0, 1.0, 1.0)),
        (queries([0], [0]), "perfect", (32, 0.0, 0.0, 0.0)),
        (queries([], []), "perfect", (32, 0.0, 0.0, 0.0)),
        (queries([2, 2, 2, 2]), "perfect", (32, 1.0, 1.0, 4.0)),
        (queries([0, 0, 0]), "perfect", (32, 0.0, 0.0, 0.0)),
        (queries([2, 2, 2]), "poison", (32, 1.0, 0.0, 0.0)),
    ],
    ids=["one relevant", "one not", "no document", "all clicked", "none clicked", "relevant, none"],
)
def test_page_without_a_pair_teaches_nothing(
    data: RankingData, click: str, seen: tuple[float, ...], kind: Any
) -> None:
    outcome, change = one_round(data, kind=kind, click=click)
    assert outcome == seen
    assert not change.any()


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_queries_that_teach_nothing_do_not_disturb_the_others(kind: Any) -> None:
    # Of the four queries that may be drawn only one has a pair.
    _, change = one_round(queries([], [2], [2, 0, 1], [0, 0]), kind=kind, n_clients=40)
    assert change.any()
    assert np.isfinite(change).all()


# --- who takes part


def test_participants_are_different_clients_in_order() -> None:
    for round in range(50):
        drawn = draw_participants(20, 7, seed=3, round=round)
        assert (np.diff(drawn) > 0).all()
        assert len(drawn) == 7
        assert drawn.min() >= 0
        assert drawn.max() < 20


def test_every_client_is_drawn_as_often_as_any_other() -> None:
    n_rounds = 3000
    counts = np.zeros(12)
    for round in range(n_rounds):
        counts[draw_participants(12, 3, seed=5, round=round)] += 1
    deviation = math.sqrt(n_rounds * 0.25 * 0.75)
    assert (np.abs(counts - n_rounds / 4) < 4.5 * deviation).all()


def test_seed_and_round_decide_who_takes_part() -> None:
    first = draw_participants(1000, 10, seed=1, round=0).tolist()
    assert first == draw_participants(1000, 10, seed=1, round=0).tolist()
    assert first != draw_participants(1000, 10, seed=2, round=0).tolist()
    assert first != draw_participants(1000, 10, seed=1, round=1).tolist()


@pytest.mark.parametrize("n", [None, 6])
def test_all_take_part_unless_fewer_are_asked_for(n: int | None) -> None:
    assert draw_participants(6, n, seed=1, round=3).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("n", [0, -1, 7])
def test_more_participants_than_clients_or_none_are_refused(n: int) -> None:
    with pytest.raises(SettingsError, match="participants: must be 1 to 6"):
        draw_participants(6, n, seed=1, round=0)


def test_training_with_more_participants_than_clients_is_refused() -> None:
    population = Population(iid(DATA, 3), NAVIGATIONAL)
    first = Ranker.initial(RankerSettings(n_features=5))
    learner = FPDGD(population, first, settings=FpdgdSettings(participants=4), seed=1)
    with pytest.raises(SettingsError, match="must be 1 to 3, the number of clients"):
        learner.step()
