"""Views of many clients as flat arrays, for kernels that loop over clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.data.partitions.client_view import ClientView

if TYPE_CHECKING:  # compiled kernels come with the click models
    from cloister.data.clicks import ClickModel

__all__ = ["FlatViews", "distinct_click_models", "distinct_views", "flatten"]


class FlatViews(NamedTuple):
    """Clients by number; what several clients share is there once.

    Client c draws from the entries ``holding_bounds[h]`` to ``holding_bounds[h + 1]``, where h is
    ``holding[c]``. Entry e is the query ``queries[e]``; its documents are the places ``starts[e]``
    to ``stops[e]``. The row of a place is ``rows[place]``, or the place itself where ``rows`` is
    empty. The grade of a row is ``labels[label_set[c], row]``.

    The client clicks as one of the models ``models[m]``, m from ``model_bounds[b]`` to
    ``model_bounds[b + 1]``, where b is ``behaviour[c]``; where there are none the simulation
    decides. Models are numbered as in `distinct_click_models`. All fields are arrays, so that a
    kernel takes the whole.
    """

    holding: NDArray[np.int32]  # by client
    holding_bounds: NDArray[np.int64]
    queries: NDArray[np.int64]  # by entry
    starts: NDArray[np.int64]  # by entry
    stops: NDArray[np.int64]  # by entry
    rows: NDArray[np.int64]
    label_set: NDArray[np.int32]  # by client
    labels: NDArray[np.int8]  # label sets x rows of the data set
    queries_per_round: NDArray[np.int32]  # by client; 0 where the simulation decides
    behaviour: NDArray[np.int32]  # by client
    model_bounds: NDArray[np.int64]
    models: NDArray[np.int32]


def flatten(views: Sequence[ClientView]) -> FlatViews:
    """Lay the views of one data set side by side.

    Examples
    --------
    >>> from cloister.data.partitions import iid
    >>> from cloister.data.ranking_data import RankingData
    >>> data = RankingData(np.eye(3), np.array([1, 0, 2], np.int8), np.array([0, 2, 3]))
    >>> flat = flatten(iid(data, 4))
    >>> flat.holding.tolist(), flat.starts.tolist(), flat.stops.tolist(), flat.rows.tolist()
    ([0, 0, 0, 0], [0, 2], [2, 3], [])
    """
    unlike = distinct_views(views)
    if len({id(view.data) for view in unlike}) != 1:
        raise DataError("the views must be of one data set", where="flatten")
    place = {id(view): i for i, view in enumerate(unlike)}
    of_client = np.fromiter((place[id(view)] for view in views), np.int64, len(views))
    holding, holders = _numbered(unlike, lambda view: (id(view.queries), id(view.rows)))
    label_set, labelled = _numbered(unlike, lambda view: id(view.labels))
    bounds, queries, starts, stops, rows = _entries(holders)
    behaviour, model_bounds, models = _behaviours(unlike)
    quantities = np.array([view.queries_per_round or 0 for view in unlike], np.int32)
    labels = [view.data.labels if view.labels is None else view.labels for view in labelled]
    return FlatViews(
        holding[of_client],
        bounds,
        queries,
        starts,
        stops,
        rows,
        label_set[of_client],
        labels[0][None] if len(labels) == 1 else np.stack(labels),
        quantities[of_client],
        behaviour[of_client],
        model_bounds,
        models,
    )


def distinct_click_models(views: Iterable[ClientView]) -> tuple[ClickModel, ...]:
    """Return the click models of all views, each once, in order of first appearance.

    Their tables, stacked by :func:`cloister.data.clicks.stack_tables`, are those that
    ``FlatViews.models`` points to.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> from cloister.data.partitions import by_click_behaviour
    >>> from cloister.data.ranking_data import RankingData
    >>> data = RankingData(np.eye(3), np.array([1, 0, 2], np.int8), np.array([0, 2, 3]))
    >>> users = [click_model("perfect", 3), click_model("pbm-1", 3)]
    >>> views = by_click_behaviour(data, users, n_clients=3)
    >>> [model.name for model in distinct_click_models(views)], flatten(views).behaviour.tolist()
    (['perfect', 'pbm-1'], [0, 1, 0])
    """
    return tuple(
        dict.fromkeys(model for view in distinct_views(views) for model in view.click_models)
    )


def distinct_views(views: Iterable[ClientView]) -> list[ClientView]:
    """Return each view once, in order of appearance: a million clients may share one."""
    return list({id(view): view for view in views}.values())


def _behaviours(
    views: Sequence[ClientView],
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
    """Return each view's set of models by number, the bounds of the sets, and their members."""
    numbers = {model: i for i, model in enumerate(distinct_click_models(views))}
    behaviour, clickers = _numbered(views, lambda view: view.click_models)
    bounds = np.concatenate(([0], np.cumsum([len(view.click_models) for view in clickers])))
    members = [numbers[model] for view in clickers for model in view.click_models]
    return behaviour, bounds.astype(np.int64), np.array(members, np.int32)


def _numbered(
    views: Iterable[ClientView], key: Callable[[ClientView], Any]
) -> tuple[NDArray[np.int32], list[ClientView]]:
    """Return the number of each view's key, counted in order of appearance, and one view a key."""
    first: dict[Any, tuple[int, ClientView]] = {}
    numbers = [first.setdefault(key(view), (len(first), view))[0] for view in views]
    return np.array(numbers, np.int32), [view for _, view in first.values()]


def _entries(holders: Sequence[ClientView]) -> tuple[NDArray[np.int64], ...]:
    """Return bounds, queries, starts, stops and rows; rows are empty where none is needed."""
    data = holders[0].data
    bounds = np.concatenate(([0], np.cumsum([view.n_queries for view in holders])))
    queries = [
        np.arange(data.n_queries) if view.queries is None else view.queries for view in holders
    ]
    starts, stops, rows = [], [], [np.empty(0, np.int64)]
    used = 0
    identity = all(view.rows is None for view in holders)
    for view, positions in zip(holders, queries, strict=True):
        if identity:
            starts.append(data.offsets[positions])
            stops.append(data.offsets[positions + 1])
        elif view.rows is None or view.offsets is None:
            rows.append(np.arange(data.n_rows))
            starts.append(data.offsets[positions] + used)
            stops.append(data.offsets[positions + 1] + used)
        else:
            rows.append(view.rows)
            starts.append(view.offsets[:-1] + used)
            stops.append(view.offsets[1:] + used)
        used += len(rows[-1])
    return tuple(
        np.concatenate(part).astype(np.int64) for part in ([bounds], queries, starts, stops, rows)
    )
