"""Non-IID type 3: clients who click in different ways (FOLTR thesis, section 4.5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cloister.core.errors import SettingsError
from cloister.data.partitions.client_view import ClientView, Views
from cloister.data.partitions.counts import checked_n_clients
from cloister.data.ranking_data import RankingData

if TYPE_CHECKING:
    from cloister.data.clicks import ClickModel

__all__ = ["by_click_behaviour", "mixed_click_behaviour"]


def by_click_behaviour(
    data: RankingData, models: Sequence[ClickModel], *, n_clients: int | None = None
) -> Views:
    """Give each client one click model for good; all draw from all queries.

    Parameters
    ----------
    data
        Data set.
    models
        One for each client; with more clients than models they are given out in turn.
    n_clients
        As many as models unless given.

    Examples
    --------
    >>> import numpy as np
    >>> from cloister.data.clicks import click_model
    >>> data = RankingData(np.eye(3), np.array([1, 0, 2], np.int8), np.array([0, 2, 3]))
    >>> views = by_click_behaviour(data, [click_model("perfect", 3), click_model("pbm-1", 3)])
    >>> [view.click_models[0].name for view in views]
    ['perfect', 'pbm-1']
    """
    known = _checked_models(data, models)
    views = [ClientView(data, click_models=(model,)) for model in known]
    n = len(views) if n_clients is None else checked_n_clients(n_clients)
    return tuple(views[client % len(views)] for client in range(n))


def mixed_click_behaviour(data: RankingData, models: Sequence[ClickModel], n_clients: int) -> Views:
    """Return the IID counterpart: every client draws one of all models at each interaction.

    Examples
    --------
    >>> import numpy as np
    >>> from cloister.data.clicks import click_model
    >>> data = RankingData(np.eye(3), np.array([1, 0, 2], np.int8), np.array([0, 2, 3]))
    >>> models = [click_model("perfect", 3), click_model("informational", 3)]
    >>> [len(view.click_models) for view in mixed_click_behaviour(data, models, 3)]
    [2, 2, 2]
    """
    view = ClientView(data, click_models=_checked_models(data, models))
    return (view,) * checked_n_clients(n_clients)


def _checked_models(data: RankingData, models: Sequence[ClickModel]) -> tuple[ClickModel, ...]:
    if not models:
        raise SettingsError("at least one click model is needed", where="models")
    for model in models:
        if model.n_grades < data.n_grades:
            raise SettingsError(
                f"the click model {model.name} knows {model.n_grades} grades, "
                f"the data set has {data.n_grades}",
                where="models",
            )
    return tuple(models)
