from __future__ import annotations

import numpy as np
import pytest

from cloister.core.errors import DataError
from cloister.data.ranking_data import RankingData
from cloister.rank.kernel_ranker import KernelRankerSettings
from cloister.rank.layer_fitting import SOFT_OF_STAR, LayerSettings, fit_layer

QUICK = LayerSettings(
    n_seeds=2,
    fit=KernelRankerSettings(n_epochs=5, l2=0.1),
    balance=KernelRankerSettings(n_epochs=20, l2=0.1),
)


def made_rows(n_queries: int, *, seed: int, overfitted: bool = False) -> RankingData:
    """Column 0 is noise, or the grade itself where the queries were trained on; 1 is honest."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n_queries * 8).astype(np.int8)
    learnt = (
        labels + 0.01 * rng.normal(size=len(labels)) if overfitted else rng.normal(size=len(labels))
    )
    honest = labels + rng.normal(size=len(labels))
    features = np.column_stack([learnt, honest])
    return RankingData(features, labels, np.arange(n_queries + 1) * 8)


TRAINING = made_rows(40, seed=1, overfitted=True)
VALIDATION = made_rows(20, seed=2)


def share_of_learnt(weights: np.ndarray) -> float:
    return float(abs(weights[0]) / np.abs(weights).sum())


def test_validation_queries_take_the_trust_from_an_overfitted_column() -> None:
    trusting = fit_layer(TRAINING, QUICK, validation=VALIDATION)
    wary = fit_layer(TRAINING, QUICK, validation=VALIDATION, learnt=[0])
    assert share_of_learnt(trusting.weights) > 0.7
    assert share_of_learnt(wary.weights) < 0.3


def test_a_column_that_also_serves_validation_queries_keeps_its_weight() -> None:
    good = made_rows(20, seed=3, overfitted=True)
    layer = fit_layer(TRAINING, QUICK, validation=good, learnt=[0])
    assert share_of_learnt(layer.weights) > 0.6


def test_within_each_part_the_weights_keep_their_proportions() -> None:
    rng = np.random.default_rng(4)
    wide = [
        RankingData(
            np.hstack([d.features, d.features + rng.normal(size=d.features.shape)]),
            d.labels,
            d.offsets,
        )
        for d in (TRAINING, VALIDATION)
    ]
    first = fit_layer(wide[0], QUICK)
    both = fit_layer(wide[0], QUICK, validation=wide[1], learnt=[0, 2])
    ratios = both.weights / first.weights
    np.testing.assert_allclose(ratios[[0, 1]], ratios[[2, 3]])
    assert (ratios >= 0).all()


def test_without_validation_or_learnt_columns_the_first_fit_is_the_result() -> None:
    first = fit_layer(TRAINING, QUICK)
    for learnt in ([], [0, 1]):
        other = fit_layer(TRAINING, QUICK, validation=VALIDATION, learnt=learnt)
        assert other.weights.tolist() == first.weights.tolist()


def test_validation_queries_of_one_grade_change_nothing() -> None:
    flat = RankingData(VALIDATION.features, np.zeros_like(VALIDATION.labels), VALIDATION.offsets)
    first = fit_layer(TRAINING, QUICK)
    assert fit_layer(TRAINING, QUICK, validation=flat, learnt=[0]).bias == first.bias


def test_one_seed_gives_one_layer() -> None:
    layers = [fit_layer(TRAINING, QUICK, seed=seed).weights.tolist() for seed in (1, 1, 2)]
    assert layers[0] == layers[1] != layers[2]


def test_rows_of_one_grade_are_refused() -> None:
    flat = RankingData(TRAINING.features, np.zeros_like(TRAINING.labels), TRAINING.offsets)
    with pytest.raises(DataError, match="different grades"):
        fit_layer(flat, QUICK)


def test_soft_columns_of_c_knrm_star_leave_the_exact_kernels_out() -> None:
    assert len(SOFT_OF_STAR) == 30
    assert set(range(33)) - set(SOFT_OF_STAR) == {10, 21, 32}
