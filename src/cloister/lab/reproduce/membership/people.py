"""The people that federations are drawn from, for membership inference on rankers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.data.clicks import GRADE_COUNTS, ClickModel, click_model
from cloister.data.letor import LetorSettings
from cloister.data.partitions import ClientView, Views, iid
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.federate.evaluation import Evaluation
from cloister.lab.reproduce.membership.setting import RankerMembershipSettings

__all__ = ["People", "make_people", "with_own_tastes"]


class People(NamedTuple):
    """Everybody who may take part.

    Parameters
    ----------
    views
        Each one's queries and grades.
    click_model
        How all click.
    evaluation
        Measures rankers on queries that are nobody's.
    """

    views: Views
    click_model: ClickModel
    evaluation: Evaluation


def make_people(settings: RankerMembershipSettings) -> People:
    """Deal out the training queries, and give people tastes where they have any."""
    reading = LetorSettings(normalise=settings.normalise, null="zero")
    fold = load_fold(settings.data, settings.fold, reading)
    n_grades = max(fold.train.n_grades, fold.test.n_grades)
    model = click_model(
        settings.click_model, next((n for n in GRADE_COUNTS if n >= n_grades), n_grades)
    )
    views = _dealt(fold.train, settings)
    if settings.own_taste:
        views = with_own_tastes(views, settings.own_taste, seed=settings.seed)
    evaluation = Evaluation(iid(fold.test, 1), model, seed=settings.seed)
    return People(views, model, evaluation)


def _dealt(data: RankingData, settings: RankerMembershipSettings) -> Views:
    """Give each person queries that nobody else has; those left over are not used."""
    n, each = settings.n_people, settings.own_queries
    if not each:
        return iid(data, n)
    if n * each > data.n_queries:
        raise DataError(
            f"{n} people with {each} queries each need {n * each}; there are {data.n_queries}",
            where=settings.data,
            remedy="use fewer clients or queries of each, or more data",
        )
    order = stream(settings.seed, "membership", "queries").permutation(data.n_queries)
    return tuple(
        ClientView(data, queries=np.sort(order[i * each : (i + 1) * each])) for i in range(n)
    )


def with_own_tastes(views: Views, share: float, *, seed: int) -> Views:
    """Grade some of each client's queries by a taste of its own.

    A taste is a random weight for each feature. The grades of a query stay, and go to other
    documents: the highest to those that the client likes best.

    Examples
    --------
    >>> data = RankingData(np.eye(4), np.array([2, 0, 1, 0], np.int8), np.array([0, 4]))
    >>> (view,) = with_own_tastes((ClientView(data),), 1.0, seed=1)
    >>> view.labels.tolist() != data.labels.tolist(), sorted(view.labels.tolist())
    (True, [0, 0, 1, 2])
    """
    return tuple(_tasting(view, share, seed, client) for client, view in enumerate(views))


def _tasting(view: ClientView, share: float, seed: int, client: int) -> ClientView:
    rng = stream(seed, "membership", "taste", client)
    taste = rng.standard_normal(view.data.n_features)
    labels: NDArray[np.int8] = view.data.labels.copy()
    for i in range(view.n_queries):
        if rng.random() < share:
            rows = view.data.rows(view.query_position(i))
            liked = np.argsort(view.data.features[rows] @ taste, kind="stable")
            labels[rows.start + liked] = np.sort(view.data.labels[rows])
    return ClientView(view.data, queries=view.queries, labels=labels)
