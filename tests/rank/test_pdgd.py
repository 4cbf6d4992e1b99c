"""PDGD against the printed equations and finite differences; then where it could break."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.rank import pair_weights
from cloister.rank.pair_weights import PairRule, pair_coefficients
from cloister.rank.pdgd import PdgdSettings, click_gradient
from cloister.rank.plackett_luce import mass_of_rest
from cloister.rank.ranker import Ranker, RankerSettings
from rank import literal_pdgd as literal

CONVENTIONS = [
    PdgdSettings(negatives=negatives, rho_over=rho_over)
    for negatives, rho_over in product(("to_last_click", "whole_page"), ("candidates", "page"))
]
conventions = pytest.mark.parametrize(
    "convention", CONVENTIONS, ids=[f"{c.negatives}-{c.rho_over}" for c in CONVENTIONS]
)
RANKERS = [
    RankerSettings(n_features=5),
    RankerSettings(kind="mlp", n_features=5, hidden=3, activation="relu"),
    RankerSettings(kind="mlp", n_features=5, hidden=3, activation="sigmoid"),
]
rankers = pytest.mark.parametrize(
    "made_of", RANKERS, ids=[f"{r.kind}-{r.activation}" for r in RANKERS]
)


def _log_mass(scores: np.ndarray, n: int, page: np.ndarray, room: np.ndarray) -> float:
    highest, total = mass_of_rest(scores, n, page, room)
    return highest + math.log(total) if total > 0 else -math.inf


class Shown(NamedTuple):
    """A page with clicks, and the scores of all candidates."""

    scores: list[float]
    page: list[int]
    clicked: list[bool]


@st.composite
def pages(
    draw: st.DrawFn, *, spread: float, max_candidates: int = 14, max_shown: int = 10
) -> Shown:
    """Draw any page, likely or not."""
    limit = float(np.float32(spread))
    score = st.floats(-limit, limit, width=32)
    scores = draw(st.lists(score, min_size=1, max_size=max_candidates))
    order = draw(st.permutations(range(len(scores))))
    page = order[: draw(st.integers(1, max_shown))]
    clicked = draw(st.lists(st.booleans(), min_size=len(page), max_size=len(page)))
    return Shown(scores, page, clicked)


def last_click(clicked: Sequence[bool]) -> int:
    return max((i for i, click in enumerate(clicked) if click), default=-1)


def coefficients_of(shown: Shown, rule: PairRule) -> np.ndarray:
    """Call the kernel; places that it says have no weight get 0."""
    scores = np.array(shown.scores, np.float32)
    page = np.array(shown.page, np.int64)
    out = np.full(len(page), np.nan, np.float32)
    n = pair_coefficients(
        scores,
        len(scores),
        page,
        np.array(shown.clicked, np.bool_),
        last_click(shown.clicked),
        rule,
        np.empty_like(scores),
        np.empty((2, len(page) + 1)),
        out,
    )
    out[n:] = 0
    return out


def assert_as_printed(shown: Shown, convention: PdgdSettings) -> None:
    """Compare each document's coefficient with the sum of its pairs' weights."""
    found = coefficients_of(shown, convention.pair_rule)
    rhos = literal.rhos(
        shown.page,
        shown.clicked,
        shown.scores,
        negatives=convention.negatives,
        rho_over=convention.rho_over,
    )
    weights = literal.pair_weights(rhos, shown.scores)
    for place, d in enumerate(shown.page):
        pulls = [
            float(w) if d == dk else -float(w) for (dk, dl), w in weights.items() if d in (dk, dl)
        ]
        # Each weight is rounded to single precision, whose smallest number is 1e-45.
        tolerance = 2e-5 * math.fsum(map(abs, pulls)) + 1e-44 * (1 + len(pulls))
        assert found[place] == pytest.approx(math.fsum(pulls), abs=tolerance, rel=0)


@conventions
@settings(max_examples=80)
@given(shown=pages(spread=5))
@example(shown=Shown([0.0, 0.0], [1, 0], [True, False]))
def test_coefficients_are_those_of_the_equations(shown: Shown, convention: PdgdSettings) -> None:
    assert_as_printed(shown, convention)


@conventions
@settings(max_examples=80)
@given(shown=st.one_of(pages(spread=60), pages(spread=300), pages(spread=4000)))
def test_scores_in_the_hundreds_and_thousands_follow_the_equations(
    shown: Shown, convention: PdgdSettings
) -> None:
    assert_as_printed(shown, convention)


@conventions
@pytest.mark.parametrize("gap", [45.9, 46.1, 1000.0])
@pytest.mark.parametrize("outsider", ["low", "high"])
def test_one_document_far_from_the_others_follows_the_equations(
    convention: PdgdSettings, gap: float, outsider: str
) -> None:
    scores = np.linspace(-1, 1, 16, dtype=np.float32)
    for place in (0, 4, 9, 12):  # the first shown, in the middle, the last, among the rest
        moved = scores.copy()
        moved[place] += gap if outsider == "high" else -gap
        clicked = [i in (2, 4, 7) for i in range(10)]
        assert_as_printed(Shown(moved.tolist(), list(range(10)), clicked), convention)


@conventions
@pytest.mark.parametrize("length", [12, 20])
@pytest.mark.parametrize("rest", [-45.0, 45.0])
def test_long_pages_with_widely_spread_scores_follow_the_equations(
    convention: PdgdSettings, length: int, rest: float
) -> None:
    # A product of so many sums of masses may leave double precision at either end.
    scores = [0.0, *np.linspace(-45, -44, length - 1, dtype=np.float32).tolist(), rest]
    clicked = [i == length - 1 for i in range(length)]
    assert_as_printed(Shown(scores, list(range(length)), clicked), convention)


@conventions
@settings(max_examples=100)
@given(
    shown=st.one_of(pages(spread=100), pages(spread=1e4), pages(spread=1e30)),
    shift=st.sampled_from([0.0, 500.0, -5000.0]),
)
def test_coefficients_are_finite_and_add_up_to_nothing(
    shown: Shown, shift: float, convention: PdgdSettings
) -> None:
    moved = shown._replace(scores=[float(np.float32(s + shift)) for s in shown.scores])
    found = coefficients_of(moved, convention.pair_rule)
    assert np.isfinite(found).all()
    assert math.fsum(found) == pytest.approx(0.0, abs=2e-6 * max(1.0, float(np.abs(found).sum())))
    # No pair weighs more than rho = 1 times 1/4.
    assert np.abs(found).max() <= 0.25 * len(found)


@settings(max_examples=100)
@given(shown=pages(spread=22), over_candidates=st.booleans())
def test_both_code_paths_agree_where_both_apply(shown: Shown, over_candidates: bool) -> None:
    assume(any(shown.clicked))
    scores = np.array(shown.scores, np.float32)
    page, clicked = np.array(shown.page, np.int64), np.array(shown.clicked, np.bool_)
    rest = (
        _log_mass(scores, len(scores), page, np.empty_like(scores))
        if over_candidates
        else -math.inf
    )
    room = np.empty((2, len(page) + 1))
    by_masses, by_logarithms = np.zeros((2, len(page)), np.float32)
    pair_weights._by_masses(scores, page, clicked, scores[page].max(), rest, room, by_masses)
    pair_weights._by_logarithms(scores, scores, page, clicked, rest, room, by_logarithms)
    np.testing.assert_allclose(by_masses, by_logarithms, rtol=1e-5, atol=1e-6 * 0.25)
    assert by_masses.any() == by_logarithms.any()


def made(made_of: RankerSettings, seed: int, n_candidates: int) -> tuple[Ranker, np.ndarray]:
    """Return a ranker that has learnt something, and candidates for it."""
    rng = stream(seed, "test", "pdgd")
    ranker = Ranker(made_of, rng.normal(size=made_of.n_parameters).astype(np.float32))
    return ranker, rng.normal(size=(n_candidates, made_of.n_features)).astype(np.float32)


def far_from_kinks(ranker: Ranker, features: np.ndarray) -> bool:
    """Whether no rectifier is so near its corner that single precision may take the other side."""
    if ranker.settings.kind == "linear":
        return True
    weights, biases, _ = literal.parts(ranker.settings, ranker.parameters.astype(float))
    return bool(np.abs(features.astype(float) @ weights + biases).min() > 1e-4)


@rankers
@conventions
@settings(max_examples=25)
@given(shown=pages(spread=0), seed=st.integers(0, 2**32))
def test_gradients_are_those_of_the_equations(
    shown: Shown, seed: int, made_of: RankerSettings, convention: PdgdSettings
) -> None:
    ranker, features = made(made_of, seed, len(shown.scores))
    assume(far_from_kinks(ranker, features))
    theta, x = ranker.parameters.astype(float), features.astype(float)
    scores = [literal.score(made_of, theta, row) for row in x]
    rhos = literal.rhos(
        shown.page,
        shown.clicked,
        scores,
        negatives=convention.negatives,
        rho_over=convention.rho_over,
    )
    expected = literal.gradient(
        literal.pair_weights(rhos, scores),
        lambda d: literal.score_gradient(made_of, theta, x[d]),
        len(theta),
    )
    found = click_gradient(ranker, features, np.array(shown.page), shown.clicked, convention)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@rankers
@conventions
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32))
def test_gradients_are_finite_differences_of_the_weighted_preferences(
    seed: int, made_of: RankerSettings, convention: PdgdSettings
) -> None:
    ranker, features = made(made_of, seed, 12)
    assume(far_from_kinks(ranker, features))
    rng = stream(seed, "test", "clicks")
    page, clicked = rng.permutation(12)[:6], rng.random(6) < 0.5
    theta, x = ranker.parameters.astype(float), features.astype(float)

    def scores_at(parameters: np.ndarray) -> list[float]:
        return [literal.score(made_of, parameters, row) for row in x]

    rhos = literal.rhos(
        page.tolist(),
        clicked.tolist(),
        scores_at(theta),
        negatives=convention.negatives,
        rho_over=convention.rho_over,
    )

    def objective(parameters: np.ndarray) -> float:
        """Eq. 3.9 before the gradient is taken, with rho held fixed."""
        scores = scores_at(parameters)
        return math.fsum(
            float(value) / (1 + math.exp(scores[dl] - scores[dk]))
            for (dk, dl), value in rhos.items()
        )

    step = 1e-5
    differences = [
        (objective(theta + step * axis) - objective(theta - step * axis)) / (2 * step)
        for axis in np.eye(len(theta))
    ]
    found = click_gradient(ranker, features, page, clicked, convention)
    np.testing.assert_allclose(found, differences, rtol=1e-4, atol=1e-5)


@rankers
def test_a_small_step_makes_the_clicked_document_more_likely_to_come_first(
    made_of: RankerSettings,
) -> None:
    ranker, features = made(made_of, 1, 3)
    gradient = click_gradient(ranker, features, np.array([2, 0]), np.array([False, True]))
    better = ranker.with_parameters(ranker.parameters + np.float32(0.01) * gradient)
    before, after = ranker.score(features), better.score(features)
    assert after[0] - after[2] > before[0] - before[2]


@rankers
@conventions
@pytest.mark.parametrize(
    ("n_candidates", "clicked"),
    [
        (12, [False] * 10),  # none clicked
        (12, [True] * 10),  # all clicked
        (1, [True]),  # a query with one document
        (1, [False]),
        (12, []),  # nothing shown
    ],
)
def test_clicks_that_prefer_nothing_change_nothing(
    made_of: RankerSettings, convention: PdgdSettings, n_candidates: int, clicked: list[bool]
) -> None:
    ranker, features = made(made_of, 2, n_candidates)
    page = np.arange(len(clicked))
    found = click_gradient(ranker, features, page, np.array(clicked, bool), convention)
    assert found.dtype == np.float32
    assert found.tolist() == [0.0] * made_of.n_parameters


def test_what_lies_more_than_one_below_the_last_click_counts_only_on_the_whole_page() -> None:
    shown = Shown([0.0] * 12, list(range(10)), [i == 3 for i in range(10)])
    to_last, whole = (
        coefficients_of(shown, PdgdSettings(negatives=n).pair_rule)
        for n in ("to_last_click", "whole_page")
    )
    assert np.flatnonzero(to_last).tolist() == [0, 1, 2, 3, 4]
    assert np.flatnonzero(whole).tolist() == list(range(10))


def test_candidates_that_are_not_shown_matter_only_to_rho_over_all_candidates() -> None:
    clicked = [True, False, False]
    lone, among = (
        Shown([2.0, 0.0, 1.0], [0, 1, 2], clicked),
        Shown([2.0, 0.0, 1.0, 9.0], [0, 1, 2], clicked),
    )
    over_page, over_all = (
        [coefficients_of(shown, PdgdSettings(rho_over=over).pair_rule) for shown in (lone, among)]
        for over in ("page", "candidates")
    )
    np.testing.assert_array_equal(*over_page)
    assert not np.allclose(*over_all)


def test_a_page_of_all_candidates_needs_no_rest() -> None:
    shown = Shown([1.0, -2.0, 0.5], [2, 0, 1], [False, True, False])
    over_page, over_all = (
        coefficients_of(shown, PdgdSettings(rho_over=over).pair_rule)
        for over in ("page", "candidates")
    )
    np.testing.assert_array_equal(over_page, over_all)
    assert over_all.any()


@conventions
def test_weights_in_the_thousands_give_a_finite_gradient(convention: PdgdSettings) -> None:
    rng = stream(3, "test", "large")
    for made_of in RANKERS:
        ranker = Ranker(made_of, 3000 * rng.normal(size=made_of.n_parameters))
        features = rng.normal(size=(40, made_of.n_features))
        for _ in range(20):
            page = rng.permutation(40)[:10]
            found = click_gradient(ranker, features, page, rng.random(10) < 0.4, convention)
            assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("page", "clicked"),
    [
        ([0, 4], [True, False]),  # no such candidate
        ([-1, 0], [True, False]),
        ([1, 1], [True, False]),  # shown twice
        ([0, 1, 2], [True, False]),  # a click too few
        ([[0, 1]], [[True, False]]),
    ],
)
def test_a_page_that_is_none_is_refused(page: list[int], clicked: list[bool]) -> None:
    ranker = Ranker.initial(RankerSettings(n_features=2))
    with pytest.raises(DataError, match="different candidates"):
        click_gradient(ranker, np.ones((4, 2)), page, clicked)  # type: ignore[arg-type]


@rankers
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused(made_of: RankerSettings, value: float) -> None:
    ranker, features = made(made_of, 4, 3)
    features[2] = value
    with pytest.raises(DataError, match="not finite"):
        click_gradient(ranker, features, np.array([0, 1]), np.array([True, False]))


def test_features_of_another_length_are_refused() -> None:
    with pytest.raises(DataError, match="2 features"):
        click_gradient(
            Ranker.initial(RankerSettings(n_features=2)),
            np.ones((4, 3)),
            np.array([0]),
            np.array([True]),
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": 0},
        {"decay": 1.1},
        {"decay": 0},
        {"negatives": "none"},
        {"rho_over": "all"},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        PdgdSettings(**wrong)
