"""Non-IID type 1: clients who find different documents relevant for the same query.

FOLTR thesis, section 4.3.1: relevance is judged by intent, and each client holds one intent.
Intents differ in how many documents they find relevant, so each query's intents are shuffled
before they are dealt out; intents of different queries have nothing to do with each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.data.partitions.client_view import ClientView, Views
from cloister.data.partitions.counts import checked_n_clients
from cloister.data.ranking_data import RankingData

__all__ = ["by_document_preference", "merged_intents"]


def by_document_preference(
    data: RankingData, intent_labels: NDArray[Any], *, seed: int, n_clients: int | None = None
) -> Views:
    """Give each client one intent of every query, in an order shuffled query by query.

    Parameters
    ----------
    data
        Data set whose own labels the clients do not see.
    intent_labels
        Relevance grades, rows by intents.
    seed
        Decides the shuffling; the thesis repeats its experiments with five.
    n_clients
        As many as intents unless given; client c and client c + number of intents are alike.

    Examples
    --------
    >>> data = RankingData(np.eye(2), np.zeros(2, np.int8), np.array([0, 2]))
    >>> one, two = by_document_preference(data, np.array([[1, 0], [0, 1]]), seed=3)
    >>> sorted([one.query_labels(0).tolist(), two.query_labels(0).tolist()])
    [[0, 1], [1, 0]]
    """
    intents = _checked_intents(data, intent_labels)
    n_intents = intents.shape[1]
    orders = np.tile(np.arange(n_intents), (data.n_queries, 1))
    orders = stream(seed, "by_document_preference").permuted(orders, axis=1)
    order_of_row = np.repeat(orders, data.lengths, axis=0)
    dealt = np.ascontiguousarray(np.take_along_axis(intents, order_of_row, axis=1).T)
    views = [ClientView(data, labels=labels) for labels in dealt]
    n = n_intents if n_clients is None else checked_n_clients(n_clients)
    return tuple(views[client % n_intents] for client in range(n))


def merged_intents(data: RankingData, intent_labels: NDArray[Any], n_clients: int) -> Views:
    """Return the IID counterpart: a document is relevant if it is for at least one intent.

    Every client has the same labels: the highest grade that any intent gives.

    Examples
    --------
    >>> data = RankingData(np.eye(3), np.zeros(3, np.int8), np.array([0, 3]))
    >>> merged_intents(data, np.array([[1, 0], [0, 0], [1, 1]]), 4)[2].query_labels(0).tolist()
    [1, 0, 1]
    """
    labels = _checked_intents(data, intent_labels).max(axis=1)
    return (ClientView(data, labels=labels),) * checked_n_clients(n_clients)


def _checked_intents(data: RankingData, intent_labels: NDArray[Any]) -> NDArray[np.int8]:
    intents = np.asarray(intent_labels)
    sound = (
        intents.ndim == 2
        and len(intents) == data.n_rows
        and intents.shape[1] >= 1
        and np.issubdtype(intents.dtype, np.integer)
        and bool(((intents >= 0) & (intents <= np.iinfo(np.int8).max)).all())
    )
    if not sound:
        raise DataError(
            f"must be grades from 0, {data.n_rows} rows by intents "
            f"(given: {intents.dtype}, {intents.shape})",
            where="intent_labels",
        )
    return intents.astype(np.int8)
