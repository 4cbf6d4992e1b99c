"""Poisoned clicks: attackers click on what is irrelevant and train as everybody does.

Thesis section 5.2.2 and table 5.1: the poison click model is the perfect one turned round, and
its user never stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from cloister.adversary.poisoning.attack import checked_attackers
from cloister.core.errors import SettingsError
from cloister.data.clicks import click_model
from cloister.data.partitions import ClientView, Views

__all__ = ["with_changed_views", "with_poisoned_clicks"]


def with_poisoned_clicks(
    views: Sequence[ClientView], attackers: Iterable[int], n_grades: int
) -> Views:
    """Let the attackers click by the poison model.

    Parameters
    ----------
    views
        One a client.
    attackers
        Numbers of clients.
    n_grades
        Number of relevance grades of the data's scale: 2, 3 or 5.

    Examples
    --------
    >>> import numpy as np
    >>> from cloister.data.partitions import iid
    >>> from cloister.data.ranking_data import RankingData
    >>> data = RankingData(np.eye(3), np.array([1, 0, 2], np.int8), np.array([0, 2, 3]))
    >>> views = with_poisoned_clicks(iid(data, 3), [1], n_grades=3)
    >>> [[model.name for model in view.click_models] for view in views]
    [[], ['poison'], []]
    """
    poison = click_model("poison", n_grades)
    return with_changed_views(views, attackers, lambda view: replace(view, click_models=(poison,)))


def with_changed_views(
    views: Sequence[ClientView],
    attackers: Iterable[int],
    change: Callable[[ClientView], ClientView],
) -> Views:
    """Change the attackers' views; those who shared a view share the changed one."""
    numbers = checked_attackers(attackers)
    if len(numbers) and numbers[-1] >= len(views):
        raise SettingsError(
            f"client {numbers[-1]} is beyond the last of {len(views)}", where="attackers"
        )
    changed: dict[int, ClientView] = {}
    result = list(views)
    for number in numbers:
        view = views[number]
        if id(view) not in changed:
            changed[id(view)] = change(view)
        result[number] = changed[id(view)]
    return tuple(result)
