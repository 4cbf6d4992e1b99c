"""PDGD from logged pages against the printed equations, finite differences, and PDGD itself."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.rank.logged_pages import logged_click_gradient
from cloister.rank.pdgd import PdgdSettings, click_gradient
from cloister.rank.ranker import Ranker, RankerSettings
from rank import literal_pdgd as literal

CONVENTIONS = [
    PdgdSettings(negatives=negatives, rho_over=rho_over)
    for negatives, rho_over in product(("to_last_click", "whole_page"), ("candidates", "page"))
]
RANKERS = [
    RankerSettings(n_features=4),
    RankerSettings(kind="mlp", n_features=4, hidden=3, activation="relu"),
    RankerSettings(kind="mlp", n_features=4, hidden=3, activation="sigmoid"),
]
seeds = st.integers(0, 2**32 - 1)


class Scene:
    """A query's candidates, a page with clicks, a ranker that learns and one that served."""

    def __init__(self, made_of: RankerSettings, seed: int, *, spread: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 13))
        self.features = rng.uniform(-1, 1, (n, made_of.n_features)).astype(np.float32)
        weights = rng.normal(0, spread, (2, made_of.n_parameters)).astype(np.float32)
        self.learns, self.served = Ranker(made_of, weights[0]), Ranker(made_of, weights[1])
        self.drawn = self.served.score(self.features)
        self.page = rng.permutation(n)[: int(rng.integers(1, 11))]
        self.clicked = rng.random(len(self.page)) < 0.4

    def gradient(self, convention: PdgdSettings) -> np.ndarray:
        return logged_click_gradient(
            self.learns, self.features, self.drawn, self.page, self.clicked, convention
        )

    def rhos(self, convention: PdgdSettings) -> dict[literal.Pair, literal.Decimal]:
        """Return rho of each pair, under the ranker that drew the page."""
        return literal.rhos(
            self.page.tolist(),
            self.clicked.tolist(),
            self.drawn.tolist(),
            negatives=convention.negatives,
            rho_over=convention.rho_over,
        )


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("made_of", RANKERS)
@settings(max_examples=25)
@given(seed=seeds)
def test_with_one_ranker_it_is_pdgd(
    made_of: RankerSettings, convention: PdgdSettings, seed: int
) -> None:
    scene = Scene(made_of, seed)
    usual = click_gradient(scene.served, scene.features, scene.page, scene.clicked, convention)
    logged = logged_click_gradient(
        scene.served, scene.features, scene.drawn, scene.page, scene.clicked, convention
    )
    np.testing.assert_allclose(logged, usual, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("made_of", RANKERS)
@settings(max_examples=20)
@given(seed=seeds)
def test_rho_is_of_the_ranker_that_served_and_the_slope_of_the_one_that_learns(
    made_of: RankerSettings, convention: PdgdSettings, seed: int
) -> None:
    scene = Scene(made_of, seed)
    parameters = scene.learns.parameters.astype(np.float64)
    rows = scene.features.astype(np.float64)
    scores = [literal.score(made_of, parameters, x) for x in rows]
    weights = literal.pair_weights(scene.rhos(convention), scores)
    expected = literal.gradient(
        weights, lambda d: literal.score_gradient(made_of, parameters, rows[d]), len(parameters)
    )
    np.testing.assert_allclose(scene.gradient(convention), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("made_of", [RANKERS[0], RANKERS[2]])
@settings(max_examples=15)
@given(seed=seeds)
def test_it_is_the_slope_of_the_weighted_preferences_by_finite_differences(
    made_of: RankerSettings, seed: int
) -> None:
    """The gradient of sum rho P(dk > dl), rho held fixed, in the ranker that learns."""
    scene, convention = Scene(made_of, seed), CONVENTIONS[0]
    rhos = {pair: float(rho) for pair, rho in scene.rhos(convention).items()}
    rows = scene.features.astype(np.float64)

    def objective(parameters: np.ndarray) -> float:
        scores = [literal.score(made_of, parameters, x) for x in rows]
        return math.fsum(
            rho / (1 + math.exp(scores[dl] - scores[dk])) for (dk, dl), rho in rhos.items()
        )

    start = scene.learns.parameters.astype(np.float64)
    step = 1e-5
    slopes = [
        (objective(start + step * unit) - objective(start - step * unit)) / (2 * step)
        for unit in np.eye(len(start))
    ]
    np.testing.assert_allclose(scene.gradient(convention), slopes, rtol=2e-3, atol=5e-5)


@settings(max_examples=40)
@given(seed=seeds)
def test_scores_in_the_thousands_give_finite_gradients(seed: int) -> None:
    scene = Scene(RANKERS[0], seed, spread=2000.0)
    assert np.isfinite(scene.gradient(CONVENTIONS[0])).all()


def test_a_page_without_clicks_teaches_nothing() -> None:
    scene = Scene(RANKERS[0], 5)
    scene.clicked[:] = False
    assert not scene.gradient(CONVENTIONS[0]).any()


@pytest.mark.parametrize(
    ("drawn", "page", "clicked"),
    [
        ([0.0, 0.0], [0, 0], [True, False]),
        ([0.0, 0.0], [0, 2], [True, False]),
        ([0.0, 0.0], [0, 1], [True]),
        ([0.0], [0, 1], [True, False]),
        ([0.0, math.nan], [0, 1], [True, False]),
        ([0.0, 0.0], [0.5, 1.0], [True, False]),
    ],
)
def test_what_is_no_logged_page_is_refused(
    drawn: list[float], page: list[int], clicked: list[bool]
) -> None:
    ranker = Ranker.initial(RankerSettings(n_features=2))
    with pytest.raises(DataError, match="logged page"):
        logged_click_gradient(ranker, np.eye(2), drawn, page, clicked)
