"""Better source selection: best impacts and a learned selector, with what their data cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
from cloister.lab.espresso.federation import ANALYSIS, federation_folder
from cloister.lab.espresso.topic_queries import TopicQuery
from cloister.lab.reproduce.espresso.selector_bytes import index_bytes, list_bytes
from cloister.lab.reproduce.study import Figures
from cloister.lab.simulation.run import Advance
from cloister.search.learned_selection import LearnedSelection, TrainingQuery, fit_selection
from cloister.search.node import SummaryRequest
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher

__all__ = [
    "BEST_IMPACT",
    "LEARNED",
    "LIST_LENGTHS",
    "RANDOM",
    "SelectorSettings",
    "measure",
    "with_lists",
]

BEST_IMPACT, LEARNED, RANDOM = "best impact", "learned", "random servers"
LIST_LENGTHS: Final = (3, 1, 2, 5, 10, 20)
OTHER_QUERIES: Final = 1_000  # added to a seed: queries to learn from
LEARNED_K: Final = 10  # best documents that a server is graded by


class SelectorSettings(AgreementSettings):
    """One trial of selectors.

    Parameters
    ----------
    list_lengths
        How many documents a list has; the first is measured with all numbers of servers and for
        the learned selector, all with ``n_servers``.
    n_training
        Queries to learn from, of other topics than those measured.
    n_sized
        Servers on which the lists' bytes are counted.
    """

    list_lengths: tuple[int, ...] = LIST_LENGTHS
    n_training: int = Field(default=50, ge=1, le=50)
    n_sized: int = Field(default=3, ge=1)


def with_lists(selector: str, n_best: int) -> str:
    """Return the name of a selector with lists of a length.

    Examples
    --------
    >>> with_lists("best impact", 3)
    'best impact, lists of 3'
    """
    return f"{selector}, lists of {n_best}"


def measure(settings: SelectorSettings, advance: Advance) -> Figures:
    """Return figures of both selectors, and the share of the index that their lists take."""
    trial = opened(settings)
    figures = _random(trial, settings)
    n_steps = len(settings.list_lengths) + 2
    for done, n_best in enumerate(settings.list_lengths, 1):
        rank = _Selected(trial, settings, n_best)
        counts = range(1, settings.n_servers + 1) if done == 1 else (settings.n_servers,)
        figures |= _measured(with_lists(BEST_IMPACT, n_best), trial, rank, counts)
        figures[at(with_lists(BEST_IMPACT, n_best), settings.n_servers)] |= _sizes(
            trial, settings, n_best
        )
        advance(done, n_steps)
    n_best = settings.list_lengths[0]
    learned = _learned(trial, settings, n_best)
    advance(n_steps - 1, n_steps)
    rank = _Selected(trial, settings, n_best, learned)
    every = range(1, settings.n_servers + 1)
    figures |= _measured(with_lists(LEARNED, n_best), trial, rank, every)
    advance(n_steps, n_steps)
    trial.close()
    return figures


def _random(trial: Trial, settings: SelectorSettings) -> Figures:
    """Return what servers give that were drawn at random among those that hold a term."""
    everywhere = SearchSettings(selection="all", n_pods=settings.n_pods)
    searcher = Searcher(trial.nodes, ANALYSIS, everywhere)
    rng = stream(settings.seed, "espresso", "random servers", settings.access)

    def rank(query: TopicQuery) -> list[Ranking]:
        found = searcher.search(query.text, k=max(CUTOFFS) * len(trial.nodes)).results
        order = rng.permutation(sorted({one.server_id for one in found})).tolist()
        return [
            [one.doc_id for one in found if one.server_id in order[:n]]
            for n in range(1, settings.n_servers + 1)
        ]

    return measured(RANDOM, trial, rank)


class _Selected:
    """Searches with a selector. It looks for k documents, so that each k has its own search."""

    def __init__(
        self,
        trial: Trial,
        settings: SelectorSettings,
        n_best: int,
        learned: LearnedSelection | None = None,
    ) -> None:
        self._searchers = {
            n: Searcher(
                trial.nodes,
                ANALYSIS,
                SearchSettings(
                    selection="best-impact" if learned is None else "learned",
                    n_servers=n,
                    n_pods=settings.n_pods,
                    n_best=n_best,
                ),
                learned=learned,
            )
            for n in range(1, settings.n_servers + 1)
        }
        self.most_asked = 0

    def only(self, query: TopicQuery, *, n_servers: int, k: int) -> list[Ranking]:
        """Return the best k documents of so many servers, as the one ranking of a list."""
        found = self._searchers[n_servers].search(query.text, k=k)
        self.most_asked = max(self.most_asked, len(found.servers_asked))
        return [[one.doc_id for one in found.results]]


def _measured(name: str, trial: Trial, rank: _Selected, counts: Sequence[int]) -> Figures:
    """Measure each cut-off with searches for so many documents; MAP with the most."""
    figures: Figures = {}
    for n in counts:
        rank.most_asked = 0
        together: dict[str, float | list[float]] = {}
        for k in CUTOFFS:
            found = measured(name, trial, partial(rank.only, n_servers=n, k=k))
            here = found[at(name, 1)]
            wanted = (f"@{k}",) if k < max(CUTOFFS) else (f"@{k}", "map", "n_queries")
            together |= {
                key: value for key, value in here.items() if key.split()[0].endswith(wanted)
            }
        figures[at(name, n)] = together | {"most_asked": float(rank.most_asked)}
    return figures


def _sizes(trial: Trial, settings: SelectorSettings, n_best: int) -> dict[str, float | list[float]]:
    """Compare lists with the index, on servers spread over the federation."""
    shards = trial.federation.shards
    step = max(1, len(shards) // settings.n_sized)
    packed = sent = whole = 0
    for place in range(0, len(shards), step)[: settings.n_sized]:
        snapshot = shards[place].snapshot()
        terms = tuple(shards[place].view(trial.reader).vocabulary())
        summary = trial.nodes[place].summarise(SummaryRequest(terms, n_best))
        n_terms = sum(segment.postings.n_terms for segment in snapshot.segments)
        found = list_bytes(summary, n_terms)
        packed, sent = packed + found.packed, sent + found.sent
        folder = federation_folder(settings.federation) / shards[place].server_id
        whole += index_bytes(folder, snapshot)
    return {"packed_share": packed / whole, "sent_share": sent / whole}


def _learned(trial: Trial, settings: SelectorSettings, n_best: int) -> LearnedSelection:
    """Learn from other queries where this user's best documents lay."""
    queries = trial_queries(settings, settings.seed + OTHER_QUERIES, settings.n_training)
    whole = Searcher(trial.nodes, ANALYSIS, SearchSettings(selection="all"))
    training = []
    for query in queries:
        terms = tuple(ANALYSIS.terms(query.text))
        request = SummaryRequest(tuple(dict.fromkeys(terms)), n_best)
        held: Counter[ServerId] = Counter(
            one.server_id for one in whole.search(query.text, k=LEARNED_K).results
        )
        summaries = [node.summarise(request) for node in trial.nodes]
        training.append(TrainingQuery(terms, summaries, held))
    return fit_selection(training, LEARNED_K, seed=settings.seed)
