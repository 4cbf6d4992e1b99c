from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.core.errors import Damaged, DataError, MissingDependency, NotFound
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.measure.mean import mean
from cloister.measure.named import evaluate
from cloister.rank import forest as forest_module
from cloister.rank.forest import Forest, ForestMixture, ForestSettings, fit_forest
from cloister.rank.forest_file import load_forest, save_forest
from rank.labelled_data import made_data

lightgbm = pytest.importorskip("lightgbm")

SMALL = ForestSettings(n_trees=8, n_leaves=5, min_leaf_rows=5, feature_share=0.5)


@pytest.fixture(scope="module")
def data() -> RankingData:
    return made_data(n_queries=60)


@pytest.fixture(scope="module")
def grown(data: RankingData) -> Forest:
    return fit_forest(data, SMALL)


def whole_text(data: RankingData) -> tuple[Any, str]:
    """LightGBM's own model and all that it writes about it."""
    train = forest_module._dataset(lightgbm, data, np.ones(data.n_rows))
    booster = lightgbm.train(forest_module._parameters(SMALL, 0), train, num_boost_round=8)
    return booster, booster.model_to_string()


def test_scores_are_those_of_lightgbm(data: RankingData, grown: Forest) -> None:
    booster, text = whole_text(data)
    features = np.array(data.features)
    features[::3, 1] = np.nan
    np.testing.assert_array_equal(Forest(text, 4).score(features), booster.predict(features))
    np.testing.assert_array_equal(grown.score(features), booster.predict(features))
    assert grown.n_trees == 8


def test_a_forest_keeps_nothing_of_lightgbms_text_but_splits_and_leaves(
    data: RankingData,
) -> None:
    _, text = whole_text(data)
    telling = ["leaf_count", "internal_count", "leaf_weight", "split_gain", "parameters", "seed"]
    assert all(word in text for word in telling)
    kept = Forest(text, 4).text
    assert not any(word in kept for word in telling)
    assert kept.count("feature_infos=[0:1] [0:1] [0:1] [0:1]\n") == 1
    assert Forest(kept, 4).text == kept


def test_the_same_seed_grows_the_same_trees(data: RankingData, grown: Forest) -> None:
    assert fit_forest(data, SMALL).text == grown.text
    assert fit_forest(data, SMALL, seed=1).text != grown.text


def test_a_forest_learns(data: RankingData, grown: Forest) -> None:
    test = made_data(1, n_queries=60)
    found = mean(evaluate(grown.score(test), test, ["nDCG@10"])["nDCG@10"])
    blind = mean(evaluate(np.zeros(test.n_rows), test, ["nDCG@10"])["nDCG@10"])
    assert found > blind + 0.05


def test_a_validation_set_keeps_fewer_trees(data: RankingData) -> None:
    settings = SMALL.model_copy(update={"n_trees": 300, "learning_rate": 0.5, "patience": 5})
    stopped = fit_forest(data, settings, validation=made_data(1, n_queries=60))
    assert 1 <= stopped.n_trees < 300


def test_rows_of_no_weight_teach_little(data: RankingData) -> None:
    """A query whose rows weigh nothing moves no leaf."""
    weights = np.ones(data.n_rows)
    weights[data.offsets[30] :] = 0
    lied = RankingData(
        data.features,
        np.where(weights == 0, 2 - data.labels, data.labels).astype(np.int8),
        data.offsets,
    )
    a, b = (fit_forest(d, SMALL, weights=weights) for d in (data, lied))
    unweighted = fit_forest(lied, SMALL)
    assert a.text == b.text != unweighted.text


def test_scores_are_equal_after_saving_and_loading(
    data: RankingData, grown: Forest, tmp_path: Path
) -> None:
    save_forest(grown, tmp_path / "a.txt")
    loaded = load_forest(tmp_path / "a.txt")
    assert (loaded.text, loaded.spread, loaded.n_features) == (grown.text, grown.spread, 4)
    np.testing.assert_array_equal(loaded.score(data), grown.score(data))
    assert (tmp_path / "a.txt").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("place", [30, 100, 500, -20])
def test_a_damaged_file_is_refused(grown: Forest, tmp_path: Path, place: int) -> None:
    path = tmp_path / "a.txt"
    save_forest(grown, path)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(Damaged, match="checksum"):
        load_forest(path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(Damaged):
        load_forest(path)


def test_a_foreign_or_missing_file_is_refused(grown: Forest, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with pytest.raises(NotFound):
        load_forest(path)
    with pytest.raises(NotFound, match="folder"):
        save_forest(grown, tmp_path / "none" / "a.txt")
    path.write_text(grown.text)
    with pytest.raises(DataError, match="not a file of a forest"):
        load_forest(path)


def replaced(pattern: str, by: str) -> Callable[[str], str]:
    return lambda text: re.sub(pattern, by, text, count=1, flags=re.MULTILINE)


@pytest.mark.parametrize(
    "spoil",
    [
        replaced(r"^left_child=\S+", "left_child=0"),  # leads back to the root
        replaced(r"^left_child=\S+", "left_child=99"),
        replaced(r"^right_child=\S+", "right_child=-99"),
        replaced(r"^split_feature=\S+", "split_feature=4"),
        replaced(r"^decision_type=\S+", "decision_type=1"),  # a split by categories
        replaced(r"^threshold=\S+", "threshold=nan"),
        replaced(r"^leaf_value=\S+", "leaf_value=inf"),
        replaced(r"^leaf_value=\S+ ", "leaf_value="),
        replaced(r"^num_leaves=\d+", "num_leaves=1000000"),
        replaced(r"^num_cat=0", "num_cat=1"),
        replaced(r"^Tree=1$", "Tree=3"),
        replaced(r"^num_class=1", "num_class=2"),
        replaced(r"^objective=lambdarank", "objective=binary sigmoid:1"),
        replaced(r"^end of trees", "end"),
        replaced(r"^num_cat=0", "num_cat=0\nnum_leaves=2"),
        lambda text: "",
    ],
)
def test_trees_that_lightgbm_must_not_read_are_refused(
    grown: Forest, spoil: Callable[[str], str]
) -> None:
    assert spoil(grown.text) != grown.text
    with pytest.raises(DataError, match="not LightGBM's text"):
        Forest(spoil(grown.text), 4)


def test_trees_of_other_features_are_refused(grown: Forest) -> None:
    with pytest.raises(DataError, match="not of 5 features"):
        Forest(grown.text, 5)
    with pytest.raises(DataError, match="4 features"):
        grown.score(np.zeros((1, 5)))


def test_a_mixture_is_the_weighted_sum_of_scores_by_spread(data: RankingData) -> None:
    parties = [data.query_range(0, 30), data.query_range(30, 60)]
    forests = [fit_forest(party, SMALL) for party in parties]
    for forest, party in zip(forests, parties, strict=True):
        assert forest.spread == pytest.approx(forest.score(party).std())
    mixture = ForestMixture(forests, [1.0, 3.0])
    wanted = sum(
        weight * forest.score(data) / forest.spread
        for weight, forest in zip((0.25, 0.75), forests, strict=True)
    )
    np.testing.assert_allclose(mixture.score(data), wanted, rtol=1e-12)
    np.testing.assert_allclose(
        ForestMixture(forests, [0.0, 2.0]).score(data),
        forests[1].score(data) / forests[1].spread,
    )
    assert ForestMixture(forests).weights == (0.5, 0.5)


def test_a_mixture_that_does_not_fit_is_refused(grown: Forest) -> None:
    for weights in ([1.0], [-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0]):
        with pytest.raises(DataError):
            ForestMixture([grown, grown], weights)
    with pytest.raises(DataError):
        ForestMixture([])


def test_data_that_no_tree_can_grow_on_is_refused() -> None:
    empty = RankingData(np.empty((0, 2)), np.empty(0, np.int8), np.array([0]))
    below = RankingData(np.zeros((2, 2)), np.array([-1, 0], np.int8), np.array([0, 2]))
    long = RankingData(np.zeros((10_001, 1)), np.zeros(10_001, np.int8), np.array([0, 10_001]))
    for wrong in (empty, below, long):
        with pytest.raises(DataError):
            fit_forest(wrong)


def test_without_lightgbm_the_remedy_is_named(
    data: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingDependency, match=r"cloister\[trees\]"):
        fit_forest(data)


def test_lightgbm_is_imported_only_when_trees_are_needed() -> None:
    code = "import sys, cloister.rank.forest_file; sys.exit('lightgbm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_lambdamart_learns_mq2008(real_data: Any) -> None:
    fold = load_fold(str(real_data("ltr/mq2008")))
    forest = fit_forest(fold.train)
    value = mean(evaluate(forest.score(fold.test), fold.test, ["nDCG@10"])["nDCG@10"])
    assert 0.69 < value < 0.75  # random scores reach about .49
