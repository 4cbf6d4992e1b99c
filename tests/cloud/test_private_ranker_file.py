from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cloister.cloud.private_ranker import PrivateRanker, PrivateRankingSettings
from cloister.cloud.private_ranker_file import load_private_ranker, save_private_ranker
from cloister.core.errors import CloisterError, Damaged, DataError, NotFound
from cloister.rank.kernel_ranker import KernelRanker
from cloud.private_ranking_world import SETTINGS, World, made_ranker


@pytest.fixture
def plain() -> PrivateRanker:
    weights = np.random.default_rng(1).normal(size=30)
    return PrivateRanker(
        made_ranker(), KernelRanker(weights, 0.1), None, PrivateRankingSettings(features=None)
    )


@pytest.fixture(scope="module")
def with_trees() -> PrivateRanker:
    pytest.importorskip("lightgbm")
    from cloister.rank.forest import ForestSettings
    from cloister.rank.query_length_forests import (
        QueryLengthForestSettings,
        fit_query_length_forests,
        tree_rows,
    )

    world = World()
    assert world.trees is not None
    queries = [["a"], ["b"], ["c", "d"], ["e", "a"]]
    grades = [np.arange(40) % 2] * 4
    data = tree_rows(world.trees, queries, [np.arange(40)] * 4, grades)
    how = QueryLengthForestSettings(
        longest=2, min_queries=2, forest=ForestSettings(n_trees=3, n_leaves=3, min_leaf_rows=5)
    )
    forests = fit_query_length_forests(data, [1, 1, 2, 2], how)
    layer = KernelRanker(np.random.default_rng(2).normal(size=31), -0.3)
    return PrivateRanker(world.ranker, layer, forests, SETTINGS)


def test_a_ranker_is_read_back_as_it_was(plain: PrivateRanker, tmp_path: Path) -> None:
    save_private_ranker(plain, tmp_path / "model")
    read = load_private_ranker(tmp_path / "model")
    assert read.layer.weights.tolist() == plain.layer.weights.tolist()
    assert read.layer.bias == plain.layer.bias
    assert read.settings == plain.settings
    assert read.forests is None
    for name, value in plain.neural.parameters.items():
        assert read.neural.parameters[name].tolist() == value.tolist()
    assert read.neural.embedding.words == plain.neural.embedding.words


def test_trees_are_read_back_too(with_trees: PrivateRanker, tmp_path: Path) -> None:
    save_private_ranker(with_trees, tmp_path / "model")
    read = load_private_ranker(tmp_path / "model")
    rows = np.random.default_rng(3).random((9, with_trees.forests.n_features))  # type: ignore[union-attr]
    for n_terms in (1, 2, 3):
        found, expected = (one.forests.score(n_terms, rows) for one in (read, with_trees))  # type: ignore[union-attr]
        assert found.tolist() == expected.tolist()


def test_a_ranker_takes_the_place_of_another(
    plain: PrivateRanker, with_trees: PrivateRanker, tmp_path: Path
) -> None:
    for one in (with_trees, plain, with_trees):
        save_private_ranker(one, tmp_path / "model")
        assert load_private_ranker(tmp_path / "model").n_features == one.n_features


def test_only_the_owner_may_read_a_ranker(with_trees: PrivateRanker, tmp_path: Path) -> None:
    save_private_ranker(with_trees, tmp_path / "model")
    for path in (tmp_path / "model").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("name", ["ranker.json", "neural.safetensors", "forests/common.forest"])
def test_a_changed_or_missing_file_is_found_out(
    with_trees: PrivateRanker, tmp_path: Path, name: str
) -> None:
    save_private_ranker(with_trees, tmp_path / "model")
    path = tmp_path / "model" / name
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises((DataError, Damaged)):
        load_private_ranker(tmp_path / "model")
    path.unlink()
    with pytest.raises(CloisterError):
        load_private_ranker(tmp_path / "model")


def test_a_folder_that_was_half_written_over_is_not_whole(
    plain: PrivateRanker, with_trees: PrivateRanker, tmp_path: Path
) -> None:
    for name, one in (("a", plain), ("b", with_trees)):
        save_private_ranker(one, tmp_path / name)
    (tmp_path / "a" / "ranker.json").unlink()
    with pytest.raises(NotFound):
        load_private_ranker(tmp_path / "a")
    last = (tmp_path / "b" / "ranker.json").read_bytes()
    (tmp_path / "a" / "ranker.json").write_bytes(last)
    with pytest.raises(Damaged):
        load_private_ranker(tmp_path / "a")


def test_what_is_no_ranker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        load_private_ranker(tmp_path / "nothing")
    (tmp_path / "ranker.json").write_text(json.dumps({"a": 1}))
    with pytest.raises(DataError, match="not a private ranker"):
        load_private_ranker(tmp_path)
