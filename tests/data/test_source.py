from __future__ import annotations

import numpy as np
import pytest

from cloister.core.errors import SettingsError
from cloister.data.letor import LetorSettings
from cloister.data.source import load_fold, n_folds

WORLD = "world:features?queries=6&documents=5&features=4"


def test_a_world_has_one_fold_of_its_own_width() -> None:
    assert n_folds(WORLD) == 1
    assert load_fold(WORLD).test.n_features == 4
    with pytest.raises(SettingsError, match="no fold 2"):
        load_fold(WORLD, 2)
    with pytest.raises(SettingsError, match="99 features"):
        load_fold(WORLD, 1, LetorSettings(n_features=99))


def test_settings_hold_for_worlds_too() -> None:
    fold = load_fold(WORLD, 1, LetorSettings(precision=64, normalise="query_minmax"))
    assert fold.train.features.dtype == np.float64
    assert fold.train.features.min() == 0
    assert fold.train.features.max() == 1


def test_a_global_scale_of_a_world_is_learnt_from_its_training_part() -> None:
    fold = load_fold(WORLD, 1, LetorSettings(normalise="global_minmax"))
    assert fold.train.features.max() == 1
    assert fold.test.features.max() != 1


def test_a_world_without_feature_vectors_is_refused() -> None:
    with pytest.raises(SettingsError):
        load_fold("world:clinic?servers=1&pods=2")
