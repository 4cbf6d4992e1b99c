"""How good rankers are on queries that nobody trains on: offline performance.

Each client is measured with the ranker it uses, on its own labels. Where clients share both, they
are measured once and counted as often as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.data.clicks import ClickModel, sample_clicks
from cloister.data.partitions import ClientView, flatten
from cloister.federate.learner import ClientRankers
from cloister.federate.population import CUTOFF
from cloister.measure.mean import NothingRelevant, mean
from cloister.measure.ndcg import ndcg
from cloister.measure.ranked import RankedLabels, count_grades, rank_labels
from cloister.measure.reciprocal_rank import max_rr
from cloister.rank.ranker import Ranker

__all__ = ["Evaluation", "Offline"]


class Offline(NamedTuple):
    """Offline performance, averaged over clients.

    Parameters
    ----------
    ndcg, max_rr
        Means over queries of nDCG and of the reciprocal rank of the highest click that the click
        model's user makes on the ranking.
    by_query
        nDCG of each query, averaged over clients; NaN for a query that no client has an answer to.
    by_client
        nDCG of each client, averaged over queries; NaN for a client with no answer anywhere, who
        is left out of the mean.
    """

    ndcg: float
    max_rr: float
    by_query: NDArray[np.float64]
    by_client: NDArray[np.float64]


class Evaluation:
    """Held-out queries, as each client judges them.

    Parameters
    ----------
    views
        One a client: what the client finds relevant among the held-out queries. Every client is
        measured on all queries and documents; only labels differ.
    click_model
        Whose clicks the reciprocal rank is of.
    seed
        Decides ties and clicks.
    cutoff
        Of the measures.
    nothing_relevant
        Whether queries with nothing relevant are left out (thesis) or count 0 (report).
    """

    def __init__(
        self,
        views: Sequence[ClientView],
        click_model: ClickModel,
        *,
        seed: int,
        cutoff: int = CUTOFF,
        nothing_relevant: NothingRelevant = "skip",
    ) -> None:
        if not views:
            raise SettingsError("a federation needs at least one client", where="clients")
        flat = flatten(views)
        self.data = views[0].data
        if self.data.n_queries == 0:
            raise DataError("there is no query to measure on", where="test data")
        self._labels = flat.labels
        self._label_set = flat.label_set
        self._counts = [count_grades(labels, self.data.offsets) for labels in flat.labels]
        self._click_model = click_model
        self._seed = seed
        self._k = cutoff
        self._nothing_relevant = nothing_relevant

    @property
    def n_clients(self) -> int:
        """Number of clients."""
        return len(self._label_set)

    def measure(self, clients: ClientRankers, *, round: int = 0) -> Offline:
        """Measure every client's ranker."""
        n_sets = len(self._labels)
        pairs, of_client = np.unique(
            clients.of_client * n_sets + self._label_set, return_inverse=True
        )
        n_clients = np.bincount(of_client)
        weights = n_clients / n_clients.sum()
        measured = []
        scored, scores = -1, np.empty(0, np.float32)
        for pair in pairs:  # ascending: those of one ranker follow each other
            if pair // n_sets != scored:
                scored = int(pair // n_sets)
                scores = clients.rankers[scored].score(self.data.features)
            measured.append(self._measured(scores, int(pair % n_sets), round))
        values = np.stack([value for value, _ in measured])
        each = np.array([mean(value) for value in values])
        return Offline(
            float(_weighted_columns(each[:, None], weights)[0]),
            float(np.array([rank for _, rank in measured]) @ weights),
            _weighted_columns(values, weights),
            each[of_client],
        )

    def measure_one(self, ranker: Ranker, *, round: int = 0) -> Offline:
        """Measure one ranker for all clients."""
        of_client = np.zeros(len(self._label_set), np.int64)
        return self.measure(ClientRankers((ranker,), of_client), round=round)

    def _measured(
        self, scores: NDArray[np.float32], label_set: int, round: int
    ) -> tuple[NDArray[np.float64], float]:
        """Return nDCG by query, and the mean reciprocal rank of the highest click."""
        ranked = rank_labels(
            scores,
            self._labels[label_set],
            self.data.offsets,
            depth=self._k,
            ties="random",
            rng=stream(self._seed, "offline ties", round, label_set),
            grade_counts=self._counts[label_set],
        )
        values = ndcg(ranked, k=self._k, nothing_relevant=self._nothing_relevant)
        pages = _pages(ranked, self._k)
        clicks = sample_clicks(self._click_model, pages, seed=self._seed, round=round)
        offsets = np.arange(len(pages) + 1) * self._k
        return values, float(max_rr(clicks.ravel(), offsets).mean())


def _pages(ranked: RankedLabels, k: int) -> NDArray[np.int8]:
    """Return the top of each ranking as a row, -1 after its end."""
    pages = np.full((ranked.n_queries, k), -1, np.int8)
    lengths = np.diff(ranked.offsets)
    pages[np.arange(k) < lengths[:, None]] = ranked.labels
    return pages


def _weighted_columns(
    values: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weighted mean of each column's values that are not NaN."""
    known = ~np.isnan(values)
    total = (known * weights[:, None]).sum(axis=0)
    sums = (np.where(known, values, 0.0) * weights[:, None]).sum(axis=0)
    means: NDArray[np.float64] = np.full(values.shape[1], np.nan)
    np.divide(sums, total, out=means, where=total > 0)
    return means
