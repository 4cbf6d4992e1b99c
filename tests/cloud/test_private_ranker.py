from __future__ import annotations

import numpy as np
import pytest

from cloister.cloud.fixed_threshold_clustering import FixedThreshold
from cloister.cloud.private_ranker import PrivateRanker, PrivateRankingSettings
from cloister.core.errors import DataError, SettingsError
from cloister.rank.kernel_ranker import KernelRanker
from cloister.rank.knrm import Knrm
from cloister.rank.neural_ranker import NeuralRanker
from cloister.rank.tree_features import TreeFeatureSettings
from cloud.private_ranking_world import made_ranker

WITHOUT_TREES = PrivateRankingSettings(features=None)


def test_a_ranker_without_trees_takes_30_features() -> None:
    ranker = PrivateRanker(made_ranker(), KernelRanker(np.ones(30)), None, WITHOUT_TREES)
    assert ranker.n_features == 30


def test_a_layer_of_another_size_is_refused() -> None:
    with pytest.raises(DataError, match="30 weights"):
        PrivateRanker(made_ranker(), KernelRanker(np.ones(31)), None, WITHOUT_TREES)


def test_soft_kernels_with_exact_matches_are_refused() -> None:
    with pytest.raises(DataError, match="term frequencies"):
        PrivateRanker(made_ranker(mask_exact=False), KernelRanker(np.ones(30)), None, WITHOUT_TREES)


def test_another_model_is_refused() -> None:
    other = NeuralRanker.initial(Knrm(), made_ranker().embedding)
    with pytest.raises(DataError, match="not a C-KNRM"):
        PrivateRanker(other, KernelRanker(np.ones(30)), None, WITHOUT_TREES)


def test_tree_features_need_forests() -> None:
    with pytest.raises(DataError, match="go together"):
        PrivateRanker(made_ranker(), KernelRanker(np.ones(31)), None, PrivateRankingSettings())


@pytest.mark.parametrize(
    "features", [TreeFeatureSettings(), TreeFeatureSettings(combined=False, source_prior=True)]
)
def test_features_that_a_server_cannot_look_up_are_refused(features: TreeFeatureSettings) -> None:
    with pytest.raises(SettingsError, match="switch"):
        PrivateRankingSettings(features=features)


@pytest.mark.parametrize(
    "settings",
    [
        PrivateRankingSettings(),
        PrivateRankingSettings(closures=FixedThreshold(threshold=0.3), features=None),
    ],
)
def test_settings_are_read_back_from_their_canonical_form(
    settings: PrivateRankingSettings,
) -> None:
    assert PrivateRankingSettings(**settings.model_dump(mode="json")) == settings
