"""Data sharing: some queries belong to everybody (Zhao et al. 2018; thesis section 4.4.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.data.partitions.client_view import ClientView, Views
from cloister.data.ranking_data import RankingData

__all__ = ["draw_shared_queries", "with_shared_queries"]


def draw_shared_queries(data: RankingData, share: float, *, seed: int) -> NDArray[np.int64]:
    """Draw a share of the queries at random: what the server may collect and give to all.

    Examples
    --------
    >>> data = RankingData(np.eye(4), np.zeros(4, np.int8), np.array([0, 1, 2, 3, 4]))
    >>> len(draw_shared_queries(data, 0.5, seed=1))
    2
    """
    if not 0.0 < share <= 1.0:
        raise SettingsError(f"lies in (0, 1] (given: {share})", where="share")
    n = max(1, round(share * data.n_queries))
    rng = stream(seed, "shared queries")
    return np.sort(rng.choice(data.n_queries, n, replace=False))


def with_shared_queries(views: Views, shared: NDArray[np.int64]) -> Views:
    """Add the shared queries, with all their documents, to what each client holds.

    A query of which a client holds a part already is then there twice: once as the client holds
    it, once whole.

    Examples
    --------
    >>> data = RankingData(np.eye(4), np.array([0, 1, 0, 1], np.int8), np.array([0, 2, 4]))
    >>> own = ClientView(data, queries=np.array([0]), rows=np.array([0]), offsets=np.array([0, 1]))
    >>> (view,) = with_shared_queries((own,), np.array([1]))
    >>> view.rows.tolist(), view.offsets.tolist()
    ([0, 2, 3], [0, 1, 3])
    """
    made: dict[int, ClientView] = {}
    for view in views:
        if id(view) not in made:
            made[id(view)] = _joined(view, shared)
    return tuple(made[id(view)] for view in views)


def _joined(view: ClientView, shared: NDArray[np.int64]) -> ClientView:
    data = view.data
    own = np.arange(data.n_queries) if view.queries is None else view.queries
    rows = [_rows(view, i) for i in range(len(own))]
    rows += [np.arange(data.offsets[query], data.offsets[query + 1]) for query in shared]
    lengths = [len(part) for part in rows]
    return ClientView(
        data,
        queries=np.concatenate((own, shared)),
        rows=np.concatenate(rows),
        offsets=np.concatenate(([0], np.cumsum(lengths))),
        labels=view.labels,
        click_models=view.click_models,
        queries_per_round=view.queries_per_round,
    )


def _rows(view: ClientView, i: int) -> NDArray[np.int64]:
    rows = view.query_rows(i)
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
