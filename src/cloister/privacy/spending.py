"""What was spent so far, in memory: for training runs and simulations that keep no ledger."""

from __future__ import annotations

from collections import Counter

from cloister.core.errors import BudgetExceeded
from cloister.privacy.accounting import Accounting, Cost, composed_epsilon
from cloister.privacy.filters import Charge, PrivacyFilter, charge_of
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.release import Release

__all__ = ["Spending"]


class Spending:
    """Counts releases and refuses the one that would go over the limit, before it is made.

    It refuses by the filter of the limit, as a ledger does.

    Parameters
    ----------
    epsilon
        The limit; none unless given.
    delta
        The chance that the bound fails.
    level
        The unit that the limit speaks of.
    order
        Of the limit's filter; the usual one unless a plan has a better one.

    Examples
    --------
    >>> from cloister.privacy.releases.gaussian import GaussianRelease
    >>> spending = Spending(epsilon=4.0, delta=1e-6)
    >>> release = GaussianRelease(level="user", sigma=2.0, sensitivity=1.0)
    >>> spending.record(release)
    >>> round(spending.cost().epsilon, 2)
    2.25
    >>> spending.record(release)
    >>> spending.record(release)
    Traceback (most recent call last):
    ...
    cloister.core.errors.BudgetExceeded: user: the release would bring epsilon to 4.48 of 4.0; ...
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float,
        level: Level = Level.USER,
        order: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.level = level
        self._filter = None if epsilon is None else PrivacyFilter.of(epsilon, delta, order=order)
        self._losses: Counter[Loss] = Counter()
        self._charge = Charge()

    def reserve(self, release: Release, n_releases: int) -> None:
        """See that a whole plan is within the limit."""
        self._checked(release, n_releases)

    def record(self, release: Release) -> None:
        """Count a release, or raise `BudgetExceeded` and count nothing."""
        self._charge = self._checked(release, 1)
        self._losses += release.loss_counts(self.level)

    def _checked(self, release: Release, n_releases: int) -> Charge:
        if self._filter is None:
            return self._charge
        one = charge_of(release, self.level, self._filter.order)
        after = self._charge.plus(one.times(n_releases))
        if not self._filter.admits(after):
            raise BudgetExceeded(
                f"the release would bring epsilon to {self._filter.spent(after):.3g} of "
                f"{self.epsilon}",
                where=self.level.value,
                remedy="stop here, or plan for more rounds with more noise",
            )
        return after

    def spent(self) -> float | None:
        """Return what the limit's filter has charged; None without a limit."""
        return None if self._filter is None else self._filter.spent(self._charge)

    def cost(self, *, method: Accounting = "tightest") -> Cost:
        """Return what all releases cost together, as a report of releases planned beforehand."""
        return composed_epsilon(self._losses, self.delta, method=method)
