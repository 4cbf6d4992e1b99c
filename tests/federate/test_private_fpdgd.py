"""Private FPDGD: a literal round, what is recorded and refused, and what one client can change."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cloister.core.errors import BudgetExceeded, SettingsError
from cloister.core.random import stream
from cloister.data.partitions import by_quantity, iid
from cloister.data.ranking_data import RankingData
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.local_training import train_clients
from cloister.federate.paper_laplace import PaperLaplaceNoise
from cloister.federate.participation import draw_poisson
from cloister.federate.population import Population
from cloister.federate.private_fpdgd import PrivateFPDGD, PrivateTraining
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.level import Level
from cloister.privacy.release import Release, UnprotectedRelease
from cloister.privacy.releases.gaussian import GaussianRelease
from cloister.privacy.releases.tree import TreeRelease
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker, RankerSettings
from federate import literal_round as literal
from federate.made_clients import INFORMATIONAL, ragged

LINEAR = RankerSettings(n_features=5)
MECHANISMS = ("gaussian", "tree")
# Where some take part, it is a quarter wherever any share will do: noise for a share is found once.


def first() -> Ranker:
    return Ranker(LINEAR, np.array([0.5, -0.2, 1.0, 0.1, 0.0]))


def private(
    n_clients: int = 40,
    *,
    participants: int | None = None,
    record: Any = None,
    seed: int = 1,
    population: Population | None = None,
    rate: float = 0.5,
    **privacy: Any,
) -> PrivateFPDGD:
    clients = population or Population(iid(ragged(2), n_clients), INFORMATIONAL, page_length=4)
    chosen = {"epsilon": 4.5, "delta": 1e-6, "n_rounds": 4, "clip_norm": 0.2} | privacy
    pdgd = PdgdSettings(learning_rate=rate)
    return PrivateFPDGD(
        clients,
        first(),
        settings=FpdgdSettings(pdgd=pdgd, queries_per_round=3, participants=participants),
        privacy=PrivateTraining(**chosen),
        seed=seed,
        record=record,
    )


def without_noise(learner: PrivateFPDGD) -> PrivateFPDGD:
    learner._noise = lambda: np.zeros(5)  # type: ignore[method-assign]
    return learner


# --- the arithmetic


def test_rounds_are_the_literal_mean_of_clipped_updates_and_noise() -> None:
    learner = private(6, epsilon=300.0)
    theta = first().parameters.astype(float)
    for round in range(3):
        training = literal.Training(
            LINEAR, PdgdSettings(learning_rate=0.5), 3, 4, seed=1, round=round
        )
        updates = [
            literal.train_client(view, c, theta, INFORMATIONAL, training).difference
            for c, view in enumerate(learner.population.views)
        ]
        clipped = [u * min(1.0, 0.2 / math.sqrt(math.fsum(u**2))) for u in updates if u.any()]
        assert any(math.sqrt(math.fsum(u**2)) > 0.2 for u in updates)
        noise = stream(1, "private noise", round).normal(0.0, learner.sigma, 5)
        theta = theta + (np.sum(clipped, axis=0) + noise) / 6
        learner.step()
        np.testing.assert_allclose(learner.ranker.parameters, theta, rtol=1e-4, atol=1e-5)


def test_every_update_is_as_short_as_its_bound_in_exact_arithmetic() -> None:
    learner = private(50, clip_norm=0.01)
    updates = np.zeros((50, 5), np.float32)
    train_clients(
        learner.population,
        np.arange(50),
        learner._models.astype(np.float32),
        LINEAR.shape,
        learner.settings.pdgd.pair_rule,
        learner._rule,
        queries_per_round=3,
        seed=1,
        round=0,
        updates=updates,
    )
    lengths = [math.sqrt(math.fsum(float(v) ** 2 for v in row)) for row in updates]
    assert max(lengths) <= 0.01
    assert max(lengths) == pytest.approx(0.01, rel=1e-5)  # some did have to be clipped


def test_clients_weigh_the_same_whatever_their_number_of_queries() -> None:
    population = Population(by_quantity(ragged(2), [1, 9]), INFORMATIONAL, page_length=4)
    learner = without_noise(private(population=population, clip_norm=1e-3))
    before = learner.ranker.parameters.astype(float)
    learner.step()
    # Both updates have the same length after clipping, so neither can outvote the other.
    assert np.linalg.norm(learner.ranker.parameters - before) <= 1e-3
    assert learner.n_expected == 2


@pytest.mark.parametrize("participants", [None, 10])
def test_the_sum_is_divided_by_the_number_expected_not_by_who_came(
    participants: int | None,
) -> None:
    learner = without_noise(private(40, participants=participants))
    who = learner._participants()
    sums = learner._train(who)
    moved = learner._new_models(sums, who) - learner._models
    np.testing.assert_allclose(moved, sums.differences / (participants or 40))
    if participants:
        sizes = {len(private(40, participants=10, seed=s)._participants()) for s in range(8)}
        assert len(sizes) > 1  # a coin each: the number that comes differs


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_one_client_more_moves_the_sum_by_at_most_the_sensitivity(mechanism: str) -> None:
    learner = without_noise(private(12, mechanism=mechanism))
    everyone = learner._train(np.arange(12)).differences
    for gone in range(12):
        rest = learner._train(np.delete(np.arange(12), gone)).differences
        assert np.linalg.norm(everyone - rest) <= 0.2


def test_noise_of_a_round_is_normal_of_the_stated_width() -> None:
    learner = private(30, n_rounds=400)
    drawn = np.concatenate([_noise_at(learner, round) for round in range(400)])
    assert stats.kstest(drawn / learner.sigma, "norm").pvalue > 1e-3
    assert stats.kstest(1.2 * drawn / learner.sigma, "norm").pvalue < 1e-3


def _noise_at(learner: PrivateFPDGD, round: int) -> np.ndarray:
    learner._n_rounds = round
    return learner._noise()


def test_noise_of_tree_rounds_adds_up_to_that_of_few_nodes() -> None:
    learners = [private(30, n_rounds=8, mechanism="tree", seed=s) for s in range(300)]
    totals = np.array([np.sum([each._noise() for _ in range(8)], axis=0) for each in learners])
    # Eight rounds are one node of height 3 with better estimates from its children: 8/15.
    assert totals.std() / learners[0].sigma == pytest.approx(math.sqrt(8 / 15), rel=0.05)


def test_the_ranker_is_the_mean_of_the_last_models() -> None:
    learner = private(10, average_last=3)
    models = []
    for _ in range(4):
        learner.step()
        models.append(learner._models[0].copy())
        expected = np.mean(models[-3:], axis=0)
        np.testing.assert_allclose(learner.ranker.parameters, expected, rtol=1e-6)


def test_equal_seeds_give_equal_rankers_and_others_do_not() -> None:
    def trained(seed: int) -> list[float]:
        learner = private(40, participants=10, seed=seed)
        for _ in range(3):
            learner.step()
        return learner.ranker.parameters.tolist()

    assert trained(1) == trained(1) != trained(2)


def test_a_round_without_participants_still_releases_noise() -> None:
    learner = private(40, participants=10)
    learner._participants = lambda: np.empty(0, np.int64)  # type: ignore[method-assign]
    before = learner._models.copy()
    outcome = learner.step()
    assert outcome.n_interactions == 0
    assert (learner._models != before).all()


def noises(learner: PrivateFPDGD, n_rounds: int) -> np.ndarray:
    """Return what sums of nothing carry: one row a round, as many came as were expected."""
    who = np.arange(learner.n_expected)
    nothing = np.zeros((len(who), learner._models.shape[1]), np.float32)
    rows = []
    for round in range(n_rounds):
        learner._n_rounds = round
        rows.append(learner._shared_sum(who, nothing))
    return np.array(rows)


def test_shares_for_dropouts_and_colluders_carry_more_noise() -> None:
    plain = private(40, n_rounds=400)
    wider = private(40, n_rounds=400, n_dropouts=6, n_colluders=4)
    assert wider.sigma == plain.sigma
    width = noises(wider, 400).std() / wider.sigma
    assert width == pytest.approx(math.sqrt(40 / 30), rel=0.05)


def test_shares_of_the_real_protocol_are_as_wide() -> None:
    real = private(16, n_rounds=40, n_dropouts=3, n_colluders=2, secure_aggregation=True)
    width = noises(real, 40).std() / real.sigma  # 200 numbers
    assert width == pytest.approx(math.sqrt(16 / 11), rel=0.15)


def test_the_real_protocol_gives_the_same_sum() -> None:
    many: dict[str, Any] = {"epsilon": 1e5, "n_dropouts": 2, "n_colluders": 1}
    real, ideal = private(12, secure_aggregation=True, **many), private(12, **many)
    for _ in range(3):
        real.step()
        ideal.step()
        np.testing.assert_allclose(real._models, ideal._models, atol=10 * real.sigma / 12 + 1e-5)
    assert real.sigma < 0.01


def test_a_round_to_which_too_few_come_fails_and_changes_nothing() -> None:
    learner = private(400, participants=100, n_dropouts=2)
    least = learner._protection.min_survivors
    assert least == 100 - 50 - 2  # five standard deviations, and the dropouts
    for n, fails in ((least - 1, True), (least, False)):
        before, failed = learner._models.copy(), learner.n_failed_rounds
        learner._participants = lambda n=n: np.arange(n)  # type: ignore[method-assign,misc]
        learner.step()
        assert learner.n_failed_rounds - failed == fails
        assert (learner._models == before).all() == fails


def test_coins_hardly_ever_make_a_round_fail() -> None:
    learner = private(2000, participants=200, n_dropouts=1)
    sizes = [len(draw_poisson(2000, 0.1, seed=1, round=r)) for r in range(5000)]
    assert min(sizes) > learner._protection.min_survivors


@pytest.mark.parametrize("more", [{"n_dropouts": 3}, {"n_colluders": 2}, {}])
def test_federations_too_small_to_hide_in_are_refused_at_once(more: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="nobody is left to hide behind"):
        private(20, participants=5, secure_aggregation=True, **more)


def test_one_client_that_overflows_spoils_nothing() -> None:
    data = ragged(2)
    huge = RankingData(np.where(data.features > 1.5, np.float32(3e38), data.features),
                       data.labels, data.offsets)  # fmt: skip
    population = Population(iid(huge, 6), INFORMATIONAL, page_length=4)
    learner = without_noise(private(population=population))
    with np.errstate(all="ignore"):
        for _ in range(4):
            learner.step()
    assert np.isfinite(learner._models).all()
    assert np.linalg.norm(learner._models - first().parameters) <= 4 * 0.2


def test_the_real_protocol_is_exact_where_noise_is_small() -> None:
    real = private(8, secure_aggregation=True, epsilon=1e5, clip_norm=0.2)
    ideal = without_noise(private(8))
    real.step()
    ideal.step()
    np.testing.assert_allclose(real._models, ideal._models, atol=5 * real.sigma / 8 + 1e-6)
    assert real.sigma < 0.01


# --- what is recorded


@pytest.mark.parametrize("participants", [None, 4])
def test_the_whole_training_costs_what_was_allowed_and_little_less(
    participants: int | None,
) -> None:
    released: list[Release] = []
    learner = private(40, participants=participants, record=released.append)
    for _ in range(4):
        learner.step()
    assert len(released) == 4
    for release in released:
        assert isinstance(release, GaussianRelease)
        assert release.simulated
        assert release.level == Level.USER
        assert release.sampling_rate == (participants or 40) / 40
        assert release.sensitivity == 0.2
    epsilon = composed_epsilon(losses_of(released), 1e-6).epsilon
    assert learner.spending.cost().epsilon == epsilon < 4.3
    spent = learner.spending.spent()
    assert spent is not None
    assert 4.49 < spent <= 4.5  # by the filter, which decides


def test_a_tree_is_paid_for_once() -> None:
    released: list[Release] = []
    learner = private(40, participants=10, n_rounds=6, mechanism="tree", record=released.append)
    for _ in range(6):
        learner.step()
    (release,) = released
    assert isinstance(release, TreeRelease)
    assert (release.n_rounds, release.n_contributions, release.n_rounds_between) == (6, 2, 4)
    spent = learner.spending.spent()
    assert spent is not None
    assert 4.49 < spent <= 4.5
    assert learner.most_turns <= release.n_contributions


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_round_too_many_is_refused_and_changes_nothing(mechanism: str) -> None:
    released: list[Release] = []
    learner = private(20, n_rounds=2, mechanism=mechanism, record=released.append)
    learner.step()
    learner.step()
    before, recorded = learner._models.copy(), len(released)
    with pytest.raises(BudgetExceeded):
        learner.step()
    assert (learner._models == before).all()
    assert (learner.n_rounds, len(released)) == (2, recorded)


def test_a_ledger_that_refuses_stops_the_round_before_it_is_released() -> None:
    def refuse(release: Release) -> None:
        raise BudgetExceeded("spent", where="clinic-a")

    learner = private(20, record=refuse)
    before = learner._models.copy()
    with pytest.raises(BudgetExceeded, match="clinic-a"):
        learner.step()
    assert (learner._models == before).all()


def test_the_server_that_knows_who_took_part_learns_more() -> None:
    learner = private(40, participants=4)
    for _ in range(4):
        learner.step()
    one = GaussianRelease(level="user", sigma=learner.sigma, sensitivity=0.2)
    expected = composed_epsilon(losses_of([one] * learner.most_turns), 1e-6).epsilon
    assert learner.epsilon_of_server() == pytest.approx(expected)
    assert expected > learner.spending.cost().epsilon
    assert private(40, mechanism="tree").epsilon_of_server() is None


def test_unprotected_and_paper_rounds_are_recorded_as_what_they_are() -> None:
    population = Population(iid(ragged(2), 6), INFORMATIONAL)
    for noise, kind in ((None, UnprotectedRelease), (PaperLaplaceNoise(epsilon=4.5), None)):
        released: list[Release] = []
        settings = FpdgdSettings(paper_noise=noise)
        FPDGD(population, first(), settings=settings, seed=1, record=released.append).step()
        (release,) = released
        if kind:
            assert isinstance(release, kind)
            assert composed_epsilon(losses_of(released), 1e-6).epsilon == math.inf
        else:
            assert release.claimed_epsilon == 4.5
            epsilon = composed_epsilon(losses_of(released), 1e-6).epsilon
            assert 4.5 < epsilon <= 4.5 * math.sqrt(5) + 1e-3


# --- what is refused


@pytest.mark.parametrize(
    "wrong",
    [{"private_layer": True}, {"aggregation": "sum"}, {"paper_noise": {"epsilon": 1.0}}],
)
def test_settings_that_would_break_the_guarantee_are_refused(wrong: dict[str, Any]) -> None:
    ranker = Ranker.initial(RankerSettings(kind="mlp", n_features=5, hidden=3), seed=1)
    with pytest.raises(SettingsError):
        PrivateFPDGD(
            Population(iid(ragged(2), 6), INFORMATIONAL),
            ranker,
            settings=FpdgdSettings(**wrong),
            privacy=PrivateTraining(epsilon=1, delta=1e-6, n_rounds=1),
            seed=1,
        )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_more_participants_than_clients_are_refused(mechanism: str) -> None:
    with pytest.raises(SettingsError, match="fewer than 50"):
        private(40, participants=50, mechanism=mechanism)


def test_a_delta_that_could_publish_a_client_is_refused() -> None:
    with pytest.raises(SettingsError, match="no protection among 40 clients"):
        private(40, delta=0.1)


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0}, {"delta": 1}, {"clip_norm": 0}, {"n_rounds": 0}, {"average_last": 9}],
)
def test_impossible_privacy_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        PrivateTraining(**{"epsilon": 1.0, "delta": 1e-6, "n_rounds": 3} | wrong)
