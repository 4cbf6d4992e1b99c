"""One LambdaMART ensemble for each length of query, and its score as the exact-match signal.

With values of single terms as features (`cloister.rank.tree_features`), a query of three terms has
other features than one of two, so each length has trees of its own (Ji et al., SIGIR 2018). Lengths
from ``longest`` on share a forest. A length with too few training queries has none and is scored by
a forest that was grown on the queries of all lengths.

The score stands in the place of the exact-match kernel of K-NRM. It hides no term frequency by
itself: features and thresholds must be coded before a server sees them. What trees tell of their
training data is said in `cloister.rank.forest`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.file_errors import explained, writing
from cloister.core.settings import Settings
from cloister.data.ranking_data import RankingData
from cloister.rank.forest import Forest, ForestSettings, fit_forest
from cloister.rank.forest_file import load_forest, save_forest
from cloister.rank.tree_features import TreeFeatures, distinct_terms
from cloister.store.incoming import replace_file

__all__ = [
    "QueryLengthForestSettings",
    "QueryLengthForests",
    "TreeSignal",
    "chosen_queries",
    "fit_query_length_forests",
    "load_query_length_forests",
    "save_query_length_forests",
    "tree_rows",
]

Floats = NDArray[np.float64]
Numbers = NDArray[np.integer[Any]]

_LIST: Final = "forests.json"  # written last: a folder without it is not whole


class QueryLengthForestSettings(Settings):
    """Which lengths have trees of their own.

    Parameters
    ----------
    longest
        Queries of this length and longer ones share a forest.
    min_queries
        A length with fewer training queries has no forest of its own.
    forest
        How the trees grow.
    """

    longest: int = Field(default=5, ge=1)
    min_queries: int = Field(default=100, ge=1)
    forest: ForestSettings = ForestSettings()


@dataclass(frozen=True, eq=False)
class QueryLengthForests:
    """A forest for queries of any length, and better ones for some lengths.

    Parameters
    ----------
    common
        For lengths that have none of their own.
    by_length
        By number of different terms; the one of ``longest`` serves longer queries too.
    longest
        The longest length that is told from others.
    """

    common: Forest
    by_length: Mapping[int, Forest] = field(default_factory=dict)
    longest: int = 5

    def __post_init__(self) -> None:
        fits = all(one.n_features == self.common.n_features for one in self.by_length.values())
        if not fits or not all(0 <= length <= self.longest for length in self.by_length):
            raise DataError(
                "forests of equal features for lengths up to the longest are needed",
                where="QueryLengthForests",
            )

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return self.common.n_features

    def forest_of(self, n_terms: int) -> Forest:
        """Return the forest for a query of so many different terms."""
        return self.by_length.get(min(n_terms, self.longest), self.common)

    def score(self, n_terms: int, features: NDArray[Any]) -> Floats:
        """Score the documents of one query, its features one row a document.

        Divided by the spread of the forest's scores in training: LambdaRank's scores have no scale
        of their own, and forests of different lengths must give one signal.
        """
        forest = self.forest_of(n_terms)
        return forest.score(features) / forest.spread

    def score_rows(self, data: RankingData, n_terms: Sequence[int] | Numbers) -> Floats:
        """Score the rows of a data set, given the length of each of its queries."""
        lengths = _lengths(data, n_terms, self.longest)
        scores = np.empty(data.n_rows)
        of_row = np.repeat(lengths, data.lengths)
        for length in np.unique(of_row).tolist():
            rows = np.flatnonzero(of_row == length)
            scores[rows] = self.score(length, data.features[rows])
        return scores


class TreeSignal:
    """The signal that stands in the place of the exact-match kernel.

    Parameters
    ----------
    features, forests
        What makes the features of queries and documents; grown on such features.
    """

    def __init__(self, features: TreeFeatures, forests: QueryLengthForests) -> None:
        if len(features.features) != forests.n_features:
            raise DataError(
                f"the forests have {forests.n_features} features, not {len(features.features)}",
                where="TreeSignal",
                remedy="take the settings that the forests were grown with",
            )
        self.features = features
        self.forests = forests

    def exact_match_signal(self, query: Sequence[str], documents: Numbers) -> Floats:
        """Return the score of each document for a query's terms."""
        rows = self.features.of(query, documents)
        return self.forests.score(len(distinct_terms(query)), rows)


def tree_rows(
    made: TreeFeatures,
    queries_terms: Sequence[Sequence[str]],
    candidates: Sequence[Numbers],
    grades: Sequence[Numbers],
    *,
    query_ids: Sequence[str] = (),
    training: Sequence[int | None] = (),
) -> RankingData:
    """Build a learning-to-rank data set: features of each query and its candidates.

    Parameters
    ----------
    made, queries_terms, candidates, grades
        What makes the features; for each query its terms, the numbers of its candidate documents,
        and their grades.
    query_ids
        Names of the queries, if wanted.
    training
        For each query its number among those that the sources' priors were learnt from, if any;
        its own grades are left out there.

    Examples
    --------
    >>> from cloister.rank.proximity_features import TermSequences
    >>> from cloister.rank.tree_features import TreeFeatureSettings
    >>> texts = TermSequences.of([["cough", "cough"], ["fever"]])
    >>> made = TreeFeatures(texts, settings=TreeFeatureSettings(kind="T2", n_positions=1))
    >>> rows = tree_rows(made, [["cough"]], [np.array([0, 1])], [np.array([1, 0])])
    >>> rows.n_queries, rows.n_rows, rows.n_features
    (1, 2, 27)
    """
    sizes = [len(part) for part in candidates]
    if not len(queries_terms) == len(sizes) == len(grades) or sizes != list(map(len, grades)):
        raise DataError("queries, candidates and grades do not fit together", where="tree_rows")
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    features = np.empty((offsets[-1], len(made.features)), np.float32)
    for query, terms in enumerate(queries_terms):
        without = training[query] if training else None
        rows = made.of(terms, candidates[query], without=without)
        features[offsets[query] : offsets[query + 1]] = rows
    labels = np.concatenate([np.empty(0, np.int8), *grades]).astype(np.int8)
    return RankingData(features, labels, offsets, tuple(query_ids))


def chosen_queries(data: RankingData, queries: Numbers) -> RankingData:
    """Return some queries of a data set, in the order given.

    Examples
    --------
    >>> data = RankingData(np.arange(3.0)[:, None], np.array([2, 0, 1], np.int8),
    ...                    np.array([0, 2, 3]), query_ids=("q1", "q2"))
    >>> chosen_queries(data, np.array([1, 0])).labels.tolist()
    [1, 2, 0]
    """
    numbers = np.asarray(queries, np.int64)
    lengths = data.lengths[numbers]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = np.repeat(data.offsets[numbers] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return RankingData(
        data.features[rows],
        data.labels[rows],
        offsets,
        tuple(data.query_ids[query] for query in numbers) if data.query_ids else (),
        tuple(data.doc_ids[row] for row in rows) if data.doc_ids else (),
    )


def fit_query_length_forests(
    data: RankingData,
    n_terms: Sequence[int] | Numbers,
    settings: QueryLengthForestSettings | None = None,
    *,
    seed: int = 0,
    validation: tuple[RankingData, Sequence[int] | Numbers] | None = None,
) -> QueryLengthForests:
    """Grow a forest on all queries, and one for each length that has enough of them.

    Parameters
    ----------
    data, n_terms
        Training rows, and the number of different terms of each query.
    settings
        Which lengths, and how the trees grow.
    seed
        Of `cloister.rank.forest.fit_forest`.
    validation
        Rows and lengths of other queries: they decide how many trees are kept, all of a length that
        has no query there.
    """
    settings = settings or QueryLengthForestSettings()
    lengths = _lengths(data, n_terms, settings.longest)
    beside: RankingData | None = None
    beside_lengths: Numbers = np.empty(0, np.int64)
    if validation is not None:
        beside = validation[0]
        beside_lengths = _lengths(beside, validation[1], settings.longest)
    common = fit_forest(data, settings.forest, seed=seed, validation=beside)
    grown = {}
    for length, n in zip(*np.unique(lengths, return_counts=True), strict=True):
        if n < settings.min_queries or n == len(lengths):
            continue  # too few, or the common forest is this length's own
        check = None
        if beside is not None and (beside_lengths == length).any():
            check = chosen_queries(beside, np.flatnonzero(beside_lengths == length))
        rows = chosen_queries(data, np.flatnonzero(lengths == length))
        grown[int(length)] = fit_forest(rows, settings.forest, seed=seed, validation=check)
    return QueryLengthForests(common, grown, settings.longest)


def save_query_length_forests(forests: QueryLengthForests, folder: str | Path) -> None:
    """Write forests into a folder that is there, a file each, and last a list of them."""
    folder = Path(folder)
    save_forest(forests.common, folder / "common.forest")
    for length, forest in forests.by_length.items():
        save_forest(forest, folder / f"length-{length}.forest")
    about = {"lengths": sorted(forests.by_length), "longest": forests.longest}
    with writing(folder / _LIST):
        replace_file(folder / _LIST, json.dumps(about, sort_keys=True).encode())


def load_query_length_forests(folder: str | Path) -> QueryLengthForests:
    """Read forests from a folder; their scores are those of the ones saved.

    Raises
    ------
    NotFound
        No such folder, or a file of it is missing.
    DataError
        The list cannot be read, or the forests do not fit together.
    Damaged
        A forest does not match its checksum.
    """
    folder = Path(folder)
    with explained(folder / _LIST):
        content = (folder / _LIST).read_bytes()
    try:
        about = json.loads(content)
        lengths, longest = [int(length) for length in about["lengths"]], int(about["longest"])
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"cannot be read ({error})", where=str(folder / _LIST), remedy="save the forests again"
        ) from None
    by_length = {length: load_forest(folder / f"length-{length}.forest") for length in lengths}
    return QueryLengthForests(load_forest(folder / "common.forest"), by_length, longest)


def _lengths(data: RankingData, n_terms: Sequence[int] | Numbers, longest: int) -> Numbers:
    lengths = np.asarray(n_terms, np.int64)
    if lengths.shape != (data.n_queries,):
        raise DataError(f"{data.n_queries} lengths of queries are needed", where="n_terms")
    return np.minimum(lengths, longest)
