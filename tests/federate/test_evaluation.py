"""Offline performance: each client by its own ranker and labels, against the named measures."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.counter_random import new_stream
from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.data.clicks import click_model
from cloister.data.clicks.sampling import CLICK_PURPOSE
from cloister.data.partitions import ClientView, by_document_preference, iid
from cloister.data.ranking_data import RankingData
from cloister.federate.evaluation import Evaluation
from cloister.federate.learner import ClientRankers
from cloister.lab.simulation.run import threads_limited
from cloister.measure.named import evaluate
from cloister.rank.ranker import Ranker, RankerSettings
from federate.literal_round import click
from federate.made_clients import INFORMATIONAL, NAVIGATIONAL, PERFECT, ragged, two_threads

DATA = ragged(6, n_queries=30, most_documents=14)


def ranker(seed: int) -> Ranker:
    """A ranker under which no two documents score the same."""
    return Ranker(RankerSettings(n_features=5), stream(seed, "test", "ranker").normal(size=5))


def ndcg(made: Ranker, data: RankingData, **fields: Any) -> np.ndarray:
    k = fields.pop("k", 10)
    return evaluate(made.score(data.features), data, [f"nDCG@{k}"], **fields)[f"nDCG@{k}"]


def labels_of_two(seed: int) -> np.ndarray:
    return stream(seed, "test", "labels").integers(0, 3, (2, DATA.n_rows)).astype(np.int8)


@pytest.mark.parametrize("k", [1, 5, 10])
@pytest.mark.parametrize("nothing_relevant", ["skip", "zero"])
def test_one_ranker_is_measured_as_by_name(k: int, nothing_relevant: Any) -> None:
    evaluation = Evaluation(
        iid(DATA, 3), PERFECT, seed=1, cutoff=k, nothing_relevant=nothing_relevant
    )
    expected = ndcg(ranker(1), DATA, k=k, nothing_relevant=nothing_relevant)
    found = evaluation.measure_one(ranker(1))
    np.testing.assert_allclose(found.by_query, expected, rtol=1e-12)
    assert found.ndcg == pytest.approx(np.nanmean(expected))
    assert found.by_client == pytest.approx([np.nanmean(expected)] * 3)
    assert evaluation.n_clients == 3


def test_queries_with_nothing_relevant_are_left_out_or_count_nothing() -> None:
    assert np.isnan(ndcg(ranker(1), DATA)).sum() >= 2  # the test has such queries
    skipped, counted = (
        Evaluation(iid(DATA, 1), PERFECT, seed=1, nothing_relevant=convention).measure_one(
            ranker(1)
        )
        for convention in ("skip", "zero")
    )
    relevant = ~np.isnan(skipped.by_query)
    assert (counted.by_query[~relevant] == 0).all()
    assert counted.ndcg == pytest.approx(skipped.ndcg * relevant.mean())


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), assigned=st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_each_client_is_measured_by_its_own_ranker_and_labels(
    seed: int, assigned: list[int]
) -> None:
    one, two = labels_of_two(seed)
    views = (
        ClientView(DATA),
        ClientView(DATA, labels=one),
        ClientView(DATA, labels=two),
        ClientView(DATA, labels=one),
    )
    rankers = tuple(ranker(seed + i) for i in range(3))
    evaluation = Evaluation(views, PERFECT, seed=1)
    with threads_limited(1):  # so little work is done faster alone
        found = evaluation.measure(ClientRankers(rankers, np.array(assigned)))
    values = np.stack(
        [
            ndcg(
                rankers[number], DATA if view.labels is None else replace(DATA, labels=view.labels)
            )
            for number, view in zip(assigned, views, strict=True)
        ]
    )
    by_client = [np.nanmean(row) for row in values]
    answered = ~np.isnan(values).all(axis=0)
    np.testing.assert_allclose(found.by_client, by_client, rtol=1e-12)
    assert found.ndcg == pytest.approx(np.mean(by_client))
    np.testing.assert_allclose(found.by_query[answered], np.nanmean(values[:, answered], axis=0))
    assert np.isnan(found.by_query[~answered]).all()


def test_clients_who_share_ranker_and_labels_count_as_often_as_they_are() -> None:
    one, two = labels_of_two(1)
    views = [ClientView(DATA, labels=labels) for labels in (one, two)]
    many = (views[0],) * 9 + (views[1],)
    found = Evaluation(many, PERFECT, seed=1).measure_one(ranker(1))
    apart = [np.nanmean(ndcg(ranker(1), replace(DATA, labels=labels))) for labels in (one, two)]
    assert found.ndcg == pytest.approx(0.9 * apart[0] + 0.1 * apart[1])


def test_client_is_measured_on_queries_it_does_not_hold() -> None:
    narrow = ClientView(DATA, queries=np.array([2]))
    found = Evaluation((narrow,), PERFECT, seed=1).measure_one(ranker(1))
    assert found.ndcg == pytest.approx(np.nanmean(ndcg(ranker(1), DATA)))


@pytest.mark.parametrize("user", [PERFECT, NAVIGATIONAL, INFORMATIONAL], ids=lambda u: u.name)
@pytest.mark.parametrize("k", [3, 10])
def test_max_rr_is_that_of_a_user_who_walks_down_each_ranking(user: Any, k: int) -> None:
    views = by_document_preference(DATA, labels_of_two(3).T, seed=1)
    evaluation = Evaluation(views, user, seed=9, cutoff=k)
    found = evaluation.measure_one(ranker(2), round=4)
    scores = ranker(2).score(DATA.features)
    ranks = []
    for view in views:
        for query in range(DATA.n_queries):
            order = np.argsort(-scores[DATA.rows(query)], kind="stable")[:k]
            labels = view.query_labels(query)[order].tolist()
            pages = new_stream(9, round=4, client=query, purpose=CLICK_PURPOSE)
            clicked = click(labels, ClientView(DATA), user, pages)
            ranks.append(1 / (clicked.index(True) + 1) if any(clicked) else 0.0)
    assert found.max_rr == pytest.approx(np.mean(ranks))
    assert 0 < found.max_rr < 1


def test_ties_are_broken_at_random_anew_in_each_round() -> None:
    # One of twenty documents is relevant, and the ranker has no opinion.
    n_queries, n = 400, 20
    labels = np.zeros((n_queries, n), np.int8)
    labels[:, 0] = 2
    data = RankingData(
        np.ones((n_queries * n, 1), np.float32), labels.ravel(), np.arange(n_queries + 1) * n
    )
    evaluation = Evaluation(iid(data, 2), PERFECT, seed=1)
    untrained = Ranker.initial(RankerSettings(n_features=1))
    values = [evaluation.measure_one(untrained, round=r).ndcg for r in range(4)]
    chances = np.array([1 / math.log2(i + 2) if i < 10 else 0.0 for i in range(n)])
    assert len(set(values)) == 4
    deviation = chances.std() / math.sqrt(n_queries)
    assert np.abs(np.array(values) - chances.mean()).max() < 4 * deviation


@two_threads
@pytest.mark.parametrize("made_of", ["linear", "mlp"])
def test_bits_are_the_same_for_one_thread_and_for_two(made_of: Any) -> None:
    data = ragged(7, n_queries=700, most_documents=12)
    labels = stream(1, "test", "three").integers(0, 3, (data.n_rows, 3)).astype(np.int8)
    views = by_document_preference(data, labels, seed=1, n_clients=7)
    evaluation = Evaluation(views, INFORMATIONAL, seed=1)
    shape = RankerSettings(kind=made_of, n_features=5, hidden=4)
    rankers = (Ranker.initial(shape), Ranker.initial(shape, seed=3))  # the linear ones only tie
    clients = ClientRankers(rankers, np.array([0, 1, 0, 1, 1, 1, 0]))
    found = []
    for n in (1, 2):
        with threads_limited(n):
            measured = evaluation.measure(clients, round=2)
        found.append((measured.ndcg, measured.max_rr, *map(bytes, measured[2:])))
    assert found[0] == found[1]


def test_seed_decides_ties_and_clicks() -> None:
    untrained = Ranker.initial(RankerSettings(n_features=5))
    found = [
        Evaluation(iid(DATA, 2), INFORMATIONAL, seed=seed).measure_one(untrained)
        for seed in (1, 1, 2)
    ]
    assert found[0].ndcg == found[1].ndcg != found[2].ndcg
    assert found[0].max_rr == found[1].max_rr != found[2].max_rr


def test_client_with_no_answer_anywhere_is_left_out_of_the_mean() -> None:
    views = (ClientView(DATA), ClientView(DATA, labels=np.zeros(DATA.n_rows, np.int8)))
    found = Evaluation(views, PERFECT, seed=1).measure_one(ranker(1))
    assert math.isnan(found.by_client[1])
    assert found.ndcg == pytest.approx(np.nanmean(ndcg(ranker(1), DATA)))


def test_nobody_to_measure_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least one client"):
        Evaluation((), PERFECT, seed=1)


def test_grades_that_the_click_model_does_not_know_are_refused() -> None:
    evaluation = Evaluation(iid(DATA, 1), click_model("perfect", 2), seed=1)
    with pytest.raises(DataError, match="grade"):
        evaluation.measure_one(ranker(1))
