"""Training and test data for a ranker, from any address."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cloister.core.errors import SettingsError
from cloister.data.letor import LetorSettings
from cloister.data.letor_folder import FoldData, find_letor
from cloister.data.normalise import column_scale, normalise
from cloister.data.worlds.address import is_world, open_world
from cloister.data.worlds.features import FeaturesWorld

__all__ = ["load_fold", "n_folds"]


def n_folds(address: str) -> int:
    """Return how many folds an address offers."""
    return 1 if is_world(address) else len(find_letor(address).folds)


def load_fold(address: str, number: int = 1, settings: LetorSettings | None = None) -> FoldData:
    """Load one fold of a LETOR file, folder or features world.

    Examples
    --------
    >>> fold = load_fold("world:features?queries=8&documents=5&features=4")
    >>> fold.train.n_queries, fold.test.n_queries
    (8, 8)
    """
    settings = settings or LetorSettings()
    if not is_world(address):
        return find_letor(address).load_fold(number, settings)
    world = open_world(address)
    if not isinstance(world, FeaturesWorld):
        raise SettingsError("this world has no feature vectors with one label", where=address)
    if number != 1 or settings.n_features not in (0, world.settings.features):
        raise SettingsError(
            f"no fold {number} of {settings.n_features or world.settings.features} features",
            where=address,
            remedy=f"there is fold 1 of {world.settings.features} features",
        )
    parts = [world.data(part) for part in ("train", "vali", "test")]
    if settings.precision == 64:
        parts = [replace(part, features=part.features.astype(np.float64)) for part in parts]
    method = settings.normalise
    scale = column_scale(parts[0], method) if method.startswith("global") else None
    return FoldData(*(normalise(part, method, scale=scale, in_place=True) for part in parts))
