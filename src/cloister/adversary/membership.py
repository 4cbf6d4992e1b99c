"""Membership inference: whether a query, or a client, is among those that something rests on.

An attack gives a score, and high scores speak for "it was". How well an attack does is told by

- the *AUC*: the chance that a member has a higher score than one who is not (0.5: nothing learnt);
- the *true positive rate at 1 % false positives*: how many members can be named almost surely
  (0.01: nothing learnt). The average hides those few (Carlini et al. 2022);
- the *advantage*: true positives less false positives at one threshold, which is chosen on one half
  of the groups and judged on the other, so that luck does not count (0: nothing learnt).

Intervals are by bootstrap over clusters of groups: scores of one group (of one federation, say)
need not be independent of each other, nor those of groups that share a query. Where everything, or
almost everything, is right, a bootstrap is far too sure: what no cluster shows, no resample does.
There the interval is as wide at least as Clopper and Pearson's for n of n clusters (the rule of
three). An attack that fails shows that this attacker failed. It proves nothing.

The attacks are in :mod:`cloister.adversary.membership_updates` and
:mod:`cloister.adversary.membership_rankers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.inferred_clicks import CONFIDENCE, Measured
from cloister.core.errors import DataError

__all__ = [
    "MembershipScores",
    "MembershipSuccess",
    "auc_difference",
    "likelihood_ratio",
    "membership_success",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Labels = NDArray[np.int64]

FALSE_POSITIVES: Final = 0.01
N_RESAMPLES: Final = 1000
LEAST_SHADOWS: Final = 2  # on each side, for a mean and a spread
RANGES: Final = ((0.0, 1.0), (0.0, 1.0), (-1.0, 1.0))  # of AUC, true positives, advantage


class MembershipScores(NamedTuple):
    """Scores of an attack, by group.

    Parameters
    ----------
    members
        Groups x scores of members.
    others
        Groups x scores of those who are not.
    """

    members: Floats
    others: Floats


class MembershipSuccess(NamedTuple):
    """How well one attack did, each number with its interval at 95 %."""

    auc: Measured
    true_positive_rate: Measured
    advantage: Measured


def membership_success(
    scores: MembershipScores,
    *,
    rng: np.random.Generator,
    clusters: Labels | None = None,
    n_resamples: int = N_RESAMPLES,
) -> MembershipSuccess:
    """Measure an attack.

    Parameters
    ----------
    scores
        At least two groups.
    rng
        Draws the resamples.
    clusters
        A label of each group: those with the same one are drawn together, and are on the same side
        where a threshold is chosen on one half. Each group is a cluster unless given.
    n_resamples
        How many.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> scores = MembershipScores(rng.normal(3, 1, (200, 1)), rng.normal(0, 1, (200, 5)))
    >>> found = membership_success(scores, rng=rng)
    >>> round(found.auc.value, 2), found.auc.low < 0.98 < found.auc.high  # Phi(3 / sqrt(2)) = 0.98
    (0.98, True)
    """
    _check(scores)
    cluster = _numbered(clusters, len(scores.members))
    return MembershipSuccess(
        *_bootstrapped(
            cluster, lambda counts: _measures(scores, counts, cluster), rng, n_resamples, RANGES
        )
    )


def auc_difference(
    one: MembershipScores,
    other: MembershipScores,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> Measured:
    """Return how much higher one AUC is than another; group i of both belongs together.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> good = MembershipScores(np.ones((9, 1)), np.zeros((9, 1)))
    >>> auc_difference(good, MembershipScores(good.others, good.others), rng=rng).value
    0.5
    """
    _check(one)
    _check(other)
    if len(one.members) != len(other.members):
        raise DataError("both need the same groups", where="auc_difference")

    def difference(counts: Floats) -> Floats:
        return (_auc(_tallied(one, counts)) - _auc(_tallied(other, counts)))[:, None]

    groups = np.arange(len(one.members))
    return _bootstrapped(groups, difference, rng, n_resamples, RANGES[2:])[0]


def likelihood_ratio(values: Floats, shadows: Floats, members: Flags) -> Floats:
    """Return how much likelier values are for a member, as shadows tell: LiRA's score.

    The shadows' values are taken to be normal on either side, with a mean of each side and one
    spread for both (Carlini et al. 2022, eq. 3; with few shadows a shared spread does better).

    Parameters
    ----------
    values
        Observations x targets: a statistic of each target on what is attacked.
    shadows
        Shadows x targets: the same statistic on what the adversary made itself.
    members
        Shadows x targets: whether the target was in it.

    Examples
    --------
    >>> shadows = np.array([[0.0], [0.2], [1.0], [1.2]])
    >>> members = np.array([[False], [False], [True], [True]])
    >>> likelihood_ratio(np.array([[0.60001], [1.1]]), shadows, members).round(1).ravel().tolist()
    [0.0, 25.0]
    """
    inside, outside = members.sum(axis=0), (~members).sum(axis=0)
    if shadows.shape != members.shape or min(inside.min(), outside.min()) < LEAST_SHADOWS:
        raise DataError(
            f"each target needs {LEAST_SHADOWS} shadows with it and {LEAST_SHADOWS} without",
            where="likelihood_ratio",
            remedy="make more shadows",
        )
    mean_in = np.where(members, shadows, 0.0).sum(axis=0) / inside
    mean_out = np.where(members, 0.0, shadows).sum(axis=0) / outside
    rest = shadows - np.where(members, mean_in, mean_out)
    variance = np.maximum((rest**2).sum(axis=0) / (len(shadows) - 2), 1e-300)
    ratio: Floats = (values - (mean_in + mean_out) / 2.0) * (mean_in - mean_out) / variance
    return ratio


def _check(scores: MembershipScores) -> None:
    members, others = scores
    sound = members.ndim == others.ndim == 2 and len(members) == len(others) >= 2
    if not (sound and members.size and others.size):
        raise DataError("scores are groups x scores, of two groups at least", where="membership")
    if np.isnan(members).any() or np.isnan(others).any():
        raise DataError("some scores are not numbers", where="membership")


def _numbered(clusters: Labels | None, n_groups: int) -> Labels:
    """Return the number of each group's cluster, from 0."""
    if clusters is None:
        return np.arange(n_groups)
    distinct, numbers = np.unique(clusters, return_inverse=True)
    if numbers.shape != (n_groups,) or len(distinct) < 2:
        raise DataError("each group needs a cluster, of two at least", where="membership")
    return numbers


def _measures(scores: MembershipScores, counts: Floats, cluster: Labels) -> Floats:
    """Return all three measures for each row of counts: how often each group is there."""
    even = cluster % 2 == 0
    halves = [_tallied(scores, counts * half) for half in (even, ~even)]
    whole = _Tally(*(one + other for one, other in zip(*halves, strict=True)))
    crossed = (_crossed_gap(*halves) + _crossed_gap(*halves[::-1])) / 2.0
    return np.stack([_auc(whole), _true_positive_rate(whole), crossed], axis=1)


class _Tally(NamedTuple):
    """How many members, and how many others, have each of the values, which ascend; by row."""

    members: Floats
    others: Floats


def _tallied(scores: MembershipScores, counts: Floats) -> _Tally:
    values = np.concatenate([scores.members.ravel(), scores.others.ravel()])
    group = np.concatenate([np.indices(part.shape)[0].ravel() for part in scores])
    member = np.arange(len(values)) < scores.members.size
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=np.nan) != 0)
    by_score = counts[:, group[order]]
    return _Tally(
        *(np.add.reduceat(by_score * kind[order], starts, axis=1) for kind in (member, ~member))
    )


def _bootstrapped(
    cluster: Labels,
    measure: Callable[[Floats], Floats],
    rng: np.random.Generator,
    n_resamples: int,
    ranges: Sequence[tuple[float, float]],
) -> list[Measured]:
    """Return values and percentile intervals; even and odd clusters are resampled apart."""
    n_clusters = int(cluster.max()) + 1
    counts: Floats = np.zeros((n_resamples, n_clusters))
    for start in (0, 1):
        n = len(range(start, n_clusters, 2))
        counts[:, start::2] = rng.multinomial(n, np.full(n, 1.0 / n), n_resamples)
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(measure(counts[:, cluster]), [tail, 100.0 - tail], axis=0)
    values = measure(np.ones((1, len(cluster))))[0]
    return [
        _no_surer_than_exact(Measured(float(value), float(bottom), float(top), n_clusters), limits)
        for value, bottom, top, limits in zip(values, low, high, ranges, strict=True)
    ]


def _no_surer_than_exact(found: Measured, limits: tuple[float, float]) -> Measured:
    """Widen an interval of resamples that do not differ, or reach the limits of the measure.

    Of clusters of a kind that none of n is, there may be a share of 1 - 0.025^(1/n) (Clopper and
    Pearson), and they may lie anywhere within the limits.
    """
    value, low, high, n = found
    least, most = limits
    if low is None or high is None or least < low < high < most:
        return found
    unseen = 1.0 - ((1.0 - CONFIDENCE) / 2.0) ** (1.0 / n)
    return found._replace(
        low=min(low, value - unseen * (value - least)),
        high=max(high, value + unseen * (most - value)),
    )


def _auc(tally: _Tally) -> Floats:
    """Return the chance that a member has the higher value; ties count half."""
    below = np.cumsum(tally.others, axis=1) - tally.others / 2.0
    pairs = tally.members.sum(axis=1) * tally.others.sum(axis=1)
    return np.asarray((tally.members * below).sum(axis=1) / pairs)


def _above(tally: Floats) -> Floats:
    """Return how many lie above each value."""
    return np.asarray(tally.sum(axis=1, keepdims=True) - np.cumsum(tally, axis=1))


def _true_positive_rate(tally: _Tally) -> Floats:
    """Return the share of members above the least threshold that 1 % of the others exceed."""
    most = np.floor(FALSE_POSITIVES * tally.others.sum(axis=1, keepdims=True))
    threshold = np.argmax(_above(tally.others) <= most, axis=1)
    hits = np.take_along_axis(_above(tally.members), threshold[:, None], axis=1)[:, 0]
    return np.asarray(hits / tally.members.sum(axis=1))


def _gaps(tally: _Tally) -> Floats:
    """Return true positives less false positives at each threshold."""
    hits, alarms = (_above(part) / part.sum(axis=1, keepdims=True) for part in tally)
    return np.asarray(hits - alarms)


def _crossed_gap(chosen_on: _Tally, judged_on: _Tally) -> Floats:
    """Choose the best threshold on one half, and judge it on the other."""
    best = _gaps(chosen_on).argmax(axis=1)
    return np.asarray(np.take_along_axis(_gaps(judged_on), best[:, None], axis=1)[:, 0])
