"""What was spent in memory: refusal before the release, and plans."""

from __future__ import annotations

import pytest

from cloister.core.errors import BudgetExceeded
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.level import Level
from cloister.privacy.release import UnprotectedRelease
from cloister.privacy.releases.gaussian import GaussianRelease
from cloister.privacy.releases.laplace import LaplaceRelease
from cloister.privacy.spending import Spending

ROUND = GaussianRelease(level="user", sigma=1.0, sensitivity=1.0, sampling_rate=0.01)


def test_what_is_refused_is_not_counted() -> None:
    spending = Spending(epsilon=1.0, delta=1e-6)
    spending.record(LaplaceRelease(level="user", scale=2.0, sensitivity=1.0))
    before = spending.cost()
    with pytest.raises(BudgetExceeded, match=r"to 1\.5 of 1"):
        spending.record(LaplaceRelease(level="user", scale=1.0, sensitivity=1.0))
    assert spending.cost() == before
    with pytest.raises(BudgetExceeded, match="inf of 1"):
        spending.record(UnprotectedRelease(level="user"))
    spending.record(LaplaceRelease(level="user", scale=4.0, sensitivity=1.0))


def test_spending_agrees_with_the_accountant() -> None:
    spending = Spending(delta=1e-6)
    for _ in range(30):
        spending.record(ROUND)
    assert spending.cost() == composed_epsilon(losses_of([ROUND] * 30), 1e-6)


def test_a_plan_over_the_limit_is_refused_whole() -> None:
    spending = Spending(epsilon=2.5, delta=1e-6, order=8.0)
    with pytest.raises(BudgetExceeded):
        spending.reserve(ROUND, 2000)
    spending.reserve(ROUND, 1000)
    assert spending.cost().epsilon == 0


def test_a_plan_does_not_open_the_door_for_other_releases() -> None:
    spending = Spending(epsilon=2.5, delta=1e-6, order=8.0)
    spending.reserve(ROUND, 1000)
    with pytest.raises(BudgetExceeded):
        spending.record(LaplaceRelease(level="user", scale=0.1, sensitivity=1.0))
    for _ in range(1000):
        spending.record(ROUND)
    with pytest.raises(BudgetExceeded):
        spending.reserve(ROUND, 100)


def test_a_smaller_unit_is_no_protection_for_a_larger_one() -> None:
    token = LaplaceRelease(level="token", scale=1.0, sensitivity=1.0)
    with pytest.raises(BudgetExceeded, match="document"):
        Spending(epsilon=5.0, delta=1e-6, level=Level.DOCUMENT).record(token)
    Spending(epsilon=5.0, delta=1e-6, level=Level.TOKEN).record(token)
