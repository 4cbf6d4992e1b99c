"""DYN-OPT: the largest step against the mean that a rule still takes in; Min-Max and Min-Sum.

Shejwalkar and Houmansadr, "Manipulating the Byzantine: Optimizing Model Poisoning Attacks and
Defenses for Federated Learning", NDSS 2021. Their attack tailored to a rule searches with the rule
itself; their two attacks that know no rule keep within the spread of benign updates.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.poisoning.attack import Floats, Knowledge, Known, ModelPoisoning
from cloister.core.errors import SettingsError
from cloister.federate.rules import Rule
from cloister.federate.rules.distances import distances
from cloister.federate.rules.median import Median
from cloister.federate.rules.trimmed_mean import TrimmedMean

__all__ = ["DynOpt", "MinMax", "MinSum", "Perturbation", "largest_step", "perturbation"]

Perturbation = Literal["unit", "sign", "std"]

FIRST_STEP: Final = 10.0  # gamma at which the authors' search begins; it ends below twice that
BY_COORDINATE: Final = (TrimmedMean, Median)  # no row is taken in or left out as a whole


class _Stepping(ModelPoisoning):
    """All attackers send the mean of what is known plus gamma times a perturbation.

    Parameters
    ----------
    attackers, knowledge, seed
        As for every attack.
    direction
        The perturbation, see `perturbation`.
    """

    def __init__(
        self,
        *,
        attackers: Iterable[int],
        knowledge: Knowledge = "partial",
        seed: int,
        direction: Perturbation = "std",
    ) -> None:
        super().__init__(attackers=attackers, knowledge=knowledge, seed=seed)
        if direction not in get_args(Perturbation):
            raise SettingsError(f"unit, sign or std (given: {direction!r})", where="direction")
        self.direction: Perturbation = direction

    def _stepped(self, known: Known, step: float, push: Floats) -> Floats:
        return np.broadcast_to(known.before.mean(axis=0) + step * push, known.own.shape)


class MinMax(_Stepping):
    """No crafted update is further from any known one than two known ones are from each other.

    The largest such gamma is computed, not searched for. One known update has no spread: then it
    is sent as it is.
    """

    name = "min-max"

    def crafted(self, known: Known) -> Floats:
        """Return the same row for each attacker."""
        push = perturbation(known.before, self.direction)
        return self._stepped(known, _min_max_step(known.before, push), push)


class MinSum(_Stepping):
    """The sum of squared distances from the known updates is no larger than any known one's.

    The largest such gamma is computed, not searched for.
    """

    name = "min-sum"

    def crafted(self, known: Known) -> Floats:
        """Return the same row for each attacker."""
        push = perturbation(known.before, self.direction)
        return self._stepped(known, _min_sum_step(known.before, push), push)


class DynOpt(_Stepping):
    """The attack tailored to a rule, which it tries out on what is known.

    gamma succeeds where the outcome lies further along the perturbation than with any gamma that
    succeeded before, and the rule takes in as many crafted updates as it does of the mean itself.
    (Of Trimmed Mean and Median, which judge each coordinate apart, only the first is asked.) The
    authors measure the length of the deviation; along the perturbation an honest outlier that a
    rule happens to choose does not count as success.

    With full knowledge the trial holds the others' updates, and a copy of the rule as it is now:
    the attackers know what a rule with a memory remembers, and do not disturb it. With partial
    knowledge it holds the attackers' own m updates beside max(1, m * m // n) crafted ones, so that
    shares are about right, and a copy of the rule as it was when the attack was made: what
    it has learnt since depends on others. Where the rule has no outcome for so few, the step is
    Min-Max's.

    Parameters
    ----------
    attackers, knowledge, seed, direction
        As for Min-Max.
    rule
        The server's rule.
    tolerance
        Where the search for gamma ends, in standard deviations.

    Examples
    --------
    >>> from cloister.federate.rules import make_rule
    >>> from cloister.federate.tampering import Sent
    >>> updates = np.array([[1.0], [1.2], [1.4], [1.6], [1.8], [2.0], [2.2], [2.4], [2.6], [2.8]])
    >>> rule = make_rule("krum", n_attackers=3)
    >>> attack = DynOpt(attackers=[0, 1, 2], rule=rule, knowledge="full", seed=1)
    >>> arrived = attack.tampered(Sent(updates, np.arange(10), np.zeros(1), 0))
    >>> outcome = rule.aggregate(arrived, np.arange(10))
    >>> bool(outcome.used[:3].any()), bool(outcome.update[0] < 1.6)
    (True, True)
    """

    name = "dyn-opt"

    def __init__(
        self,
        *,
        attackers: Iterable[int],
        knowledge: Knowledge = "partial",
        seed: int,
        direction: Perturbation = "std",
        rule: Rule,
        tolerance: float = 0.01,
    ) -> None:
        super().__init__(attackers=attackers, knowledge=knowledge, seed=seed, direction=direction)
        if not 0 < tolerance < FIRST_STEP:
            raise SettingsError(f"between 0 and 10 (given: {tolerance})", where="tolerance")
        self.tolerance = tolerance
        self._rule = rule if knowledge == "full" else copy.deepcopy(rule)

    def crafted(self, known: Known) -> Floats:
        """Return the same row for each attacker."""
        push = perturbation(known.before, self.direction)
        trial = self._trial(known, push)
        n, expected = len(trial.rows), trial.rule.n_attackers
        if not push.any():
            step = 0.0
        elif expected > trial.rule.most_attackers(n) and not trial.rule.computable(n, expected):
            step = _min_max_step(known.before, push)
        else:
            step = self._searched(trial)
        return self._stepped(known, step, push)

    def _trial(self, known: Known, push: Floats) -> _Trial:
        rule = copy.deepcopy(self._rule)
        rule.beyond = "mark"
        m = known.n_attackers
        if self.knowledge == "partial":
            m = rule.n_attackers = max(1, known.n_attackers**2 // known.n_participants)
        mean = known.before.mean(axis=0)
        rows = np.concatenate((np.broadcast_to(mean, (m, len(mean))), known.benign))
        clients = _numbers(known, m, len(rows))
        return _Trial(rule, rows, clients, m, known.round, mean, push)

    def _searched(self, trial: _Trial) -> float:
        most_used, best = trial.outcome(0.0)
        asks_rows = not isinstance(trial.rule, BY_COORDINATE)

        def succeeds(step: float) -> bool:
            nonlocal best
            n_used, reached = trial.outcome(step)
            better = reached > best and (n_used >= most_used or not asks_rows)
            best = reached if better else best
            return better

        return largest_step(succeeds, tolerance=self.tolerance)


class _Trial(NamedTuple):
    """A round as the attackers imagine it: crafted rows first, benign ones after."""

    rule: Rule
    rows: Floats
    clients: NDArray[np.int64]
    n_crafted: int
    round: int
    mean: Floats
    push: Floats

    def outcome(self, step: float) -> tuple[int, float]:
        """Return how many crafted rows are used, and how far the outcome lies along the push."""
        self.rows[: self.n_crafted] = self.mean + step * self.push
        aggregated = copy.deepcopy(self.rule).aggregate(self.rows, self.clients, round=self.round)
        n_used = int(aggregated.used[: self.n_crafted].sum())
        return n_used, float(((aggregated.update - self.mean) * self.push).sum())


def perturbation(updates: Floats, direction: Perturbation) -> Floats:
    """Return the direction in which the crafted update is moved from the mean.

    ``unit`` is against the mean, ``sign`` against its signs, ``std`` minus the standard deviations.
    All three are as long as the last, so that gamma means about the same for each; this changes
    neither the directions nor what can be reached.

    Examples
    --------
    >>> updates = np.array([[6.0, 2.0], [10.0, 10.0]])
    >>> directions = ("unit", "sign", "std")
    >>> [perturbation(updates, direction).round(3).tolist() for direction in directions]
    [[-3.578, -2.683], [-3.162, -3.162], [-2.0, -4.0]]
    """
    spread: Floats = updates.std(axis=0)
    if direction == "std":
        return -spread
    mean = updates.mean(axis=0)
    against: Floats = -mean if direction == "unit" else -np.sign(mean)
    size = _squared(against)
    return against * math.sqrt(_squared(spread) / size) if size > 0 else against


def largest_step(succeeds: Callable[[float], bool], *, tolerance: float) -> float:
    """Return the largest gamma found by the authors' search, 0 where none succeeds.

    gamma begins at 10 and moves by half of the last move, up after a success and down after a
    failure, until it is within the tolerance of the last success. (Their algorithm 1 prints a
    first move half as large, which would never reach below 5; their code has this one.)

    Examples
    --------
    >>> round(largest_step(lambda gamma: gamma <= 3.0, tolerance=0.001), 2)
    3.0
    >>> largest_step(lambda gamma: False, tolerance=0.1)
    0.0
    """
    gamma, move, found = FIRST_STEP, FIRST_STEP, 0.0
    while abs(found - gamma) > tolerance:
        move /= 2
        if succeeds(gamma):
            found = gamma
            gamma += move
        else:
            gamma -= move
    return found


def _squared(vector: Floats) -> float:
    """Return the squared length; BLAS would add up otherwise with another number of threads."""
    return float((vector * vector).sum())


def _min_max_step(updates: Floats, push: Floats) -> float:
    """Return the largest gamma with |mean + gamma push - u_i| <= max_jk |u_j - u_k| for all i."""
    size = _squared(push)
    if size == 0:
        return 0.0
    away = updates.mean(axis=0) - updates
    along = (away * push).sum(axis=1) / size
    room = distances(updates, True).max() - (away * away).sum(axis=1)  # at least 0
    return float((np.sqrt(along**2 + np.maximum(room, 0.0) / size) - along).min())


def _min_sum_step(updates: Floats, push: Floats) -> float:
    """Return the largest gamma with sum_i |mean + gamma push - u_i|^2 <= max_j sum_i |u_j - u_i|^2.

    The left side is its value at 0 plus n times gamma squared times the squared
    length of push, since distances from the mean cancel.
    """
    size = _squared(push)
    if size == 0:
        return 0.0
    away = updates - updates.mean(axis=0)
    room = distances(updates, True).sum(axis=1).max() - (away * away).sum()
    return math.sqrt(max(float(room), 0.0) / (len(updates) * size))


def _numbers(known: Known, n_crafted: int, n: int) -> NDArray[np.int64]:
    """Return a client number for each row of a trial; where others are unknown, made-up ones."""
    own = known.clients[:n_crafted]
    if len(known.others):
        return np.concatenate((own, known.other_clients))
    return np.concatenate((own, np.setdiff1d(np.arange(n), own)[: n - n_crafted]))
