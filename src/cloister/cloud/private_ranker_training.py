"""Training of the client's ranker on features as they will be served.

A trained C-KNRM* is given; its filters stay. Three steps:

1. forests are grown on the tree features as a server has them;
2. the tree signal of a training query comes from forests that did not see it (`cross_fitted_signal`
   cuts the queries into parts): a signal from forests that grew on the query's own grades looks
   better than it will ever be again, and the layer would trust it too much;
3. the last layer is fitted on 30 soft features and the signal (:mod:`cloister.rank.layer_fitting`),
   and validation queries say how far the soft features are to be trusted.

At query time the signal comes from forests grown on all training queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.cloud.private_ranker import (
    N_SOFT_FEATURES,
    PrivateRanker,
    PrivateRankingSettings,
)
from cloister.cloud.ranking_keys import find_keys
from cloister.cloud.served_features import ServedFeatures
from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.data.ranking_data import RankingData
from cloister.rank.c_knrm_star import DocumentKernels
from cloister.rank.forest import ForestSettings
from cloister.rank.layer_fitting import LayerSettings, fit_layer
from cloister.rank.neural_ranker import NeuralRanker
from cloister.rank.proximity_features import TermSequences
from cloister.rank.query_length_forests import (
    QueryLengthForests,
    QueryLengthForestSettings,
    chosen_queries,
    fit_query_length_forests,
)
from cloister.rank.tree_features import TreeFeatures, distinct_terms

__all__ = [
    "CandidateLists",
    "PrivateRankerTraining",
    "cross_fitted_signal",
    "fit_private_ranker",
]

Floats = NDArray[np.float64]
Numbers = NDArray[np.integer[Any]]


class CandidateLists(NamedTuple):
    """Queries with the documents to be ranked for them.

    Parameters
    ----------
    queries
        The terms of each query.
    candidates
        Numbers of documents for each query.
    grades
        Of these documents.
    """

    queries: Sequence[Sequence[str]]
    candidates: Sequence[Numbers]
    grades: Sequence[Numbers]

    @property
    def n_terms(self) -> NDArray[np.int64]:
        """Number of different terms of each query."""
        return np.array([len(distinct_terms(terms)) for terms in self.queries], np.int64)

    def rows(self, made: Callable[[Sequence[str], Numbers], NDArray[Any]]) -> RankingData:
        """Return a data set of the features that something makes of a query and documents."""
        sizes = [len(part) for part in self.candidates]
        if not len(self.queries) == len(sizes) or sizes != [len(part) for part in self.grades]:
            raise DataError("queries, candidates and grades do not fit", where="CandidateLists")
        if not self.queries:
            raise DataError("there are no queries", where="CandidateLists")
        features = [made(*both) for both in zip(self.queries, self.candidates, strict=True)]
        return RankingData(
            np.concatenate(features),
            np.concatenate(self.grades).astype(np.int8),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        )


class PrivateRankerTraining(Settings):
    """How a private ranker is trained.

    Parameters
    ----------
    forests
        How trees grow, and which lengths of query have their own. Small trees, few of them: they
        ranked better by cross-validation, and fewer thresholds tell less.
    n_parts
        Parts into which the training queries are cut for their tree signal.
    layer
        How the last layer is fitted.
    """

    forests: QueryLengthForestSettings = QueryLengthForestSettings(
        min_queries=400, forest=ForestSettings(n_trees=100, n_leaves=7, min_leaf_rows=50)
    )
    n_parts: int = Field(default=5, ge=2)
    layer: LayerSettings = LayerSettings()


def fit_private_ranker(
    texts: TermSequences,
    priors: NDArray[np.float32] | None,
    neural: NeuralRanker,
    training: CandidateLists,
    settings: PrivateRankingSettings | None = None,
    how: PrivateRankerTraining | None = None,
    *,
    seed: int = 0,
    validation: CandidateLists | None = None,
) -> PrivateRanker:
    """Fit forests and the last layer to a collection with judged queries.

    Parameters
    ----------
    texts
        The documents.
    priors
        One row a document, see `cloister.rank.document_priors`; T1 needs them.
    neural
        A trained C-KNRM*.
    training
        Judged candidates to learn from.
    settings
        What the server will be given.
    how
        How it is trained.
    seed
        One seed gives one ranker.
    validation
        Other queries, on which the C-KNRM* was not trained: they say how far soft features are to
        be trusted beside the trees.
    """
    settings, how = settings or PrivateRankingSettings(), how or PrivateRankerTraining()
    documents = [texts.document(number) for number in range(texts.n_documents)]
    served = ServedFeatures(
        DocumentKernels.of(neural, documents),
        TreeFeatures(texts, priors, settings.features) if settings.features else None,
        find_keys(texts, neural.embedding, settings),
        settings,
    )
    rows = training.rows(served.soft)
    checks = None if validation is None else validation.rows(served.soft)
    forests = None
    if settings.features is not None:
        trees, n_terms = training.rows(served.tree_rows), training.n_terms
        forests = fit_query_length_forests(trees, n_terms, how.forests, seed=seed)
        signal = cross_fitted_signal(trees, n_terms, how.forests, how.n_parts, seed=seed)
        rows = _beside(rows, signal)
        if validation is not None and checks is not None:
            found = forests.score_rows(validation.rows(served.tree_rows), validation.n_terms)
            checks = _beside(checks, found)
    soft = np.arange(N_SOFT_FEATURES)
    layer = fit_layer(rows, how.layer, seed=seed, validation=checks, learnt=soft)
    return PrivateRanker(neural, layer, forests, settings)


def cross_fitted_signal(
    trees: RankingData,
    n_terms: Sequence[int] | Numbers,
    settings: QueryLengthForestSettings | None = None,
    n_parts: int = 5,
    *,
    seed: int = 0,
) -> Floats:
    """Return the score of each row by forests that were grown without its query.

    Parts have queries of all lengths alike. A length has a forest of its own from as many queries
    on as it has in the whole, less the part left out.

    Parameters
    ----------
    trees, n_terms
        Tree features of the queries, and how many different terms each query has.
    settings
        How trees grow.
    n_parts
        Each is scored by forests grown on the others.
    seed
        Of the parts and of the trees.
    """
    settings = settings or QueryLengthForestSettings()
    lengths = np.asarray(n_terms, np.int64)
    n_parts = min(n_parts, trees.n_queries)
    if n_parts < 2:
        raise DataError("at least two queries are needed", where="cross_fitted_signal")
    share = (n_parts - 1) / n_parts
    fewer = max(1, int(settings.min_queries * share))
    settings = settings.model_copy(update={"min_queries": fewer})
    drawn = stream(seed, "private ranker", "parts").permutation(trees.n_queries)
    by_length = drawn[np.argsort(np.minimum(lengths, settings.longest)[drawn], kind="stable")]
    part = np.empty(trees.n_queries, np.int64)
    part[by_length] = np.arange(trees.n_queries) % n_parts
    signal = np.empty(trees.n_rows)
    part_of_row = np.repeat(part, trees.lengths)
    for number in range(n_parts):
        others, own = np.flatnonzero(part != number), np.flatnonzero(part == number)
        grown = chosen_queries(trees, others)
        forests: QueryLengthForests = fit_query_length_forests(
            grown, lengths[others], settings, seed=seed
        )
        found = forests.score_rows(chosen_queries(trees, own), lengths[own])
        signal[part_of_row == number] = found
    return signal


def _beside(data: RankingData, column: Floats) -> RankingData:
    return RankingData(np.column_stack([data.features, column]), data.labels, data.offsets)
