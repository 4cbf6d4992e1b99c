from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from cloister.core.errors import DataError
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.measure.mean import mean
from cloister.measure.named import evaluate
from cloister.rank.pointwise import (
    PointwiseModel,
    PointwiseSettings,
    fit_pointwise,
    initial_parameters,
    pointwise_loss,
    sgd_pass,
)
from rank.labelled_data import made_data

Kind = Literal["softmax", "regression"]
KINDS: tuple[Kind, ...] = ("softmax", "regression")
# One batch of all rows and no decay: plain gradient descent, which ends at the optimum.
WHOLE: dict[str, Any] = {"batch_rows": 10**6, "n_passes": 4000, "decay": 0.0, "learning_rate": 0.5}


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_finite_differences(kind: Kind) -> None:
    data = made_data()
    settings = PointwiseSettings(kind=kind, l2=0.05)
    rng = np.random.default_rng(1)
    parameters = rng.normal(size=len(initial_parameters(4, settings)))
    weights = rng.random(data.n_rows)
    _, gradient = pointwise_loss(parameters, data, settings, weights=weights)
    for p in range(len(parameters)):
        moved = np.zeros_like(parameters)
        moved[p] = 1e-6
        above, _ = pointwise_loss(parameters + moved, data, settings, weights=weights)
        below, _ = pointwise_loss(parameters - moved, data, settings, weights=weights)
        assert gradient[p] == pytest.approx((above - below) / 2e-6, abs=1e-7)


def test_the_softmax_loss_is_the_literal_one() -> None:
    data, settings = made_data(), PointwiseSettings(l2=0.1)
    parameters = np.random.default_rng(2).normal(size=15)
    matrix = parameters.reshape(3, 5)
    wanted = 0.0
    for x, label in zip(data.features, data.labels, strict=True):
        logits = matrix[:, :4] @ x + matrix[:, 4]
        wanted -= logits[label] - np.log(np.exp(logits).sum())
    wanted = wanted / data.n_rows + 0.05 * (matrix[:, :4] ** 2).sum()
    assert pointwise_loss(parameters, data, settings)[0] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_descent_ends_where_logistic_regression_of_scikit_learn_does(
    weighted: bool,
) -> None:
    data, l2 = made_data(n_queries=40), 0.01
    weights = np.random.default_rng(3).uniform(0.2, 2, data.n_rows) if weighted else None
    model = fit_pointwise(data, PointwiseSettings(l2=l2, **WHOLE), weights=weights)
    total = data.n_rows if weights is None else weights.sum()
    peer = LogisticRegression(C=1 / (l2 * total), tol=1e-10, max_iter=10_000)
    peer.fit(data.features, data.labels, sample_weight=weights)
    ours = model.parameters.reshape(3, 5)
    np.testing.assert_allclose(ours[:, :4], peer.coef_, atol=1e-5)
    expected = peer.predict_proba(data.features) @ [0, 1, 2]
    np.testing.assert_allclose(model.score(data), expected, atol=1e-5)


def test_gradient_descent_ends_where_ridge_regression_of_scikit_learn_does() -> None:
    data, l2 = made_data(n_queries=40), 0.01
    model = fit_pointwise(data, PointwiseSettings(kind="regression", l2=l2, **WHOLE))
    peer = Ridge(alpha=l2 * data.n_rows).fit(data.features, data.labels)
    np.testing.assert_allclose(model.parameters, [*peer.coef_, peer.intercept_], atol=1e-8)
    np.testing.assert_allclose(model.score(data), peer.predict(data.features), atol=1e-8)


@pytest.mark.parametrize(("kind", "rate"), [("softmax", 0.5), ("regression", 0.05)])
def test_mini_batches_come_close_to_the_optimum(kind: Kind, rate: float) -> None:
    data = made_data(n_queries=60)
    settings = PointwiseSettings(kind=kind, learning_rate=rate, n_passes=60)
    best = fit_pointwise(data, PointwiseSettings(kind=kind, **WHOLE)).parameters
    found = fit_pointwise(data, settings).parameters
    reached, least = (pointwise_loss(p, data, settings)[0] for p in (found, best))
    assert least <= reached < 1.01 * least


def test_one_pass_is_the_literal_walk_over_mini_batches() -> None:
    data = made_data(n_queries=6)
    settings = PointwiseSettings(batch_rows=7, l2=0.02, learning_rate=0.3, decay=0.5)
    begin = np.random.default_rng(4).normal(size=15)
    after = sgd_pass(begin, data, np.random.default_rng(5), settings, n_done=2)
    expected, order = begin.copy(), np.random.default_rng(5).permutation(data.n_rows)
    for first in range(0, data.n_rows, 7):
        rows = order[first : first + 7]
        batch = RankingData(
            data.features[rows], data.labels[rows], np.array([0, len(rows)], np.int64)
        )
        expected -= 0.3 / (1 + 0.5 * 2) * pointwise_loss(expected, batch, settings)[1]
    np.testing.assert_allclose(after, expected, rtol=1e-10)


def test_a_pass_changes_neither_its_parameters_nor_depends_on_anything_but_its_generator() -> None:
    data, settings = made_data(), PointwiseSettings()
    begin = initial_parameters(4, settings)
    a, b, c = (sgd_pass(begin, data, np.random.default_rng(s), settings) for s in (1, 1, 2))
    assert not begin.any()
    assert a.tobytes() == b.tobytes() != c.tobytes()


def test_the_scale_of_weights_does_not_matter() -> None:
    data, settings = made_data(), PointwiseSettings(n_passes=2)
    weights = np.random.default_rng(1).random(data.n_rows)
    a = fit_pointwise(data, settings, weights=weights).parameters
    b = fit_pointwise(data, settings, weights=4 * weights).parameters
    np.testing.assert_allclose(a, b, rtol=1e-10)


def test_a_row_of_no_weight_teaches_nothing() -> None:
    data, settings = made_data(), PointwiseSettings(**WHOLE | {"n_passes": 5})
    weights = np.ones(data.n_rows)
    weights[::2] = 0
    lied = replace(data, labels=np.where(weights == 0, 2 - data.labels, data.labels))
    a, b = (fit_pointwise(d, settings, weights=weights).parameters for d in (data, lied))
    assert a.tobytes() == b.tobytes()


def test_large_scores_do_not_overflow() -> None:
    data = made_data()
    far = np.full(15, 1e6)
    far[:5] = -1e6
    loss, gradient = pointwise_loss(far, data, PointwiseSettings(l2=0))
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()
    assert np.isfinite(PointwiseModel(PointwiseSettings(), far).score(data)).all()


def test_steps_that_run_away_are_refused() -> None:
    data = made_data()
    wild = RankingData(data.features * 1e200, data.labels, data.offsets)
    settings = PointwiseSettings(learning_rate=1e200)
    with pytest.raises(DataError, match="normalise the features"):
        sgd_pass(np.zeros(15), wild, np.random.default_rng(0), settings)


def test_what_does_not_fit_is_refused() -> None:
    data, settings = made_data(), PointwiseSettings()
    with pytest.raises(DataError, match="n_grades"):
        sgd_pass(np.zeros(10), data, np.random.default_rng(0), PointwiseSettings(n_grades=2))
    with pytest.raises(DataError, match="15 parameters"):
        sgd_pass(np.zeros(4), data, np.random.default_rng(0), settings)
    with pytest.raises(DataError, match="4 features"):
        PointwiseModel(settings, np.zeros(15)).score(np.zeros((2, 3)))
    with pytest.raises(DataError, match="equal parts"):
        PointwiseModel(settings, np.zeros(16))
    for wrong in (np.ones(3), -np.ones(data.n_rows), np.zeros(data.n_rows)):
        with pytest.raises(DataError, match="weights"):
            fit_pointwise(data, settings, weights=wrong)


@pytest.mark.parametrize(("kind", "rate"), [("softmax", 0.2), ("regression", 0.05)])
def test_both_kinds_learn_mq2008(real_data: Any, kind: Kind, rate: float) -> None:
    fold = load_fold(str(real_data("ltr/mq2008")))
    model = fit_pointwise(fold.train, PointwiseSettings(kind=kind, learning_rate=rate))
    value = mean(evaluate(model.score(fold.test), fold.test, ["nDCG@10"])["nDCG@10"])
    assert 0.69 < value < 0.75  # random scores reach about .49
