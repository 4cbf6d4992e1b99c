"""C-KNRM* and what becomes of it: trees in the place of exact kernels, levels, closed maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.adaptive_clustering import AdaptiveThresholds
from cloister.cloud.fixed_threshold_clustering import FixedThreshold
from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.private_ranker import N_SOFT_FEATURES, PrivateRankingSettings
from cloister.cloud.ranking_keys import RankingKeys, find_keys
from cloister.cloud.served_features import ServedFeatures
from cloister.lab.neural import systems
from cloister.lab.neural.layers import Features, layer_scores, side_by_side
from cloister.lab.neural.map_cost import MapCost, map_cost
from cloister.lab.neural.scene import NeuralScene
from cloister.lab.neural.soft_rows import SoftRows
from cloister.lab.neural.tree_signals import TreeSignals, tree_signals
from cloister.lab.neural.trial_settings import NeuralTrialSettings
from cloister.rank.c_knrm_star import CKnrmStar
from cloister.rank.layer_fitting import SOFT_OF_STAR
from cloister.rank.neural_ranker import NeuralRanker
from cloister.rank.tree_features import TreeFeatures, TreeFeatureSettings

__all__ = ["Scored", "closures_tried", "kernel_systems", "private_systems"]

Floats = NDArray[np.float64]

PLAIN: Final = KernelObfuscation(base=None)
SOFT: Final = tuple(range(N_SOFT_FEATURES))  # columns of C-KNRM*/T; the tree signal comes after


class Scored(NamedTuple):
    """A system's scores of the test candidates.

    Parameters
    ----------
    system
        Its name.
    scores
        One a row.
    soft_share
        How much of them comes of soft kernels, where a layer says so; see
        `cloister.lab.neural.layers.LayerScores`.
    cost
        What its map takes, if it has one.
    """

    system: str
    scores: Floats
    soft_share: float | None = None
    cost: MapCost | None = None


def kernel_systems(
    scene: NeuralScene, star: NeuralRanker, soft: SoftRows, settings: NeuralTrialSettings
) -> Iterator[Scored]:
    """Yield C-KNRM* with exact kernels, without them, and with exact matches in soft kernels."""
    fitted = _fitted(scene, settings, SOFT_OF_STAR)
    yield fitted(systems.C_KNRM_STAR, soft.star_features())
    yield fitted(systems.C_KNRM_STAR_UNMASKED, SoftRows(scene, _unmasked(star)).star_features())
    yield _fitted(scene, settings, SOFT)(systems.SOFT_ALONE, soft.features(PLAIN))


def private_systems(
    scene: NeuralScene,
    soft: SoftRows,
    signals: dict[str, TreeSignals],
    settings: NeuralTrialSettings,
) -> Iterator[Scored]:
    """Yield C-KNRM*/T with each tree signal, /TO and /TOC with that of T1, and what is served."""
    fitted = _fitted(scene, settings, SOFT)
    plain = soft.features(PLAIN)
    for system, signal in signals.items():
        yield fitted(system, side_by_side(plain, signal))
    signal = signals[systems.T1]
    for base in settings.bases:
        levels = soft.features(KernelObfuscation(base=base))
        yield fitted(systems.obfuscated(base), side_by_side(levels, signal))
    chosen = _served_settings(settings)
    for system, closures in closures_tried(settings).items():
        chosen = chosen.model_copy(update={"closures": closures})
        keys = find_keys(scene.collection.texts, scene.embedding, chosen)
        yield _closed(system, scene, soft, signal, keys, settings)
    yield _as_served(scene, soft, settings)


def _closed(
    system: str,
    scene: NeuralScene,
    soft: SoftRows,
    signal: TreeSignals,
    keys: RankingKeys,
    settings: NeuralTrialSettings,
) -> Scored:
    """Score by levels of a closed map beside a tree signal."""
    obfuscation = KernelObfuscation(base=settings.bases[-1])
    levels = soft.features(obfuscation, keys)
    cost = map_cost(
        keys,
        obfuscation,
        n_documents=scene.collection.texts.n_documents,
        min_size=settings.min_size,
    )
    fitted = _fitted(scene, settings, SOFT)(system, side_by_side(levels, signal))
    return fitted._replace(cost=cost)


def _as_served(scene: NeuralScene, soft: SoftRows, settings: NeuralTrialSettings) -> Scored:
    """Score by all that the split protocol serves: trees, too, see only what keys lead to."""
    chosen = _served_settings(settings)
    texts = scene.collection.texts
    trees = TreeFeatures(texts, scene.collection.priors, chosen.features)
    keys = find_keys(texts, scene.embedding, chosen)
    served = ServedFeatures(soft.kernels, trees, keys, chosen)
    signal = tree_signals(scene, served.tree_rows, settings)
    return _closed(systems.SERVED, scene, soft, signal, keys, settings)


def _served_settings(settings: NeuralTrialSettings) -> PrivateRankingSettings:
    lowest = settings.adaptive(min(settings.thresholds))
    return PrivateRankingSettings(
        obfuscation=KernelObfuscation(base=settings.bases[-1]),
        closures=lowest.model_copy(update={"remainder": "merge"}),
        min_phrase_documents=settings.min_phrase_documents,
        min_pair_documents=settings.min_pair_documents,
        features=TreeFeatureSettings(n_positions=settings.n_positions, combined=False),
    )


def closures_tried(
    settings: NeuralTrialSettings,
) -> dict[str, FixedThreshold | AdaptiveThresholds]:
    """Return the closures by system: fixed, adaptive, and adaptive with the remainder merged.

    Adaptive closures as in the slides end at the threshold: terms like no other stay alone. Merged
    ones all reach the size p.
    """
    tried: dict[str, FixedThreshold | AdaptiveThresholds] = {}
    for threshold in settings.thresholds:
        fixed = FixedThreshold(threshold=threshold, min_size=settings.min_size)
        adaptive = settings.adaptive(threshold)
        tried[systems.closed("fixed", threshold)] = fixed
        tried[systems.closed("adaptive", threshold)] = adaptive
        tried[systems.merged(threshold)] = adaptive.model_copy(update={"remainder": "merge"})
    return tried


def _fitted(
    scene: NeuralScene, settings: NeuralTrialSettings, learnt: Sequence[int]
) -> Callable[[str, Features], Scored]:
    def fit(system: str, features: Features) -> Scored:
        return Scored(system, *layer_scores(scene, features, settings, learnt=learnt))

    return fit


def _unmasked(star: NeuralRanker) -> NeuralRanker:
    """Return the same filters with exact matches left in the soft kernels, as in the slides."""
    settings = star.model.settings.model_copy(update={"mask_exact": False})
    return replace(star, model=CKnrmStar(settings))  # type: ignore[arg-type]
