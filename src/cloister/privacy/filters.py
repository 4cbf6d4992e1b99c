"""The privacy filter: whether one more release may pass, whatever the earlier ones have shown.

Releases are chosen adaptively: what is released next, and with how much noise, may depend on all
that was released before. Composition theorems for fixed sequences do not cover that, and neither do
loss distributions (PLD). A *filter* does. It has two accounts, and lets a release pass as long as
one of them is kept after it:

- **Renyi at one order.** The divergences at the order alpha, which is fixed before the first
  release, add up to no more than the budget that gives (epsilon, delta - failures) at alpha
  (Feldman and Zrnic 2021, theorem 4.3; Lecuyer 2021, theorem 1). The order must not be chosen
  afterwards: over several orders the chances of failing would add up.
- **Sum.** The releases' own epsilons add up to no more than epsilon (Rogers, Roth, Ullman and
  Vadhan 2016, theorem 3.6). It costs the other account nothing: where it is kept, the loss is at
  most epsilon for certain, but for releases that may fail by themselves.

A release may fail by itself with a chance of its own, its delta. These chances add up to no more
than ``failures``, a part of delta that is set aside in advance. A release that is made in one go
may name an own delta for the sum: beyond ``failures`` the sum is closed and the order goes on.
``docs/ledger.md`` has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from cloister.core.errors import SettingsError
from cloister.privacy.accounting import composed_epsilon, divergence, pure_epsilon
from cloister.privacy.level import Level
from cloister.privacy.release import Release

__all__ = ["FAILURES_SHARE", "ORDERS", "Charge", "PrivacyFilter", "charge_of", "total_charge"]

FAILURES_SHARE: Final = 0.1  # of delta, for releases that may fail: it costs 0.4 % of noise
STEPS_TO_DOUBLE: Final = 8  # orders between alpha - 1 and its double: within 0.2 % of the best
ROUNDING: Final = 1 + 1e-12  # what adding up doubles may make of charges that fit exactly
MOST_DOUBLINGS: Final = 16
WHOLE_ORDERS_FROM: Final = 8  # where sampled noise is worked out much faster


def _orders() -> tuple[float, ...]:
    steps = range(-4 * STEPS_TO_DOUBLE, MOST_DOUBLINGS * STEPS_TO_DOUBLE)
    orders = (1 + 2 ** (step / STEPS_TO_DOUBLE) for step in steps)
    # With few digits, so that an order that is printed can be written into a limit as it is.
    return tuple(
        sorted({float(round(a)) if a >= WHOLE_ORDERS_FROM else round(a, 3) for a in orders})
    )


ORDERS: Final = _orders()


class Charge(NamedTuple):
    """What a filter charges for one release, or for several together.

    Parameters
    ----------
    divergence
        Renyi divergence at the filter's order.
    epsilon
        What holds for certain, or but for ``delta``; infinity where there is no such bound.
    delta
        The chance that what the release states fails.
    own_delta
        The chance that ``epsilon`` fails, of a release that is made in one go; its divergence
        holds for certain.
    """

    divergence: float = 0.0
    epsilon: float = 0.0
    delta: float = 0.0
    own_delta: float = 0.0

    @property
    def has_bound(self) -> bool:
        """Whether anything is promised, by either account."""
        return math.isfinite(self.divergence) or math.isfinite(self.epsilon)

    def times(self, n: int) -> Charge:
        """Return the charge for so many such releases."""
        return Charge(*(n * part for part in self)) if n else Charge()

    def plus(self, other: Charge) -> Charge:
        """Return the charge for both."""
        return Charge(*(mine + its for mine, its in zip(self, other, strict=True)))


class PrivacyFilter(NamedTuple):
    """What releases may cost together, and the order at which that is decided.

    Parameters
    ----------
    epsilon, delta
        What all releases that pass guarantee together, however they were chosen.
    failures
        The part of delta for releases that may fail by themselves.
    order
        Of the Renyi divergence, above 1; fixed before the first release.

    Examples
    --------
    >>> one = PrivacyFilter.of(3.0, 1e-6)
    >>> one.order
    9.0
    >>> round(one.budget, 3), one.admits(Charge(1.6, math.inf)), one.admits(Charge(1.7, 3.1))
    (1.652, True, False)
    """

    epsilon: float
    delta: float
    failures: float
    order: float

    @classmethod
    def of(
        cls,
        epsilon: float,
        delta: float,
        *,
        failures: float | None = None,
        order: float | None = None,
    ) -> PrivacyFilter:
        """Return a filter; the order is the best one for normal noise unless given.

        A tenth of delta is for releases that may fail, unless given.
        """
        failures = FAILURES_SHARE * delta if failures is None else failures
        if order is None:
            order = _best_order(epsilon, delta - failures)
        return cls(epsilon, delta, failures, order)

    @property
    def budget(self) -> float:
        """How much the divergences may add up to; minus infinity where delta is for failures."""
        return self.epsilon - _surcharge(self.order, self.delta - self.failures)

    def admits(self, charge: Charge) -> bool:
        """Tell whether releases of this charge may pass together."""
        by_order, by_sum = self._accounts(charge)
        return by_order <= self.budget * ROUNDING or by_sum <= self.epsilon * ROUNDING

    def spent(self, charge: Charge) -> float:
        """Return the least epsilon with which this filter would have let the releases pass.

        It holds of releases that were made under this filter, with its delta. The first release
        costs more than the later ones: it pays for turning a divergence into an epsilon.
        """
        by_order, by_sum = self._accounts(charge)
        surcharge = _surcharge(self.order, self.delta - self.failures)
        return 0.0 if charge == Charge() else max(0.0, min(by_order + surcharge, by_sum))

    def used(self, charge: Charge) -> float:
        """Return which share of the filter is used up, from 0 to 1 or more: it grows evenly."""
        by_order, by_sum = self._accounts(charge)
        return min(_share(by_order, self.budget), _share(by_sum, self.epsilon))

    def _accounts(self, charge: Charge) -> tuple[float, float]:
        """Return what stands on both accounts; infinity on one that releases' failures close."""
        if charge == Charge():
            return (0.0, 0.0)
        most = self.failures * ROUNDING
        # What one-shot releases have used of the failures stays used, whichever account counts.
        in_order = charge.delta + min(charge.own_delta, self.failures)
        return (
            charge.divergence if charge.delta == 0 or in_order <= most else math.inf,
            charge.epsilon if charge.delta + charge.own_delta <= most else math.inf,
        )


def charge_of(release: Release, level: Level, order: float) -> Charge:
    """Return what a filter of an order charges for a release, for one unit of a level.

    A release that names its ``own_delta`` is made in one go, and nothing in it depends on another
    part's noise: its epsilon at that delta is worked out from its whole loss distribution.
    """
    losses = release.loss_counts(level)
    total = Charge(
        sum(n * divergence(loss, order) for loss, n in losses.items()),
        sum(n * pure_epsilon(loss) for loss, n in losses.items()),
        sum(n * loss.delta for loss, n in losses.items()),
    )
    if release.own_delta is None or math.isfinite(total.epsilon):
        return total
    exact = composed_epsilon(losses, release.own_delta).epsilon
    return Charge(total.divergence, exact, total.delta, release.own_delta)


def total_charge(charges: Iterable[tuple[Charge, int]]) -> Charge:
    """Add up charges, each with how often it is due."""
    total = Charge()
    for charge, n in charges:
        total = total.plus(charge.times(n))
    return total


def _share(part: float, whole: float) -> float:
    if whole > 0:
        return part / whole
    return 0.0 if part == 0 and whole == 0 else math.inf


def _surcharge(order: float, delta: float) -> float:
    """Return what turning a divergence into (epsilon, delta) adds.

    Canonne, Kamath and Steinke 2020, proposition 12: log(1 - 1/a) - log(delta a) / (a - 1).
    """
    if delta <= 0:
        return math.inf
    return math.log1p(-1 / order) - math.log(delta * order) / (order - 1)


@lru_cache(maxsize=1024)
def _best_order(epsilon: float, delta: float) -> float:
    """Return the order at which the budget allows the least normal noise: budget / order is most.

    The divergence of normal noise is in proportion to the order, so the best order depends on
    epsilon and delta alone, not on the number of releases.
    """
    if not (epsilon >= 0 and 0 <= delta < 1):
        raise SettingsError(
            f"epsilon of at least 0 and delta between 0 and 1 are needed (given: {epsilon}, "
            f"{delta})",
            where="PrivacyFilter",
        )
    return max(ORDERS, key=lambda order: (epsilon - _surcharge(order, delta)) / order)
