"""Clients whose data follow one distribution."""

from __future__ import annotations

import numpy as np

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.data.partitions.client_view import ClientView, Views
from cloister.data.partitions.counts import checked_n_clients
from cloister.data.ranking_data import RankingData

__all__ = ["iid", "iid_disjoint"]


def iid(data: RankingData, n_clients: int) -> Views:
    """Let every client draw from all queries, as the thesis does.

    All clients share one view, so their number costs nothing.

    Examples
    --------
    >>> data = RankingData(np.eye(3), np.array([1, 0, 2], np.int8), np.array([0, 2, 3]))
    >>> views = iid(data, 1_000_000)
    >>> len(views), views[0] is views[-1]
    (1000000, True)
    """
    return (ClientView(data),) * checked_n_clients(n_clients)


def iid_disjoint(data: RankingData, n_clients: int, *, seed: int) -> Views:
    """Divide the queries at random: each belongs to one client, numbers differ by one at most.

    Examples
    --------
    >>> data = RankingData(np.eye(3), np.array([1, 0, 2], np.int8), np.array([0, 1, 2, 3]))
    >>> sorted(view.n_queries for view in iid_disjoint(data, 2, seed=1))
    [1, 2]
    """
    if checked_n_clients(n_clients) > data.n_queries:
        raise SettingsError(
            f"{n_clients} clients cannot divide {data.n_queries} queries",
            where="iid_disjoint",
            remedy="use at most one client a query, or iid()",
        )
    shuffled = stream(seed, "iid_disjoint").permutation(data.n_queries)
    return tuple(
        ClientView(data, queries=np.sort(part)) for part in np.array_split(shuffled, n_clients)
    )
