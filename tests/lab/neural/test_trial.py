"""One trial of private neural ranking on a made-up collection."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.private_ranker import PrivateRankingSettings
from cloister.cloud.ranking_keys import RankingKeys, find_keys
from cloister.core.errors import DataError, SettingsError
from cloister.lab.neural import systems
from cloister.lab.neural.baselines import features_of, trained_star
from cloister.lab.neural.kernel_rows import kernel_rows
from cloister.lab.neural.layers import layer_scores, side_by_side
from cloister.lab.neural.map_cost import map_cost
from cloister.lab.neural.private_systems import closures_tried
from cloister.lab.neural.query_rows import CUTOFFS
from cloister.lab.neural.scene import NeuralScene, open_scene
from cloister.lab.neural.soft_rows import SoftRows
from cloister.lab.neural.trial import measure, systems_of
from cloister.lab.reproduce.study import Figures
from cloister.rank.drmm import Drmm
from cloister.rank.neural_ranker import NeuralRanker
from lab.neural.made_collection import N_DOCUMENTS, N_QUERIES, small_settings, write_collection


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("neural") / "made")


@pytest.fixture(scope="module")
def scene(folder: Path) -> NeuralScene:
    return open_scene(small_settings(folder))


@pytest.fixture(scope="module")
def star(scene: NeuralScene, folder: Path) -> NeuralRanker:
    return trained_star(scene, small_settings(folder))


@pytest.fixture(scope="module")
def figures(folder: Path) -> Figures:
    return measure(small_settings(folder))


def test_every_system_is_measured_on_every_test_query(figures: Figures, folder: Path) -> None:
    assert tuple(figures) == systems_of(small_settings(folder))
    for found in figures.values():
        for k in CUTOFFS:
            values = found[f"queries@{k}"]
            assert isinstance(values, list)
            assert len(values) == N_QUERIES // 4
            assert found[f"ndcg@{k}"] == pytest.approx(np.mean(values))


def test_rankers_of_topics_beat_a_ranking_by_lot(figures: Figures, scene: NeuralScene) -> None:
    lot = scene.test.ndcg(np.zeros(len(scene.test.labels)))[10].mean()
    for system in (systems.BM25, systems.K_NRM, systems.T1, systems.obfuscated(10)):
        assert float(figures[system]["ndcg@10"]) > lot + 0.05  # type: ignore[arg-type]


def test_a_trial_done_again_gives_the_same_figures(figures: Figures, folder: Path) -> None:
    told: list[tuple[int, int]] = []
    settings = small_settings(folder)
    assert measure(settings, lambda done, total: told.append((done, total))) == figures
    assert told[-1] == (len(systems_of(settings)),) * 2


def test_draws_differ_in_training_queries_and_not_in_test_queries(folder: Path) -> None:
    one, two = (open_scene(small_settings(folder, n_training=10, seed=s)) for s in (1, 2))
    assert one.training.terms != two.training.terms
    assert one.test.terms == two.test.terms
    assert not set(one.training.terms) & set(one.test.terms)


def test_a_fold_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(SettingsError, match="1 folds"):
        open_scene(small_settings(folder, fold=2))


def test_kernel_features_by_torch_and_without_it_are_the_same(
    scene: NeuralScene, star: NeuralRanker
) -> None:
    by_torch, without = features_of(star, scene), SoftRows(scene, star).star_features()
    for one, other in zip(by_torch, without, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_a_ranker_without_kernels_has_no_kernel_features(scene: NeuralScene) -> None:
    ranker = NeuralRanker.initial(Drmm(), scene.embedding)
    with pytest.raises(DataError, match="drmm has no kernels"):
        kernel_rows(ranker, scene.test.texts(scene.documents))


def test_a_layer_on_the_grades_themselves_ranks_without_fault(
    scene: NeuralScene, folder: Path
) -> None:
    grades = tuple(part.labels.astype(float) for part in scene.parts)
    noise = tuple(np.sin(np.arange(len(part.labels))) for part in scene.parts)
    features = side_by_side(grades, noise)
    scores, share = layer_scores(scene, features, small_settings(folder), learnt=[1])
    best = scene.test.ndcg(scene.test.labels.astype(float))[10]
    assert scene.test.ndcg(scores)[10].tolist() == pytest.approx(best.tolist())
    assert 0 <= share < 0.2  # nearly all of it is of the grades
    assert layer_scores(scene, features, small_settings(folder), learnt=[0]).learnt_share > 0.8


def test_shares_of_soft_kernels_are_told(figures: Figures) -> None:
    assert figures[systems.SOFT_ALONE]["soft_share_of_order"] == 1.0
    assert 0 <= float(figures[systems.T1]["soft_share_of_order"]) <= 1  # type: ignore[arg-type]
    assert "soft_share_of_order" not in figures[systems.T1_ALONE]


def test_closures_are_fixed_adaptive_and_merged(folder: Path) -> None:
    tried = closures_tried(small_settings(folder))
    assert list(tried) == [
        name
        for t in (0.3, 0.7)
        for name in (systems.closed("fixed", t), systems.closed("adaptive", t), systems.merged(t))
    ]


def found_keys(scene: NeuralScene, folder: Path, system: str) -> RankingKeys:
    closures = closures_tried(small_settings(folder))[system]
    settings = PrivateRankingSettings(closures=closures, min_phrase_documents=1)
    return find_keys(scene.collection.texts, scene.embedding, settings)


@pytest.mark.parametrize("system", [systems.closed("fixed", 0.3), systems.merged(0.3)])
def test_bytes_of_a_map_are_counted_key_by_key(
    scene: NeuralScene, folder: Path, system: str
) -> None:
    keys = found_keys(scene, folder, system)
    cost = map_cost(keys, KernelObfuscation(base=10), n_documents=N_DOCUMENTS, min_size=3)
    everywhere = np.arange(N_DOCUMENTS)
    held = sum(20 * int(keys.word_held(word, everywhere).sum()) for word in keys.words)
    held += sum(10 * int(keys.phrase_held(phrase, everywhere).sum()) for phrase in keys.phrases)
    named = 4 * (len(keys.word_documents.documents) + len(keys.phrase_documents.documents))
    assert cost.closed_bytes == held + named
    assert cost.full_bytes == N_DOCUMENTS * (20 * len(keys.words) + 10 * len(keys.phrases))
    assert cost.share_of_full == pytest.approx(cost.closed_bytes / cost.full_bytes)
    assert cost.mean_size == pytest.approx(len(keys.words) / cost.n_closures)


def test_merged_closures_reach_their_size_and_leave_more_open(
    figures: Figures, folder: Path
) -> None:
    merged, kept = figures[systems.merged(0.7)], figures[systems.closed("adaptive", 0.7)]
    assert merged["smallest"] == small_settings(folder).min_size
    assert merged["share_below"] == 0
    assert kept["share_below"] > 0  # type: ignore[operator]
    assert merged["closed_bytes"] > kept["closed_bytes"]  # type: ignore[operator]
    assert merged["log2_deniability"] > kept["log2_deniability"]  # type: ignore[operator]
