"""Click models fitted to logs: known parameters come back, and the likelihood never falls."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from scipy.optimize import minimize

from cloister.core.errors import DataError, SettingsError
from cloister.data.clicks import (
    CascadeModel,
    PositionBasedModel,
    StopRule,
    cascade_model,
    fit_cascade,
    fit_position_based,
    log_likelihood,
    position_based_model,
    sample_clicks,
)

RULES: tuple[StopRule, ...] = ("after_click", "at_each_document")
N_PAGES = 40_000


def pages_of(n_grades: int, n_pages: int = N_PAGES) -> NDArray[np.int64]:
    return np.random.default_rng(n_grades).integers(0, n_grades, (n_pages, 10))


def numbers(chances: tuple[float | None, ...]) -> NDArray[np.float64]:
    return np.array(chances, np.float64)


# ---- cascade


@pytest.mark.parametrize("stop", RULES)
@pytest.mark.parametrize("n_grades", [3, 5])
@pytest.mark.parametrize("name", ["perfect", "navigational", "informational", "poison"])
def test_cascade_comes_back_from_its_own_clicks(name: str, n_grades: int, stop: StopRule) -> None:
    truth, pages = cascade_model(name, n_grades, stop=stop), pages_of(n_grades)
    clicks = sample_clicks(truth, pages, seed=17)
    fit = fit_cascade(pages, clicks, n_grades, stop=stop)
    # The rarest event, a click of a navigational user on grade 0, is seen some 700 times.
    np.testing.assert_allclose(
        numbers(fit.model.click_probability), truth.click_probability, atol=0.02
    )
    known = ~np.isnan(numbers(fit.model.stop_probability))
    found, expected = numbers(fit.model.stop_probability), numbers(truth.stop_probability)
    np.testing.assert_allclose(found[known], expected[known], atol=0.05)
    never_clicked = numbers(truth.click_probability) == 0
    assert (known | (never_clicked & (stop == "after_click"))).all()
    assert fit.converged
    assert fit.n_pages == N_PAGES


@pytest.mark.parametrize("stop", RULES)
def test_fitted_cascade_is_at_least_as_likely_as_the_truth(stop: StopRule) -> None:
    truth, pages = cascade_model("navigational", 5, stop=stop), pages_of(5)
    clicks = sample_clicks(truth, pages, seed=18)
    fit = fit_cascade(pages, clicks, 5, stop=stop)
    assert fit.log_likelihood >= log_likelihood(truth, pages, clicks).sum()
    assert fit.log_likelihood == pytest.approx(log_likelihood(fit.model, pages, clicks).sum())


@pytest.mark.parametrize("stop", RULES)
def test_fitted_cascade_is_the_maximum_that_a_general_optimiser_finds(stop: StopRule) -> None:
    pages = pages_of(3, 400)[:, :6]
    clicks = sample_clicks(cascade_model("informational", 3, stop=stop), pages, seed=5)

    def loss(logits: NDArray[np.float64]) -> float:
        click, leave = (1 / (1 + np.exp(-logits))).reshape(2, 3).tolist()
        model = CascadeModel(click_probability=click, stop_probability=leave, stop=stop)
        return -float(log_likelihood(model, pages, clicks).sum())

    best = minimize(loss, np.zeros(6), method="L-BFGS-B")
    fit = fit_cascade(pages, clicks, 3, stop=stop, tolerance=1e-12)
    assert fit.log_likelihood == pytest.approx(-best.fun, abs=1e-4)


logs = arrays.arrays(
    np.int8, st.tuples(st.integers(1, 12), st.integers(1, 5)), elements=st.integers(0, 5)
)


@settings(max_examples=200, deadline=None)
@given(logs, st.sampled_from(RULES))
def test_no_iteration_of_em_lowers_the_likelihood(log: NDArray[np.int8], stop: StopRule) -> None:
    labels, clicks = log // 2, log % 2  # any labels with any clicks
    fit = fit_cascade(labels, clicks, 3, stop=stop, tolerance=0.0, max_iterations=60)
    steps = np.diff(fit.trace)
    assert np.isfinite(fit.trace).all()
    assert (steps >= -1e-9 * (1 + abs(fit.log_likelihood))).all()
    assert fit.log_likelihood == fit.trace[-1]
    assert fit.n_iterations == len(fit.trace) - 1


def test_what_the_log_cannot_tell_is_not_invented() -> None:
    # Grade 0 is never clicked, grade 1 only at the end of a page, grade 3 never shown.
    labels = np.array([[0, 2, 1], [2, 0, 1]])
    clicks = np.array([[0, 1, 1], [1, 0, 1]])
    model = fit_cascade(labels, clicks, 4).model
    assert model.click_probability == (0.0, 1.0, 1.0, None)
    assert model.stop_probability == (None, None, pytest.approx(0.0, abs=1e-6), None)
    at_each = fit_cascade(labels, clicks, 4, stop="at_each_document").model
    assert at_each.stop_probability[1] is None
    assert at_each.stop_probability[0] is not None


def test_fit_says_when_it_was_cut_short() -> None:
    pages = pages_of(3, 500)
    clicks = sample_clicks(cascade_model("informational", 3), pages, seed=5)
    fit = fit_cascade(pages, clicks, 3, max_iterations=1)
    assert (fit.converged, fit.n_iterations) == (False, 1)


# ---- position-based


@pytest.mark.parametrize("n_grades", [3, 5])
@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0, 1.5, 2.0])
def test_position_based_model_comes_back_from_its_own_clicks(eta: float, n_grades: int) -> None:
    truth, pages = position_based_model(eta, n_grades), pages_of(n_grades)
    clicks = sample_clicks(truth, pages, seed=19)
    fit = fit_position_based(pages, clicks, n_grades)
    assert fit.model.eta == pytest.approx(eta, abs=0.02)
    np.testing.assert_allclose(numbers(fit.model.attraction), truth.attraction, atol=0.02)
    assert fit.n_pages == N_PAGES


def test_fitted_position_based_model_is_the_maximum_that_a_general_optimiser_finds() -> None:
    pages = pages_of(3, 400)
    truth = PositionBasedModel(eta=0.7, attraction=(0.1, 0.4, 0.8))
    clicks = sample_clicks(truth, pages, seed=5)

    def loss(x: NDArray[np.float64]) -> float:
        model = PositionBasedModel(eta=x[0], attraction=tuple(x[1:].tolist()))
        return -float(log_likelihood(model, pages, clicks).sum())

    best = minimize(
        loss, [1.0, 0.5, 0.5, 0.5], bounds=[(0, 5)] + [(1e-6, 0.999)] * 3, method="L-BFGS-B"
    )
    fit = fit_position_based(pages, clicks, 3)
    assert fit.log_likelihood == pytest.approx(-best.fun, abs=1e-4)
    assert [fit.model.eta, *fit.model.attraction] == pytest.approx(best.x.tolist(), abs=2e-3)


def test_clicks_that_grow_more_frequent_downwards_give_eta_zero() -> None:
    labels, clicks = np.zeros((100, 3), int), np.zeros((100, 3), int)
    clicks[:10, 0] = clicks[:30, 1] = clicks[:50, 2] = 1
    fit = fit_position_based(labels, clicks, 2)
    assert fit.model.eta == 0.0
    assert fit.model.attraction == (pytest.approx(0.3), None)


def test_eta_that_no_click_determines_is_an_error() -> None:
    with pytest.raises(DataError, match="eta is not determined"):
        fit_position_based(np.array([[1, 0], [0, 1]]), np.array([[1, 0], [0, 0]]), 2)


# ---- refusals


@pytest.mark.parametrize("fit", [fit_cascade, fit_position_based])
@pytest.mark.parametrize(
    ("labels", "clicks", "message"),
    [
        ([[0, -1, 1]], [[0, 0, 1]], "rank 2: a document without a label"),
        ([[0, 1, -1]], [[0, 0, 1]], "rank 3: a click where no document is shown"),
        ([[0, 1, 5]], [[0, 0, 1]], "rank 3: a grade above 2"),
        ([[0, 1, 2]], [[0, 0, 2]], "rank 3: neither 0 nor 1"),
        ([[0, 1, 2]], [[0, 1]], "clicks have the shape"),
        ([[0.0, np.nan]], [[0, 1]], "whole numbers"),
    ],
)
def test_logs_that_cannot_be_fitted_are_refused(
    fit: Callable[..., object], labels: list[list[float]], clicks: list[list[int]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        fit(np.array(labels), np.array(clicks), 3)


def test_no_pages_at_all_are_refused() -> None:
    empty = np.zeros((0, 4), int)
    for fit in (fit_cascade, fit_position_based):
        with pytest.raises(DataError):
            fit(empty, empty, 3)


def test_senseless_settings_of_the_fit_are_refused() -> None:
    with pytest.raises(SettingsError, match="max_iterations"):
        fit_cascade(np.array([[0]]), np.array([[0]]), 1, max_iterations=0)


# ---- people


def test_people_click_more_on_better_documents(real_data: Callable[[str], Path]) -> None:
    with gzip.open(real_data("clicks/trec-session/human_labels.tsv.gz"), "rt") as lines:
        fields = [line.rstrip("\n").split("\t") for line in lines]
    clicks = np.array([json.loads(line[4]) for line in fields])
    labels = np.maximum([json.loads(line[5]) for line in fields], 0)  # -2 is spam: not relevant
    assert clicks.shape == (856, 10)

    fits = {rule: fit_cascade(labels, clicks, 5, stop=rule) for rule in RULES}
    position = fit_position_based(labels, clicks, 5)
    tables = [numbers(fit.model.click_probability) for fit in fits.values()]
    for chances in (*tables, numbers(position.model.attraction)):
        assert (np.diff(chances[:4]) > 0).all()
        # Only 37 documents have grade 4, 6 of them clicked: above grade 0, but below grade 3.
        assert chances[0] < chances[4] < chances[3]
    # 565 of the 856 pages have no click at all. A user who leaves only after a click cannot
    # explain that as leaving, so that cascade fits worst.
    assert fits["after_click"].log_likelihood < position.log_likelihood
    assert position.log_likelihood < fits["at_each_document"].log_likelihood
    assert 0.8 < position.model.eta < 1.05
