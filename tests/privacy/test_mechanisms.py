"""One contract for all mechanisms, from both sources of noise."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.privacy.level import Level
from cloister.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Mechanism,
    NoiseSource,
    RandomisedResponse,
    SecureNoise,
    SimulatedNoise,
)
from cloister.privacy.mechanisms.secure_noise import _measurement, _response, _uniform_below
from cloister.privacy.releases.reading import read_release
from privacy.goodness_of_fit import (
    SIGNIFICANCE,
    discrete_gaussian,
    discrete_laplace,
    fit_of_reals,
    fit_of_whole_numbers,
)

UNIT: dict[str, Any] = {"level": "document", "neighbours": "add-remove"}
MECHANISMS: list[Mechanism] = [
    Laplace(**UNIT, scale=1.5, sensitivity=0.5),
    Gaussian(**UNIT, sigma=1.5, sensitivity=0.5, sampling_rate=0.25),
    DiscreteLaplace(**UNIT, scale=1.5, sensitivity=2, group_sizes={"user": 4}),
    DiscreteGaussian(**UNIT, sigma=3.5, sensitivity=1.4),
    RandomisedResponse(level="interaction", keep_probability=0.4, n_options=5, n_answers=3),
]
KINDS = ["secure", "simulated"]


def new_source(kind: str, seed: int = 1) -> NoiseSource:
    return SecureNoise() if kind == "secure" else SimulatedNoise(stream(seed, "test"))


def named(mechanism: Mechanism) -> str:
    return type(mechanism).__name__


def is_whole(mechanism: Mechanism) -> bool:
    return not isinstance(mechanism, Laplace | Gaussian)


def some_values(mechanism: Mechanism, n_values: int) -> np.ndarray[Any, Any]:
    whole = np.arange(n_values) % 5
    return whole if is_whole(mechanism) else whole * 0.3


every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS, ids=named)
every_source = pytest.mark.parametrize("kind", KINDS)


@every_mechanism
@every_source
def test_release_states_all_that_the_mechanism_states(mechanism: Mechanism, kind: str) -> None:
    release = mechanism.protect(some_values(mechanism, 6), new_source(kind)).release
    recorded = release.model_dump()
    for name, value in mechanism.model_dump().items():
        assert recorded[name] == value
    assert release.n_values == 6
    assert release.simulated == (kind == "simulated")
    assert read_release(release.canonical()) == release
    assert release == mechanism.release(6, simulated=kind == "simulated")


@every_mechanism
@every_source
def test_shape_is_kept_and_the_input_is_not_touched(mechanism: Mechanism, kind: str) -> None:
    values = some_values(mechanism, 60).reshape(3, 20)
    before = values.copy()
    protected = mechanism.protect(values, new_source(kind)).values
    assert protected.shape == (3, 20)
    assert protected.dtype == (np.int64 if is_whole(mechanism) else np.float64)
    assert (values == before).all()
    assert not (protected == values).all()


@every_mechanism
@every_source
@pytest.mark.parametrize(
    "bad",
    [
        [],
        3,
        [[1], [1, 2]],
        [True, False],
        ["1"],
        [1 + 1j],
        [None],
        [float("nan")],
        [1.0, float("inf")],
        np.ones(2, np.longdouble),
    ],
    ids=str,
)
def test_what_is_no_array_of_finite_numbers_is_refused(
    mechanism: Mechanism, kind: str, bad: Any
) -> None:
    with pytest.raises(DataError):
        mechanism.protect(bad, new_source(kind))


@every_mechanism
@every_source
def test_mechanisms_on_whole_numbers_refuse_floats(mechanism: Mechanism, kind: str) -> None:
    if not is_whole(mechanism):
        assert mechanism.protect([1, 2], new_source(kind)).values.dtype == np.float64
        return
    for bad in ([1.0, 2.0], [2**62 + 1], np.array([2**63], np.uint64)):
        with pytest.raises(DataError):
            mechanism.protect(bad, new_source(kind))


@every_mechanism
def test_one_seed_gives_one_result_and_secure_noise_never_repeats(mechanism: Mechanism) -> None:
    values = some_values(mechanism, 100)
    first = mechanism.protect(values, new_source("simulated", 1)).values
    again = mechanism.protect(values, new_source("simulated", 1)).values
    other = mechanism.protect(values, new_source("simulated", 2)).values
    assert (first == again).all()
    assert not (first == other).all()
    once, twice = (mechanism.protect(values, SecureNoise()).values for _ in range(2))
    assert not (once == twice).all()


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Laplace, {"scale": 0.0, "sensitivity": 1.0}),
        (Laplace, {"scale": 1.0, "sensitivity": -1.0}),
        (Laplace, {"scale": math.inf, "sensitivity": 1.0}),
        (Laplace, {"scale": 1.0}),
        (Gaussian, {"sigma": math.nan, "sensitivity": 1.0}),
        (Gaussian, {"sigma": 1.0, "sensitivity": 1.0, "sampling_rate": 0.0}),
        (Gaussian, {"sigma": 1.0, "sensitivity": 1.0, "scale": 1.0}),
        (Gaussian, {"sigma": 1.0, "sensitivity": 1.0, "group_sizes": {"token": 3}}),
        (DiscreteLaplace, {"scale": 1.0, "sensitivity": 0.5}),
        (DiscreteLaplace, {"scale": 2.0**56, "sensitivity": 1}),
        (DiscreteGaussian, {"sigma": 1.5, "sensitivity": 1}),
        (DiscreteGaussian, {"sigma": 2.0**56, "sensitivity": 1}),
        (RandomisedResponse, {"neighbours": "replace", "keep_probability": 1.0, "n_options": 2}),
        (RandomisedResponse, {"neighbours": "replace", "keep_probability": 0.3, "n_options": 2}),
        (RandomisedResponse, {"keep_probability": 0.6, "n_options": 2}),
    ],
)
def test_settings_that_protect_nothing_or_say_too_little_are_refused(
    kind: type[Mechanism], fields: dict[str, Any]
) -> None:
    with pytest.raises(SettingsError):
        kind(**{**UNIT, **fields})


def test_level_and_neighbours_must_be_said() -> None:
    with pytest.raises(SettingsError, match="level"):
        Laplace(neighbours="replace", scale=1.0, sensitivity=1.0)
    with pytest.raises(SettingsError, match="neighbours"):
        Laplace(level=Level.USER, scale=1.0, sensitivity=1.0)


def test_sampling_with_replaced_neighbours_is_refused_when_the_mechanism_is_made() -> None:
    with pytest.raises(SettingsError, match="added or removed"):
        Gaussian(level="user", neighbours="replace", sigma=1, sensitivity=1, sampling_rate=0.1)


# --- what opendp itself says of its measurements is the oracle of the records ---


@pytest.mark.parametrize(("scale", "sensitivity"), list(product([0.01, 1.5, 300.0], [1, 7])))
def test_record_states_the_epsilon_that_opendp_states(scale: float, sensitivity: int) -> None:
    real = Laplace(**UNIT, scale=scale, sensitivity=sensitivity).release(136)
    whole = DiscreteLaplace(**UNIT, scale=scale, sensitivity=sensitivity).release(136)
    stated = _measurement("laplace", "f64", scale).map(float(sensitivity))
    assert real.epsilon == pytest.approx(stated, rel=1e-14)
    stated = _measurement("laplace", "i64", scale).map(sensitivity)
    assert whole.epsilon == pytest.approx(stated, rel=1e-14)


@pytest.mark.parametrize(("sigma", "sensitivity"), list(product([3.0, 40.0], [0.5, 7.0])))
def test_record_states_the_noise_that_opendp_states(sigma: float, sensitivity: float) -> None:
    real = Gaussian(**UNIT, sigma=sigma, sensitivity=sensitivity).release(136)
    whole = DiscreteGaussian(**UNIT, sigma=sigma, sensitivity=sensitivity).release(136)
    for release, number in ((real, "f64"), (whole, "i64")):
        rho = _measurement("gaussian", number, sigma).map(sensitivity)
        assert 0.5 * (release.sensitivity / release.sigma) ** 2 == pytest.approx(rho, rel=1e-14)


@pytest.mark.parametrize(("keep", "n_options"), [(0.5, 2), (0.5, 11), (0.9, 11), (0.3, 4)])
def test_response_states_the_epsilon_that_opendp_states(keep: float, n_options: int) -> None:
    poll = RandomisedResponse(level="user", keep_probability=keep, n_options=n_options)
    stated = _response(keep, n_options).map(1)
    assert poll.release(1).epsilon == pytest.approx(stated, rel=1e-9, abs=1e-12)


# --- both sources draw from the distribution that is written down ---


@every_source
@pytest.mark.parametrize("scale", [0.4, 2.0, 30.0])
def test_discrete_laplace_noise_has_its_exact_chances(kind: str, scale: float) -> None:
    drawn = new_source(kind).discrete_laplace(np.zeros(20_000, np.int64), scale)
    assert fit_of_whole_numbers(drawn, discrete_laplace(scale)) > SIGNIFICANCE
    assert fit_of_whole_numbers(drawn, discrete_laplace(1.15 * scale)) < SIGNIFICANCE


@every_source
@pytest.mark.parametrize("sigma", [0.7, 3.0, 30.5])
def test_discrete_gaussian_noise_has_its_exact_chances(kind: str, sigma: float) -> None:
    drawn = new_source(kind).discrete_gaussian(np.zeros(20_000, np.int64), sigma)
    assert fit_of_whole_numbers(drawn, discrete_gaussian(sigma)) > SIGNIFICANCE
    assert fit_of_whole_numbers(drawn, discrete_gaussian(1.15 * sigma)) < SIGNIFICANCE


def test_simulated_noise_has_its_exact_chances_in_a_large_sample() -> None:
    zeros = np.zeros(1_000_000, np.int64)
    drawn = new_source("simulated").discrete_gaussian(zeros, 4.0)
    assert fit_of_whole_numbers(drawn, discrete_gaussian(4.0)) > 1e-3
    drawn = new_source("simulated").discrete_laplace(zeros, 4.0)
    assert fit_of_whole_numbers(drawn, discrete_laplace(4.0)) > 1e-3


@every_source
def test_continuous_noise_has_its_distribution(kind: str) -> None:
    source = new_source(kind)
    drawn = source.laplace(np.full(6000, 5.0), 0.3) - 5.0
    assert fit_of_reals(drawn, "laplace", 0.3) > SIGNIFICANCE
    assert fit_of_reals(drawn, "laplace", 0.5) < SIGNIFICANCE
    drawn = source.gaussian(np.full(6000, 5.0), 0.3) - 5.0
    assert fit_of_reals(drawn, "norm", 0.3) > SIGNIFICANCE
    assert fit_of_reals(drawn, "norm", 0.5) < SIGNIFICANCE


@every_source
def test_noise_of_two_values_is_independent(kind: str) -> None:
    drawn = new_source(kind).discrete_gaussian(np.zeros(20_000, np.int64), 10.0)
    correlation = np.corrcoef(drawn[:-1], drawn[1:])[0, 1]
    assert abs(correlation) < 5 / math.sqrt(20_000)


@every_source
def test_noise_moves_with_the_values(kind: str) -> None:
    values = np.array([-(2**62), -7, 0, 2**62])
    moved = new_source(kind).discrete_laplace(values, 2.0) - values
    assert np.abs(moved).max() < 200


@every_source
def test_response_keeps_the_truth_as_often_as_it_says_and_else_picks_alike(kind: str) -> None:
    source = new_source(kind)
    n = 2000 if kind == "secure" else 40_000
    for truth in (0, 2, 3):
        answers = source.randomised_response(np.full(n, truth), 0.4, 4)
        expected = np.full(4, 0.2 * n)
        expected[truth] = 0.4 * n
        seen = np.bincount(answers, minlength=4)
        assert stats.chisquare(seen, expected).pvalue > SIGNIFICANCE
        assert stats.chisquare(seen, np.full(4, n / 4)).pvalue < SIGNIFICANCE


def test_estimated_counts_are_unbiased() -> None:
    poll = RandomisedResponse(level="user", keep_probability=0.5, n_options=3)
    truth = np.repeat([0, 1], [300, 100])
    source = new_source("simulated")
    estimates = [poll.estimated_counts(poll.protect(truth, source).values) for _ in range(2000)]
    other = 0.25
    # Every answer counts 1 or 0 with a variance of at most 1/4.
    error = math.sqrt(len(truth) / 4) / (0.5 - other) / math.sqrt(len(estimates))
    assert np.abs(np.mean(estimates, axis=0) - [300, 100, 0]).max() < 5 * error
    assert np.sum(estimates, axis=1) == pytest.approx(len(truth))


def test_answers_that_do_not_exist_are_refused() -> None:
    poll = RandomisedResponse(level="user", keep_probability=0.5, n_options=3)
    for bad in ([3], [-1]):
        with pytest.raises(DataError):
            poll.protect(bad, SecureNoise())
        with pytest.raises(DataError):
            poll.estimated_counts(bad)


def test_nothing_is_estimated_from_answers_by_chance_alone() -> None:
    poll = RandomisedResponse(level="user", keep_probability=0.5, n_options=2)
    with pytest.raises(SettingsError):
        poll.estimated_counts([0, 1])


def test_secure_numbers_below_a_bound_are_alike() -> None:
    drawn = Counter(_uniform_below(30_000, 7).tolist())
    assert sorted(drawn) == list(range(7))
    assert stats.chisquare(list(drawn.values())).pvalue > SIGNIFICANCE
    # A third of these bounds is hit twice as often by plain remainders of 64 bits.
    third = np.mean(_uniform_below(10_000, 3 * 2**62) < 2**62)
    assert third == pytest.approx(1 / 3, abs=5 * math.sqrt(2 / 9 / 10_000))


@every_source
def test_widths_beyond_64_bits_are_refused(kind: str) -> None:
    source = new_source(kind)
    for draw in (source.discrete_laplace, source.discrete_gaussian):
        with pytest.raises(SettingsError):
            draw(np.zeros(1, np.int64), 2.0**60)
