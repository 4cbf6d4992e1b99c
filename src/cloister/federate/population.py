"""Who takes part in a simulated federation: clients, their data and habits, ready for kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import kernel
from cloister.data.clicks import ClickModel, StackedTables, stack_tables
from cloister.data.partitions import ClientView, FlatViews, distinct_click_models, flatten
from cloister.measure.ndcg import discount, gain

__all__ = ["CUTOFF", "PAGE_LENGTH", "Population", "PopulationArrays", "Precision"]

PAGE_LENGTH: Final = 10  # results shown for a query in every FOLTR paper
CUTOFF: Final = 10  # of nDCG, whatever the length of a page
_LANES: Final = 8  # features are padded to a multiple: a vector register is filled
_ROWS_AT_ONCE: Final = 65_536

Precision = Literal["single", "half"]


class PopulationArrays(NamedTuple):
    """What kernels read: features with zeros after the last, clients, click tables, ideals.

    In half precision features are whole multiples of ``units``, else ``units`` is empty.

    ``ideals[s, e]`` is the ideal DCG@10 of entry e under label set s, over the documents that the
    entry holds. The last click model is for clients who have none of their own.
    """

    features: NDArray[Any]
    units: NDArray[np.float32]
    views: FlatViews
    clicks: StackedTables
    ideals: NDArray[np.float64]


class Population:
    """The clients of a simulation.

    Parameters
    ----------
    views
        One a client, all of one data set, as :mod:`cloister.data.partitions` makes them.
    click_model
        How clients click who have no click model of their own.
    page_length
        Documents shown for a query.
    precision
        ``half`` stores each feature in 16 bits, as a multiple of 1/65,535 of its column's range:
        less memory and, where memory is the limit, more speed. Each column is moved by a constant,
        which changes neither a linear ranker's pages nor its gradients. Linear rankers only.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> from cloister.data.partitions import iid
    >>> from cloister.data.source import load_fold
    >>> train = load_fold("world:features?queries=8&documents=5&features=4").train
    >>> population = Population(iid(train, 1000), click_model("perfect", 5))
    >>> population.n_clients, population.n_features
    (1000, 4)
    """

    def __init__(
        self,
        views: Sequence[ClientView],
        click_model: ClickModel,
        *,
        page_length: int = PAGE_LENGTH,
        precision: Precision = "single",
    ) -> None:
        if not views:
            raise SettingsError("a federation needs at least one client", where="clients")
        if not 1 <= page_length <= 1000:
            raise SettingsError(f"must be 1 to 1000 (given: {page_length})", where="page_length")
        self.views = views
        self.data = views[0].data
        self.click_model = click_model
        self.page_length = page_length
        flat = flatten(views)
        models = (*distinct_click_models(views), click_model)
        self._check(flat, models)
        self.precision = precision
        self.arrays = PopulationArrays(
            *_packed(self.data.features, precision),
            flat,
            stack_tables(models, page_length),
            _ideals(flat.labels, flat.starts, flat.stops, flat.rows, CUTOFF),
        )

    @property
    def n_clients(self) -> int:
        """Number of clients."""
        return len(self.views)

    @property
    def n_features(self) -> int:
        """Number of features of a document."""
        return self.data.n_features

    @property
    def most_documents(self) -> int:
        """The largest number of candidates that any client has for a query, at least 1."""
        flat = self.arrays.views
        return max(1, int((flat.stops - flat.starts).max()))

    def n_interactions(self, queries_per_round: int) -> NDArray[np.int64]:
        """Return how many queries each client issues in a round."""
        own = self.arrays.views.queries_per_round
        return np.where(own > 0, own, queries_per_round).astype(np.int64)

    def _check(self, flat: FlatViews, models: Sequence[ClickModel]) -> None:
        empty = np.flatnonzero(np.diff(flat.holding_bounds) == 0)
        if len(empty):
            client = int(np.flatnonzero(np.isin(flat.holding, empty))[0])
            raise DataError(
                "the client has no query", where=f"client {client}", remedy="leave the client out"
            )
        if flat.labels.size and flat.labels.min() < 0:
            raise DataError("a grade is below 0", where="labels")
        highest = int(flat.labels.max(initial=0))
        for model in models:
            if highest >= model.n_grades:
                raise SettingsError(
                    f"the click model {model.name} knows the grades 0 to {model.n_grades - 1}, "
                    f"the data has grade {highest}",
                    where="click_model",
                )


def _packed(
    features: NDArray[Any], precision: Precision
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Return features padded with zeros, and their units; refuse what is not finite."""
    _check_finite(features)
    n_rows, n_features = features.shape
    width = -(-n_features // _LANES) * _LANES
    if precision == "half":
        return _in_half_precision(features, width)
    packed = np.ascontiguousarray(features, np.float32)
    if width != n_features:
        packed = np.zeros((n_rows, width), np.float32)
        packed[:, :n_features] = features
    return packed, np.empty(0, np.float32)


def _in_half_precision(
    features: NDArray[Any], width: int
) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """Return 16-bit multiples and units; blocks of rows keep the memory needed small."""
    lowest = features.min(axis=0).astype(np.float64)
    units = np.zeros(width, np.float32)
    units[: features.shape[1]] = (features.max(axis=0).astype(np.float64) - lowest) / 65_535
    steps = np.where(units > 0, units, 1.0).astype(np.float64)[: features.shape[1]]
    packed = np.zeros((len(features), width), np.int16)
    for start in range(0, len(features), _ROWS_AT_ONCE):
        block = features[start : start + _ROWS_AT_ONCE]
        multiples = np.clip(np.rint((block - lowest) / steps), 0, 65_535) - 32_768
        packed[start : start + len(block), : block.shape[1]] = multiples
    return packed, units


def _check_finite(features: NDArray[Any]) -> None:
    if (row := _first_not_finite(features)) >= 0:
        with np.errstate(over="ignore"):
            column = int(np.flatnonzero(~np.isfinite(features[row].astype(np.float32)))[0])
        raise DataError(
            f"the value is not finite in single precision ({features[row, column]})",
            where=f"row {row}, feature {column + 1}",
            remedy="correct the data; LetorSettings(null=...) says what NULL means",
        )


@kernel
def _first_not_finite(features: NDArray[Any]) -> int:
    """Return the first row with a value that is not finite, or -1."""
    for row in range(len(features)):
        total = np.float32(0.0)
        for value in features[row]:
            total += np.float32(value) * np.float32(0.0)  # 0, or not a number
        if total != np.float32(0.0):
            return row
    return -1


@kernel
def _ideals(
    labels: NDArray[np.int8],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    rows: NDArray[np.int64],
    k: int,
) -> NDArray[np.float64]:
    """Return the ideal DCG@k of each entry under each label set."""
    ideals = np.zeros((len(labels), len(starts)), np.float64)
    counts = np.empty(128, np.int64)
    for label_set in range(len(labels)):
        for entry in range(len(starts)):
            counts[:] = 0
            for place in range(starts[entry], stops[entry]):
                row = place if len(rows) == 0 else rows[place]
                counts[labels[label_set, row]] += 1
            position = 0
            for grade in range(127, 0, -1):
                for _ in range(min(counts[grade], k - position)):
                    ideals[label_set, entry] += gain(grade) * discount(position)
                    position += 1
    return ideals
