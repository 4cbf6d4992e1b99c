"""The thesis's clipping and noise: as printed, and what truly holds of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.data.partitions import by_quantity, iid
from cloister.federate.clustered import ClusteredFPDGD
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.paper_laplace import PaperLaplaceNoise
from cloister.federate.population import Population
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker, RankerSettings
from federate import literal_round as literal
from federate.made_clients import INFORMATIONAL, ragged

LINEAR = RankerSettings(n_features=5)


def first() -> Ranker:
    return Ranker(LINEAR, np.array([0.5, -0.2, 1.0, 0.1, 0.0]))


# --- the noise


@pytest.mark.parametrize(("epsilon", "sensitivity", "n"), [(4.5, 5.0, 1), (1.2, 3.0, 10)])
def test_noise_of_the_mean_is_laplace_of_the_printed_scale(
    epsilon: float, sensitivity: float, n: int
) -> None:
    noise = PaperLaplaceNoise(epsilon=epsilon, sensitivity=sensitivity)
    drawn = noise.mean_noise(20_000, n, seed=1, round=0)
    scale = sensitivity / epsilon / n
    assert stats.kstest(drawn, stats.laplace(scale=scale).cdf).pvalue > 1e-3
    assert np.abs(drawn).mean() == pytest.approx(scale, rel=0.03)
    assert drawn.mean() == pytest.approx(0, abs=0.05 * scale)


def test_shares_of_all_clients_add_up_to_the_noise_that_is_drawn() -> None:
    n, epsilon, sensitivity = 7, 2.3, 3.0
    rng = stream(3, "test", "shares")
    shape = (5000, n)  # eq. 3.21 and 3.22: each client adds gamma - gamma'
    gamma = rng.gamma(1 / n, sensitivity / epsilon, shape)
    other = rng.gamma(1 / n, sensitivity / epsilon, shape)
    shares = (gamma - other).mean(axis=1)
    noise = PaperLaplaceNoise(epsilon=epsilon, sensitivity=sensitivity)
    drawn = noise.mean_noise(5000, n, seed=1, round=0)
    assert stats.ks_2samp(shares, drawn).pvalue > 1e-3
    assert stats.ks_2samp(1.2 * shares, drawn).pvalue < 1e-3  # a fifth more would be noticed


def test_every_round_and_seed_has_noise_of_its_own() -> None:
    noise = PaperLaplaceNoise(epsilon=1.0)
    drawn = [noise.mean_noise(5, 2, seed=s, round=r).tolist() for s, r in ((1, 0), (1, 1), (2, 0))]
    assert drawn[0] == noise.mean_noise(5, 2, seed=1, round=0).tolist()
    assert drawn[0] != drawn[1]
    assert drawn[0] != drawn[2]


# --- what holds


@pytest.mark.parametrize(
    ("n_parameters", "clip", "true"),
    [(46, "half", 30.5), (136, "half", 52.5), (46, "whole", 61.0), (136, "whole", 105.0)],
)
def test_true_epsilon_is_not_the_claimed_one(n_parameters: int, clip: Any, true: float) -> None:
    noise = PaperLaplaceNoise(epsilon=4.5, sensitivity=5, clip=clip)
    guarantee = noise.guarantee(n_parameters=n_parameters, n_rounds=200)
    assert guarantee.claimed == 4.5
    assert guarantee.of_a_round == pytest.approx(true, abs=0.06)
    assert guarantee.of_the_training == pytest.approx(200 * guarantee.of_a_round)
    assert guarantee.of_a_message is None


@pytest.mark.parametrize("clip", ["half", "whole"])
@pytest.mark.parametrize("sensitivity", [1.0, 5.0])
def test_true_epsilon_is_reached_by_two_clipped_vectors_and_never_passed(
    clip: Any, sensitivity: float
) -> None:
    noise = PaperLaplaceNoise(epsilon=2.0, sensitivity=sensitivity, clip=clip)
    n = 12
    holds = noise.guarantee(n_parameters=n, n_rounds=1).of_a_round
    laplace = stats.laplace(scale=sensitivity / 2.0)  # of the sum over clients, a weight

    def loss(a: np.ndarray, b: np.ndarray) -> float:
        """The largest log ratio of the chances of one outcome, which is at a or beyond it."""
        return float((laplace.logpdf(0.0) - laplace.logpdf(a - b)).sum())

    corner = np.full(n, noise.clip_norm / math.sqrt(n))
    assert loss(corner, -corner) == pytest.approx(holds)
    rng = stream(1, "test", "clipped")
    for _ in range(200):
        a, b = rng.normal(size=(2, n))
        a, b = (noise.clip_norm * vector / np.linalg.norm(vector) for vector in (a, b))
        assert loss(a, b) < holds


# --- in training


def test_rounds_without_noise_are_those_of_clipped_weights() -> None:
    population = Population(iid(ragged(2), 6), INFORMATIONAL, page_length=4)
    noise = PaperLaplaceNoise(epsilon=1e12, sensitivity=1.4)
    pdgd = PdgdSettings(learning_rate=0.5)
    settings = FpdgdSettings(pdgd=pdgd, queries_per_round=3, paper_noise=noise)
    learner = FPDGD(population, first(), settings=settings, seed=1)
    theta = first().parameters.astype(float)
    for round in range(2):
        training = literal.Training(LINEAR, pdgd, 3, 4, clip_norm=0.7, seed=1, round=round)
        theta = literal.fedavg(
            [
                literal.train_client(view, c, theta, INFORMATIONAL, training)
                for c, view in enumerate(population.views)
            ]
        )
        learner.step()
        np.testing.assert_allclose(learner.ranker.parameters, theta, rtol=1e-4, atol=1e-5)
        assert np.linalg.norm(learner.ranker.parameters) <= 0.7 * (1 + 1e-6)


@pytest.mark.parametrize(("clip", "longest"), [("half", 1.0), ("whole", 2.0)])
def test_weights_are_clipped_to_the_sensitivity_or_half_of_it(clip: Any, longest: float) -> None:
    population = Population(iid(ragged(2), 6), INFORMATIONAL)
    noise = PaperLaplaceNoise(epsilon=1e12, sensitivity=2.0, clip=clip)
    ranker = Ranker(LINEAR, np.full(5, 100.0))
    learner = FPDGD(population, ranker, settings=FpdgdSettings(paper_noise=noise), seed=1)
    learner.step()
    # All clients begin far away in one direction, so their mean is as long as each.
    assert np.linalg.norm(learner.ranker.parameters) == pytest.approx(longest, rel=1e-3)


@pytest.mark.parametrize("participants", [None, 4])
def test_noise_is_added_once_for_all_who_take_part(participants: int | None) -> None:
    population = Population(iid(ragged(2), 12), INFORMATIONAL)
    weights = []
    for epsilon in (1e12, 0.5):
        noise = PaperLaplaceNoise(epsilon=epsilon, sensitivity=2.0)
        settings = FpdgdSettings(paper_noise=noise, participants=participants)
        learner = FPDGD(population, first(), settings=settings, seed=1)
        learner.step()
        weights.append(learner.ranker.parameters.astype(float))
    n = participants or 12
    expected = PaperLaplaceNoise(epsilon=0.5, sensitivity=2.0).mean_noise(5, n, seed=1, round=0)
    np.testing.assert_allclose(weights[1] - weights[0], expected, atol=1e-6)


def test_clients_of_unequal_weight_are_refused() -> None:
    population = Population(by_quantity(ragged(2), (2, 3)), INFORMATIONAL)
    settings = FpdgdSettings(paper_noise=PaperLaplaceNoise(epsilon=1.0))
    with pytest.raises(SettingsError, match="all clients weigh the same"):
        FPDGD(population, first(), settings=settings, seed=1)


def test_clients_of_equal_own_quantities_are_taken() -> None:
    population = Population(by_quantity(ragged(2), (3,), n_clients=4), INFORMATIONAL)
    settings = FpdgdSettings(paper_noise=PaperLaplaceNoise(epsilon=1.0))
    assert FPDGD(population, first(), settings=settings, seed=1).step().n_interactions == 12


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0}, {"epsilon": -1}, {"sensitivity": 0}, {"clip": "quarter"}]
)
def test_noise_out_of_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        PaperLaplaceNoise(**{"epsilon": 1.0} | wrong)


def test_clustered_training_refuses_noise_that_it_would_not_add() -> None:
    population = Population(iid(ragged(2), 4), INFORMATIONAL)
    settings = FpdgdSettings(paper_noise=PaperLaplaceNoise(epsilon=1.0))
    with pytest.raises(SettingsError, match="clustered"):
        ClusteredFPDGD(population, first(), settings=settings, seed=1)


def test_noise_is_refused_where_a_layer_is_private() -> None:
    with pytest.raises(SettingsError, match="paper_noise"):
        FpdgdSettings(paper_noise=PaperLaplaceNoise(epsilon=1.0), private_layer=True)
