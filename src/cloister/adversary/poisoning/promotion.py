"""Targeted promotion: attackers who want one document, or one source, to be seen more.

The thesis leaves targeted attacks for later. Three are here. By clicks: attackers train as
everybody does, and click on the target alone. By model: attackers push a linear ranker along the
features in which the target differs from its competitors. Slowly: attackers add a small step in
that direction to their honest updates, to stay below what a rule notices.
:mod:`cloister.adversary.poisoning.exposure` measures what they reach, and what it costs the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.poisoning.attack import (
    Floats,
    Knowledge,
    Known,
    ModelPoisoning,
    usual_distance,
)
from cloister.adversary.poisoning.poisoned_clicks import with_changed_views
from cloister.core.errors import DataError, SettingsError
from cloister.data.clicks import click_model
from cloister.data.partitions import ClientView, Views
from cloister.data.ranking_data import RankingData
from cloister.federate.rules.norm_bounding import lengths

__all__ = ["Promotion", "SlowPromotion", "Target", "highest_in_feature", "with_promoting_clicks"]


@dataclass(frozen=True, eq=False)
class Target:
    """What is to be promoted: some rows of a data set.

    Parameters
    ----------
    data
        The data set.
    rows
        The target's rows: those of one document, or of all documents of a source.

    Examples
    --------
    >>> data = RankingData(np.eye(4), np.zeros(4, np.int8), np.array([0, 2, 4]),
    ...                    doc_ids=("a", "b", "c", "a"))
    >>> Target.named(data, ["a"]).rows, Target.named(data, ["c"]).queries
    (array([0, 3]), array([1]))
    """

    data: RankingData
    rows: NDArray[np.int64]

    def __post_init__(self) -> None:
        rows = np.unique(np.asarray(self.rows, np.int64))
        if not len(rows) or rows[0] < 0 or rows[-1] >= self.data.n_rows:
            raise DataError(
                f"rows lie from 0 to {self.data.n_rows - 1}, and there is at least one",
                where="Target",
            )
        object.__setattr__(self, "rows", rows)

    @classmethod
    def named(cls, data: RankingData, doc_ids: Iterable[str]) -> Target:
        """Return the rows of documents of these names."""
        wanted = frozenset(doc_ids)
        return cls(data, np.flatnonzero([name in wanted for name in data.doc_ids]))

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Say of each row of the data whether it is the target's."""
        mask = np.zeros(self.data.n_rows, np.bool_)
        mask[self.rows] = True
        return mask

    @property
    def queries(self) -> NDArray[np.int64]:
        """The queries among whose candidates the target is, by position."""
        return np.unique(np.searchsorted(self.data.offsets, self.rows, side="right") - 1)


def highest_in_feature(data: RankingData, feature: int) -> Target:
    """Return the document of each query that is highest in a feature, as if they were a source.

    The collections name no sources; this stands in for one whose documents have something in
    common. Of equal documents the first is taken.

    Parameters
    ----------
    data
        The data set.
    feature
        The feature's column, from 0.

    Examples
    --------
    >>> features = np.array([[1.0, 0.0], [2.0, 0.0], [5.0, 0.0], [5.0, 0.0]])
    >>> data = RankingData(features, np.zeros(4, np.int8), np.array([0, 2, 2, 4]))
    >>> highest_in_feature(data, 0).rows
    array([1, 2])
    """
    if not 0 <= feature < data.n_features:
        raise SettingsError(f"from 0 to {data.n_features - 1} (given: {feature})", where="feature")
    values = data.features[:, feature]
    starts = data.offsets[:-1][data.lengths > 0]
    stops = data.offsets[1:][data.lengths > 0]
    pairs = zip(starts, stops, strict=True)
    rows = [start + int(values[start:stop].argmax()) for start, stop in pairs]
    return Target(data, np.array(rows, np.int64))


def with_promoting_clicks(
    views: Sequence[ClientView], attackers: Iterable[int], target: Target, n_grades: int
) -> Views:
    """Let the attackers search for the target, and click on it and on nothing else.

    To an attacker the target has the highest grade and all else grade 0; it clicks by the perfect
    click model, and of its queries issues those that have the target among their candidates.
    Where it has no such query it clicks on nothing.

    Parameters
    ----------
    views
        One a client.
    attackers
        Numbers of clients.
    target
        What is promoted; a target in the views' data.
    n_grades
        Number of relevance grades of the data's scale: 2, 3 or 5.

    Examples
    --------
    >>> from cloister.data.partitions import iid
    >>> data = RankingData(np.eye(4), np.array([1, 0, 2, 0], np.int8), np.array([0, 2, 4]))
    >>> views = with_promoting_clicks(iid(data, 2), [1], Target(data, np.array([3])), n_grades=3)
    >>> views[1].labels.tolist(), views[1].queries.tolist(), views[0].labels
    ([0, 0, 0, 2], [1], None)
    """
    perfect = click_model("perfect", n_grades)
    mask = target.mask
    labels = np.where(mask, n_grades - 1, 0).astype(np.int8)

    def change(view: ClientView) -> ClientView:
        if view.data is not target.data:
            raise DataError("the target is one of other data than the views'", where="target")
        return replace(_searching(view, mask), labels=labels, click_models=(perfect,))

    return with_changed_views(views, attackers, change)


def _searching(view: ClientView, mask: NDArray[np.bool_]) -> ClientView:
    """Return the view with those queries alone that have a target, or as it is if none has."""
    kept = np.array([i for i in range(view.n_queries) if mask[view.query_rows(i)].any()], np.int64)
    if not len(kept):
        return view
    queries = kept if view.queries is None else view.queries[kept]
    if view.rows is None or view.offsets is None:
        return replace(view, queries=queries)
    parts = [view.rows[view.offsets[i] : view.offsets[i + 1]] for i in kept]
    offsets = np.concatenate(([0], np.cumsum([len(part) for part in parts])))
    return replace(view, queries=queries, rows=np.concatenate(parts), offsets=offsets)


class Promotion(ModelPoisoning):
    """Promotion by model: the attackers send the way from competitors to target, made longer.

    The direction is the mean, over queries that have a target and others, of the difference
    between the mean features of the two. Its length is ``boost`` times the mean length of the
    updates that are known, so that a boost of 1 is as long as honest updates are. For linear
    rankers only.

    Parameters
    ----------
    attackers, knowledge, seed
        As for every attack.
    target
        What is promoted, in data that the attackers hold.
    boost
        How much longer than others' the attackers' updates are, above 0.
    """

    name = "promote-model"

    def __init__(
        self,
        *,
        attackers: Iterable[int],
        knowledge: Knowledge = "partial",
        seed: int,
        target: Target,
        boost: float = 1.0,
    ) -> None:
        super().__init__(attackers=attackers, knowledge=knowledge, seed=seed)
        if not boost > 0:
            raise SettingsError(f"must be above 0 (given: {boost})", where="boost")
        self.boost = boost
        self.direction = _direction(target)

    def crafted(self, known: Known) -> Floats:
        """Return the same row for each attacker."""
        _check_linear(self.name, known.model, self.direction)
        row = self.boost * float(lengths(known.before).mean()) * self.direction
        return np.broadcast_to(row, known.own.shape)


class SlowPromotion(ModelPoisoning):
    """Promotion within chance: each attacker adds a small step towards the target to its update.

    The step is ``reach`` times the usual distance of an update from the mean. The attackers
    estimate that distance from the updates of the round that they know. The adaptive rule lets 0.2
    such distances pass. For linear rankers only.

    Parameters
    ----------
    attackers, knowledge, seed
        As for every attack; at least two attackers, or the distance is unknown and nothing happens.
    target
        What is promoted, in data that the attackers hold.
    reach
        The step, in usual distances, above 0.
    """

    name = "promote-slowly"

    def __init__(
        self,
        *,
        attackers: Iterable[int],
        knowledge: Knowledge = "partial",
        seed: int,
        target: Target,
        reach: float = 0.12,
    ) -> None:
        super().__init__(attackers=attackers, knowledge=knowledge, seed=seed)
        if not reach > 0:
            raise SettingsError(f"must be above 0 (given: {reach})", where="reach")
        self.reach = reach
        self.direction = _direction(target)

    def crafted(self, known: Known) -> Floats:
        """Return each attacker's own update, moved a little towards the target."""
        _check_linear(self.name, known.model, self.direction)
        return known.own + self.reach * usual_distance(known.before) * self.direction


def _check_linear(name: str, model: Floats, direction: Floats) -> None:
    if model.shape != direction.shape:
        raise SettingsError(
            f"a model of {len(model)} parameters is no linear ranker of {len(direction)} features",
            where=name,
            remedy="promote by clicks, or train a linear ranker",
        )


def _direction(target: Target) -> Floats:
    """Return the way from competitors to target, of length 1."""
    data, mask = target.data, target.mask
    total = np.zeros(data.n_features)
    for query in target.queries:
        features = np.asarray(data.features[data.rows(int(query))], np.float64)
        promoted = mask[data.rows(int(query))]
        if not promoted.all():
            total += features[promoted].mean(axis=0) - features[~promoted].mean(axis=0)
    length = math.sqrt(float((total * total).sum()))
    if length == 0:
        raise DataError(
            "the target does not differ from its competitors",
            where="target",
            remedy="choose a target that has competitors and other features than they",
        )
    return total / length
