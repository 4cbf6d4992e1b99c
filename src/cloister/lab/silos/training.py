"""One repetition of learning to rank across silos: every run trained, and what crossed for it.

What is trained here is a simulation: all parties lie in one process, and the noise of their
releases comes from a seed. What would have crossed is listed all the same, and marked so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.ids import PartyId
from cloister.federate.silos.forest_learner import ForestLearner
from cloister.federate.silos.linear_learners import LinearLearner
from cloister.federate.silos.mixture import Mixture, MixtureSettings, choose_share, mixed_scores
from cloister.federate.silos.round_robin import RoundRobinSettings
from cloister.federate.silos.runs import (
    RUNS,
    Crossing,
    Learnt,
    PartyRows,
    RunName,
    Scorer,
    SiloLearner,
    augments,
    crossings,
    federates,
    rows_for,
    train_run,
)
from cloister.federate.silos.tuning import VARIANTS, Statistics, Variant, choose_variant
from cloister.lab.silos.collections import make_parties
from cloister.lab.silos.rows import OwnRows, SiloRows, Split, make_rows
from cloister.lab.silos.settings import RowSettings, SilosSettings
from cloister.measure.named import evaluate
from cloister.rank.forest import ForestSettings
from cloister.rank.pairwise import PairwiseSettings
from cloister.rank.pointwise import PointwiseSettings

__all__ = [
    "LOCAL_POOLED",
    "MIXTURE",
    "N_STEPS",
    "SYSTEMS",
    "TUNED",
    "System",
    "TrainedSilos",
    "make_learner",
    "n_passes",
    "narrowed",
    "train_silos",
]

LOCAL_POOLED: Final = "local-pooled"  # Local with the statistics of the augmented runs: a control
TUNED: Final = "cs-f-ltr-tuned"
MIXTURE: Final = "mixture"
SYSTEMS: Final = (*RUNS, LOCAL_POOLED, TUNED, MIXTURE)
N_STEPS: Final = 1 + len(RUNS) + 1 + len(VARIANTS)  # rows, runs, the control, the tuned variants

# A system crosses what this run crosses. The mixture is chosen at home, and crosses nothing more.
_CROSSES_AS: Final[Mapping[str, RunName]] = {
    **{run: run for run in RUNS},
    LOCAL_POOLED: "local-plus",
    TUNED: "cs-f-ltr",
    MIXTURE: "cs-f-ltr",
}
_WITH_SKETCHES: Final[Mapping[RunName, RunName]] = {"local": "local-plus", "global": "cs-f-ltr"}

Floats = NDArray[np.float64]
Step = Callable[[], None]


class System(NamedTuple):
    """One trained system.

    Parameters
    ----------
    rankers
        Of each party.
    variant
        Which statistics its features need, and how much pseudo-labelled rows counted.
    learnt
        What parties learnt together for it, variants that were not chosen included; nothing
        where each learnt alone.
    """

    rankers: Mapping[PartyId, Scorer]
    variant: Variant
    learnt: tuple[Learnt, ...] = ()


class TrainedSilos(NamedTuple):
    """All systems of a repetition, and each party's mixture of Local and CS-F-LTR."""

    settings: SilosSettings
    rows: SiloRows
    systems: Mapping[str, System]
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

    def crossings(self, system: str) -> list[Crossing]:
        """List what leaves each party for a system, marked as simulated.

        Local and Global cross sketches too where their features have pooled statistics.
        """
        if system not in _CROSSES_AS:
            raise SettingsError(
                f"no system {system!r}", where="system", remedy=f"there are: {', '.join(SYSTEMS)}"
            )
        run = _CROSSES_AS[system]
        if self.settings.local_statistics == "pooled":
            run = _WITH_SKETCHES.get(run, run)
        learnt = self.systems["cs-f-ltr" if system == MIXTURE else system].learnt
        return crossings(
            run,
            list(self.rows.own),
            learnt,
            sketches=self.rows.releases,
            n_exact=_n_counts(self.settings),
            simulated=True,
        )


def train_silos(
    settings: SilosSettings, *, advance: Callable[[int, int], None] | None = None
) -> TrainedSilos:
    """Train all runs, the control and the mixture.

    Parameters
    ----------
    settings
        What decides the repetition.
    advance
        Is told after each step how many are done, and of how many.
    """
    step = _counted(advance)
    rows = make_rows(narrowed(settings))
    step()
    own, augmented = Variant("own", 0.0), Variant("pooled", settings.augmented_weight)
    systems: dict[str, System] = {}
    for run in RUNS:
        systems[run] = _train_system(run, augmented if augments(run) else own, rows, settings)
        step()
    systems[LOCAL_POOLED] = _train_system("local", Variant("pooled", 0.0), rows, settings)
    step()
    systems[TUNED] = _tuned(rows, settings, step)
    trained = TrainedSilos(settings, rows, systems, {})
    return trained._replace(mixtures={party: _mixture(trained, party) for party in rows.own})


def _n_counts(settings: SilosSettings) -> dict[PartyId, int]:
    """Return how many counts of a term in a document each party holds."""
    return {
        party.party_id: sum(len(counts.counts) for counts in party.fields.values())
        for party in make_parties(narrowed(settings))
    }


def _counted(advance: Callable[[int, int], None] | None) -> Step:
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if advance is not None:
            advance(done, N_STEPS)

    return step


def _tuned(rows: SiloRows, settings: SilosSettings, step: Step) -> System:
    """Train CS-F-LTR in all variants; keep the one that the parties' validation queries choose."""
    tried: dict[Variant, System] = {}
    for variant in VARIANTS:
        tried[variant] = _train_system("cs-f-ltr", variant, rows, settings)
        step()
    told = {
        variant: [_validated(one, rows, party) for party in rows.own]
        for variant, one in tried.items()
    }
    learnt = tuple(one for system in tried.values() for one in system.learnt)
    return tried[choose_variant(VARIANTS, told)]._replace(learnt=learnt)


def _train_system(
    run: RunName, variant: Variant, rows: SiloRows, settings: SilosSettings
) -> System:
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
        learner = _learner_for(training, rows, settings)
        rankers = train_run(run, training, learner, seed=settings.seed)
        return System(rankers, variant, (Learnt(learner, next(iter(rankers.values()))),))
    alone: dict[PartyId, Scorer] = {}
    for party, one in training.items():
        learner = _learner_for({party: one}, rows, settings)
        alone |= train_run(run, {party: one}, learner, seed=settings.seed)
    return System(alone, variant)


def _learner_for(
    training: Mapping[PartyId, PartyRows], rows: SiloRows, settings: SilosSettings
) -> SiloLearner:
    """Return what takes as many steps as CS-F-LTR does, whatever the number of rows."""
    n_rows = sum(one.data.n_rows for one in training.values())
    return make_learner(settings, n_passes(n_rows, rows, settings))


def n_passes(n_rows: int, rows: SiloRows, settings: SilosSettings) -> int:
    """Return how many passes over so many rows take as many steps as CS-F-LTR does."""
    most = sum(one["training"].n_rows for one in rows.own.values())
    most += sum(one.n_rows for one in rows.augmented["pooled"].values())
    return max(1, round(settings.epochs * most / max(1, n_rows)))


def _own(rows: SiloRows, statistics: Statistics) -> Mapping[PartyId, OwnRows]:
    return rows.pooled if statistics == "pooled" else rows.own


def _validated(system: System, rows: SiloRows, party: PartyId) -> float:
    """Return how well a system ranks a party's validation queries."""
    data = _own(rows, system.variant.statistics)[party]["validation"]
    values = evaluate(system.rankers[party].score(data), data, ["nDCG@10"])["nDCG@10"]
    return float("nan") if np.isnan(values).all() else float(np.nanmean(values))


def _mixture(trained: TrainedSilos, party: PartyId) -> Mixture:
    return choose_share(
        trained.scores("local", party, party, "validation"),
        trained.scores("cs-f-ltr", party, party, "validation"),
        trained.rows.own[party]["validation"],
        seed=trained.settings.seed,
        settings=MixtureSettings(guard=trained.settings.guard),
    )


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
