"""Non-IID type 4: clients who search more or less often (FOLTR thesis, section 4.5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cloister.core.errors import SettingsError
from cloister.data.partitions.client_view import ClientView, Views
from cloister.data.partitions.identical import iid
from cloister.data.ranking_data import RankingData

__all__ = ["THESIS_QUANTITIES", "by_quantity", "with_quantities"]

THESIS_QUANTITIES: Final = (1, 3, 5, 7, 9)  # queries a round, one number a client


def by_quantity(
    data: RankingData,
    quantities: Sequence[int] = THESIS_QUANTITIES,
    *,
    n_clients: int | None = None,
) -> Views:
    """Give clients different numbers of queries a round; all draw from all queries.

    Parameters
    ----------
    data
        Data set.
    quantities
        Queries a round, one for each client; with more clients they are given out in turn.
    n_clients
        As many as quantities unless given.

    Examples
    --------
    >>> import numpy as np
    >>> data = RankingData(np.eye(3), np.array([1, 0, 2], np.int8), np.array([0, 2, 3]))
    >>> [view.queries_per_round for view in by_quantity(data)]
    [1, 3, 5, 7, 9]
    """
    n = len(quantities) if n_clients is None else n_clients
    return with_quantities(iid(data, n), quantities)


def with_quantities(views: Views, quantities: Sequence[int] = THESIS_QUANTITIES) -> Views:
    """Add type 4 to any other partition, as figure 4.9 of the thesis does with types 1 and 2.

    Client c issues ``quantities[c % len(quantities)]`` queries a round.

    Examples
    --------
    >>> import numpy as np
    >>> from cloister.data.partitions import by_label
    >>> data = RankingData(np.eye(4), np.array([0, 1, 0, 1], np.int8), np.array([0, 2, 4]))
    >>> views = with_quantities(by_label(data, n_labels_per_client=1, seed=0), (2, 5))
    >>> [(view.n_rows, view.queries_per_round) for view in views]
    [(2, 2), (2, 5)]
    """
    if not quantities or min(quantities) < 1:
        raise SettingsError(
            f"at least one number, each at least 1 (given: {list(quantities)})", where="quantities"
        )
    made: dict[tuple[int, int], ClientView] = {}  # clients who are alike share one view
    result = []
    for client, view in enumerate(views):
        key = (id(view), quantities[client % len(quantities)])
        if key not in made:
            made[key] = replace(view, queries_per_round=key[1])
        result.append(made[key])
    return tuple(result)
