"""Noise shares: what survives dropouts and colluders is the target, and one share is nothing."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.privacy.mechanisms import SecureNoise, SimulatedNoise
from cloister.privacy.noise_shares import (
    DiscreteGaussianShares,
    DiscreteLaplaceShares,
    GaussianShares,
    LaplaceShares,
    NoisePlan,
)
from privacy.goodness_of_fit import (
    SIGNIFICANCE,
    discrete_gaussian,
    discrete_laplace,
    fit_of_reals,
    fit_of_whole_numbers,
)

CLIENTS = {"n_clients": 12, "n_dropouts": 3, "n_colluders": 4}
N_HONEST = 5  # 12 - 3 - 4
PLANS: list[NoisePlan] = [
    GaussianShares(sigma=2.0, **CLIENTS),
    LaplaceShares(scale=2.0, **CLIENTS),
    DiscreteGaussianShares(sigma=7.0, **CLIENTS),
    DiscreteLaplaceShares(scale=6.0, **CLIENTS),
]
every_plan = pytest.mark.parametrize("plan", PLANS, ids=lambda plan: type(plan).__name__)


def simulated(*purpose: str | int) -> SimulatedNoise:
    return SimulatedNoise(stream(3, *purpose))


def sum_of_shares(plan: NoisePlan, n_shares: int, n_values: int, source: Any) -> NDArray[Any]:
    return np.sum([plan.draw_share(n_values, source) for _ in range(n_shares)], axis=0)


def fit(plan: NoisePlan, drawn: NDArray[Any]) -> float:
    """Return the p-value of the target distribution."""
    match plan:
        case GaussianShares():
            return fit_of_reals(drawn, "norm", plan.sigma)
        case LaplaceShares():
            return fit_of_reals(drawn, "laplace", plan.scale)
        case DiscreteGaussianShares():
            return fit_of_whole_numbers(drawn, discrete_gaussian(plan.sigma))
        case DiscreteLaplaceShares():
            return fit_of_whole_numbers(drawn, discrete_laplace(plan.scale))
    raise NotImplementedError


# --- the planned number of dropouts and colluders leaves exactly the target ---


@every_plan
def test_shares_that_nobody_else_knows_add_up_to_the_target(plan: NoisePlan) -> None:
    unknown = sum_of_shares(plan, N_HONEST, 50_000, simulated("target"))
    assert fit(plan, unknown) > SIGNIFICANCE
    assert unknown.std() == pytest.approx(plan.target_sigma, rel=0.03)


@every_plan
def test_one_share_fewer_would_not_be_enough(plan: NoisePlan) -> None:
    unknown = sum_of_shares(plan, N_HONEST - 1, 50_000, simulated("fewer"))
    assert fit(plan, unknown) < SIGNIFICANCE
    assert unknown.std() < 0.95 * plan.target_sigma


@pytest.mark.parametrize("plan", PLANS[2:], ids=["gaussian", "laplace"])
def test_secure_shares_in_whole_steps_add_up_to_the_target(plan: NoisePlan) -> None:
    unknown = sum_of_shares(plan, N_HONEST, 4000, SecureNoise())
    assert unknown.dtype == np.int64
    assert fit(plan, unknown) > SIGNIFICANCE
    assert fit(plan, sum_of_shares(plan, 2, 4000, SecureNoise())) < SIGNIFICANCE


@every_plan
def test_sums_carry_the_noise_that_the_plan_states(plan: NoisePlan) -> None:
    for n_survivors in (9, 12):
        total = sum_of_shares(plan, n_survivors, 50_000, simulated("total", n_survivors))
        at_once = plan.draw_sum(50_000, n_survivors, simulated("at once", n_survivors))
        assert total.std() == pytest.approx(plan.total_sigma(n_survivors), rel=0.03)
        assert at_once.std() == pytest.approx(plan.total_sigma(n_survivors), rel=0.03)
        assert at_once.dtype == total.dtype
        assert stats.ks_2samp(total, at_once).pvalue > SIGNIFICANCE


@every_plan
def test_guaranteed_noise_is_what_is_left_without_the_colluders(plan: NoisePlan) -> None:
    assert plan.n_needed == N_HONEST
    assert plan.share_sigma == pytest.approx(plan.target_sigma / math.sqrt(N_HONEST))
    assert plan.guaranteed_sigma(9) == pytest.approx(plan.target_sigma)
    for n_survivors in (9, 10, 12):
        variance = plan.share_sigma**2
        assert plan.guaranteed_sigma(n_survivors) ** 2 == pytest.approx(
            (n_survivors - 4) * variance
        )
        assert plan.total_sigma(n_survivors) ** 2 == pytest.approx(n_survivors * variance)


@given(
    st.integers(1, 2000), st.integers(0, 2000), st.integers(0, 2000), st.floats(0.1, 1e6), st.data()
)
def test_no_planned_loss_of_shares_leaves_less_than_the_target(
    n_clients: int, n_dropouts: int, n_colluders: int, sigma: float, data: st.DataObject
) -> None:
    clients = {"n_clients": n_clients, "n_dropouts": n_dropouts, "n_colluders": n_colluders}
    if n_dropouts + n_colluders >= n_clients:
        with pytest.raises(SettingsError, match="nothing is left"):
            GaussianShares(sigma=sigma, **clients)
        return
    plan = GaussianShares(sigma=sigma, **clients)
    n_survivors = data.draw(st.integers(n_clients - n_dropouts, n_clients))
    guaranteed = plan.guaranteed_sigma(n_survivors)
    assert guaranteed >= sigma * (1 - 1e-12)
    assert plan.total_sigma(n_survivors) >= guaranteed


@every_plan
def test_sums_of_fewer_survivors_than_planned_are_refused(plan: NoisePlan) -> None:
    for n_survivors in (8, 13):
        for ask in (plan.guaranteed_sigma, plan.total_sigma):
            with pytest.raises(DataError):
                ask(n_survivors)
        with pytest.raises(DataError):
            plan.draw_sum(3, n_survivors, simulated())


@every_plan
def test_release_states_the_target_of_the_sum(plan: NoisePlan) -> None:
    release = plan.release(
        level="user",
        neighbours="replace",
        sensitivity=2,
        n_values=136,
        simulated=True,
    )
    assert release.n_values == 136
    assert release.simulated
    assert release.sensitivity == 2
    assert "3 dropouts and 4 colluders" in release.note
    if isinstance(plan, GaussianShares | DiscreteGaussianShares):
        assert release.sigma == plan.sigma
    else:
        assert release.scale == plan.scale
    if isinstance(plan, DiscreteGaussianShares):
        assert release.share_sigma == plan.share_sigma


@pytest.mark.parametrize("plan", PLANS[1::2], ids=["laplace", "discrete"])
def test_sampling_is_stated_for_normal_noise_only(plan: NoisePlan) -> None:
    unit: Any = {"level": "user", "neighbours": "add-remove", "sensitivity": 1, "simulated": True}
    assert PLANS[2].release(**unit, sampling_rate=0.1).sampling_rate == 0.1
    with pytest.raises(SettingsError):
        plan.release(**unit, sampling_rate=0.1)


@pytest.mark.parametrize("plan", PLANS[:2], ids=["gaussian", "laplace"])
def test_continuous_shares_are_for_simulation_only(plan: NoisePlan) -> None:
    with pytest.raises(SettingsError, match="simulation only"):
        plan.draw_share(3, SecureNoise())
    with pytest.raises(SettingsError, match="simulation only"):
        plan.release(level="user", neighbours="replace", sensitivity=1)
    with pytest.raises(SettingsError):
        SecureNoise().gamma_difference(3, 1.0, 2)


def test_secure_laplace_shares_end_at_a_scale_that_can_be_drawn() -> None:
    plan = DiscreteLaplaceShares(scale=1e6, n_clients=10)
    with pytest.raises(SettingsError, match="discrete Gaussian"):
        plan.draw_share(1, SecureNoise())


@pytest.mark.parametrize(("scale", "n_parts"), list(product([0.8, 5.0], [1, 3, 40])))
def test_secure_polya_differences_have_their_exact_chances(scale: float, n_parts: int) -> None:
    q = math.exp(-1 / scale)
    k = np.arange(4001)
    one_side = stats.nbinom.pmf(k, 1 / n_parts, 1 - q)
    chances = np.convolve(one_side, one_side[::-1])  # index 4000 is a difference of 0
    drawn = SecureNoise().polya_difference(3000, scale, n_parts)
    assert fit_of_whole_numbers(drawn, lambda x: chances[x + 4000]) > SIGNIFICANCE


# --- discrete normal shares: their sum is nearly discrete normal, and how nearly is stated ---


@pytest.mark.parametrize("n_shares", [2, 3, 6])
@pytest.mark.parametrize("width", [0.5, 0.6, 0.75, 0.9])
def test_sum_of_discrete_normal_shares_differs_by_no_more_than_the_stated_factor(
    n_shares: int, width: float
) -> None:
    x = np.arange(-60, 61)
    share = discrete_gaussian(width)(x)
    total = share
    for _ in range(n_shares - 1):
        total = np.convolve(total, share)
    middle = len(total) // 2
    near = np.arange(-6, 7)
    exact = discrete_gaussian(width * math.sqrt(n_shares))(near)
    differs = np.abs(total[middle + near] / exact - 1).max()
    # Such narrow plans are refused; the formula is the same.
    narrow = DiscreteGaussianShares.model_construct(
        sigma=width * math.sqrt(n_shares), n_clients=n_shares, n_dropouts=0, n_colluders=0
    )
    assert 1e-9 < differs <= narrow.sum_factor


def test_allowed_plans_differ_by_less_than_double_precision_shows() -> None:
    plan = DiscreteGaussianShares(sigma=3.0 * math.sqrt(10_000), n_clients=10_000)
    assert plan.sum_factor * 1_000_000 < 1e-30


def test_shares_narrower_than_three_steps_are_refused() -> None:
    with pytest.raises(SettingsError, match="finer steps"):
        DiscreteGaussianShares(sigma=29.0, n_clients=110, n_dropouts=10)
    assert DiscreteGaussianShares(sigma=30.0, n_clients=110, n_dropouts=10).share_sigma == 3.0


# --- FOLTR 2: a message with a Gamma share and no secure aggregation is not protected ---


def test_one_gamma_share_of_a_thousand_leaves_97_of_100_values_practically_without_noise() -> None:
    plan = LaplaceShares(scale=5 / 4.5, n_clients=1000)  # the thesis: sensitivity 5, epsilon 4.5
    share = plan.draw_share(100_000, simulated("message"))
    bare = np.mean(np.abs(share) < 1e-6 * plan.scale)
    assert 0.96 < bare < 0.98
    total = plan.draw_sum(100_000, 1000, simulated("sum"))
    assert np.mean(np.abs(total) < 1e-6 * plan.scale) < 1e-4
    assert fit_of_reals(total, "laplace", plan.scale) > SIGNIFICANCE


def test_one_polya_share_of_a_thousand_is_mostly_zero_and_a_gaussian_share_is_narrow() -> None:
    polya = DiscreteLaplaceShares(scale=100.0, n_clients=1000)
    assert np.mean(polya.draw_share(20_000, simulated("polya")) == 0) > 0.98
    normal = DiscreteGaussianShares(sigma=1000.0, n_clients=1000)
    assert normal.share_sigma < 0.04 * normal.sigma
