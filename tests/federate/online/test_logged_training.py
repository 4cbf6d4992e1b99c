"""Many users in one call against one user, one page, one step at a time."""

from __future__ import annotations

import time

import numpy as np
import pytest

from cloister.federate.fpdgd import FpdgdSettings
from cloister.federate.online.logged_training import LoggedPage, flat_pages, train_users
from cloister.rank.logged_pages import logged_click_gradient
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker, RankerSettings


def made_page(rng: np.random.Generator, n_features: int = 5) -> LoggedPage:
    n = int(rng.integers(2, 30))
    features = rng.uniform(0, 1, (n, n_features)).astype(np.float32)
    places = rng.permutation(n)[:10]
    drawn = rng.normal(size=n).astype(np.float32)
    return LoggedPage(features, drawn, places, rng.random(len(places)) < 0.3)


def one_by_one(
    pages: list[LoggedPage], ranker: Ranker, training: FpdgdSettings, round: int
) -> np.ndarray:
    """Take the steps of one user as the text says."""
    pdgd, mu = training.pdgd, training.proximal
    local, origin = ranker.parameters.copy(), ranker.parameters
    for number, page in enumerate(pages):
        rate = pdgd.learning_rate * pdgd.decay ** (training.queries_per_round * round + number)
        gradient = logged_click_gradient(ranker.with_parameters(local), *page, pdgd)
        local = local + rate * (gradient - mu * (local - origin))
    return local - origin


@pytest.mark.parametrize("round", [0, 7])
@pytest.mark.parametrize("proximal", [0.0, 0.5])
@pytest.mark.parametrize(
    "made_of", [RankerSettings(n_features=5), RankerSettings(kind="mlp", n_features=5, hidden=4)]
)
def test_users_learn_page_by_page_each_from_the_rounds_ranker(
    made_of: RankerSettings, proximal: float, round: int
) -> None:
    rng = np.random.default_rng(round)
    users = [[made_page(rng) for _ in range(n)] for n in (3, 0, 1, 5)]
    training = FpdgdSettings(pdgd=PdgdSettings(decay=0.97), proximal=proximal)
    ranker = Ranker(made_of, rng.normal(0, 0.5, made_of.n_parameters).astype(np.float32))
    model = ranker.parameters.astype(np.float64)
    found = train_users(flat_pages(users, 5), model, made_of, training, round=round)
    expected = np.array([one_by_one(user, ranker, training, round) for user in users])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert found[0].any()
    assert not found[1].any()


def test_nobody_and_nothing_shown_teach_nothing() -> None:
    made_of, training = RankerSettings(n_features=5), FpdgdSettings()
    assert train_users(flat_pages([], 5), np.zeros(5), made_of, training, round=0).shape == (0, 5)
    empty = LoggedPage(
        np.empty((0, 5), np.float32), np.empty(0, np.float32), np.empty(0, int), np.empty(0, bool)
    )
    found = train_users(flat_pages([[empty]], 5), np.zeros(5), made_of, training, round=0)
    assert not found.any()


def test_thousands_of_pages_take_less_than_a_second() -> None:
    rng = np.random.default_rng(1)
    page = made_page(rng)
    users = [[page] * 4 for _ in range(1000)]
    made_of, training = RankerSettings(n_features=5), FpdgdSettings()
    pages = flat_pages(users, 5)
    train_users(pages, np.zeros(5), made_of, training, round=0)
    start = time.perf_counter()
    train_users(pages, np.zeros(5), made_of, training, round=0)
    assert time.perf_counter() - start < 1.0
