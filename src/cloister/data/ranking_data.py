"""Queries with candidate documents as feature vectors: flat arrays with query offsets.

Rows of one query are adjacent: query ``q`` owns the rows ``offsets[q]`` to ``offsets[q + 1]``.
Arrays may be memory-mapped; nothing here copies features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError

__all__ = ["RankingData"]

Ids = Sequence[str]


@dataclass(frozen=True)
class RankingData:
    """A learning-to-rank data set.

    Parameters
    ----------
    features
        One row a query-document pair.
    labels
        Relevance grade of each row, 0 for not relevant.
    offsets
        Where each query's rows begin, and the number of rows at the end.
    query_ids, doc_ids
        Names of the queries and of the rows; empty where a source has none.

    Examples
    --------
    >>> data = RankingData(np.eye(3, dtype=np.float32), np.array([2, 0, 1], np.int8),
    ...                    np.array([0, 2, 3]), query_ids=("q1", "q2"))
    >>> data.n_queries, data.n_rows, data.n_features, data.n_grades
    (2, 3, 3, 3)
    >>> data.rows(0)
    slice(0, 2, None)
    """

    features: NDArray[Any]
    labels: NDArray[np.int8]
    offsets: NDArray[np.int64]
    query_ids: Ids = field(default=(), repr=False)
    doc_ids: Ids = field(default=(), repr=False)

    def __post_init__(self) -> None:
        n_rows = len(self.features)
        sound = (
            self.features.ndim == 2
            and len(self.labels) == n_rows
            and len(self.offsets) >= 1
            and self.offsets[0] == 0
            and self.offsets[-1] == n_rows
            and bool((np.diff(self.offsets) >= 0).all())
            and len(self.query_ids) in (0, len(self.offsets) - 1)
            and len(self.doc_ids) in (0, n_rows)
        )
        if not sound:
            raise DataError(
                "features, labels, offsets and ids do not fit together", where="RankingData"
            )

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    @property
    def n_rows(self) -> int:
        """Number of query-document pairs."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of features of a pair."""
        return int(self.features.shape[1])

    @property
    def n_grades(self) -> int:
        """Number of relevance grades: the highest label plus one."""
        return int(self.labels.max()) + 1 if self.n_rows else 0

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of candidate documents of each query."""
        return np.diff(self.offsets)

    def rows(self, query: int) -> slice:
        """Return the rows of a query, by its position."""
        return slice(int(self.offsets[query]), int(self.offsets[query + 1]))

    def label_counts(self) -> dict[int, int]:
        """Count the rows of each grade."""
        grades, counts = np.unique(self.labels, return_counts=True)
        return dict(zip(grades.tolist(), counts.tolist(), strict=True))

    def query_range(self, start: int, stop: int) -> RankingData:
        """Return the queries ``start`` to ``stop`` without copying a row."""
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        return RankingData(
            self.features[first:last],
            self.labels[first:last],
            self.offsets[start : stop + 1] - first,
            self.query_ids[start:stop],
            self.doc_ids[first:last],
        )
