"""Learned source selection: LambdaMART over the term statistics of a query and a server.

The paper leaves it to future work. Trees (`cloister.rank.forest`, the extra ``trees``) learn from
training queries which servers held the best documents. The features are made of summaries alone, so
a server is asked nothing more than for the other selectors.

Trees keep thresholds and leaf values of the rows they grew on. Whoever gets a selector that was
trained on a user's summaries can learn about what that user may read; keep it with that user's
rights. Nothing protects it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.data.ranking_data import RankingData
from cloister.index.entity_weights import ModelSettings, query_weights
from cloister.rank.forest import Forest, ForestSettings, fit_forest
from cloister.search.best_impact import ServerOutlook, rank_by_best_impact, server_outlooks
from cloister.search.node import ServerSummary, TermSummary
from cloister.search.selection import ServerScore, rank_servers
from cloister.search.summary_statistics import user_statistics

__all__ = ["FEATURES", "LearnedSelection", "TrainingQuery", "fit_selection", "server_features"]

Floats = NDArray[np.float64]

MAX_GRADE: Final = 30  # LightGBM's
FEATURES: Final = (
    "entity_bm25",  # the paper's score of the server, and its share of the largest
    "entity_bm25_share",
    "impact_gain",  # by best impacts: gain, best, second and tenth estimate
    "impact_best",
    "impact_second",
    "impact_tenth",
    "impact_lower",  # certain bounds on the best score
    "impact_upper",
    "terms_found",  # share of the query's terms that the server holds
    "documents",  # ln(1 + documents), and share of all
    "documents_share",
    "frequency_mean",  # over terms: share of the server's documents that hold it
    "frequency_least",
    "holdings_mean",  # over terms: share of all documents with the term that lie here
    "holdings_most",
    "occurrences_mean",  # over terms: ln(1 + occurrences)
    "all_terms",  # ln(1 + documents expected to hold all terms, were terms independent)
)
_TENTH: Final = 9


class TrainingQuery(NamedTuple):
    """A query to learn from.

    Parameters
    ----------
    terms
        Of the query, analysed.
    summaries
        What each server said, with best impacts.
    n_best_held
        How many of the best documents each server held; no entry means none.
    """

    terms: tuple[str, ...]
    summaries: Sequence[ServerSummary]
    n_best_held: Mapping[ServerId, int]


def server_features(
    summaries: Sequence[ServerSummary],
    terms: Sequence[str],
    k: int,
    settings: ModelSettings | None = None,
) -> Floats:
    """Return one row a server, with the columns `FEATURES`; all are BM25's."""
    settings = (settings or ModelSettings()).model_copy(update={"model": "bm25"})
    different = list(dict.fromkeys(terms))
    whole = user_statistics(summaries, different, "document")
    weights = query_weights(terms, whole, settings)
    outlooks = server_outlooks(summaries, weights)
    entity = dict(rank_servers(summaries, terms, settings))
    gain = dict(rank_by_best_impact(outlooks, k))
    largest = max(entity.values(), default=0.0)
    df = whole.frequencies(different)
    rows = []
    for one, outlook in zip(summaries, outlooks, strict=True):
        score = entity.get(one.server_id, 0.0)
        share = score / largest if largest > 0 else 0.0
        impacts = _impact_features(outlook, gain.get(one.server_id, 0.0))
        rows.append([score, share, *impacts, *_term_features(one, different, df, whole.n_entities)])
    return np.array(rows, np.float64).reshape(len(summaries), len(FEATURES))


def fit_selection(
    queries: Sequence[TrainingQuery],
    k: int,
    *,
    model: ModelSettings | None = None,
    forest: ForestSettings | None = None,
    seed: int = 0,
) -> LearnedSelection:
    """Learn from queries for which it is known where the best k documents lay.

    A server's grade is the number of the best documents that it held, at most 30.
    """
    if not queries:
        raise DataError("there are no queries to learn from", where="fit_selection")
    rows = [server_features(one.summaries, one.terms, k, model) for one in queries]
    grades = [
        min(one.n_best_held.get(summary.server_id, 0), MAX_GRADE)
        for one in queries
        for summary in one.summaries
    ]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in rows])]).astype(np.int64)
    data = RankingData(np.concatenate(rows), np.array(grades, np.int8), offsets)
    return LearnedSelection(fit_forest(data, forest, seed=seed), k, model or ModelSettings())


@dataclass(frozen=True, eq=False)
class LearnedSelection:
    """Trees that rank servers, and what the features were made with."""

    forest: Forest
    k: int
    model: ModelSettings

    def rank(self, summaries: Sequence[ServerSummary], terms: Sequence[str]) -> list[ServerScore]:
        """Rank the servers that hold a term of the query, best first."""
        held = [
            one
            for one in summaries
            if any(one.terms[term].n_documents for term in terms if term in one.terms)
        ]
        scores = self.forest.score(server_features(held, terms, self.k, self.model)).tolist()
        listed = [
            ServerScore(one.server_id, score) for one, score in zip(held, scores, strict=True)
        ]
        return sorted(listed, key=lambda one: (-one.score, one.server_id))


def _impact_features(outlook: ServerOutlook, gain: float) -> list[float]:
    estimates = np.sort(outlook.estimates)[::-1].tolist() + [0.0] * (_TENTH + 1)
    upper = outlook.best_upper
    return [
        gain,
        estimates[0],
        estimates[1],
        estimates[_TENTH],
        float(outlook.lower.max(initial=0.0)),
        upper if upper > -np.inf else 0.0,
    ]


def _term_features(
    summary: ServerSummary, terms: Sequence[str], df: Floats, n_entities: float
) -> list[float]:
    found = [summary.terms.get(term, TermSummary(0, 0, 0)) for term in terms]
    n = summary.documents.n_entities
    here = np.array([one.n_documents for one in found], np.float64)
    occurrences = np.array([one.n_occurrences for one in found], np.float64)
    frequency = here / max(n, 1)
    holdings = here / np.maximum(df, 1.0)
    return [
        float((here > 0).mean()) if found else 0.0,
        float(np.log1p(n)),
        n / n_entities if n_entities else 0.0,
        float(frequency.mean()) if found else 0.0,
        float(frequency.min(initial=1.0)),
        float(holdings.mean()) if found else 0.0,
        float(holdings.max(initial=0.0)),
        float(np.log1p(occurrences).mean()) if found else 0.0,
        float(np.log1p(n * frequency.prod())),
    ]
