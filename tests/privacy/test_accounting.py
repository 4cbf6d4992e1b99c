"""What releases cost together, against ``dp_accounting`` asked directly and against formulas."""

from __future__ import annotations

import math
from collections import Counter

import dp_accounting
import pytest
from dp_accounting import gaussian_mechanism, pld, rdp
from dp_accounting.pld import privacy_loss_distribution as distribution
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.privacy.accounting import (
    Accounting,
    composed_epsilon,
    losses_of,
)
from cloister.privacy.calibration import noise_multiplier
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.release import BoundedRelease, UnprotectedRelease
from cloister.privacy.releases.gaussian import DiscreteGaussianRelease, GaussianRelease
from cloister.privacy.releases.laplace import LaplaceRelease
from cloister.privacy.releases.randomised_response import RandomisedResponseRelease
from cloister.rank.evolution_strategies import evolution_epsilon


@pytest.mark.parametrize(
    ("sampling_rate", "sigma", "n_rounds", "by_rdp", "by_pld"),
    [(0.01, 1.0, 1000, 2.4367, 2.1245), (0.1, 2.0, 500, 6.6793, 6.2167)],
)
def test_composition_agrees_with_the_oracle_values(
    sampling_rate: float, sigma: float, n_rounds: int, by_rdp: float, by_pld: float
) -> None:
    losses = {Loss("gaussian", sigma, sampling_rate=sampling_rate): n_rounds}
    assert composed_epsilon(losses, 1e-6, method="rdp").epsilon == pytest.approx(by_rdp, abs=1e-4)
    assert composed_epsilon(losses, 1e-6, method="pld").epsilon == pytest.approx(by_pld, abs=1e-4)
    assert composed_epsilon(losses, 1e-6) == composed_epsilon(losses, 1e-6, method="pld")


@pytest.mark.parametrize(
    ("n_rounds", "sampling_rate", "multiplier", "by_pld"),
    [(200, 1.0, 14.8, 4.15), (1000, 1.0, 33.0, 4.17), (1000, 0.01, 0.75, 3.77)],
)
def test_noise_for_a_target_agrees_with_the_notes_on_the_papers(
    n_rounds: int, sampling_rate: float, multiplier: float, by_pld: float
) -> None:
    rounds = {"n_rounds": n_rounds, "sampling_rate": sampling_rate}
    by_rdp = noise_multiplier(4.5, 1e-5, **rounds, method="rdp")
    assert by_rdp == pytest.approx(multiplier, rel=0.01)
    loss = Loss("gaussian", multiplier, sampling_rate=sampling_rate)
    assert composed_epsilon({loss: n_rounds}, 1e-5).epsilon == pytest.approx(by_pld, abs=0.01)


@pytest.mark.parametrize("method", ["rdp", "tightest"])
def test_noise_for_a_target_is_enough_and_hardly_more(method: Accounting) -> None:
    noise = noise_multiplier(2.0, 1e-5, n_rounds=50, sampling_rate=0.2, method=method)
    cost = composed_epsilon({Loss("gaussian", noise, sampling_rate=0.2): 50}, 1e-5, method=method)
    less = Loss("gaussian", noise * 0.998, sampling_rate=0.2)
    assert cost.epsilon <= 2.0 < composed_epsilon({less: 50}, 1e-5, method=method).epsilon


def test_joined_normal_noise_costs_what_the_accountant_says_of_all_apart() -> None:
    noises = {2.0: 3, 5.0: 10, 0.9: 1}
    losses = {Loss("gaussian", noise): count for noise, count in noises.items()}
    by_rdp, by_pld = rdp.RdpAccountant(), pld.PLDAccountant()
    for noise, count in noises.items():
        event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(noise), count)
        by_rdp.compose(event)
        by_pld.compose(event)
    ours = composed_epsilon(losses, 1e-6, method="rdp").epsilon
    assert ours == pytest.approx(by_rdp.get_epsilon(1e-6), rel=1e-9)
    ours = composed_epsilon(losses, 1e-6, method="pld").epsilon
    assert ours == pytest.approx(by_pld.get_epsilon(1e-6), abs=1e-4)
    exact = math.sqrt(1 / sum(count / noise**2 for noise, count in noises.items()))
    assert ours >= gaussian_mechanism.get_epsilon_gaussian(exact, 1e-6)


def test_unlike_releases_cost_what_the_accountant_says_of_them() -> None:
    releases = [
        GaussianRelease(level="user", sigma=3.0, sensitivity=2.0, sampling_rate=0.05),
        LaplaceRelease(level="user", scale=5.0, sensitivity=1.0),
        GaussianRelease(level="user", sigma=3.0, sensitivity=1.0),
    ] * 4
    accountant = pld.PLDAccountant()
    for _ in range(4):
        sampled = dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(1.5))
        accountant.compose(sampled)
        accountant.compose(dp_accounting.LaplaceDpEvent(5.0))
        accountant.compose(dp_accounting.GaussianDpEvent(3.0))
    ours = composed_epsilon(losses_of(releases), 1e-6).epsilon
    assert ours == pytest.approx(accountant.get_epsilon(1e-6), abs=1e-3)


@pytest.mark.parametrize("split", [(0.5, 0.5), (0.9, 0.1), (0.25,) * 4, (0.6, 0.3, 0.1)])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_laplace_noise_on_many_values_costs_no_more_than_on_the_worst_one(
    split: tuple[float, ...], scale: float
) -> None:
    one = LaplaceRelease(level="user", scale=scale, sensitivity=1.0)
    parts = [distribution.from_laplace_mechanism(scale, sensitivity=part) for part in split]
    together = parts[0]
    for part in parts[1:]:
        together = together.compose(part)
    for delta in (1e-9, 1e-4, 0.05):
        cost = composed_epsilon(losses_of([one]), delta, method="pld").epsilon
        # Both are rounded up by steps of 1e-4 a value.
        assert together.get_epsilon_for_delta(delta) <= cost + 1e-4 * len(split)


@pytest.mark.parametrize("keep_probability", [0.25, 0.5, 0.9])
def test_randomised_answers_cost_what_evolution_strategies_say(keep_probability: float) -> None:
    message = RandomisedResponseRelease(
        level="interaction",
        keep_probability=keep_probability,
        n_options=11,
        n_answers=1,
        group_sizes={"user": 4},
    )
    stated = evolution_epsilon(keep_probability, 11, n_interactions=4, n_messages=3)
    assert message.epsilon == pytest.approx(stated.per_interaction)
    costs = {level: losses_of([message] * 3, level) for level in (Level.INTERACTION, Level.USER)}
    one = composed_epsilon(losses_of([message], Level.INTERACTION), 1e-12).epsilon
    assert one == pytest.approx(stated.per_interaction, abs=1e-3)
    training = composed_epsilon(costs[Level.USER], 1e-15).epsilon
    assert training == pytest.approx(stated.per_training, rel=1e-3)


@pytest.mark.parametrize("sigma", [2.1, 3.0, 5.0, 20.0])
@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 1e-2])
def test_discrete_normal_noise_is_never_said_to_cost_less_than_it_does(
    sigma: float, sensitivity: int, delta: float
) -> None:
    release = DiscreteGaussianRelease(level="user", sigma=sigma, sensitivity=sensitivity)
    exact = distribution.from_discrete_gaussian_mechanism(
        sigma, sensitivity=sensitivity, value_discretization_interval=1e-5,
        pessimistic_estimate=False,
    ).get_epsilon_for_delta(delta)  # fmt: skip
    ours = composed_epsilon(losses_of([release]), delta).epsilon
    assert ours >= exact - 1e-5
    if sigma == 20.0:
        assert ours <= exact * 1.02 + 1e-4  # and with wide noise hardly more


@pytest.mark.parametrize("group_size", [2, 3])
def test_a_group_in_a_sampled_release_is_never_said_to_cost_less_than_it_does(
    group_size: int,
) -> None:
    release = GaussianRelease(
        level="document", sigma=1.5, sensitivity=1.0, sampling_rate=0.3,
        group_sizes={"user": group_size},
    )  # fmt: skip
    chances = [
        math.comb(group_size, i) * 0.3**i * 0.7 ** (group_size - i) for i in range(group_size + 1)
    ]
    exact = distribution.from_mixture_gaussian_mechanism(
        1.5, list(range(group_size + 1)), chances, value_discretization_interval=0.01
    ).get_epsilon_for_delta(1e-6)
    assert composed_epsilon(losses_of([release]), 1e-6).epsilon >= exact


def test_a_group_in_a_plain_release_costs_what_its_joint_sensitivity_costs() -> None:
    release = GaussianRelease(level="token", sigma=10.0, sensitivity=1.0, group_sizes={"user": 7})
    exact = gaussian_mechanism.get_epsilon_gaussian(10 / 7, 1e-6)
    assert composed_epsilon(losses_of([release]), 1e-6).epsilon == pytest.approx(exact, rel=1e-8)
    laplace = LaplaceRelease(level="token", scale=10.0, sensitivity=1.0, group_sizes={"user": 7})
    cost = composed_epsilon(losses_of([laplace]), 1e-15).epsilon
    assert cost == pytest.approx(0.7, abs=1e-3)


@pytest.mark.parametrize("group_size", [2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_group_privacy_of_a_stated_bound_holds_of_normal_noise(
    group_size: int, epsilon: float
) -> None:
    noise = 2.0
    distribution_of_one = distribution.from_gaussian_mechanism(noise)
    delta = distribution_of_one.get_delta_for_epsilon(epsilon)
    release = BoundedRelease(
        level="token", epsilon=epsilon, delta=delta, mechanism_name="normal noise",
        group_sizes={"user": group_size},
    )  # fmt: skip
    (loss,) = release.losses(Level.USER)
    literal = delta * sum(math.exp(i * epsilon) for i in range(group_size))
    assert loss == Loss("bound", group_size * epsilon, delta=pytest.approx(min(1.0, literal)))
    of_group = distribution.from_gaussian_mechanism(noise / group_size)
    assert of_group.get_delta_for_epsilon(group_size * epsilon) <= loss.delta + 1e-9


kinds = st.sampled_from(
    [
        Loss("gaussian", 3.0),
        Loss("gaussian", 8.0),
        Loss("gaussian", 1.5, sampling_rate=0.05),
        Loss("laplace", 6.0),
        Loss("discrete-laplace", 7.0, 2),
        Loss("response", 0.8, 4),
        Loss("response", 1.0, 4),
        Loss("bound", 0.1),
        Loss("bound", 0.05, delta=1e-9),
    ]
)
many = st.lists(kinds, min_size=0, max_size=6)
TINY = 1e-6  # what cut-off tails and rounding may make of equal costs


@settings(max_examples=40)
@given(losses=many, another=kinds)
def test_composition_never_goes_down_when_a_release_is_added(
    losses: list[Loss], another: Loss
) -> None:
    before = composed_epsilon(Counter(losses), 1e-6).epsilon
    after = composed_epsilon(Counter([*losses, another]), 1e-6).epsilon
    assert after >= before - TINY


@settings(max_examples=20)
@given(losses=many, chance=st.randoms(use_true_random=False))
def test_the_order_of_releases_does_not_matter(losses: list[Loss], chance: object) -> None:
    shuffled = list(losses)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    cost = composed_epsilon(Counter(losses), 1e-6)
    assert composed_epsilon(Counter(shuffled), 1e-6).epsilon == pytest.approx(
        cost.epsilon, abs=1e-12
    )


def plain_sum(losses: list[Loss]) -> float:
    """Basic composition: epsilons and deltas add up; others have none."""
    total = 0.0
    if sum(loss.delta for loss in losses) > 1e-6:
        return math.inf
    for loss in losses:
        match loss.kind:
            case "laplace":
                total += 1 / loss.noise
            case "discrete-laplace":
                total += loss.steps / loss.noise
            case "response":
                lie = loss.noise / loss.steps
                total += math.log((1 - lie * (loss.steps - 1)) / lie)
            case "bound":
                total += loss.noise
            case _:
                return math.inf
    return total


@settings(max_examples=20)
@given(losses=many)
def test_the_smallest_bound_counts_and_a_smaller_delta_costs_more(losses: list[Loss]) -> None:
    counted = Counter(losses)
    both = [composed_epsilon(counted, 1e-6, method=method).epsilon for method in ("rdp", "pld")]
    tightest = composed_epsilon(counted, 1e-6).epsilon
    assert tightest == pytest.approx(min(*both, plain_sum(losses)), abs=1e-12)
    assert composed_epsilon(counted, 1e-8).epsilon >= tightest - TINY


@pytest.mark.parametrize(
    ("loss", "epsilon"),
    [
        (Loss("unbounded"), math.inf),
        (Loss("gaussian", 0.0), math.inf),
        (Loss("gaussian", 1e-200), math.inf),
        (Loss("laplace", 0.0), math.inf),
        (Loss("bound", 0.5, delta=1.0), math.inf),
        (Loss("bound", 0.5, delta=2e-6), math.inf),
        (Loss("bound", 0.0), 0.0),
        (Loss("response", 1.0, 11), 0.0),
        (Loss("gaussian", 1e12), 0.0),
        (Loss("bound", 1e5), 1e5),
        (Loss("laplace", 1e-9), 1e9),
        (Loss("discrete-laplace", 1e-3), 1e3),
    ],
)
def test_extreme_losses_have_a_cost_and_no_accident(loss: Loss, epsilon: float) -> None:
    assert composed_epsilon({loss: 1}, 1e-6).epsilon == pytest.approx(epsilon, rel=1e-6)


def test_no_releases_cost_nothing_and_one_unprotected_spoils_all() -> None:
    assert composed_epsilon({}, 1e-6).epsilon == 0
    assert composed_epsilon({Loss("unbounded"): 0}, 1e-6).epsilon == 0
    noisy = GaussianRelease(level="user", sigma=100.0, sensitivity=1.0)
    spoilt = losses_of([noisy, UnprotectedRelease(level="user")])
    assert composed_epsilon(spoilt, 1e-6).epsilon == math.inf


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
def test_a_delta_that_is_no_chance_is_refused(delta: float) -> None:
    with pytest.raises(SettingsError, match="between 0 and 1"):
        composed_epsilon({Loss("gaussian", 1.0): 1}, delta)
