"""Non-IID type 2: clients who hold documents of some relevance grades only.

FOLTR thesis, section 4.4.1, after Li et al.: all combinations of #R grades are dealt out to the
clients at random, and the rows of each grade are divided at random and equally among the clients
who own it. No row belongs to two clients.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.data.partitions.client_view import ClientView, Views
from cloister.data.partitions.counts import checked_n_clients
from cloister.data.ranking_data import RankingData

__all__ = ["by_label"]


def by_label(
    data: RankingData,
    *,
    n_labels_per_client: int,
    seed: int,
    n_clients: int | None = None,
    min_documents: int = 1,
) -> Views:
    """Divide the rows so that each client holds exactly so many different grades.

    A query of which a client holds no document is not among that client's queries. A query with
    one document stays by default, as in the thesis: it can be drawn, but no pair of its documents
    can be compared, so it teaches a pairwise learner nothing.

    Parameters
    ----------
    data
        Data set; the grades are those that occur in it.
    n_labels_per_client
        The thesis's #R: 1 or 2, or more.
    seed
        Decides who owns which grades and which rows.
    n_clients
        At least the number of combinations, and that number unless given. With 5 grades, #R = 1
        and 10 clients each grade lies on two clients.
    min_documents
        Leave out a client's queries with fewer documents. Above 1, some rows belong to nobody.

    Examples
    --------
    >>> data = RankingData(np.eye(4), np.array([0, 1, 0, 1], np.int8), np.array([0, 2, 4]))
    >>> views = by_label(data, n_labels_per_client=1, seed=0)
    >>> sorted((view.rows.tolist(), view.queries.tolist()) for view in views)
    [([0, 2], [0, 1]), ([1, 3], [0, 1])]
    """
    random = stream(seed, "by_label")
    owned = _dealt_grades(np.unique(data.labels), n_labels_per_client, n_clients, random)
    parts: list[list[NDArray[np.int64]]] = [[] for _ in owned]
    for grade in np.unique(data.labels):
        rows = random.permutation(np.flatnonzero(data.labels == grade))
        owners = [client for client, grades in enumerate(owned) if grade in grades]
        if len(rows) < len(owners):
            raise DataError(
                f"{len(rows)} rows of grade {grade} cannot be divided among {len(owners)} clients",
                where="by_label",
                remedy="use fewer clients",
            )
        for client, part in zip(owners, np.array_split(rows, len(owners)), strict=True):
            parts[client].append(part)
    return tuple(_view(data, np.sort(np.concatenate(part)), min_documents) for part in parts)


def _dealt_grades(
    grades: NDArray[Any], n_labels: int, n_clients: int | None, random: np.random.Generator
) -> list[tuple[int, ...]]:
    """Return each client's grades: combinations in a random order, again and again."""
    if not 1 <= n_labels <= len(grades):
        raise SettingsError(
            f"must be between 1 and {len(grades)}, the grades that occur (given: {n_labels})",
            where="n_labels_per_client",
        )
    sets = list(combinations(grades.tolist(), n_labels))
    n = len(sets) if n_clients is None else checked_n_clients(n_clients)
    if n < len(sets):
        raise SettingsError(
            f"{n} clients are fewer than the {len(sets)} combinations of {n_labels} of "
            f"{len(grades)} grades",
            where="n_clients",
            remedy=f"use at least {len(sets)} clients, best a multiple",
        )
    order = random.permutation(len(sets))
    return [sets[order[client % len(sets)]] for client in range(n)]


def _view(data: RankingData, rows: NDArray[np.int64], min_documents: int) -> ClientView:
    """Group a client's ascending rows by query."""
    query_of_row = np.searchsorted(data.offsets, rows, side="right") - 1
    queries, lengths = np.unique(query_of_row, return_counts=True)
    kept = lengths >= min_documents
    if not kept.any():
        raise SettingsError(
            f"a client is left without any query of {min_documents} documents",
            where="min_documents",
            remedy="lower it, or use fewer clients",
        )
    rows = rows[np.repeat(kept, lengths)]
    offsets = np.concatenate(([0], np.cumsum(lengths[kept])))
    return ClientView(data, queries=queries[kept], rows=rows, offsets=offsets)
