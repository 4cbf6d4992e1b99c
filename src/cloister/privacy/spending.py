"""What was spent so far, in memory: for training runs and simulations that keep no ledger."""

from __future__ import annotations

from collections import Counter

from cloister.core.errors import BudgetExceeded
from cloister.privacy.accounting import Accounting, Cost, composed_epsilon, cost_within
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.release import Release

__all__ = ["Spending"]


class Spending:
    """Counts releases and refuses the one that would go over the limit, before it is made.

    Parameters
    ----------
    epsilon
        The limit; none unless given.
    delta
        The chance that the bound fails.
    level
        The unit that the limit speaks of.

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
    cloister.core.errors.BudgetExceeded: user: the release would bring epsilon to 4.15 of 4.0; ...
    """

    def __init__(
        self, *, epsilon: float | None = None, delta: float, level: Level = Level.USER
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.level = level
        self._losses: Counter[Loss] = Counter()
        self._reserved: Counter[Loss] = Counter()

    def reserve(self, release: Release, n_releases: int) -> None:
        """See that a whole plan is within the limit; its releases need no further look."""
        one = release.loss_counts(self.level)
        plan = Counter({loss: n_releases * count for loss, count in one.items()})
        self._reserved = self._checked(self._losses + plan)

    def record(self, release: Release) -> None:
        """Count a release, or raise `BudgetExceeded` and count nothing."""
        after = self._losses + release.loss_counts(self.level)
        self._losses = after if after <= self._reserved else self._checked(after)

    def _checked(self, losses: Counter[Loss]) -> Counter[Loss]:
        if self.epsilon is not None:
            cost = cost_within(losses, self.delta, self.epsilon).epsilon
            if cost > self.epsilon:
                raise BudgetExceeded(
                    f"the release would bring epsilon to {cost:.3g} of {self.epsilon}",
                    where=self.level.value,
                    remedy="stop here, or plan for more rounds with more noise",
                )
        return losses

    def cost(self, *, method: Accounting = "tightest") -> Cost:
        """Return what all releases cost together."""
        return composed_epsilon(self._losses, self.delta, method=method)
