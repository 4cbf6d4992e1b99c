"""Better source selection: best impacts and a learned selector, with what their data cost.

Both choose by the user's selector tables, one a server, which are made by the servers themselves
and cut to a share of the index. Beside them are the same choice by lists that every server is asked
for at each query, which have no limit but their length, and servers drawn at random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from pydantic import Field

from cloister.core.ids import ServerId
from cloister.core.random import stream
from cloister.lab.espresso.agreement import (
    CUTOFFS,
    AgreementSettings,
    Ranking,
    Trial,
    at,
    measured,
    opened,
    trial_queries,
)
from cloister.lab.espresso.federation import federation_folder
from cloister.lab.espresso.federation_contents import ANALYSIS
from cloister.lab.espresso.topic_queries import TopicQuery
from cloister.lab.reproduce.espresso.index_size import index_bytes
from cloister.lab.reproduce.study import Figures
from cloister.lab.simulation.run import Advance
from cloister.search.learned_selection import LearnedSelection, TrainingQuery, fit_selection
from cloister.search.node import (
    SearchNode,
    ServerSummary,
    ServerTable,
    SubAnswer,
    SubQuery,
    SummaryRequest,
    TableRequest,
)
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.selector_table import SelectorTable
from cloister.search.table_settings import TableSettings

__all__ = [
    "BEST_IMPACT",
    "LEARNED",
    "LIST_LENGTHS",
    "RANDOM",
    "SelectorSettings",
    "measure",
    "with_lists",
]

BEST_IMPACT, LEARNED, RANDOM = "best impact, tables", "learned, tables", "random servers"
LIST_LENGTHS: Final = (3, 20)
OTHER_QUERIES: Final = 1_000  # added to a seed: queries to learn from
LEARNED_K: Final = 10  # best documents that a server is graded by

Tables = Mapping[ServerId, SelectorTable]


class SelectorSettings(AgreementSettings):
    """One trial of selectors.

    Parameters
    ----------
    share
        Of the index, what a user's table of a server may take: lists are cut to it.
    list_lengths
        How many documents lists have that are asked for; measured with ``n_servers`` only.
    n_training
        Queries to learn from, of other topics than those measured.
    """

    share: float = Field(default=0.05, gt=0)
    list_lengths: tuple[int, ...] = LIST_LENGTHS
    n_training: int = Field(default=50, ge=1, le=50)


def with_lists(n_best: int) -> str:
    """Return the name of the selector by lists that every server is asked for.

    Examples
    --------
    >>> with_lists(3)
    'best impact, asked for lists of 3'
    """
    return f"best impact, asked for lists of {n_best}"


def measure(settings: SelectorSettings, advance: Advance) -> Figures:
    """Return figures of both selectors, and the share of the index that their tables take."""
    trial = opened(settings)
    n_steps = len(settings.list_lengths) + 4
    every = range(1, settings.n_servers + 1)
    figures = _random(trial, settings)
    advance(1, n_steps)
    tables, shares = _tables(trial, settings)
    advance(2, n_steps)
    figures |= _measured(BEST_IMPACT, trial, _Selected(trial, settings, tables=tables), every)
    figures[at(BEST_IMPACT, settings.n_servers)] |= shares
    advance(3, n_steps)
    learned = _learned(trial, settings, tables)
    rank = _Selected(trial, settings, tables=tables, learned=learned)
    figures |= _measured(LEARNED, trial, rank, every)
    advance(4, n_steps)
    for done, n_best in enumerate(settings.list_lengths, 5):
        rank = _Selected(trial, settings, n_best=n_best)
        figures |= _measured(with_lists(n_best), trial, rank, (settings.n_servers,))
        advance(done, n_steps)
    trial.close()
    return figures


def _tables(
    trial: Trial, settings: SelectorSettings
) -> tuple[Tables, dict[str, float | list[float]]]:
    """Have each server make its table, at most a share of its index; return what they take."""
    tables, n_bytes, sizes = {}, [], []
    for shard, node in zip(trial.federation.shards, trial.nodes, strict=True):
        folder = federation_folder(settings.federation) / shard.server_id
        sizes.append(index_bytes(folder, shard.snapshot()))
        wanted = TableSettings(max_bytes=int(settings.share * sizes[-1]))
        content = node.table(TableRequest(wanted)).content
        n_bytes.append(len(content))
        tables[shard.server_id] = SelectorTable.from_bytes(content)
    shares = [taken / size for taken, size in zip(n_bytes, sizes, strict=True)]
    return tables, {
        "table_share": sum(n_bytes) / sum(sizes),
        "largest_share": max(shares),
        "table_kb": sum(n_bytes) / len(n_bytes) / 1000,
    }


def _random(trial: Trial, settings: SelectorSettings) -> Figures:
    """Return what servers give that were drawn at random among those that hold a term."""
    everywhere = SearchSettings(selection="all", n_pods=settings.n_pods)
    searcher = Searcher(trial.nodes, ANALYSIS, everywhere)
    rng = stream(settings.seed, "espresso", "random servers", settings.access)

    def rank(query: TopicQuery) -> list[Ranking]:
        found = searcher.search(query.text, k=max(CUTOFFS) * len(trial.nodes)).results
        holders = sorted({one.server_id for one in found})
        order = [holders[place] for place in rng.permutation(len(holders)).tolist()]
        return [
            [one.doc_id for one in found if one.server_id in order[:n]]
            for n in range(1, settings.n_servers + 1)
        ]

    return measured(RANDOM, trial, rank)


class _Watched(SearchNode):
    """A node that notes when it is asked anything at all."""

    def __init__(self, node: SearchNode, asked: set[ServerId]) -> None:
        self._node = node
        self._asked = asked

    @property
    def server_id(self) -> ServerId:
        return self._node.server_id

    def summarise(self, request: SummaryRequest) -> ServerSummary:
        self._asked.add(self.server_id)
        return self._node.summarise(request)

    def table(self, request: TableRequest) -> ServerTable:
        self._asked.add(self.server_id)
        return self._node.table(request)

    def answer(self, query: SubQuery) -> SubAnswer:
        self._asked.add(self.server_id)
        return self._node.answer(query)


class _Selected:
    """Searches with a selector. It looks for k documents, so that each k has its own search."""

    def __init__(
        self,
        trial: Trial,
        settings: SelectorSettings,
        *,
        tables: Tables | None = None,
        learned: LearnedSelection | None = None,
        n_best: int = 1,
    ) -> None:
        self._asked: set[ServerId] = set()
        nodes = [_Watched(node, self._asked) for node in trial.nodes]
        self._searchers = {
            n: Searcher(
                nodes,
                ANALYSIS,
                SearchSettings(
                    selection="best-impact" if learned is None else "learned",
                    summaries="asked" if tables is None else "kept",
                    n_servers=n,
                    n_pods=settings.n_pods,
                    n_best=n_best,
                ),
                learned=learned,
                tables=None if tables is None else tables.get,
            )
            for n in range(1, settings.n_servers + 1)
        }
        self.most_contacted = 0

    def only(self, query: TopicQuery, *, n_servers: int, k: int) -> list[Ranking]:
        """Return the best k documents of so many servers, as the one ranking of a list."""
        self._asked.clear()
        found = self._searchers[n_servers].search(query.text, k=k)
        self.most_contacted = max(self.most_contacted, len(self._asked))
        return [[one.doc_id for one in found.results]]


def _measured(name: str, trial: Trial, rank: _Selected, counts: Sequence[int]) -> Figures:
    """Measure each cut-off with searches for so many documents; MAP with the most."""
    figures: Figures = {}
    for n in counts:
        rank.most_contacted = 0
        together: dict[str, float | list[float]] = {}
        for k in CUTOFFS:
            found = measured(name, trial, partial(rank.only, n_servers=n, k=k))
            here = found[at(name, 1)]
            wanted = (f"@{k}",) if k < max(CUTOFFS) else (f"@{k}", "map", "n_queries")
            together |= {
                key: value for key, value in here.items() if key.split()[0].endswith(wanted)
            }
        figures[at(name, n)] = together | {"most_contacted": float(rank.most_contacted)}
    return figures


def _learned(trial: Trial, settings: SelectorSettings, tables: Tables) -> LearnedSelection:
    """Learn from other queries where this user's best documents lay."""
    queries = trial_queries(settings, settings.seed + OTHER_QUERIES, settings.n_training)
    whole = Searcher(trial.nodes, ANALYSIS, SearchSettings(selection="all"))
    training = []
    for query in queries:
        terms = tuple(ANALYSIS.terms(query.text))
        held: Counter[ServerId] = Counter(
            one.server_id for one in whole.search(query.text, k=LEARNED_K).results
        )
        summaries = [tables[node.server_id].summary(terms) for node in trial.nodes]
        training.append(TrainingQuery(terms, summaries, held))
    return fit_selection(training, LEARNED_K, seed=settings.seed)
