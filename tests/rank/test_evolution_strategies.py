from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cloister.core.counter_random import fill_uniform, new_stream, next_uniform
from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import kernel
from cloister.rank.evolution_strategies import (
    PERTURBATION_PURPOSE,
    AdamState,
    EvolutionSettings,
    adam_step,
    draw_below,
    estimate_gradient,
    evolution_epsilon,
    perturbation,
    randomised_response,
    reward_signal,
    stochastic_level,
)

# --- perturbations


@pytest.mark.parametrize("n", [1, 2, 5, 46, 1001])
def test_perturbations_are_box_and_mullers_of_the_stream(n: int) -> None:
    stream = new_stream(9, round=3, client=4, purpose=PERTURBATION_PURPOSE)
    uniform = np.empty(n, np.float32)
    fill_uniform(stream, uniform)
    u, half = uniform.astype(np.float64), n // 2
    radius, angle = np.sqrt(-2 * np.log(u[:half])), 2 * np.pi * u[half : 2 * half]
    expected = [*(radius * np.cos(angle)), *(radius * np.sin(angle))]
    if n % 2:
        angle = 2 * np.pi * float(next_uniform(stream))
        expected.append(np.sqrt(-2 * np.log(u[-1])) * np.cos(angle))
    ours = perturbation(n, seed=9, round=3, client=4)
    np.testing.assert_allclose(ours, expected, atol=3e-6)


def test_perturbations_are_standard_normal() -> None:
    values = np.concatenate(
        [perturbation(101, seed=1, round=2, client=client) for client in range(2000)]
    ).astype(np.float64)
    assert stats.kstest(values, "norm").pvalue > 1e-3
    assert np.isfinite(values).all()
    assert np.abs(values).max() < 5.8


def test_coordinates_of_a_perturbation_are_independent() -> None:
    drawn = np.array([perturbation(10, seed=5, round=0, client=c) for c in range(20000)])
    off_diagonal = np.corrcoef(drawn.T) - np.eye(10)
    assert np.abs(off_diagonal).max() < 5 / math.sqrt(20000)
    assert np.abs(np.corrcoef(np.square(drawn).T) - np.eye(10)).max() < 5 / math.sqrt(20000)


def test_seed_round_and_client_each_give_another_perturbation() -> None:
    one = perturbation(8, seed=1, round=1, client=1)
    for other in ((2, 1, 1), (1, 2, 1), (1, 1, 2)):
        seed, round, client = other
        assert not (one == perturbation(8, seed=seed, round=round, client=client)).any()
    with pytest.raises(SettingsError, match="client"):
        perturbation(8, seed=1, round=1, client=-1)


# --- the gradient


def quadratic(theta: np.ndarray) -> np.ndarray:
    """A reward whose smoothed gradient is its own: c - A theta."""
    return theta @ SLOPE - 0.5 * np.einsum("ci,ij,cj->c", theta, CURVE, theta)


SLOPE = np.array([1.0, -2.0, 0.5])
CURVE = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 1.5]])
WHERE = np.array([0.3, -0.2, 0.7])


@pytest.mark.parametrize("antithetic", [False, True])
def test_estimate_is_a_quadratics_gradient_in_expectation(antithetic: bool) -> None:
    sigma, n_clients, n_rounds = 0.2, 200, 200
    estimates = []
    for round in range(n_rounds):
        normals = np.array(
            [perturbation(3, seed=1, round=round, client=c) for c in range(n_clients)]
        )
        plus = quadratic(WHERE + sigma * normals)
        minus = quadratic(WHERE - sigma * normals) if antithetic else None
        estimates.append(estimate_gradient(normals, plus, minus, sigma=sigma))
    error = np.std(estimates, axis=0) / math.sqrt(n_rounds)
    assert (np.abs(np.mean(estimates, axis=0) - (SLOPE - CURVE @ WHERE)) < 5 * error).all()


def test_antithetic_variates_do_away_with_the_noise_of_the_rewards_level() -> None:
    normals = np.array([perturbation(3, seed=2, round=0, client=c) for c in range(4)])
    level = np.full(4, 7.0)
    assert (estimate_gradient(normals, level, level, sigma=0.1) == 0).all()
    assert np.abs(estimate_gradient(normals, level, sigma=0.1)).max() > 1


def test_estimate_is_the_weighted_mean_over_clients() -> None:
    normals = np.array([[1.0, 0.0], [0.0, 2.0]])
    estimate = estimate_gradient(normals, [0.5, 1.0], [0.5, 0.0], sigma=0.25, weights=[3, 1])
    # 1/4 * (3 * 0 * normal + 1 * 0.5 * normal) / sigma
    np.testing.assert_allclose(estimate, [0.0, 0.25 * 0.5 * 2.0 / 0.25])


@pytest.mark.parametrize(
    ("plus", "weights"), [([1.0], None), ([1.0, 2.0], [1.0]), ([1.0, 2.0], [0.0, 0.0])]
)
def test_rewards_and_weights_that_do_not_fit_are_refused(
    plus: list[float], weights: list[float] | None
) -> None:
    with pytest.raises(DataError):
        estimate_gradient(np.eye(2), plus, sigma=0.1, weights=weights)


def test_signal_is_half_the_difference_of_the_means_or_the_mean() -> None:
    @kernel
    def signal(plus: float, n_plus: int, minus: float, n_minus: int) -> float:
        return reward_signal(plus, n_plus, minus, n_minus)

    assert signal(1.5, 3, 0.5, 2) == 0.5 * (0.5 - 0.25)
    assert signal(1.5, 3, 0.0, 0) == 0.5


# --- Adam


@given(
    st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=1, max_size=30),
    st.floats(0, 0.99),
    st.floats(0, 0.9999),
)
def test_adam_follows_the_published_formula(
    gradients: list[float], beta1: float, beta2: float
) -> None:
    settings = EvolutionSettings(learning_rate=0.01, beta1=beta1, beta2=beta2, adam_epsilon=1e-7)
    state, ours = AdamState.initial(1), 0.0
    m, v, theirs = 0.0, 0.0, 0.0
    for t, g in enumerate(gradients, start=1):
        state, change = adam_step(state, np.array([g]), settings)
        ours += float(change[0])
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        theirs += 0.01 * (m / (1 - beta1**t)) / (math.sqrt(v / (1 - beta2**t)) + 1e-7)
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    assert state.n_steps == len(gradients)


def test_adam_climbs_to_a_quadratics_top() -> None:
    settings = EvolutionSettings(learning_rate=0.05)
    state, theta = AdamState.initial(3), WHERE.copy()
    for _ in range(2000):
        state, change = adam_step(state, SLOPE - CURVE @ theta, settings)
        theta += change
    np.testing.assert_allclose(theta, np.linalg.solve(CURVE, SLOPE), atol=1e-4)


def test_adam_does_not_change_the_memory_it_was_given() -> None:
    state = AdamState.initial(2)
    adam_step(state, np.ones(2), EvolutionSettings())
    assert not state.mean.any()
    assert state.n_steps == 0


# --- randomised response


@kernel
def responses(value: int, n_values: int, keep: float, stream, n: int):  # type: ignore[no-untyped-def]
    counts = np.zeros(n_values, np.int64)
    for _ in range(n):
        counts[randomised_response(value, n_values, keep, stream)] += 1
    return counts


@pytest.mark.parametrize("keep", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("value", [0, 4, 10])
def test_value_is_kept_with_the_stated_chance_and_others_are_alike(keep: float, value: int) -> None:
    n = 200_000
    counts = responses(value, 11, keep, new_stream(3, client=value), n)
    expected = np.full(11, n * (1 - keep) / 10)
    expected[value] = n * keep
    assert stats.chisquare(counts, expected).pvalue > 1e-4


@pytest.mark.parametrize("n_values", [2, 11])
def test_certain_values_are_never_replaced(n_values: int) -> None:
    counts = responses(1, n_values, 1.0, new_stream(1), 100_000)
    assert counts[1] == 100_000


def test_numbers_below_a_bound_are_alike() -> None:
    stream = new_stream(8)
    drawn = np.bincount([draw_below(stream, 7) for _ in range(20_000)], minlength=7)
    assert len(drawn) == 7
    assert stats.chisquare(drawn).pvalue > 1e-4


@kernel
def mean_level(value: float, n_levels: int, stream, n: int):  # type: ignore[no-untyped-def]
    counts = np.zeros(n_levels, np.int64)
    for _ in range(n):
        counts[stochastic_level(value, n_levels, stream)] += 1
    return counts


@given(st.floats(0, 1), st.integers(2, 30))
def test_rounding_to_levels_keeps_the_mean_and_goes_to_neighbours_only(
    value: float, n_levels: int
) -> None:
    n = 2000
    counts = mean_level(value, n_levels, new_stream(4), n)
    scaled = value * (n_levels - 1)
    reached = np.flatnonzero(counts)
    assert set(reached) <= {math.floor(scaled), math.ceil(scaled)}
    mean = (counts * np.arange(n_levels)).sum() / n
    assert abs(mean - scaled) < 5 * 0.5 / math.sqrt(n)


# --- what it costs


@pytest.mark.parametrize(("keep", "printed"), [(0.25, 1.2), (0.5, 2.3), (0.9, 4.5)])
def test_epsilon_of_an_interaction_is_the_thesiss(keep: float, printed: float) -> None:
    cost = evolution_epsilon(keep, 11, n_interactions=4, n_messages=250)
    assert round(cost.per_interaction, 1) == printed
    assert cost.per_message == pytest.approx(4 * cost.per_interaction)
    assert cost.per_training == pytest.approx(250 * cost.per_message)


def test_epsilon_is_infinite_where_nothing_is_replaced() -> None:
    # The thesis prints 10 here.
    assert evolution_epsilon(1.0, 11, n_interactions=4, n_messages=1) == (math.inf,) * 3
    assert evolution_epsilon(1.0, 11, n_interactions=4, n_messages=0).per_training == 0.0


def largest_loss(keep: float, n_values: int, n_interactions: int) -> float:
    """The definition: the largest log ratio of the chances of any message, for any two users."""
    values = np.linspace(0, 1, n_values)
    chances = []
    for truth in itertools.product(range(n_values), repeat=n_interactions):
        messages: dict[float, float] = defaultdict(float)
        for sent in itertools.product(range(n_values), repeat=n_interactions):
            chance = 1.0
            for true, told in zip(truth, sent, strict=True):
                chance *= keep if true == told else (1 - keep) / (n_values - 1)
            messages[round(float(values[list(sent)].mean()), 9)] += chance
        chances.append(messages)
    return max(math.log(a[key] / b[key]) for a in chances for b in chances for key in a)


@pytest.mark.parametrize(("keep", "n_values", "n"), [(0.5, 3, 1), (0.5, 3, 2), (0.8, 4, 2)])
def test_epsilon_of_a_message_is_exact_although_only_the_mean_is_sent(
    keep: float, n_values: int, n: int
) -> None:
    cost = evolution_epsilon(keep, n_values, n_interactions=n, n_messages=1)
    assert cost.per_message == pytest.approx(largest_loss(keep, n_values, n))


@pytest.mark.parametrize("keep", [-0.1, 0.0, 1.1, math.nan, math.inf])
def test_chances_that_are_none_are_refused(keep: float) -> None:
    with pytest.raises(SettingsError, match="keep_probability"):
        EvolutionSettings(keep_probability=keep)


def test_chance_must_be_more_than_one_over_the_number_of_values() -> None:
    assert len(EvolutionSettings(keep_probability=0.0910).reward_values(10)) == 11
    with pytest.raises(SettingsError, match="1/11"):
        EvolutionSettings(keep_probability=0.0909).reward_values(10)
    with pytest.raises(SettingsError, match="1/5"):
        EvolutionSettings(keep_probability=0.2, reward="ndcg", ndcg_levels=5).reward_values(10)
    with pytest.raises(SettingsError, match="1/11"):
        evolution_epsilon(1 / 11, 11, n_interactions=4, n_messages=1)


def test_max_rr_takes_eleven_values_with_ten_results_a_page() -> None:
    values = EvolutionSettings().reward_values(10)
    assert sorted(values) == sorted([0.0] + [1 / rank for rank in range(1, 11)])
    assert EvolutionSettings(reward="ndcg").reward_values(10)[1] == pytest.approx(0.1)


@pytest.mark.parametrize("field", ["sigma", "learning_rate", "adam_epsilon"])
def test_settings_that_make_no_step_are_refused(field: str) -> None:
    with pytest.raises(SettingsError, match=field):
        EvolutionSettings(**{field: 0.0})
