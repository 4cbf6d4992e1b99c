"""One repetition of learning to rank across silos: every run, measured for every party.

Two test sets, as in CS-F-LTR: the party's own held-out queries, and the *external* set of all
parties' held-out queries, on which a party's ranker is tried as if it were used everywhere.
Features are computed where the documents lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import PartyId
from cloister.federate.silos.forest_learner import ForestLearner
from cloister.federate.silos.linear_learners import LinearLearner
from cloister.federate.silos.mixture import Mixture, MixtureSettings, choose_share, mixed_scores
from cloister.federate.silos.round_robin import RoundRobinSettings
from cloister.federate.silos.runs import (
    RUNS,
    PartyRows,
    RunName,
    Scorer,
    SiloLearner,
    augments,
    federates,
    rows_for,
    train_run,
)
from cloister.federate.silos.tuning import VARIANTS, Statistics, Variant, choose_variant
from cloister.lab.silos.rows import OwnRows, SiloRows, Split, make_rows
from cloister.lab.silos.settings import RowSettings, SilosSettings
from cloister.measure.named import evaluate
from cloister.measure.significance import Comparison, paired_t_test
from cloister.rank.forest import ForestSettings
from cloister.rank.pairwise import PairwiseSettings
from cloister.rank.pointwise import PointwiseSettings

__all__ = ["MEASURES", "SYSTEMS", "compare_systems", "make_learner", "measure_silos", "n_passes"]

MEASURES: Final = {"ndcg@10": "nDCG@10", "err": "ERR", "ndcg": "nDCG"}
LOCAL_POOLED: Final = "local-pooled"  # Local with the statistics of the augmented runs: a control
TUNED: Final = "cs-f-ltr-tuned"
MIXTURE: Final = "mixture"
SYSTEMS: Final = (*RUNS, LOCAL_POOLED, TUNED, MIXTURE)
HIGHEST_GRADE: Final = 2

Figures = dict[str, dict[str, float]]
Floats = NDArray[np.float64]


class _System(NamedTuple):
    """One trained system: each party's ranker, and the statistics that its features need."""

    rankers: Mapping[PartyId, Scorer]
    variant: Variant


class _Trained(NamedTuple):
    """All systems of a repetition, and each party's mixture of Local and CS-F-LTR."""

    rows: SiloRows
    systems: Mapping[str, _System]
    mixtures: Mapping[PartyId, Mixture]

    def scores(self, system: str, party: PartyId, owner: PartyId, split: Split) -> Floats:
        """Return how a party's ranker scores the queries of another (or its own)."""
        if system != MIXTURE:
            one = self.systems[system]
            return one.rankers[party].score(_own(self.rows, one.variant.statistics)[owner][split])
        share = self.mixtures[party].share
        offsets = self.rows.pooled[owner][split].offsets
        local = self.scores("local", party, owner, split)
        return mixed_scores(local, self.scores("cs-f-ltr", party, owner, split), offsets, share)


def measure_silos(settings: SilosSettings) -> Figures:
    """Train all runs and the mixture; return figures by system.

    Of each system ``ndcg@10``, ``err`` and ``ndcg`` (uncut): the mean over parties on the external
    test set, and with ``own_`` before it on the party's own; and each for one party alone, as in
    ``"own_ndcg@10 party-a"``. Of the mixture also each party's share; of the tuned CS-F-LTR how
    much a pseudo-labelled row counts, and whether statistics are pooled (1). Labels have three
    grades.
    """
    trained = _train(settings)
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


def _train(settings: SilosSettings) -> _Trained:
    rows = make_rows(narrowed(settings))
    own, augmented = Variant("own", 0.0), Variant("pooled", settings.augmented_weight)
    systems: dict[str, _System] = {
        run: _train_system(run, augmented if augments(run) else own, rows, settings) for run in RUNS
    }
    systems[LOCAL_POOLED] = _train_system("local", Variant("pooled", 0.0), rows, settings)
    systems[TUNED] = _tuned(rows, settings)
    trained = _Trained(rows, systems, {})
    return trained._replace(
        mixtures={party: _mixture(trained, party, settings) for party in rows.own}
    )


def _tuned(rows: SiloRows, settings: SilosSettings) -> _System:
    """Train CS-F-LTR in all variants; keep the one that the parties' validation queries choose."""
    tried = {variant: _train_system("cs-f-ltr", variant, rows, settings) for variant in VARIANTS}
    told = {
        variant: [_validated(one, rows, party) for party in rows.own]
        for variant, one in tried.items()
    }
    return tried[choose_variant(VARIANTS, told)]


def _train_system(
    run: RunName, variant: Variant, rows: SiloRows, settings: SilosSettings
) -> _System:
    training = {
        party: rows_for(
            run,
            _own(rows, variant.statistics)[party]["training"],
            rows.augmented[variant.statistics][party],
            augmented_weight=variant.augmented_weight,
        )
        for party in rows.own
    }
    if federates(run):
        return _System(_trained_alike(run, training, rows, settings), variant)
    alone = {
        party: _trained_alike(run, {party: one}, rows, settings)[party]
        for party, one in training.items()
    }
    return _System(alone, variant)


def _trained_alike(
    run: RunName, training: Mapping[PartyId, PartyRows], rows: SiloRows, settings: SilosSettings
) -> dict[PartyId, Scorer]:
    """Train with as many steps as CS-F-LTR takes, whatever the number of rows."""
    n_rows = sum(one.data.n_rows for one in training.values())
    learner = make_learner(settings, n_passes(n_rows, rows, settings))
    return train_run(run, training, learner, seed=settings.seed)


def n_passes(n_rows: int, rows: SiloRows, settings: SilosSettings) -> int:
    """Return how many passes over so many rows take as many steps as CS-F-LTR does."""
    most = sum(one["training"].n_rows for one in rows.own.values())
    most += sum(one.n_rows for one in rows.augmented["pooled"].values())
    return max(1, round(settings.epochs * most / max(1, n_rows)))


def _own(rows: SiloRows, statistics: Statistics) -> Mapping[PartyId, OwnRows]:
    return rows.pooled if statistics == "pooled" else rows.own


def _validated(system: _System, rows: SiloRows, party: PartyId) -> float:
    """Return how well a system ranks a party's validation queries."""
    data = _own(rows, system.variant.statistics)[party]["validation"]
    values = evaluate(system.rankers[party].score(data), data, ["nDCG@10"])["nDCG@10"]
    return float("nan") if np.isnan(values).all() else float(np.nanmean(values))


def _mixture(trained: _Trained, party: PartyId, settings: SilosSettings) -> Mixture:
    return choose_share(
        trained.scores("local", party, party, "validation"),
        trained.scores("cs-f-ltr", party, party, "validation"),
        trained.rows.own[party]["validation"],
        seed=settings.seed,
        settings=MixtureSettings(guard=settings.guard),
    )


def _measured(trained: _Trained, system: str, parties: Sequence[PartyId]) -> dict[str, float]:
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


def _values(trained: _Trained, system: str, party: PartyId, owner: PartyId) -> dict[str, Floats]:
    """Return each measure of each test query."""
    scores = trained.scores(system, party, owner, "test")
    data = trained.rows.own[owner]["test"]
    values = evaluate(scores, data, MEASURES.values(), max_grade=HIGHEST_GRADE)
    return {name: values[measure] for name, measure in MEASURES.items()}


def narrowed(settings: SilosSettings) -> RowSettings:
    """Return what decides the rows, so that runs of different rankers share them."""
    fields = RowSettings.model_fields
    return RowSettings(**{name: getattr(settings, name) for name in fields})


def make_learner(settings: SilosSettings, epochs: int) -> SiloLearner:
    """Return what learns the ranker that the settings name, in so many passes.

    Steps shrink from the first pass to the last by the same factor, whatever their number.
    """
    turns = RoundRobinSettings(epochs=epochs, average_last=settings.average_last)
    given = {
        name: getattr(settings, name)
        for name in ("learning_rate", "decay", "l2")
        if getattr(settings, name) is not None
    }
    if settings.ranker == "forest":
        return ForestLearner(ForestSettings(n_trees=settings.n_trees))
    loss: PointwiseSettings | PairwiseSettings = (
        PointwiseSettings(**given) if settings.ranker == "pointwise" else PairwiseSettings(**given)
    )
    decay = loss.decay * settings.epochs / epochs
    return LinearLearner(loss.model_copy(update={"decay": decay}), turns)


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
