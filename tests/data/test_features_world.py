from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor

from cloister.core.errors import SettingsError
from cloister.data.ranking_data import RankingData
from cloister.data.worlds.features import (
    BLOCK_QUERIES,
    GRADE_SHARES,
    FeaturesSettings,
    FeaturesWorld,
    ordered_product,
)


def ndcg_at_10(scores: np.ndarray, data: RankingData) -> float:
    """The plain formula, one query after the other."""
    values = []
    for query in range(data.n_queries):
        rows = data.rows(query)
        gains = 2.0 ** data.labels[rows] - 1
        if gains.any():
            order = np.argsort(-scores[rows], kind="stable")[:10]
            discount = 1 / np.log2(np.arange(2, len(order) + 2))
            ideal = np.sort(gains)[::-1][:10]
            values.append((gains[order] * discount).sum() / (ideal * discount).sum())
    return float(np.mean(values))


def fit_both(settings: FeaturesSettings) -> tuple[float, float]:
    world = FeaturesWorld(settings)
    train, test = world.data("train"), world.data("test")
    gains = 2.0**train.labels - 1
    linear = LinearRegression().fit(train.features, gains)
    mlp = MLPRegressor(
        hidden_layer_sizes=(64,),
        early_stopping=True,
        n_iter_no_change=4,
        max_iter=500,
        random_state=0,
    ).fit(train.features, gains)
    return ndcg_at_10(linear.predict(test.features), test), ndcg_at_10(
        mlp.predict(test.features), test
    )


def test_an_mlp_beats_a_linear_ranker_on_held_out_queries() -> None:
    linear, mlp = fit_both(FeaturesSettings(queries=600, documents=40, features=46))
    assert linear > 0.6  # chance is about .27
    assert mlp > linear + 0.05


def test_without_nonlinearity_a_linear_ranker_is_as_good() -> None:
    linear, mlp = fit_both(FeaturesSettings(queries=400, documents=30, features=30, nonlinearity=0))
    assert linear > mlp - 0.02


def test_with_nothing_linear_an_mlp_sees_much_more_than_a_linear_ranker() -> None:
    linear, mlp = fit_both(FeaturesSettings(queries=600, nonlinearity=1))
    assert 0.4 < linear < 0.65  # above chance, .27: bent features show it a little
    assert mlp > linear + 0.15


@pytest.mark.parametrize("grades", sorted(GRADE_SHARES))
def test_grades_have_the_shares_that_are_documented(grades: int) -> None:
    data = FeaturesWorld(FeaturesSettings(queries=800, documents=40, grades=grades)).data()
    counts = data.label_counts()
    for grade, share in enumerate(GRADE_SHARES[grades]):
        assert counts[grade] / data.n_rows == pytest.approx(share, abs=0.02)


def test_sizes_are_those_that_were_asked_for() -> None:
    data = FeaturesWorld(
        FeaturesSettings(queries=300, documents=125, features=136, spread=0)
    ).data()
    assert (data.n_queries, data.n_features) == (300, 136)
    assert set(data.lengths.tolist()) == {125}
    varied = FeaturesWorld(FeaturesSettings(queries=2000, documents=40)).data()
    assert varied.lengths.mean() == pytest.approx(40, rel=0.05)
    assert varied.lengths.min() < 25
    assert varied.lengths.max() > 70


def test_a_block_alone_is_the_same_as_in_the_whole() -> None:
    world = FeaturesWorld(FeaturesSettings(queries=BLOCK_QUERIES + 10, documents=5, features=4))
    whole, last = world.data(), world.block(1)
    assert last.n_queries == 10
    np.testing.assert_array_equal(whole.features[-last.n_rows :], last.features)
    np.testing.assert_array_equal(whole.labels[-last.n_rows :], last.labels)


def test_seeds_and_parts_differ_and_repeat() -> None:
    settings = FeaturesSettings(queries=20, documents=5, features=6)
    world = FeaturesWorld(settings)
    np.testing.assert_array_equal(world.data().features, FeaturesWorld(settings).data().features)
    assert not np.array_equal(world.data("train").features[:50], world.data("test").features[:50])
    other = FeaturesWorld(settings.model_copy(update={"seed": 2})).data()
    assert not np.array_equal(world.data().features[:50], other.features[:50])


def test_features_are_finite_and_few_values_are_extreme() -> None:
    features = FeaturesWorld(FeaturesSettings(queries=300, features=136)).data().features
    assert np.isfinite(features).all()
    assert np.abs(features).max() < 20


@pytest.mark.parametrize("wrong", [{"queries": 0}, {"features": 1}, {"grades": 6}, {"noise": 1.0}])
def test_impossible_worlds_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        FeaturesSettings(**wrong)


@pytest.mark.parametrize(
    "sizes", list(itertools.product([1, 3], [1, 2], [2, 3], [2, 3, 4, 5], [0, 2], [4, 8]))
)
def test_the_smallest_worlds_are_finite(sizes: tuple[int, ...]) -> None:
    names = ("queries", "documents", "features", "grades", "spread", "qualities")
    settings = dict(zip(names, sizes, strict=True))
    for shares in ({"nonlinearity": 0, "noise": 0}, {"nonlinearity": 1}, {}):
        data = FeaturesWorld(FeaturesSettings(**settings, **shares)).data()
        assert data.n_queries == settings["queries"]
        assert data.lengths.min() >= 1
        assert np.isfinite(data.features).all()
        assert 0 <= data.labels.min() <= data.labels.max() < settings["grades"]


def test_the_ordered_product_is_that_of_a_literal_loop() -> None:
    rng = np.random.default_rng(3)
    left = rng.standard_normal((7, 9), dtype=np.float32)
    right = rng.standard_normal((9, 20), dtype=np.float32)
    found = ordered_product(left, right)
    np.testing.assert_allclose(found, left.astype(float) @ right.astype(float), atol=1e-5)
    for row, column in np.ndindex(found.shape):
        total = np.float32(0)
        for inner in range(9):
            total += left[row, inner] * right[inner, column]
        assert found[row, column] == total


HASHES = """
import hashlib
from cloister.data.worlds.features import FeaturesSettings, FeaturesWorld
from cloister.data.worlds.intents import IntentsSettings, IntentsWorld
data = FeaturesWorld(FeaturesSettings(queries=150, features=136)).data()
drawn = IntentsWorld(IntentsSettings(queries=50)).data()
for array in (data.features, data.labels, drawn.data.features, drawn.intent_labels):
    print(hashlib.sha256(array.tobytes()).hexdigest())
"""


def test_the_world_does_not_depend_on_the_processor_or_the_number_of_threads(
    tmp_path: Path,
) -> None:
    def hashes(**variables: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", HASHES], env=os.environ | variables,
            check=True, capture_output=True, text=True, timeout=120,
        ).stdout  # fmt: skip

    found = {
        hashes(OPENBLAS_CORETYPE=core, OPENBLAS_NUM_THREADS=threads, NUMBA_NUM_THREADS=threads)
        for core in ("Haswell", "Prescott")
        for threads in ("1", "2")
    }
    # A processor that can do nothing which others cannot: for NumPy, then for compiled kernels.
    extensions = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    found.add(hashes(NPY_DISABLE_CPU_FEATURES=" ".join(extensions)))
    found.add(hashes(NUMBA_CPU_NAME="generic", NUMBA_CACHE_DIR=str(tmp_path)))
    assert len(found) == 1
    assert len(found.pop().split()) == 4
