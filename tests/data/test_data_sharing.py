"""Data sharing: the same whole queries are added to what every client holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.data.clicks import click_model
from cloister.data.partitions import (
    ClientView,
    by_label,
    by_quantity,
    draw_shared_queries,
    flatten,
    iid,
    iid_disjoint,
    with_shared_queries,
)
from cloister.data.ranking_data import RankingData


def make_data(n_queries: int = 40, seed: int = 0) -> RankingData:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 9, n_queries)))).astype(np.int64)
    labels = rng.integers(0, 3, int(offsets[-1]), dtype=np.int8)
    return RankingData(rng.random((len(labels), 3), dtype=np.float32), labels, offsets)


DATA = make_data()


@settings(max_examples=50)
@given(share=st.floats(0.001, 1.0), seed=st.integers(0, 2**32))
def test_so_many_different_queries_are_drawn_in_order(share: float, seed: int) -> None:
    drawn = draw_shared_queries(DATA, share, seed=seed)
    assert len(drawn) == max(1, round(share * 40))
    assert (np.diff(drawn) > 0).all()
    assert drawn.min() >= 0
    assert drawn.max() < 40


def test_seed_decides_which_queries_are_shared() -> None:
    drawn = [draw_shared_queries(DATA, 0.3, seed=seed).tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_every_query_is_shared_as_often_as_any_other() -> None:
    counts = np.zeros(40)
    for seed in range(2000):
        counts[draw_shared_queries(DATA, 0.25, seed=seed)] += 1
    deviation = np.sqrt(2000 * 0.25 * 0.75)
    assert (np.abs(counts - 500) < 4.5 * deviation).all()


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, float("nan"), float("inf")])
def test_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(SettingsError, match=r"share: lies in \(0, 1\]"):
        draw_shared_queries(DATA, share, seed=1)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), share=st.floats(0.01, 1.0))
def test_client_holds_its_own_rows_and_then_the_shared_queries_whole(
    seed: int, share: float
) -> None:
    shared = draw_shared_queries(DATA, share, seed=seed)
    for before in (
        iid(DATA, 2),
        iid_disjoint(DATA, 5, seed=seed),
        by_label(DATA, n_labels_per_client=1, seed=seed),
    ):
        for own, after in zip(before, with_shared_queries(before, shared), strict=True):
            assert after.n_queries == own.n_queries + len(shared)
            for i in range(own.n_queries):
                assert after.query_position(i) == own.query_position(i)
                assert after.query_labels(i).tolist() == own.query_labels(i).tolist()
            for i, query in enumerate(shared.tolist(), own.n_queries):
                rows = DATA.rows(query)
                assert after.query_position(i) == query
                assert np.array_equal(after.query_rows(i), np.arange(rows.start, rows.stop))
            assert after.n_rows == own.n_rows + int(DATA.lengths[shared].sum())


def test_kernels_see_the_shared_queries() -> None:
    views = by_label(DATA, n_labels_per_client=2, seed=1)
    shared = draw_shared_queries(DATA, 0.2, seed=1)
    joined = with_shared_queries(views, shared)
    flat = flatten(joined)
    for client, view in enumerate(joined):
        start, stop = flat.holding_bounds[flat.holding[client] :][:2]
        assert stop - start == view.n_queries
        for i, entry in enumerate(range(start, stop)):
            rows = flat.rows[flat.starts[entry] : flat.stops[entry]]
            assert np.array_equal(rows, np.arange(DATA.n_rows)[view.query_rows(i)])


def test_habits_and_labels_stay_with_the_client() -> None:
    labels = np.zeros(DATA.n_rows, np.int8)
    user = click_model("perfect", 3)
    view = ClientView(DATA, labels=labels, click_models=(user,), queries_per_round=7)
    (joined,) = with_shared_queries((view,), np.array([3]))
    assert joined.labels is labels
    assert joined.click_models == (user,)
    assert joined.queries_per_round == 7


def test_clients_who_are_alike_go_on_sharing_one_view() -> None:
    views = by_quantity(DATA, (1, 2), n_clients=100)
    joined = with_shared_queries(views, np.array([0, 5]))
    assert len(joined) == 100
    assert len({id(view) for view in joined}) == 2
    assert joined[0] is joined[98]


def test_views_that_were_given_stay_as_they_were() -> None:
    view = replace(iid_disjoint(DATA, 4, seed=1)[0])
    before = (view.n_queries, view.n_rows)
    with_shared_queries((view,), np.array([1, 2]))
    assert (view.n_queries, view.n_rows) == before
