"""One trial of private neural ranking: every system of the slides' tables on the same queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cloister.lab.neural import systems
from cloister.lab.neural.baselines import (
    conv_knrm_scores,
    drmm_scores,
    knrm_scores,
    trained_star,
)
from cloister.lab.neural.private_systems import (
    Scored,
    closures_tried,
    kernel_systems,
    private_systems,
)
from cloister.lab.neural.query_rows import QueryRows
from cloister.lab.neural.scene import NeuralScene, open_scene
from cloister.lab.neural.soft_rows import SoftRows
from cloister.lab.neural.tree_signals import TreeSignals, tree_signals
from cloister.lab.neural.trial_settings import NeuralTrialSettings
from cloister.lab.reproduce.study import Figures
from cloister.lab.simulation.run import Advance, silent
from cloister.rank.tree_features import TreeFeatures, TreeFeatureSettings

__all__ = ["measure", "systems_of"]

_TREES_ALONE: Final = {
    systems.T1: systems.T1_ALONE,
    systems.T2: systems.T2_ALONE,
    systems.T1_COMBINED: systems.LAMBDA_MART,
}


def systems_of(settings: NeuralTrialSettings) -> tuple[str, ...]:
    """Return the names of the systems that a trial measures."""
    return (
        systems.BM25,
        *_TREES_ALONE.values(),
        systems.DRMM,
        systems.K_NRM,
        systems.C_KNRM,
        systems.C_KNRM_STAR,
        systems.C_KNRM_STAR_UNMASKED,
        systems.SOFT_ALONE,
        *_TREES_ALONE,
        *(systems.obfuscated(base) for base in settings.bases),
        *closures_tried(settings),
        systems.SERVED,
    )


def measure(settings: NeuralTrialSettings, advance: Advance = silent) -> Figures:
    """Train what is needed once, and return nDCG of every system on the test queries.

    Figures of a system: ``ndcg@1``, ``ndcg@3``, ``ndcg@10`` (means), ``queries@1`` and so on (one
    number a test query, in the collection's order); ``soft_share_of_order`` of a system with
    C-KNRM*; and those of :class:`cloister.lab.neural.map_cost.MapCost` where it has a closed map.
    """
    names = systems_of(settings)
    figures: Figures = {}
    scene = open_scene(settings)
    for one in _scored(scene, settings):
        figures[one.system] = _figures(scene.test, one, settings.seed)
        advance(len(figures), len(names))
    return figures


def _scored(scene: NeuralScene, settings: NeuralTrialSettings) -> Iterator[Scored]:
    yield Scored(systems.BM25, scene.test.bm25)
    signals: dict[str, TreeSignals] = {}
    for system, features in _tree_settings(settings).items():
        made = TreeFeatures(scene.collection.texts, scene.collection.priors, features)
        signals[system] = tree_signals(scene, made.of, settings)
        yield Scored(_TREES_ALONE[system], signals[system].test)
    yield Scored(systems.DRMM, drmm_scores(scene, settings))
    yield Scored(systems.K_NRM, knrm_scores(scene, settings))
    yield Scored(systems.C_KNRM, conv_knrm_scores(scene, settings))
    star = trained_star(scene, settings)
    soft = SoftRows(scene, star)
    yield from kernel_systems(scene, star, soft, settings)
    yield from private_systems(scene, soft, signals, settings)


def _tree_settings(settings: NeuralTrialSettings) -> dict[str, TreeFeatureSettings]:
    """Return the features of each C-KNRM*/T: what a server can look up, and all that there is."""
    n = settings.n_positions
    return {
        systems.T1: TreeFeatureSettings(kind="T1", n_positions=n, combined=False),
        systems.T2: TreeFeatureSettings(kind="T2", n_positions=n, combined=False),
        systems.T1_COMBINED: TreeFeatureSettings(kind="T1", n_positions=n, combined=True),
    }


def _figures(rows: QueryRows, one: Scored, seed: int) -> dict[str, float | list[float]]:
    figures: dict[str, float | list[float]] = {}
    for k, values in rows.ndcg(one.scores, seed=seed).items():
        figures[f"ndcg@{k}"] = float(values.mean())
        figures[f"queries@{k}"] = values.tolist()
    if one.soft_share is not None:
        figures["soft_share_of_order"] = one.soft_share
    if one.cost is not None:
        figures |= {name: float(value) for name, value in one.cost._asdict().items()}
    return figures
