"""Settings of experiments on learning to rank across silos."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cloister.core.settings import Settings

__all__ = ["CollectionName", "CollectionSettings", "RowSettings", "SilosSettings"]

CollectionName = Literal["medquad", "nfcorpus", "msmarco-5k", "clinic", "beir"]


class CollectionSettings(Settings):
    """Which texts, and how they are shared out among parties.

    Parameters
    ----------
    collection
        ``medquad`` (parties by source), ``nfcorpus`` and ``msmarco-5k`` (documents shared out),
        ``clinic`` (the built-in world: its organisations are the parties), or ``beir`` (any
        folder in the BEIR layout, shared out as NFCorpus is).
    data
        The collection's folder, or the address of a clinic world; found by name where empty.
    n_parties
        Parties; MedQuAD has four.
    sharing
        How documents of NFCorpus, MS MARCO and BEIR folders are shared out: by ``topics``
        (clusters of their words, so that parties differ), or at ``random``.
    labels
        ``reference``: the first ten of the reference ranking get 2, the next ninety 1, as in the
        paper. ``judged``: what people judged, grades above 2 counted as 2; queries without a
        relevant document are left out.
    """

    collection: CollectionName = "medquad"
    data: str = ""
    n_parties: int = Field(default=4, ge=2, le=26)
    sharing: Literal["topics", "random"] = "topics"
    labels: Literal["reference", "judged"] = "reference"


class RowSettings(CollectionSettings):
    """Which rows each party has, its own and augmented.

    Parameters
    ----------
    seed
        Decides which queries are for training, validation and test, the documents drawn, the
        order of SGD, the sketch's hash key and its (simulated) noise.
    n_training, n_validation, n_test
        Queries of a party, at most. Where it has fewer, they are shared out in this proportion.
    n_others
        Documents outside the reference ranking drawn for a query.
    counts
        Where counts of other parties' documents come from: their noisy ``release``, or ``exact``
        counts, which no party would give away: the best that any release could do.
    epsilon, delta
        Cost of a party's release for one token.
    local_statistics
        Which statistics (N, df, collection frequencies) the features of Local and Global are
        made with: the party's ``own``, since nothing else is there where no sketches are
        exchanged, or those ``pooled`` from the releases, which augmented runs use: then runs
        differ in nothing but their training rows.
    k, n_augmented, n_augmented_others, pseudo_labels
        Of `cloister.federate.silos.augmentation.AugmentationSettings`.
    """

    seed: int = Field(default=1, ge=0)
    n_training: int = Field(default=200, ge=1)
    n_validation: int = Field(default=60, ge=1)
    n_test: int = Field(default=57, ge=1)
    n_others: int = Field(default=40, ge=0)
    counts: Literal["release", "exact"] = "release"
    epsilon: float = Field(default=4.0, gt=0)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    local_statistics: Literal["own", "pooled"] = "own"
    k: int = Field(default=150, ge=1)
    n_augmented: int = Field(default=100, ge=1)
    n_augmented_others: int = Field(default=45, ge=0)
    pseudo_labels: Literal["each-party", "together", "positive"] = "each-party"


class SilosSettings(RowSettings):
    """One repetition of an experiment.

    Parameters
    ----------
    ranker
        ``pointwise`` (the paper's), ``pairwise`` or ``forest``.
    epochs
        Passes of each party over its rows in CS-F-LTR, of linear rankers. Runs with fewer rows
        take more passes, so that all take as many steps, and steps shrink alike: with equal
        passes Local would be trained less, and look worse than it is.
    learning_rate, decay, l2
        Of linear rankers; the ranker's own default where None.
    n_trees
        Of forests.
    average_last
        Of `cloister.federate.silos.round_robin.RoundRobinSettings`.
    augmented_weight
        How much a pseudo-labelled row counts beside one of the party's own in Local+ and
        CS-F-LTR. In the tuned CS-F-LTR this, and whether statistics are pooled, is chosen on
        validation queries (`cloister.federate.silos.tuning`).
    guard
        Of `cloister.federate.silos.mixture.MixtureSettings`.
    """

    ranker: Literal["pointwise", "pairwise", "forest"] = "pointwise"
    epochs: int = Field(default=15, ge=1)
    learning_rate: float | None = Field(default=None, gt=0)
    decay: float | None = Field(default=None, ge=0)
    l2: float | None = Field(default=None, ge=0)
    n_trees: int = Field(default=100, ge=1)
    average_last: int = Field(default=0, ge=0)
    augmented_weight: float = Field(default=1.0, ge=0)
    guard: float = Field(default=1.0, ge=0)
