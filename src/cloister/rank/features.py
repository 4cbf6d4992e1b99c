"""The sixteen features of CS-F-LTR: eight weights of a query in a document, for body and title.

The same code serves exact counts and sketches: it asks a `TermSource` and no more. Where a query of
one party meets documents of another, the statistics must be those of all parties together
(`cloister.index.pooled_statistics.PooledStatistics`), or equal documents get different features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.data.ranking_data import RankingData
from cloister.index.term_source import TermSource, TermStatistics
from cloister.index.term_weights import (
    TermWeightSettings,
    absolute_discounting,
    bm25,
    dirichlet,
    jelinek_mercer,
    match_terms,
    matched_idf,
    term_frequency,
    tf_idf,
)

__all__ = [
    "FEATURE_NAMES",
    "WEIGHT_NAMES",
    "feature_names",
    "features_of",
    "joined_rows",
    "query_features",
]

Sources = Mapping[str, TermSource]
Statistics = Mapping[str, TermStatistics]
Numbers = NDArray[np.integer[Any]]

WEIGHT_NAMES: Final = (
    "length",
    "tf",
    "idf",
    "tf-idf",
    "bm25",
    "lmir.abs",
    "lmir.dir",
    "lmir.jm",
)
_WEIGHTS: Final = (
    term_frequency,
    matched_idf,
    tf_idf,
    bm25,
    absolute_discounting,
    dirichlet,
    jelinek_mercer,
)


def feature_names(fields: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the features in their order: the fields by name, eight weights each.

    Examples
    --------
    >>> feature_names(["title"])[:3]
    ('title.length', 'title.tf', 'title.idf')
    """
    return tuple(f"{field}.{weight}" for field in sorted(fields) for weight in WEIGHT_NAMES)


FEATURE_NAMES: Final = feature_names(("body", "title"))


def query_features(
    terms: Sequence[str],
    documents: Numbers,
    sources: Sources,
    statistics: Statistics | None = None,
    settings: TermWeightSettings | None = None,
) -> NDArray[np.float32]:
    """Return the features of one query and some documents: documents x features.

    Parameters
    ----------
    terms
        The query's terms, cut as the documents were.
    documents
        Numbers of documents; the sources of all fields number them alike.
    sources
        Exact or estimated counts by field: ``body`` and ``title``, or ``body`` alone.
    statistics
        By field, the collection that N, df and collection frequencies are of. The sources' own
        where not given.
    settings
        Forms and parameters of the weights.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> sources = {"body": count_terms(["cough cough fever", "a mild fever"])}
    >>> query_features(["cough"], np.array([0, 1]), sources)[:, [0, 1, 4]].round(2).tolist()
    [[3.0, 0.67..., 0.89...], [2.0, 0.0, 0.0]]
    """
    _check(sources, statistics)
    out = np.empty((len(documents), len(sources) * len(WEIGHT_NAMES)), np.float32)
    _fill(out, terms, documents, sources, statistics, settings or TermWeightSettings())
    return out


def features_of(
    queries_terms: Sequence[Sequence[str]],
    candidates: Sequence[Numbers],
    labels: Sequence[Numbers],
    sources: Sources,
    statistics: Statistics | None = None,
    settings: TermWeightSettings | None = None,
    *,
    query_ids: Sequence[str] = (),
    doc_ids: Sequence[str] = (),
) -> RankingData:
    """Build a learning-to-rank data set: features of each query and its candidates.

    Parameters
    ----------
    queries_terms, candidates, labels
        For each query its terms, the numbers of its candidate documents, and their grades.
    sources, statistics, settings
        As for `query_features`.
    query_ids
        Names of the queries, if wanted.
    doc_ids
        Names of the sources' documents by number, if wanted.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> sources = {"body": count_terms(["cough cough fever", "mild fever"])}
    >>> data = features_of([["cough"], ["fever"]], [np.array([0, 1]), np.array([1])],
    ...                    [np.array([2, 0]), np.array([1])], sources)
    >>> data.n_queries, data.n_rows, data.n_features
    (2, 3, 8)
    """
    _check(sources, statistics)
    sizes = [len(part) for part in candidates]
    if not len(queries_terms) == len(sizes) == len(labels) or sizes != [len(g) for g in labels]:
        raise DataError("queries, candidates and labels do not fit together", where="features_of")
    settings = settings or TermWeightSettings()
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    features = np.empty((offsets[-1], len(sources) * len(WEIGHT_NAMES)), np.float32)
    for query, terms in enumerate(queries_terms):
        rows = features[offsets[query] : offsets[query + 1]]
        _fill(rows, terms, candidates[query], sources, statistics, settings)
    names = [doc_ids[document] for part in candidates for document in part] if doc_ids else ()
    grades = np.concatenate([np.empty(0, np.int8), *labels]).astype(np.int8)
    return RankingData(features, grades, offsets, tuple(query_ids), tuple(names))


def joined_rows(parts: Sequence[RankingData]) -> RankingData:
    """Give each query the rows that it has in any of the parts, which share their queries.

    So a query's candidates can come from the documents of several parties.

    Examples
    --------
    >>> own = RankingData(np.array([[1.0], [2.0]]), np.array([0, 1], np.int8), np.array([0, 1, 2]))
    >>> joined = joined_rows([own, own])
    >>> joined.features[:, 0].tolist(), joined.offsets.tolist()
    ([1.0, 1.0, 2.0, 2.0], [0, 2, 4])
    """
    if not parts or len({(part.n_queries, part.n_features) for part in parts}) != 1:
        raise DataError("parts with different queries or features", where="joined_rows")
    if len({tuple(part.query_ids) for part in parts}) != 1:
        raise DataError("parts with different names of queries", where="joined_rows")
    queries = np.concatenate([np.repeat(np.arange(p.n_queries), p.lengths) for p in parts])
    order = np.argsort(queries, kind="stable")
    named = all(len(part.doc_ids) == part.n_rows for part in parts)
    names = [name for part in parts for name in part.doc_ids] if named else []
    lengths = np.sum([part.lengths for part in parts], axis=0)
    return RankingData(
        np.concatenate([part.features for part in parts])[order],
        np.concatenate([part.labels for part in parts])[order],
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        parts[0].query_ids,
        tuple(names[row] for row in order) if names else (),
    )


def _check(sources: Sources, statistics: Statistics | None) -> None:
    if not sources:
        raise DataError("no field to take features from", where="sources")
    if len({source.n_documents for source in sources.values()}) != 1:
        raise DataError("the fields have different numbers of documents", where="sources")
    if statistics is not None and (missing := sorted(set(sources) - set(statistics))):
        raise DataError(f"no statistics for {', '.join(missing)}", where="statistics")


def _fill(
    out: NDArray[np.float32],
    terms: Sequence[str],
    documents: Numbers,
    sources: Sources,
    statistics: Statistics | None,
    settings: TermWeightSettings,
) -> None:
    for number, field in enumerate(sorted(sources)):
        known = statistics[field] if statistics is not None else None
        found = match_terms(terms, documents, sources[field], known, settings)
        first = number * len(WEIGHT_NAMES)
        out[:, first] = found.lengths
        for column, weight in enumerate(_WEIGHTS, first + 1):
            out[:, column] = weight(found, settings)
