"""What publishing statistics safely costs: BM25 with published tables beside the user's own.

A user who may read a share of all pods searches all of it, with no choice of servers, so that the
tables alone make the difference. Two questions: how near is the ranking to BM25 with exact
statistics of what this user may read (the gold standard of ESPRESSO, of which the best documents
count as relevant, all alike), and how good do human judges find it, where there are any.

Noise comes from a seed here: such tables protect nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from pydantic import Field

from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.index.entity_weights import EntityStatistics
from cloister.index.reader_view import ReaderView
from cloister.lab.espresso.mean_ndcg import mean_ndcg
from cloister.lab.espresso.spread_collection import Grades, SpreadCollection
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.search.noisy_statistics import noisy_statistics
from cloister.search.noisy_statistics_settings import NoisyStatisticsSettings
from cloister.search.published_statistics import (
    PublishedForm,
    PublishedStatistics,
    added_published,
    exact_statistics,
    threshold_statistics,
)
from cloister.search.server_contents import ServerContents

__all__ = [
    "CUTOFFS",
    "PublishedVariant",
    "StatisticsCost",
    "StatisticsCostSettings",
    "published_forms",
    "statistics_cost",
]

CUTOFFS: Final = (5, 10)
DEPTH: Final = max(CUTOFFS)  # of the rankings that are compared


class StatisticsCostSettings(Settings):
    """Which tables are tried.

    Parameters
    ----------
    access
        Shares of pods that the user may read, in per cent.
    thresholds, epsilons
        Of the tables with a threshold, and of the noisy ones.
    noisy
        How noisy tables are made; their epsilon is replaced.
    n_gold
        So many of the best documents by the user's own statistics count as relevant; as many as
        are compared (5, 10) where not given.
    """

    access: tuple[int, ...] = (10, 100)
    thresholds: tuple[int, ...] = (2, 5, 10, 20, 50)
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    noisy: NoisyStatisticsSettings = NoisyStatisticsSettings(epsilon=1.0)
    n_gold: int | None = Field(default=None, ge=1)
    seed: int = Field(default=1, ge=0)


class StatisticsCost(NamedTuple):
    """How well one form of tables ranks, at one access level.

    ``ndcg`` is agreement with the user's own BM25, ``judged`` nDCG by human grades (NaN where there
    are none), each at 5 and 10; ``listed`` the share of the queries' terms that the table has.
    """

    form: str
    parameter: float
    made: str
    access: int
    ndcg_5: float
    ndcg_10: float
    judged_5: float
    judged_10: float
    listed: float


class PublishedVariant(NamedTuple):
    """Tables, and how they were made."""

    form: PublishedForm | Literal["nothing"]
    parameter: float  # threshold or epsilon
    made: Literal["together", "each server", "together, word list", "each server, word list"]
    statistics: PublishedStatistics


def published_forms(
    collection: SpreadCollection,
    settings: StatisticsCostSettings,
    word_list: Sequence[str] | None = None,
) -> Iterator[PublishedVariant]:
    """Make the tables of all servers, in each form: together, or each server for itself.

    The form ``nothing`` lists no term, so that all terms count alike: what tables are to beat.
    """
    servers = collection.contents()
    yield PublishedVariant("exact", 0, "together", exact_statistics(servers))
    empty = threshold_statistics(servers, threshold=collection.counts.n_documents + 1)
    yield PublishedVariant("nothing", 0, "together", empty)
    for t in settings.thresholds:
        together = threshold_statistics(servers, threshold=t)
        yield PublishedVariant("threshold", t, "together", together)
        each = added_published([threshold_statistics([one], threshold=t) for one in servers])
        yield PublishedVariant("threshold", t, "each server", each)
    for epsilon in settings.epsilons:
        noisy = NoisyStatisticsSettings(**{**settings.noisy.model_dump(), "epsilon": epsilon})
        yield from _noisy_forms(servers, noisy, word_list, settings.seed)


def _noisy_forms(
    servers: Sequence[ServerContents],
    noisy: NoisyStatisticsSettings,
    word_list: Sequence[str] | None,
    seed: int,
) -> Iterator[PublishedVariant]:
    rng = stream(seed, "statistics cost", "noise")

    def made(some: Sequence[ServerContents], words: Sequence[str] | None) -> PublishedStatistics:
        source = SeededWords(int(rng.integers(2**63)))
        return noisy_statistics(some, noisy, word_list=words, words=source).statistics

    e = noisy.epsilon
    yield PublishedVariant("noisy", e, "together", made(servers, None))
    each = added_published([made([one], None) for one in servers])
    yield PublishedVariant("noisy", e, "each server", each)
    if word_list is not None:
        yield PublishedVariant("noisy", e, "together, word list", made(servers, word_list))
        each = added_published([made([one], word_list) for one in servers])
        yield PublishedVariant("noisy", e, "each server, word list", each)


def statistics_cost(
    collection: SpreadCollection,
    settings: StatisticsCostSettings,
    word_list: Sequence[str] | None = None,
    advance: Callable[[int, int], None] | None = None,
) -> list[StatisticsCost]:
    """Rank with each form of tables at each access level, and compare.

    The first row of a level has the user's own statistics: its ``ndcg`` is 1, and its ``judged``
    what is to be reached.

    Parameters
    ----------
    word_list
        For noisy tables that list its words; without one there are none of these.
    advance
        Is told how many access levels are done.
    """
    variants = list(published_forms(collection, settings, word_list))
    rows = []
    for done, access in enumerate(settings.access, 1):
        view = collection.view(access, stream(settings.seed, "statistics cost", access))
        gold = _rankings(collection, view, None, max(settings.n_gold or 0, DEPTH))
        wanted = {
            k: [dict.fromkeys(found[: settings.n_gold or k], 1) for found in gold] for k in CUTOFFS
        }
        rows.append(_row("user", 0, "-", access, collection, view, None, wanted))
        rows += [
            _row(form, parameter, made, access, collection, view, published, wanted)
            for form, parameter, made, published in variants
        ]
        if advance is not None:
            advance(done, len(settings.access))
    return rows


def _row(
    form: str,
    parameter: float,
    made: str,
    access: int,
    collection: SpreadCollection,
    view: ReaderView,
    published: PublishedStatistics | None,
    wanted: Mapping[int, Sequence[Grades]],
) -> StatisticsCost:
    statistics = None if published is None else published.level("document")
    found = _rankings(collection, view, statistics, DEPTH)
    readable = set(view.documents.tolist())
    judged = [
        {document: grade for document, grade in grades.items() if document in readable}
        for grades in collection.judged
    ]
    terms = [term for query in collection.queries for term in query]
    listed = 1.0 if statistics is None else sum(t in statistics.table for t in terms) / len(terms)
    of_gold = [mean_ndcg(found, wanted[k], k) for k in CUTOFFS]
    of_judges = [mean_ndcg(found, judged, k) for k in CUTOFFS]
    return StatisticsCost(
        form, parameter, made, access, of_gold[0], of_gold[1], of_judges[0], of_judges[1], listed
    )


def _rankings(
    collection: SpreadCollection, view: ReaderView, statistics: EntityStatistics | None, k: int
) -> list[list[int]]:
    """Return the best k documents of each query; of equal scores the id decides."""
    documents, ids = view.level("document"), collection.doc_ids
    rankings = []
    for terms in collection.queries:
        numbers, scores = documents.best(terms, k, statistics=statistics)
        listed = zip(numbers.tolist(), scores.tolist(), strict=True)
        best = sorted(listed, key=lambda one: (-one[1], ids[one[0]]))[:k]
        rankings.append([number for number, _ in best])
    return rankings
