"""What one client of a federation sees of a data set: index arrays, never copies of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.data.ranking_data import RankingData

if TYPE_CHECKING:  # compiled kernels come with the click models
    from cloister.data.clicks import ClickModel

__all__ = ["ClientView", "Views"]


@dataclass(frozen=True, eq=False)
class ClientView:
    """One client's queries, documents, labels and habits.

    What is ``None`` or empty is not special to this client: then it is that of the data set, or
    of the simulation.

    Parameters
    ----------
    data
        The data set, shared by all clients.
    queries
        Positions of the queries that the client may draw; ``None`` for all. Shared queries come
        after the client's own, and may be among them too.
    rows, offsets
        Rows that the client holds: those of its i-th query are ``rows[offsets[i]]`` to
        ``rows[offsets[i + 1]]``. ``None`` where it holds every row of its queries.
    labels
        The client's own relevance grade for every row of the data set.
    click_models
        How the client clicks; of several models one is drawn for each interaction.
    queries_per_round
        How many queries the client issues in a round.

    Examples
    --------
    >>> data = RankingData(np.eye(4), np.array([2, 0, 1, 0], np.int8), np.array([0, 2, 4]))
    >>> view = ClientView(data, queries=np.array([1]))
    >>> view.n_queries, view.query_rows(0), view.query_labels(0).tolist()
    (1, slice(2, 4, None), [1, 0])
    """

    data: RankingData
    queries: NDArray[np.int64] | None = None
    rows: NDArray[np.int64] | None = field(default=None, repr=False)
    offsets: NDArray[np.int64] | None = field(default=None, repr=False)
    labels: NDArray[np.int8] | None = field(default=None, repr=False)
    click_models: tuple[ClickModel, ...] = ()
    queries_per_round: int | None = None

    def __post_init__(self) -> None:
        both = (self.rows is None) == (self.offsets is None)
        ends_meet = (
            self.rows is None
            or self.offsets is None
            or (
                len(self.offsets) == self.n_queries + 1
                and self.offsets[0] == 0
                and self.offsets[-1] == len(self.rows)
            )
        )
        own_labels_fit = self.labels is None or len(self.labels) == self.data.n_rows
        if not (both and ends_meet and own_labels_fit):
            raise DataError(
                "queries, rows, offsets and labels do not fit together", where="ClientView"
            )

    @property
    def n_queries(self) -> int:
        """Number of queries that the client may draw."""
        return self.data.n_queries if self.queries is None else len(self.queries)

    @property
    def n_rows(self) -> int:
        """Number of rows that the client holds."""
        if self.rows is not None:
            return len(self.rows)
        if self.queries is None:
            return self.data.n_rows
        return int(self.data.lengths[self.queries].sum())

    def query_position(self, i: int) -> int:
        """Return the position in the data set of the client's i-th query."""
        return int(range(self.n_queries)[i] if self.queries is None else self.queries[i])

    def query_rows(self, i: int) -> slice | NDArray[np.int64]:
        """Return the rows of the client's i-th query, as an index into the data set's arrays.

        It is a slice where the client holds the whole query: then NumPy copies nothing either.
        """
        if self.rows is None or self.offsets is None:
            return self.data.rows(self.query_position(i))
        return self.rows[self.offsets[i] : self.offsets[i + 1]]

    def query_labels(self, i: int) -> NDArray[np.int8]:
        """Return the client's grades for the rows of its i-th query."""
        labels = self.data.labels if self.labels is None else self.labels
        return labels[self.query_rows(i)]


Views = tuple[ClientView, ...]
