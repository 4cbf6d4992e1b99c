"""The rows of one repetition: each party's own, with their features, and its augmented ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from cloister.core.ids import PartyId
from cloister.core.random import stream
from cloister.data.normalise import normalise
from cloister.data.ranking_data import RankingData
from cloister.federate.silos.augmentation import (
    Answering,
    AugmentationSettings,
    ExactAnswers,
    Released,
    augment,
    rows_of,
)
from cloister.federate.silos.party import Party, own_candidates
from cloister.federate.silos.tuning import Statistics
from cloister.index.pooled_statistics import PooledStatistics
from cloister.index.term_counts import TermCounts
from cloister.index.term_source import TermStatistics
from cloister.lab.silos.collections import make_parties
from cloister.lab.silos.settings import RowSettings
from cloister.privacy.release import Release

__all__ = ["SPLITS", "OwnRows", "SiloRows", "make_rows"]

Split = Literal["training", "validation", "test"]
SPLITS: Final[tuple[Split, ...]] = ("training", "validation", "test")
OwnRows = Mapping[Split, RankingData]

GUESSED_LENGTHS: Final = {"body": 200.0, "title": 10.0}  # told to the planner, not measured
PAPER_DOCUMENTS: Final = 36_400  # a release may be as large as one of the paper's parties


class SiloRows(NamedTuple):
    """What all runs of a repetition learn from and are tested on, by party.

    The same pairs of query and document twice: with features by the party's own statistics
    (``own``), and by those pooled over all releases (``pooled``). Augmented rows are found and
    described by either.
    """

    own: Mapping[PartyId, OwnRows]
    pooled: Mapping[PartyId, OwnRows]
    augmented: Mapping[Statistics, Mapping[PartyId, RankingData]]
    releases: Mapping[PartyId, tuple[Release, ...]] | None  # None: exact counts


@lru_cache(maxsize=4)
def make_rows(settings: RowSettings) -> SiloRows:
    """Make the rows; the last few repetitions are kept in memory."""
    parties = make_parties(settings)
    released, releases = _released(parties, settings)
    pooled = {
        name: PooledStatistics([one.fields[name] for one in released]) for name in parties[0].fields
    }
    shared = {party.party_id: _own_rows(party, pooled, settings) for party in parties}
    alone = shared
    if settings.local_statistics == "own":
        alone = {party.party_id: _own_rows(party, None, settings) for party in parties}
    augmented: dict[Statistics, dict[PartyId, RankingData]] = {
        "pooled": {
            party.party_id: _augmented_rows(party, released, pooled, settings) for party in parties
        },
        "own": {
            party.party_id: _augmented_rows(party, released, party.fields, settings)
            for party in parties
        },
    }
    return SiloRows(alone, shared, augmented, releases)


def _own_rows(
    party: Party, statistics: Mapping[str, TermStatistics] | None, settings: RowSettings
) -> OwnRows:
    found: dict[Split, RankingData] = {}
    for split in SPLITS:
        queries = {
            "training": party.training, "validation": party.validation, "test": party.test
        }[split]  # fmt: skip
        rng = stream(settings.seed, "silos", "others", str(party.party_id), split)
        candidates = own_candidates(queries, party.n_documents, settings.n_others, rng)
        found[split] = _normalised(rows_of(candidates, party.fields, statistics))
    return found


def _augmented_rows(
    party: Party,
    released: Sequence[Released],
    statistics: Mapping[str, TermStatistics],
    settings: RowSettings,
) -> RankingData:
    others = [one for one in released if one.party_id != party.party_id]
    rng = stream(settings.seed, "silos", "augmentation", str(party.party_id))
    how = AugmentationSettings(
        k=settings.k,
        n_documents=settings.n_augmented,
        n_others=settings.n_augmented_others,
        labels=settings.pseudo_labels,
    )
    return _normalised(augment(party.training, others, statistics, rng, how))


def _normalised(data: RankingData) -> RankingData:
    """Bring features to 0..1 within a query: no scale has to be agreed on."""
    return normalise(data, "query_minmax", in_place=True)


def _released(
    parties: Sequence[Party], settings: RowSettings
) -> tuple[list[Released], dict[PartyId, tuple[Release, ...]] | None]:
    if settings.counts == "exact":
        exact = [
            Released(party.party_id, {name: ExactAnswers(c) for name, c in party.fields.items()})
            for party in parties
        ]
        return exact, None
    released, releases = [], {}
    for party in parties:
        fields: dict[str, Answering] = {}
        costs: list[Release] = []
        for name, counts in party.fields.items():
            fields[name], cost = _sketched(counts, party.party_id, name, settings)
            costs.append(cost)
        released.append(Released(party.party_id, fields))
        releases[party.party_id] = tuple(costs)
    return released, releases


def _sketched(
    counts: TermCounts, party_id: PartyId, field: str, settings: RowSettings
) -> tuple[Answering, Release]:
    """Make a simulated release of one field, and what reads it."""
    from cloister.privacy.mechanisms.aes_noise import SeededWords
    from cloister.sketch.keyed_hash import HashKey
    from cloister.sketch.noisy_release import make_release
    from cloister.sketch.release_planner import PlanFacts, dense_bytes, plan_release
    from cloister.sketch.sketched_counts import SketchedCounts

    key = HashKey(stream(settings.seed, "silos", "hash key").bytes(32))
    seed = int(stream(settings.seed, "silos", "noise", str(party_id), field).integers(2**63))
    facts = PlanFacts(
        epsilon=settings.epsilon,
        delta=settings.delta,
        documents=max(1, counts.n_documents),
        mean_length=GUESSED_LENGTHS[field],
        memory_bytes=dense_bytes(PAPER_DOCUMENTS) // 8,
        k=settings.k,
    )
    release = make_release(counts, key, plan_release(facts).settings, words=SeededWords(seed))
    return SketchedCounts(release, key), release.release
