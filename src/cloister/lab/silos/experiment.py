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

__all__ = ["MEASURES", "SYSTEMS", "compare_systems", "make_learner", "measure_silos"]

MEASURES: Final = {"ndcg@10": "nDCG@10", "err": "ERR", "ndcg": "nDCG"}
MIXTURE: Final = "mixture"
SYSTEMS: Final = (*RUNS, MIXTURE)
HIGHEST_GRADE: Final = 2

Figures = dict[str, dict[str, float]]
Floats = NDArray[np.float64]


class _Trained(NamedTuple):
    """All runs of a repetition, what each took of what others sent, and each party's mixture."""

    rows: SiloRows
    rankers: Mapping[RunName, Mapping[PartyId, Scorer]]
    variants: Mapping[RunName, Mapping[PartyId, Variant]]
    mixtures: Mapping[PartyId, Mixture]

    def scores(self, system: str, party: PartyId, owner: PartyId, split: Split) -> Floats:
        """Return how a party's ranker scores the queries of another (or its own)."""
        if system != MIXTURE:
            run = _run(system)
            statistics = self.variants[run][party].statistics
            return self.rankers[run][party].score(_own(self.rows, statistics)[owner][split])
        share = self.mixtures[party].share
        offsets = self.rows.pooled[owner][split].offsets
        local = self.scores("local", party, owner, split)
        return mixed_scores(local, self.scores("cs-f-ltr", party, owner, split), offsets, share)


def measure_silos(settings: SilosSettings) -> Figures:
    """Train all runs and the mixture; return figures by system.

    Of each system ``ndcg@10``, ``err`` and ``ndcg`` (uncut): the mean over parties on the external
    test set, and with ``own_`` before it on the party's own; and each for one party alone, as in
    ``"own_ndcg@10 party-a"``. Of the mixture also each party's share; of a run that augments also
    how much a pseudo-labelled row counts, and whether statistics are pooled (1). Labels have three
    grades.
    """
    trained = _train(settings)
    parties = list(trained.rows.own)
    figures: Figures = {}
    for system in SYSTEMS:
        figures[system] = _measured(trained, system, parties)
    for party in parties:
        figures[MIXTURE][f"share {party}"] = trained.mixtures[party].share
        for run in filter(augments, RUNS):
            variant = trained.variants[run][party]
            figures[run][f"augmented_weight {party}"] = variant.augmented_weight
            figures[run][f"pooled {party}"] = float(variant.statistics == "pooled")
    return figures


def _train(settings: SilosSettings) -> _Trained:
    rows = make_rows(narrowed(settings))
    rankers: dict[RunName, Mapping[PartyId, Scorer]] = {}
    variants: dict[RunName, Mapping[PartyId, Variant]] = {}
    for run in RUNS:
        rankers[run], variants[run] = _train_run(run, rows, settings)
    trained = _Trained(rows, rankers, variants, {})
    return trained._replace(
        mixtures={party: _mixture(trained, party, settings) for party in rows.own}
    )


def _train_run(
    run: RunName, rows: SiloRows, settings: SilosSettings
) -> tuple[dict[PartyId, Scorer], dict[PartyId, Variant]]:
    """Train a run in all its variants; return each party's ranker and variant."""
    tried = {
        variant: _train_variant(run, variant, rows, settings) for variant in _tried(run, settings)
    }
    found = {
        variant: {party: _validated(rankers[party], variant, rows, party) for party in rankers}
        for variant, rankers in tried.items()
        if len(tried) > 1
    }
    chosen: dict[PartyId, Variant] = {}
    for party in rows.own:
        voters = list(rows.own) if federates(run) else [party]
        told = {variant: [by_party[one] for one in voters] for variant, by_party in found.items()}
        chosen[party] = choose_variant(list(tried), told) if told else next(iter(tried))
    return {party: tried[variant][party] for party, variant in chosen.items()}, chosen


def _tried(run: RunName, settings: SilosSettings) -> tuple[Variant, ...]:
    if not augments(run):
        return (Variant("own", 0.0),)
    if settings.augmented_weight is None:
        return VARIANTS
    return (Variant("pooled", settings.augmented_weight),)


def _train_variant(
    run: RunName, variant: Variant, rows: SiloRows, settings: SilosSettings
) -> dict[PartyId, Scorer]:
    training = {
        party: rows_for(
            run,
            _own(rows, variant.statistics)[party]["training"],
            rows.augmented[variant.statistics][party],
            augmented_weight=variant.augmented_weight,
        )
        for party in rows.own
    }
    learner = make_learner(settings, alone=not federates(run))
    return train_run(run, training, learner, seed=settings.seed)


def _own(rows: SiloRows, statistics: Statistics) -> Mapping[PartyId, OwnRows]:
    return rows.pooled if statistics == "pooled" else rows.own


def _validated(ranker: Scorer, variant: Variant, rows: SiloRows, party: PartyId) -> float:
    """Return how well a ranker ranks a party's validation queries."""
    data = _own(rows, variant.statistics)[party]["validation"]
    values = evaluate(ranker.score(data), data, ["nDCG@10"])["nDCG@10"]
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


def _run(system: str) -> RunName:
    return next(run for run in RUNS if run == system)


def narrowed(settings: SilosSettings) -> RowSettings:
    """Return what decides the rows, so that runs of different rankers share them."""
    fields = RowSettings.model_fields
    return RowSettings(**{name: getattr(settings, name) for name in fields})


def make_learner(settings: SilosSettings, *, alone: bool = False) -> SiloLearner:
    """Return what learns the ranker that the settings name, for one party alone or for all."""
    epochs = settings.alone_epochs if alone else settings.epochs
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
    return LinearLearner(loss, turns)


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
