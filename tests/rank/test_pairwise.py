from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from cloister.core.errors import DataError
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.measure.mean import mean
from cloister.measure.named import evaluate
from cloister.rank.pairwise import (
    PairwiseModel,
    PairwiseSettings,
    fit_pairwise,
    initial_parameters,
    pairwise_loss,
    sgd_pass,
)
from rank.labelled_data import made_data

WHOLE: dict[str, Any] = {
    "batch_queries": 10**6,
    "n_passes": 3000,
    "decay": 0.0,
    "learning_rate": 1.0,
}


def literal_pairs(
    data: RankingData, weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All difference vectors, and what each counts: its weight by its query's number of pairs."""
    differences, shares = [], []
    for query in range(data.n_queries):
        rows = range(data.offsets[query], data.offsets[query + 1])
        pairs = [(i, j) for i in rows for j in rows if data.labels[i] > data.labels[j]]
        for i, j in pairs:
            differences.append(data.features[i] - data.features[j])
            shares.append(min(weights[i], weights[j]) / len(pairs))
    return np.array(differences), np.array(shares)


def n_usable(data: RankingData) -> int:
    return sum(len(set(data.labels[data.rows(query)])) > 1 for query in range(data.n_queries))


def test_the_loss_is_the_literal_one() -> None:
    data, settings = made_data(), PairwiseSettings(l2=0.1)
    parameters = np.random.default_rng(1).normal(size=4)
    differences, shares = literal_pairs(data, np.ones(data.n_rows))
    losses = np.log1p(np.exp(-differences @ parameters))
    wanted = (shares * losses).sum() / n_usable(data) + 0.05 * (parameters**2).sum()
    assert pairwise_loss(parameters, data, settings)[0] == pytest.approx(wanted, rel=1e-12)


def test_the_gradient_is_that_of_finite_differences() -> None:
    data, settings = made_data(), PairwiseSettings(l2=0.05)
    rng = np.random.default_rng(2)
    parameters, weights = rng.normal(size=4), rng.random(data.n_rows)
    _, gradient = pairwise_loss(parameters, data, settings, weights=weights)
    for p in range(4):
        moved = np.zeros(4)
        moved[p] = 1e-6
        above, _ = pairwise_loss(parameters + moved, data, settings, weights=weights)
        below, _ = pairwise_loss(parameters - moved, data, settings, weights=weights)
        assert gradient[p] == pytest.approx((above - below) / 2e-6, abs=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_descent_ends_where_scikit_learn_does_on_difference_vectors(
    weighted: bool,
) -> None:
    data, l2 = made_data(n_queries=30), 0.02
    weights = np.ones(data.n_rows)
    if weighted:
        weights = np.random.default_rng(3).uniform(0.2, 2, data.n_rows)
        weights /= weights.mean()
    model = fit_pairwise(data, PairwiseSettings(l2=l2, **WHOLE), weights=weights)
    differences, shares = literal_pairs(data, weights)
    # Each pair both ways round: a classifier needs two classes, and both halves weigh the same.
    both = np.concatenate([differences, -differences])
    classes = np.repeat([1, 0], len(differences))
    peer = LogisticRegression(
        C=1 / (2 * l2 * n_usable(data)), fit_intercept=False, tol=1e-10, max_iter=10_000
    )
    peer.fit(both, classes, sample_weight=np.tile(shares, 2))
    np.testing.assert_allclose(model.parameters, peer.coef_[0], atol=1e-6)


def test_one_pass_is_the_literal_walk_over_batches_of_queries() -> None:
    data = made_data(n_queries=9)
    settings = PairwiseSettings(batch_queries=3, l2=0.02, learning_rate=0.3, decay=0.5)
    begin = np.random.default_rng(4).normal(size=4)
    after = sgd_pass(begin, data, np.random.default_rng(5), settings, n_done=2)
    usable = [q for q in range(9) if len(set(data.labels[data.rows(q)])) > 1]
    order, expected = np.random.default_rng(5).permutation(usable), begin.copy()
    for first in range(0, len(order), 3):
        gradients = []
        for query in order[first : first + 3]:
            part = data.query_range(int(query), int(query) + 1)
            gradients.append(pairwise_loss(expected, part, settings)[1])
        expected = expected - 0.3 / (1 + 0.5 * 2) * np.mean(gradients, axis=0)
    np.testing.assert_allclose(after, expected, rtol=1e-10)


def test_sampled_pairs_give_the_gradient_of_all_pairs_on_average() -> None:
    data = made_data(n_queries=3)
    begin = np.random.default_rng(6).normal(size=4)
    settings = PairwiseSettings(
        pairs="sampled", n_sampled=20, batch_queries=3, learning_rate=1.0, l2=0.0
    )
    steps = np.array(
        [begin - sgd_pass(begin, data, np.random.default_rng(s), settings) for s in range(3000)]
    )
    wanted = pairwise_loss(begin, data, settings)[1]
    error = steps.std(axis=0) / np.sqrt(len(steps))
    assert (np.abs(steps.mean(axis=0) - wanted) < 5 * error).all()
    assert (steps.std(axis=0) > 0).all()


@pytest.mark.parametrize("pairs", ["all", "sampled"])
def test_one_seed_gives_one_result(pairs: Any) -> None:
    data, settings = made_data(), PairwiseSettings(pairs=pairs, n_passes=3)
    a, b, c = (fit_pairwise(data, settings, seed=seed).parameters for seed in (1, 1, 2))
    assert a.tobytes() == b.tobytes() != c.tobytes()


def test_queries_without_a_pair_teach_nothing() -> None:
    flat = RankingData(np.eye(3), np.ones(3, np.int8), np.array([0, 0, 2, 3]))
    begin = np.array([1.0, 2.0, 3.0])
    after = sgd_pass(begin, flat, np.random.default_rng(0), PairwiseSettings())
    assert after.tolist() == begin.tolist()
    assert pairwise_loss(begin, flat, PairwiseSettings(l2=0))[0] == 0


def test_a_query_counts_the_same_however_many_candidates_it_has() -> None:
    small = RankingData(np.array([[1.0], [0.0]]), np.array([1, 0], np.int8), np.array([0, 2]))
    large = RankingData(
        np.repeat([[1.0], [0.0]], 50, axis=0), np.repeat([1, 0], 50), np.array([0, 100])
    )
    of_small, of_large = (
        pairwise_loss([0.3], data, PairwiseSettings())[0] for data in (small, large)
    )
    assert of_small == pytest.approx(of_large, rel=1e-12)


def test_large_scores_do_not_overflow() -> None:
    data = made_data()
    loss, gradient = pairwise_loss(np.full(4, 1e8), data, PairwiseSettings(l2=0))
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()


def test_the_ranker_in_single_precision_ranks_alike() -> None:
    data = made_data()
    model = fit_pairwise(data, PairwiseSettings(n_passes=2))
    np.testing.assert_allclose(
        model.to_ranker().score(data.features), model.score(data), rtol=1e-4, atol=1e-5
    )


def test_steps_that_run_away_are_refused() -> None:
    data = made_data()
    wild = RankingData(data.features * 1e200, data.labels, data.offsets)
    settings = PairwiseSettings(learning_rate=1e200)
    with pytest.raises(DataError, match="normalise the features"):
        sgd_pass(np.zeros(4), wild, np.random.default_rng(0), settings)


def test_what_does_not_fit_is_refused() -> None:
    data, settings = made_data(), PairwiseSettings()
    with pytest.raises(DataError, match="4 parameters"):
        sgd_pass(np.zeros(5), data, np.random.default_rng(0), settings)
    with pytest.raises(DataError, match="4 features"):
        PairwiseModel(settings, initial_parameters(4, settings)).score(np.zeros((2, 3)))
    with pytest.raises(DataError, match="one vector"):
        PairwiseModel(settings, np.zeros((2, 2)))


@pytest.mark.parametrize("pairs", ["all", "sampled"])
def test_pairs_learn_mq2008(real_data: Any, pairs: Any) -> None:
    fold = load_fold(str(real_data("ltr/mq2008")))
    model = fit_pairwise(fold.train, PairwiseSettings(pairs=pairs))
    value = mean(evaluate(model.score(fold.test), fold.test, ["nDCG@10"])["nDCG@10"])
    assert 0.69 < value < 0.75  # random scores reach about .49
