"""CS-F-LTR in variations of figure 6: fewer parties, and the noise that the paper prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from pydantic import Field

from cloister.core.ids import PartyId
from cloister.core.random import stream
from cloister.data.normalise import normalise
from cloister.data.ranking_data import RankingData
from cloister.federate.silos.augmentation import (
    AugmentationSettings,
    ExactAnswers,
    Released,
    appended,
    augment,
)
from cloister.federate.silos.party import Party
from cloister.federate.silos.runs import PartyRows, rows_for, train_run
from cloister.index.pooled_statistics import PooledStatistics
from cloister.lab.reproduce.cs_f_ltr.document_sketches import DocumentSketches
from cloister.lab.reproduce.study import Figures, StudySettings
from cloister.lab.silos.collections import make_parties
from cloister.lab.silos.experiment import HIGHEST_GRADE, MEASURES
from cloister.lab.silos.rows import SiloRows, make_rows
from cloister.lab.silos.settings import SilosSettings
from cloister.lab.silos.training import make_learner, n_passes, narrowed
from cloister.lab.simulation.run import Advance
from cloister.measure.named import evaluate
from cloister.sketch.keyed_hash import HashKey, SketchShape

__all__ = [
    "NO_NOISE",
    "FewerPartiesSettings",
    "SharedNoiseSettings",
    "claimed",
    "measure_parties",
    "measure_shared_noise",
    "parties_name",
    "rows_between",
]

NO_NOISE: Final = "sketch without noise"


class FewerPartiesSettings(StudySettings):
    """One repetition: federations of 1 to ``silos.n_parties`` parties.

    Parameters
    ----------
    data, seed
        The same as in ``silos``.
    silos
        All parties; its counts are exact and its statistics pooled, and pseudo-labelled rows
        count as much as others.
    """

    silos: SilosSettings


class SharedNoiseSettings(StudySettings):
    """One repetition: CS-F-LTR's own sketches, with the noise it prints.

    Parameters
    ----------
    data, seed
        The same as in ``silos``.
    silos
        The parties.
    claimed_epsilons
        As the paper claims them; none of them holds.
    n_rows, n_columns
        Of a document's sketch.
    """

    silos: SilosSettings
    claimed_epsilons: tuple[float, ...] = (2.0, 1.0, 0.5, 0.1)
    n_rows: int = Field(default=30, ge=1)
    n_columns: int = Field(default=200, ge=1)


def parties_name(n: int) -> str:
    """Return the name of a federation.

    Examples
    --------
    >>> parties_name(1), parties_name(5)
    ('1 party', '5 parties')
    """
    return f"{n} part{'y' if n == 1 else 'ies'}"


def claimed(epsilon: float) -> str:
    """Return the name of a run with the paper's noise.

    Examples
    --------
    >>> claimed(0.5)
    'claimed 0.5'
    """
    return f"claimed {epsilon:g}"


def measure_parties(settings: FewerPartiesSettings, advance: Advance) -> Figures:
    """Return figures of CS-F-LTR among the first n parties, in an order drawn by the seed.

    All are tested on the queries of all parties, with features by the same statistics, so that
    they differ in what they are trained on alone. One party alone is Local.
    """
    rows = make_rows(narrowed(settings.silos))
    names = list(rows.own)
    order = stream(settings.seed, "cs-f-ltr", "parties").permutation(len(names))
    figures: Figures = {}
    for n in range(1, len(names) + 1):
        taking_part = [names[i] for i in sorted(order[:n].tolist())]
        training = {party: _training(rows, party, taking_part) for party in taking_part}
        figures[parties_name(n)] = _tested(training, rows, settings.silos)
        advance(n, len(names))
    return figures


def _training(rows: SiloRows, party: PartyId, taking_part: list[PartyId]) -> PartyRows:
    """Return a party's own rows, and those augmented from others that take part."""
    own = rows.pooled[party]["training"]
    others = [other for other in rows.own if other != party]
    chosen = [i for i, other in enumerate(others) if other in taking_part]
    if not chosen:
        return PartyRows(own, np.ones(own.n_rows))
    return rows_for(
        "cs-f-ltr", own, rows_between(rows.augmented["pooled"][party], len(others), chosen)
    )


def rows_between(augmented: RankingData, n_others: int, chosen: list[int]) -> RankingData:
    """Return the augmented rows of some of the other parties, which follow one another.

    Examples
    --------
    >>> data = RankingData(np.arange(4.0)[:, None], np.zeros(4, np.int8), np.arange(5))
    >>> rows_between(data, 2, [1]).features[:, 0].tolist()
    [2.0, 3.0]
    """
    each = augmented.n_queries // n_others
    return appended([augmented.query_range(i * each, (i + 1) * each) for i in chosen])


def measure_shared_noise(settings: SharedNoiseSettings, advance: Advance) -> Figures:
    """Return figures of CS-F-LTR with a sketch of each document, without and with the noise."""
    silos = settings.silos
    rows, parties = make_rows(narrowed(silos)), make_parties(narrowed(silos))
    figures: Figures = {}
    epsilons = (None, *settings.claimed_epsilons)
    for done, epsilon in enumerate(epsilons, 1):
        augmented = _augmented(parties, settings, epsilon)
        training = {
            party: rows_for("cs-f-ltr", rows.pooled[party]["training"], augmented[party])
            for party in rows.own
        }
        name = NO_NOISE if epsilon is None else claimed(epsilon)
        figures[name] = _tested(training, rows, silos)
        advance(done, len(epsilons))
    return figures


def _augmented(
    parties: list[Party], settings: SharedNoiseSettings, epsilon: float | None
) -> dict[PartyId, RankingData]:
    silos = settings.silos
    key = HashKey(stream(settings.seed, "cs-f-ltr", "hash key").bytes(32))
    shape = SketchShape(n_rows=settings.n_rows, n_columns=settings.n_columns)
    noise = stream(settings.seed, "cs-f-ltr", "shared noise", f"{epsilon}")
    released = [
        Released(
            party.party_id,
            {
                name: DocumentSketches(counts, key, shape, claimed_epsilon=epsilon, rng=noise)
                for name, counts in party.fields.items()
            },
        )
        for party in parties
    ]
    statistics = {
        name: PooledStatistics([ExactAnswers(party.fields[name]) for party in parties])
        for name in parties[0].fields
    }
    how = AugmentationSettings(
        k=silos.k,
        n_documents=silos.n_augmented,
        n_others=silos.n_augmented_others,
        labels=silos.pseudo_labels,
    )
    found = {}
    for party in parties:
        others = [one for one in released if one.party_id != party.party_id]
        rng = stream(silos.seed, "silos", "augmentation", str(party.party_id))
        data = augment(party.training, others, statistics, rng, how)
        found[party.party_id] = normalise(data, "query_minmax", in_place=True)
    return found


def _tested(
    training: Mapping[PartyId, PartyRows], rows: SiloRows, silos: SilosSettings
) -> dict[str, float | list[float]]:
    """Train one ranker for all, and return its measures on the queries of every party."""
    n_rows = sum(one.data.n_rows for one in training.values())
    learner = make_learner(silos, n_passes(n_rows, rows, silos))
    rankers = train_run("cs-f-ltr", training, learner, seed=silos.seed)
    ranker = next(iter(rankers.values()))
    test = appended([rows.pooled[party]["test"] for party in rows.own])
    values = evaluate(ranker.score(test), test, MEASURES.values(), max_grade=HIGHEST_GRADE)
    return {name: float(np.nanmean(values[measure])) for name, measure in MEASURES.items()}
