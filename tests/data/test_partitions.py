"""Partitions: who holds what, never a copied row, and the same seed gives the same clients."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, replace
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import kernel
from cloister.data.clicks import click_model, stack_tables
from cloister.data.partitions import (
    ClientView,
    FlatViews,
    Views,
    by_click_behaviour,
    by_document_preference,
    by_label,
    by_quantity,
    flatten,
    iid,
    iid_disjoint,
    merged_intents,
    mixed_click_behaviour,
    with_quantities,
)
from cloister.data.partitions.flat import distinct_click_models
from cloister.data.ranking_data import RankingData


def make_data(n_queries: int = 60, n_grades: int = 5, seed: int = 0) -> RankingData:
    """Queries of 0 to 12 documents with random grades."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 13, n_queries)))).astype(np.int64)
    n_rows = int(offsets[-1])
    labels = rng.integers(0, n_grades, n_rows, dtype=np.int8)
    return RankingData(rng.random((n_rows, 3), dtype=np.float32), labels, offsets)


def make_intents(data: RankingData, n_intents: int = 4) -> NDArray[np.int8]:
    rng = np.random.default_rng(1)
    # Intent 0 finds most documents relevant, the last hardly any.
    rates = np.linspace(0.8, 0.05, n_intents)
    return (rng.random((data.n_rows, n_intents)) < rates).astype(np.int8)


DATA = make_data()
INTENTS = make_intents(DATA)
MODELS = [click_model(name, 5) for name in ("perfect", "navigational", "informational")]
ALIKE = [click_model(model.name, 5) for model in MODELS]  # equal models, made again


def click_in_turn(views: Views) -> Views:
    """Give clients none, one, two, ... of the models, in an order of their own."""
    return tuple(
        replace(view, click_models=tuple(MODELS[::-1][: client % 4]))
        for client, view in enumerate(views)
    )


PARTITIONS: dict[str, Callable[[], Views]] = {
    "iid": lambda: iid(DATA, 7),
    "iid_disjoint": lambda: iid_disjoint(DATA, 7, seed=1),
    "type 1": lambda: by_document_preference(DATA, INTENTS, seed=1),
    "type 1 merged": lambda: merged_intents(DATA, INTENTS, 4),
    "type 2, #R = 1": lambda: by_label(DATA, n_labels_per_client=1, n_clients=10, seed=1),
    "type 2, #R = 2": lambda: by_label(DATA, n_labels_per_client=2, seed=1),
    "type 3": lambda: by_click_behaviour(DATA, MODELS),
    "type 3 mixed": lambda: mixed_click_behaviour(DATA, MODELS, 3),
    "types 3 and 4": lambda: with_quantities(by_click_behaviour(DATA, MODELS, n_clients=7)),
    "type 3, equal models": lambda: by_click_behaviour(DATA, [*MODELS[:1], *MODELS, *ALIKE]),
    "types 2 and 3": lambda: click_in_turn(by_label(DATA, n_labels_per_client=1, seed=1)),
    "type 4": lambda: by_quantity(DATA),
    "types 1 and 4": lambda: with_quantities(by_document_preference(DATA, INTENTS, seed=1)),
    "types 2 and 4": lambda: with_quantities(by_label(DATA, n_labels_per_client=1, seed=1)),
}
each_partition = pytest.mark.parametrize("make", PARTITIONS.values(), ids=PARTITIONS)


def held_rows(view: ClientView) -> NDArray[np.int64]:
    every = np.arange(view.data.n_rows)
    parts = [every[view.query_rows(i)] for i in range(view.n_queries)]
    return np.concatenate([np.empty(0, np.int64), *parts])


def described(view: ClientView) -> list[tuple[int, list[int], list[int]]]:
    """Everything that a client sees, as plain lists."""
    every = np.arange(view.data.n_rows)
    return [
        (
            view.query_position(i),
            every[view.query_rows(i)].tolist(),
            view.query_labels(i).tolist(),
        )
        for i in range(view.n_queries)
    ]


# ---- the contract of every partition


@each_partition
def test_no_view_copies_features(make: Callable[[], Views]) -> None:
    for view in make():
        assert view.data is DATA
        for i in range(view.n_queries):
            rows = view.query_rows(i)
            if isinstance(rows, slice) and rows.stop > rows.start:
                assert np.shares_memory(view.data.features[rows], DATA.features)
            elif not isinstance(rows, slice):
                assert np.shares_memory(rows, view.rows)


@each_partition
def test_same_arguments_give_the_same_views(make: Callable[[], Views]) -> None:
    once, again = make(), make()
    assert [described(view) for view in once] == [described(view) for view in again]
    assert [view.queries_per_round for view in once] == [view.queries_per_round for view in again]


@each_partition
def test_rows_of_a_query_belong_to_that_query(make: Callable[[], Views]) -> None:
    for view in make():
        for query, rows, labels in described(view):
            whole = DATA.rows(query)
            assert all(whole.start <= row < whole.stop for row in rows)
            assert rows == sorted(set(rows))
            if view.labels is None:
                assert labels == DATA.labels[rows].tolist()
        assert view.n_rows == len(held_rows(view))


@each_partition
def test_a_compiled_kernel_reads_the_same_views(make: Callable[[], Views]) -> None:
    views = make()
    flat = flatten(views)
    for client, view in enumerate(views):
        expected = [
            (query, row, grade)
            for query, rows, labels in described(view)
            for row, grade in zip(rows, labels, strict=True)
        ]
        assert [tuple(line) for line in read_client(flat, client).tolist()] == expected
        assert flat.queries_per_round[client] == (view.queries_per_round or 0)


@each_partition
def test_a_compiled_kernel_reads_the_same_click_models(make: Callable[[], Views]) -> None:
    views = make()
    flat, distinct = flatten(views), distinct_click_models(views)
    assert len(set(distinct)) == len(distinct)
    seen = [model for view in views for model in view.click_models]
    assert list(distinct) == sorted(set(seen), key=seen.index)
    tables = stack_tables(distinct, 3) if distinct else None
    for client, view in enumerate(views):
        numbers = models_of_client(flat, client).tolist()
        assert [distinct[number] for number in numbers] == list(view.click_models)
        for number, model in zip(numbers, view.click_models, strict=True):
            assert tables is not None
            assert tables.click[number].tolist() == model.table(3).click.tolist()


def test_clients_who_click_differently_are_not_laid_out_alike() -> None:
    alike = flatten(iid(DATA, 3))
    assert (alike.model_bounds.tolist(), alike.models.tolist()) == ([0, 0], [])
    apart = flatten(by_click_behaviour(DATA, MODELS))
    assert apart.behaviour.tolist() == apart.models.tolist() == [0, 1, 2]
    mixed = flatten(mixed_click_behaviour(DATA, MODELS, 3))
    assert mixed.behaviour.tolist() == [0, 0, 0]
    assert mixed.models.tolist() == [0, 1, 2]


@kernel
def models_of_client(flat: FlatViews, client: int) -> NDArray[np.int32]:
    """Return the numbers of the models that a client draws from."""
    behaviour = flat.behaviour[client]
    return flat.models[flat.model_bounds[behaviour] : flat.model_bounds[behaviour + 1]]


@kernel
def read_client(flat: FlatViews, client: int) -> NDArray[np.int64]:
    """Return query, row and grade of all that a client holds."""
    first = flat.holding_bounds[flat.holding[client]]
    last = flat.holding_bounds[flat.holding[client] + 1]
    out = np.empty((np.sum((flat.stops - flat.starts)[first:last]), 3), np.int64)
    n = 0
    for entry in range(first, last):
        for place in range(flat.starts[entry], flat.stops[entry]):
            row = flat.rows[place] if len(flat.rows) else place
            out[n, 0] = flat.queries[entry]
            out[n, 1] = row
            out[n, 2] = flat.labels[flat.label_set[client], row]
            n += 1
    return out


def test_views_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        iid(DATA, 1)[0].queries_per_round = 3  # type: ignore[misc]


# ---- IID


def test_a_million_iid_clients_share_one_view() -> None:
    views = iid(DATA, 1_000_000)
    assert len({id(view) for view in views}) == 1
    assert len(flatten(views).queries) == DATA.n_queries
    assert len({id(view) for view in with_quantities(views[:1000])}) == 5


@given(st.integers(1, 60), st.integers(0, 5))
def test_disjoint_clients_divide_the_queries_evenly(n_clients: int, seed: int) -> None:
    views = iid_disjoint(DATA, n_clients, seed=seed)
    queries = np.concatenate([view.queries for view in views if view.queries is not None])
    assert sorted(queries.tolist()) == list(range(DATA.n_queries))
    sizes = [view.n_queries for view in views]
    assert max(sizes) - min(sizes) <= 1


def test_another_seed_divides_differently() -> None:
    assert described(iid_disjoint(DATA, 3, seed=1)[0]) != described(
        iid_disjoint(DATA, 3, seed=2)[0]
    )


# ---- type 1


def test_each_query_deals_every_intent_to_one_client() -> None:
    views = by_document_preference(DATA, INTENTS, seed=3)
    assert len(views) == 4
    orders = set()
    for query in range(DATA.n_queries):
        dealt = [tuple(view.query_labels(query).tolist()) for view in views]
        original = [tuple(intent) for intent in INTENTS[DATA.rows(query)].T.tolist()]
        assert sorted(dealt) == sorted(original)
        if len(set(original)) == 4:
            orders.add(tuple(original.index(labels) for labels in dealt))
    assert len(orders) > 10  # of 24: the order is drawn anew for each query


def test_shuffling_evens_out_intents_of_different_size() -> None:
    data = make_data(n_queries=3000)
    intents = make_intents(data)
    before = intents.mean(axis=0)
    after = [
        view.labels.mean()
        for view in by_document_preference(data, intents, seed=0)
        if view.labels is not None
    ]
    assert before.max() - before.min() > 0.7
    assert max(after) - min(after) < 0.05


def test_merged_document_is_relevant_if_any_intent_says_so() -> None:
    for view in merged_intents(DATA, INTENTS, 3):
        assert view.labels is not None
        assert (view.labels == INTENTS.any(axis=1)).all()


def test_more_clients_than_intents_take_them_in_turn() -> None:
    views = by_document_preference(DATA, INTENTS, seed=3, n_clients=6)
    assert views[0] is views[4]
    assert views[1] is views[5]


@pytest.mark.parametrize(
    "intents", [INTENTS[:-1], INTENTS[:, 0], INTENTS[:, :0], INTENTS * 0.5, INTENTS - 1]
)
def test_intents_that_do_not_fit_are_refused(intents: NDArray[np.generic]) -> None:
    with pytest.raises(DataError, match="intent_labels"):
        by_document_preference(DATA, intents, seed=1)


# ---- type 2


@given(
    n_grades=st.integers(2, 5),
    n_labels=st.integers(1, 3),
    extra=st.integers(0, 6),
    seed=st.integers(0, 1000),
)
def test_label_skewed_clients_share_no_row_and_hold_all_of_them(
    n_grades: int, n_labels: int, extra: int, seed: int
) -> None:
    assume(n_labels <= n_grades)
    data = make_data(n_queries=80, n_grades=n_grades, seed=seed % 5)
    n_clients = comb(n_grades, n_labels) + extra
    views = by_label(data, n_labels_per_client=n_labels, n_clients=n_clients, seed=seed)
    rows = np.concatenate([held_rows(view) for view in views])
    assert np.array_equal(np.sort(rows), np.arange(data.n_rows))

    grades = [frozenset(data.labels[held_rows(view)].tolist()) for view in views]
    assert all(len(held) == n_labels for held in grades)
    times = [grades.count(frozenset(held)) for held in combinations(range(n_grades), n_labels)]
    assert max(times) - min(times) <= 1
    for grade in range(n_grades):
        sizes = [
            int((data.labels[held_rows(view)] == grade).sum())
            for view, held in zip(views, grades, strict=True)
            if grade in held
        ]
        assert max(sizes) - min(sizes) <= 1


def test_ten_clients_with_one_of_five_grades_put_each_grade_on_two() -> None:
    views = by_label(DATA, n_labels_per_client=1, n_clients=10, seed=0)
    held = sorted(int(DATA.labels[held_rows(view)][0]) for view in views)
    assert held == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_ten_clients_with_two_of_five_grades_hold_every_pair_once() -> None:
    views = by_label(DATA, n_labels_per_client=2, seed=0)
    held = [tuple(np.unique(DATA.labels[held_rows(view)]).tolist()) for view in views]
    assert sorted(held) == list(combinations(range(5), 2))


def test_grades_are_dealt_out_at_random() -> None:
    firsts = {
        int(DATA.labels[held_rows(by_label(DATA, n_labels_per_client=1, seed=seed)[0])][0])
        for seed in range(40)
    }
    assert firsts == {0, 1, 2, 3, 4}


def test_queries_without_a_document_are_dropped_and_with_one_are_kept_unless_asked() -> None:
    plain = by_label(DATA, n_labels_per_client=2, seed=0)
    pairs = by_label(DATA, n_labels_per_client=2, seed=0, min_documents=2)
    lengths = [[len(rows) for _, rows, _ in described(view)] for view in plain]
    assert min(min(of_client) for of_client in lengths) == 1
    for view, fewer in zip(plain, pairs, strict=True):
        assert described(fewer) == [line for line in described(view) if len(line[1]) >= 2]


# ---- types 3 and 4


def test_each_client_keeps_its_click_model_and_mixed_clients_have_all() -> None:
    views = by_click_behaviour(DATA, MODELS, n_clients=5)
    names = [[model.name for model in view.click_models] for view in views]
    assert names == [
        ["perfect"],
        ["navigational"],
        ["informational"],
        ["perfect"],
        ["navigational"],
    ]
    assert mixed_click_behaviour(DATA, MODELS, 2)[1].click_models == tuple(MODELS)


def test_quantities_are_added_to_any_partition_without_changing_it() -> None:
    labelled = by_label(DATA, n_labels_per_client=1, seed=0)
    combined = with_quantities(labelled)
    assert [view.queries_per_round for view in combined] == [1, 3, 5, 7, 9]
    assert [view.queries_per_round for view in labelled] == [None] * 5
    for before, after in zip(labelled, combined, strict=True):
        assert described(before) == described(after)
        assert after.rows is before.rows


# ---- refusals


@pytest.mark.parametrize(
    "ask",
    [
        lambda: iid(DATA, 0),
        lambda: iid(DATA, -1),
        lambda: iid_disjoint(DATA, 0, seed=1),
        lambda: iid_disjoint(DATA, DATA.n_queries + 1, seed=1),
        lambda: by_document_preference(DATA, INTENTS, seed=1, n_clients=0),
        lambda: merged_intents(DATA, INTENTS, 0),
        lambda: by_label(DATA, n_labels_per_client=1, n_clients=0, seed=1),
        lambda: by_label(DATA, n_labels_per_client=0, seed=1),
        lambda: by_label(DATA, n_labels_per_client=6, seed=1),
        lambda: by_label(DATA, n_labels_per_client=2, n_clients=9, seed=1),
        lambda: by_label(DATA, n_labels_per_client=1, seed=1, min_documents=99),
        lambda: by_click_behaviour(DATA, []),
        lambda: by_click_behaviour(DATA, [click_model("perfect", 3)]),
        lambda: by_click_behaviour(DATA, MODELS, n_clients=0),
        lambda: mixed_click_behaviour(DATA, MODELS, 0),
        lambda: by_quantity(DATA, ()),
        lambda: by_quantity(DATA, (1, 0)),
        lambda: by_quantity(DATA, n_clients=0),
        lambda: with_quantities(iid(DATA, 2), ()),
    ],
)
def test_impossible_settings_are_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(SettingsError):
        ask()


def test_a_grade_with_fewer_rows_than_owners_is_an_error() -> None:
    data = RankingData(np.eye(3), np.array([0, 0, 1], np.int8), np.array([0, 3]))
    with pytest.raises(DataError, match="1 rows of grade 1 cannot be divided among 2 clients"):
        by_label(data, n_labels_per_client=1, n_clients=4, seed=0)


def test_views_that_do_not_fit_their_data_are_refused() -> None:
    rows, offsets = np.array([0, 1]), np.array([0, 2])
    wrong: Sequence[dict[str, NDArray[np.generic]]] = (
        {"rows": rows},
        {"offsets": offsets},
        {"queries": np.array([0, 1]), "rows": rows, "offsets": offsets},
        {"queries": np.array([0]), "rows": rows, "offsets": np.array([0, 1])},
        {"labels": np.zeros(3, np.int8)},
    )
    for fields in wrong:
        with pytest.raises(DataError, match="ClientView"):
            ClientView(DATA, **fields)  # type: ignore[arg-type]


def test_views_of_two_data_sets_cannot_be_laid_side_by_side() -> None:
    for views in ((*iid(DATA, 1), *iid(make_data(seed=3), 1)), ()):
        with pytest.raises(DataError, match="one data set"):
            flatten(views)


def test_views_with_and_without_their_own_rows_can_be_laid_side_by_side() -> None:
    views = (*iid_disjoint(DATA, 2, seed=0), *by_label(DATA, n_labels_per_client=1, seed=0))
    flat = flatten(views)
    for client, view in enumerate(views):
        assert read_client(flat, client)[:, 1].tolist() == held_rows(view).tolist()


# ---- a real collection


def test_real_intents_and_grades_are_dealt_out(real_data: Callable[[str], Path]) -> None:
    with gzip.open(real_data("ltr/clueweb09/intents.tsv.gz"), "rt", newline="") as lines:
        table = sorted(csv.DictReader(lines, delimiter="\t"), key=lambda line: int(line["qid"]))
    _, lengths = np.unique([int(line["qid"]) for line in table], return_counts=True)
    grades = np.array([int(line["graded"]) for line in table])
    labels = np.clip(grades, 0, None).astype(np.int8)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    data = RankingData(np.zeros((len(table), 1), np.float32), labels, offsets)
    assert (data.n_queries, data.n_rows) == (61, 26_646)

    intents = np.array([[int(line[f"intent{i}"]) for i in range(4)] for line in table])
    positives = [
        int(view.labels.sum())
        for view in by_document_preference(data, intents, seed=0)
        if view.labels is not None
    ]
    assert sum(positives) == intents.sum() == 6009 + 3937 + 2765 + 2449
    assert max(positives) / min(positives) < 6009 / 2449

    views = by_label(data, n_labels_per_client=2, seed=0)
    assert len(views) == 10
    assert sum(view.n_rows for view in views) == data.n_rows
