from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cloister.core.errors import SettingsError
from cloister.data.normalise import column_scale, normalise
from cloister.data.ranking_data import RankingData


def data_of(features: list[list[float]], offsets: list[int]) -> RankingData:
    return RankingData(
        np.array(features, np.float64), np.zeros(len(features), np.int8), np.array(offsets)
    )


FEATURES = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.floats(-1e6, 1e6)
)


@given(FEATURES, st.integers(0, 12))
def test_per_query_agrees_with_the_plain_formula(features: np.ndarray, cut: int) -> None:
    cut = min(cut, len(features))
    data = data_of(features.tolist(), [0, cut, len(features)])
    result = normalise(data, "query_minmax").features
    for rows in (slice(0, cut), slice(cut, None)):
        part = features[rows]
        if len(part):
            low, high = part.min(axis=0), part.max(axis=0)
            width = np.where(high > low, high - low, np.inf)
            np.testing.assert_allclose(result[rows], (part - low) / width, rtol=1e-12)
    assert ((result >= 0) & (result <= 1)).all()


def test_nan_is_left_out_and_left_alone() -> None:
    data = data_of([[1, np.nan], [np.nan, np.nan], [3, 7]], [0, 3])
    for method in ("query_minmax", "global_minmax"):
        result = normalise(data, method).features
        np.testing.assert_array_equal(result, [[0, np.nan], [np.nan, np.nan], [1, 0]])


def test_a_constant_column_becomes_zero_under_every_method() -> None:
    data = data_of([[5.0], [5.0]], [0, 2])
    for method in ("query_minmax", "global_minmax", "global_zscore"):
        assert normalise(data, method).features.tolist() == [[0.0], [0.0]]


def test_z_scores_have_mean_zero_and_deviation_one() -> None:
    features = np.random.default_rng(1).normal(3, 5, (500, 2))
    result = normalise(data_of(features.tolist(), [0, 500]), "global_zscore").features
    np.testing.assert_allclose(result.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(result.std(axis=0), 1)


def test_test_data_is_scaled_as_the_training_data_was() -> None:
    train, test = data_of([[0.0], [10.0]], [0, 2]), data_of([[20.0]], [0, 1])
    scale = column_scale(train, "global_minmax")
    assert normalise(test, "global_minmax", scale=scale).features.tolist() == [[2.0]]


def test_the_original_is_not_touched_unless_asked() -> None:
    data = data_of([[1.0], [3.0]], [0, 2])
    normalise(data, "query_minmax")
    assert data.features.tolist() == [[1.0], [3.0]]
    normalise(data, "query_minmax", in_place=True)
    assert data.features.tolist() == [[0.0], [1.0]]


def test_a_scale_for_other_features_is_refused() -> None:
    scale = column_scale(data_of([[0.0], [10.0]], [0, 2]), "global_minmax")
    with pytest.raises(SettingsError):
        normalise(data_of([[1.0, 2.0]], [0, 1]), "global_minmax", scale=scale)
    with pytest.raises(SettingsError):
        column_scale(data_of([[0.0]], [0, 1]), "query_minmax")
