"""One repetition of learning to rank across silos: every run, measured for every party.

Two test sets, as in CS-F-LTR: the party's own held-out queries, and the *external* set of all
parties' held-out queries, on which a party's ranker is tried as if it were used everywhere.
Features are computed where the documents lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import PartyId
from cloister.lab.silos.settings import SilosSettings
from cloister.lab.silos.training import (
    MIXTURE,
    SYSTEMS,
    TUNED,
    TrainedSilos,
    train_silos,
)
from cloister.measure.named import evaluate
from cloister.measure.significance import Comparison, paired_t_test

__all__ = [
    "HIGHEST_GRADE",
    "MEASURES",
    "SYSTEMS",
    "Figures",
    "compare_systems",
    "figures_of",
    "measure_silos",
]

MEASURES: Final = {"ndcg@10": "nDCG@10", "err": "ERR", "ndcg": "nDCG"}
HIGHEST_GRADE: Final = 2

Figures = dict[str, dict[str, float]]
Floats = NDArray[np.float64]


def measure_silos(settings: SilosSettings) -> Figures:
    """Train all runs and the mixture; return figures by system, as `figures_of` does."""
    return figures_of(train_silos(settings))


def figures_of(trained: TrainedSilos) -> Figures:
    """Measure all systems of a repetition.

    Of each system ``ndcg@10``, ``err`` and ``ndcg`` (uncut): the mean over parties on the external
    test set, and with ``own_`` before it on the party's own; and each for one party alone, as in
    ``"own_ndcg@10 party-a"``. Of the mixture also each party's share; of the tuned CS-F-LTR how
    much a pseudo-labelled row counts, and whether statistics are pooled (1). Labels have three
    grades.
    """
    parties = list(trained.rows.own)
    figures: Figures = {}
    for system in SYSTEMS:
        figures[system] = _measured(trained, system, parties)
    for party in parties:
        figures[MIXTURE][f"share {party}"] = trained.mixtures[party].share
    variant = trained.systems[TUNED].variant
    figures[TUNED]["augmented_weight"] = variant.augmented_weight
    figures[TUNED]["pooled"] = float(variant.statistics == "pooled")
    return figures


def _measured(trained: TrainedSilos, system: str, parties: Sequence[PartyId]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for party in parties:
        found = {owner: _values(trained, system, party, owner) for owner in parties}
        for name in MEASURES:
            everywhere = np.concatenate([found[owner][name] for owner in parties])
            figures[f"{name} {party}"] = float(np.nanmean(everywhere))
            figures[f"own_{name} {party}"] = float(np.nanmean(found[party][name]))
    for name in MEASURES:
        for kind in (name, f"own_{name}"):
            figures[kind] = float(np.mean([figures[f"{kind} {party}"] for party in parties]))
    return figures


def _values(
    trained: TrainedSilos, system: str, party: PartyId, owner: PartyId
) -> dict[str, Floats]:
    """Return each measure of each test query."""
    scores = trained.scores(system, party, owner, "test")
    data = trained.rows.own[owner]["test"]
    values = evaluate(scores, data, MEASURES.values(), max_grade=HIGHEST_GRADE)
    return {name: values[measure] for name, measure in MEASURES.items()}


def compare_systems(
    repetitions: Sequence[Figures],
    figures: Sequence[str],
    *,
    system: str = "cs-f-ltr",
    baseline: str = "local",
) -> dict[str, Comparison]:
    """Compare two systems over repetitions (seeds) by paired t-tests, one for each figure.

    P-values are corrected for the number of figures (Bonferroni): give the figures of all parties
    to ask whether *any* party lost.
    """
    return {
        figure: paired_t_test(
            [one[system][figure] for one in repetitions],
            [one[baseline][figure] for one in repetitions],
            n_comparisons=len(figures),
        )
        for figure in figures
    }
