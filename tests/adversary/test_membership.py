from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binomtest, multivariate_normal, norm

from cloister.adversary.click_grades import fit_grades
from cloister.adversary.click_pages import search
from cloister.adversary.membership import (
    MembershipScores,
    auc_difference,
    likelihood_ratio,
    membership_success,
)
from cloister.adversary.membership_rankers import (
    directions,
    pairs_in_order,
    preferred_pairs,
    shadow_effects,
)
from cloister.adversary.membership_unlearned import (
    direction_and_length,
    forgotten_effects,
    log_lengths,
)
from cloister.adversary.membership_updates import (
    Lesson,
    background_lesson,
    expected_lesson,
    log_ratio,
    with_query,
    without_query,
)
from cloister.core.errors import CloisterError, DataError
from cloister.data.clicks import click_model
from cloister.data.partitions import ClientView
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Size
from cloister.lab.reproduce.membership import figures, update_trial
from cloister.lab.reproduce.membership.people import make_people, with_own_tastes
from cloister.lab.reproduce.membership.ranker_trial import (
    UNLEARNED_SHADOWS,
    measure_rankers,
    try_rankers,
)
from cloister.lab.reproduce.membership.setting import (
    RankerMembershipSettings,
    UpdateMembershipSettings,
)
from cloister.lab.reproduce.membership.update_trial import measure_updates, try_updates
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker, RankerSettings

WORLD = "world:features?queries=80&documents=15&features=16"


def normal_scores(shift: float, rng: np.random.Generator, n: int = 400) -> MembershipScores:
    return MembershipScores(rng.normal(shift, 1, (n, 1)), rng.normal(0, 1, (n, 5)))


def test_measures_of_normal_scores_are_those_of_the_normal_curve() -> None:
    rng = np.random.default_rng(1)
    found = membership_success(normal_scores(2.0, rng, 4000), rng=rng, n_resamples=10)
    assert found.auc.value == pytest.approx(norm.cdf(2 / np.sqrt(2)), abs=0.01)
    rate = norm.sf(norm.isf(0.01) - 2.0)
    assert found.true_positive_rate.value == pytest.approx(rate, abs=0.04)
    assert found.advantage.value == pytest.approx(norm.cdf(1) - norm.cdf(-1), abs=0.02)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng, truth, held = np.random.default_rng(2), norm.cdf(1 / np.sqrt(2)), 0
    for _ in range(40):
        auc = membership_success(normal_scores(1.0, rng, 60), rng=rng, n_resamples=60).auc
        held += auc.low <= truth <= auc.high
    assert 32 <= held <= 40


def test_groups_that_share_a_query_are_resampled_together() -> None:
    """Ten targets of each query with one score tell as much as one target of each."""
    rng = np.random.default_rng(14)
    few = normal_scores(1.0, rng, 40)
    many = MembershipScores(*(np.repeat(part, 10, axis=0) for part in few))
    queries = np.repeat(np.arange(40), 10) * 7
    alone = membership_success(few, rng=np.random.default_rng(1), n_resamples=400)
    held = membership_success(many, rng=np.random.default_rng(1), clusters=queries, n_resamples=400)
    assert held.auc == pytest.approx(alone.auc)
    assert held.advantage == pytest.approx(alone.advantage)
    apart = membership_success(many, rng=np.random.default_rng(1), n_resamples=400)
    assert apart.auc.high - apart.auc.low < 0.5 * (held.auc.high - held.auc.low)
    with pytest.raises(DataError, match="cluster"):
        membership_success(many, rng=rng, clusters=np.zeros(400, int))


@pytest.mark.parametrize("n", [9, 72])
def test_where_everything_is_right_the_interval_is_that_of_n_of_n(n: int) -> None:
    scores = MembershipScores(1 + np.arange(2.0 * n).reshape(2 * n, 1), np.zeros((2 * n, 1)))
    clusters = np.arange(2 * n) // 2
    found = membership_success(scores, rng=np.random.default_rng(1), clusters=clusters)
    exact = binomtest(n, n).proportion_ci(0.95, method="exact")
    assert (found.auc.value, found.auc.high, found.auc.n) == (1.0, 1.0, n)
    assert found.auc.low == pytest.approx(exact.low)
    assert found.true_positive_rate.low == pytest.approx(exact.low)
    nothing = membership_success(
        MembershipScores(scores.others, scores.members), rng=np.random.default_rng(1)
    )
    assert (nothing.auc.value, nothing.auc.low) == (0.0, 0.0)
    assert nothing.auc.high == pytest.approx(1 - 0.025 ** (1 / (2 * n)))
    almost = scores.members.copy()
    almost[0] = -1.0
    found = membership_success(
        MembershipScores(almost, scores.others), rng=np.random.default_rng(1), clusters=clusters
    )
    assert found.auc.low <= exact.low < found.auc.value < found.auc.high == 1.0
    same = auc_difference(scores, scores, rng=np.random.default_rng(1))
    assert same.low < same.value == 0.0 < same.high


def test_luck_gives_no_advantage() -> None:
    rng = np.random.default_rng(3)
    values = [
        membership_success(
            MembershipScores(rng.random((20, 1)), rng.random((20, 1))), rng=rng, n_resamples=20
        ).advantage.value
        for _ in range(200)
    ]
    assert abs(np.mean(values)) < 0.04  # the best threshold on the same scores would give 0.2


@given(
    arrays(np.float64, (6, 2), elements=st.integers(-5, 5)),
    arrays(np.float64, (6, 3), elements=st.integers(-5, 5)),
)
@settings(deadline=None, max_examples=30)
def test_the_auc_is_the_share_of_pairs_in_order(members: np.ndarray, others: np.ndarray) -> None:
    scores = MembershipScores(members, others)
    found = membership_success(scores, rng=np.random.default_rng(1), n_resamples=20)
    one, other = members.reshape(-1, 1), others.reshape(1, -1)
    assert found.auc.value == pytest.approx((one > other).mean() + (one == other).mean() / 2)
    turned = MembershipScores(others, members)
    assert auc_difference(scores, turned, rng=np.random.default_rng(1), n_resamples=20).value == (
        pytest.approx(2 * found.auc.value - 1)
    )


def test_the_likelihood_ratio_is_that_of_two_normal_curves() -> None:
    rng = np.random.default_rng(4)
    members = rng.random((50, 3)) < 0.5
    shadows = rng.normal(size=(50, 3)) + members
    values = rng.normal(size=(7, 3))
    found = likelihood_ratio(values, shadows, members)
    for target in range(3):
        inside, outside = (shadows[members[:, target] == side, target] for side in (True, False))
        rest = np.concatenate([inside - inside.mean(), outside - outside.mean()])
        spread = np.sqrt((rest**2).sum() / 48)
        oracle = norm.logpdf(values[:, target], inside.mean(), spread) - norm.logpdf(
            values[:, target], outside.mean(), spread
        )
        np.testing.assert_allclose(found[:, target], oracle)


def test_scores_and_shadows_that_do_not_suffice_are_refused() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(DataError, match="two groups"):
        membership_success(MembershipScores(np.ones((1, 1)), np.ones((1, 1))), rng=rng)
    with pytest.raises(DataError, match="not numbers"):
        membership_success(MembershipScores(np.full((3, 1), np.nan), np.ones((3, 1))), rng=rng)
    with pytest.raises(DataError, match="shadows"):
        likelihood_ratio(np.ones((1, 1)), np.ones((3, 1)), np.ones((3, 1), bool))
    with pytest.raises(DataError, match="shadows"):
        shadow_effects(np.ones((5, 2)), np.ones((5, 3), bool))


def test_the_ratio_of_lessons_is_that_of_normal_densities() -> None:
    rng = np.random.default_rng(5)
    root = rng.normal(size=(2, 4, 4))
    one, other = (Lesson(rng.normal(size=4), r @ r.T + np.eye(4)) for r in root)
    seen = rng.normal(size=(9, 4))
    oracle = multivariate_normal(*one).logpdf(seen) - multivariate_normal(*other).logpdf(seen)
    np.testing.assert_allclose(log_ratio(seen, one, other), oracle)


def test_a_lesson_takes_the_place_of_one_of_the_background() -> None:
    background = background_lesson(np.random.default_rng(6).normal(1.0, 2.0, (50, 3)))
    absent = without_query(background, n_clients=5, sigma=0.5)
    present = with_query(absent, background, background)
    np.testing.assert_allclose(present.mean, absent.mean)
    np.testing.assert_allclose(present.covariance, absent.covariance)
    assert np.diag(absent.covariance).min() > 5 * np.diag(background.covariance).min()


def test_the_expected_lesson_is_the_mean_of_what_clients_learn() -> None:
    """Grades follow scores without doubt here, so that the belief in them is the truth."""
    rng = np.random.default_rng(7)
    ranker = Ranker(RankerSettings(n_features=3), np.array([2.0, 0.0, 0.0], np.float32))
    features = rng.normal(size=(300, 3)).astype(np.float32)
    features[:, 0] = np.tile([-1.0, -0.5, 0.0, 0.5, 1.0, 3.0], 50)
    labels = (features[:, 0] > 2).astype(np.int8)
    data = RankingData(features, labels, np.arange(0, 301, 6))
    scores = ranker.score(features).astype(np.float64).reshape(50, 6)
    grades = fit_grades(scores, labels.reshape(50, 6), 2)
    model, pdgd = click_model("informational", 2), PdgdSettings()
    lesson = expected_lesson(ranker, features[:6], grades, model, pdgd, rng=rng, page_length=4)
    found = search(
        ranker, data, np.zeros((4000, 1), int), model,
        settings=pdgd, page_length=4, drawn_pages=True, seed=1,
    ).with_clicks()  # fmt: skip
    np.testing.assert_allclose(lesson.mean, found.updates.mean(axis=0), atol=0.006)
    np.testing.assert_allclose(lesson.covariance, np.cov(found.updates.T), atol=0.003)


def test_effects_of_clients_are_found_and_tell_who_left() -> None:
    rng = np.random.default_rng(8)
    truth = rng.normal(size=(8, 20))
    members = rng.random((120, 8)) < 0.5
    base = 30 * rng.normal(size=20)
    made = base + members @ truth + 0.3 * rng.normal(size=(120, 20))
    effects = shadow_effects(made, members)
    cosines = [
        np.corrcoef(found, true - (true @ base) * base / (base @ base))[0, 1]
        for found, true in zip(effects.effect, truth, strict=True)
    ]
    assert min(cosines) > 0.9
    after = members[:40].copy()
    left = np.array([rng.choice(np.flatnonzero(row)) for row in after])
    after[np.arange(40), left] = False
    later = base + after @ truth + 0.3 * rng.normal(size=(40, 20))
    named = np.where(members[:40], effects.departure(made[:40], later), -np.inf).argmax(axis=1)
    assert (named == left).mean() > 0.9


def test_what_forgotten_clients_leave_in_lengths_is_found_beside_who_stays() -> None:
    rng = np.random.default_rng(15)
    n, people = 800, 6
    chosen = np.argsort(rng.random((n, people)), axis=1)[:, :3]
    members = np.zeros((n, people), np.bool_)
    np.put_along_axis(members, chosen, True, axis=1)
    gone, stayed = chosen[:, 0], members.copy()
    stayed[np.arange(n), gone] = False
    of_gone = np.array([-2.0, 2.0, -1.0, 1.0, -2.0, 2.0])
    scale = stayed @ rng.normal(size=people) + of_gone[gone] + 0.1 * rng.normal(size=n)
    base, moves = 5 * rng.normal(size=8), rng.normal(size=(people, 8))
    made = directions(base + stayed @ moves) * np.exp(0.1 * scale)[:, None]
    area = {}
    for statistic in (log_lengths, direction_and_length, directions):
        effects = forgotten_effects(statistic(made[:400]), members[:400], gone[:400])
        scores = effects.past_presence(statistic(made[400:]))
        inside = scores[np.arange(400), gone[400:]]
        area[statistic] = float((inside[:, None] > scores[~members[400:]]).mean())
    assert area[direction_and_length] > area[log_lengths] > 0.6
    assert area[direction_and_length] > 0.75
    assert abs(area[directions] - 0.5) < 0.06


def test_of_a_client_whom_no_shadow_forgot_nothing_is_learnt() -> None:
    rng = np.random.default_rng(16)
    members, gone = np.ones((20, 3), np.bool_), rng.integers(0, 2, 20)
    effects = forgotten_effects(rng.normal(size=(20, 2)), members, gone)
    scores = effects.past_presence(rng.normal(size=(5, 2)))
    np.testing.assert_allclose(scores[:, 2], 0.0, atol=1e-12)
    assert (np.abs(scores[:, :2]) > 1e-6).all()
    with pytest.raises(DataError, match="took part"):
        forgotten_effects(rng.normal(size=(20, 2)), np.eye(3, dtype=bool)[gone], gone ^ 1)
    with pytest.raises(DataError, match="as many"):
        forgotten_effects(rng.normal(size=(20, 2)), rng.random((20, 3)) < 0.5, gone)


def test_pairs_in_order_are_counted_as_by_hand() -> None:
    rng = np.random.default_rng(9)
    data = RankingData(
        rng.normal(size=(12, 2)), rng.integers(0, 3, 12).astype(np.int8), np.array([0, 5, 12])
    )
    view, scores = ClientView(data, queries=np.array([1])), rng.normal(size=(2, 12))
    pairs = [(i, j) for i in range(5, 12) for j in range(5, 12) if data.labels[i] > data.labels[j]]
    oracle = [np.mean([row[i] > row[j] for i, j in pairs]) for row in scores]
    np.testing.assert_allclose(pairs_in_order(scores, preferred_pairs(view)), oracle)


def test_a_single_update_tells_its_query_and_noise_in_a_sum_hides_it() -> None:
    shared = {"data": WORLD, "train_clients": 20, "train_rounds": 10, "observations": 150}
    alone = try_updates(UpdateMembershipSettings(**shared, n_shadows=400))
    sums = try_updates(UpdateMembershipSettings(**shared, n_shadows=400, clients=5))
    noisy = try_updates(UpdateMembershipSettings(**shared, n_shadows=400, clients=20, noise=True))
    attack = "likelihood ratio"
    assert alone.successes[attack].auc.low > 0.85
    assert alone.successes[attack].true_positive_rate.value > 0.2
    assert sums.successes[attack].auc.low > 0.5
    assert sums.successes[attack].auc.high < alone.successes[attack].auc.low
    assert noisy.sigma > 0.1
    assert noisy.successes[attack].auc.low < 0.5 < noisy.successes[attack].auc.high
    for baseline in ("length of the update", "random"):
        assert abs(alone.successes[baseline].auc.value - 0.5) < 0.1


def test_the_attack_on_updates_never_looks_at_what_clients_did_not_send(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All updates are clipped, so that ten times as long ones are sent alike."""
    settings_of = UpdateMembershipSettings(
        data=WORLD, train_clients=20, train_rounds=5, observations=40, n_shadows=100, clients=3,
        queries_per_update=2, noise=True, clip_norm=1e-4,
    )  # fmt: skip
    plain = update_trial._clicking

    def longer(*given: Any) -> Any:
        found = plain(*given)
        return found._replace(updates=10 * found.updates) if given[-1] == "clients" else found

    once = measure_updates(settings_of)
    monkeypatch.setattr(update_trial, "_clicking", longer)
    again = measure_updates(settings_of)
    for attack, figures_found in once.items():
        assert again[attack] == pytest.approx(figures_found), attack


def test_intervals_of_updates_are_over_queries() -> None:
    trial = try_updates(
        UpdateMembershipSettings(
            data=WORLD, train_clients=20, train_rounds=5, observations=60, n_shadows=100
        )
    )
    assert 2 <= trial.n_queries < 60 == trial.n_targets
    assert {found.auc.n for found in trial.successes.values()} == {trial.n_queries}


def test_a_client_whose_queries_are_all_known_is_found_more_often_than_one_query() -> None:
    shared = {"data": WORLD, "train_clients": 20, "train_rounds": 10, "observations": 150}
    found = [
        measure_updates(
            UpdateMembershipSettings(
                **shared, n_shadows=400, clients=2, queries_per_update=3, target=target
            )
        )["likelihood ratio"]["auc"]
        for target in ("query", "client")
    ]
    assert found[1] > found[0] > 0.5


SMALL = {
    "data": WORLD, "clients": 3, "own_queries": 10, "rounds": 60, "n_shadows": 50, "n_attacked": 30
}  # fmt: skip


def test_a_trained_ranker_tells_its_clients_and_forgetting_hides_them() -> None:
    trial = try_rankers(RankerMembershipSettings(**SMALL, own_taste=1.0))
    auc = {name: by_attack["parameters"].auc for name, by_attack in trial.successes.items()}
    assert auc["trained"].low > 0.75
    for name in ("unlearned", "short retraining", "retrained"):
        assert auc[name].low < 0.5 < auc[name].high
        assert trial.below_trained[name].high < 0
    for attack in UNLEARNED_SHADOWS:
        found = trial.successes["unlearned"][attack].auc
        assert found.low < 0.5 < found.high
        assert attack not in trial.successes["retrained"]
    assert trial.departures["retrained"].low > 1 / 3
    assert trial.successes["trained"]["fit, likelihood ratio"].auc.low > 0.5


def test_a_client_with_nothing_of_its_own_cannot_be_told() -> None:
    trial = try_rankers(RankerMembershipSettings(**(SMALL | {"own_queries": 0})))
    auc = trial.successes["trained"]["parameters"].auc
    assert auc.low < 0.5 < auc.high
    assert trial.departures["retrained"].low < 1 / 3 < trial.departures["retrained"].high


def test_private_training_hides_clients() -> None:
    figures_found = measure_rankers(
        RankerMembershipSettings(**(SMALL | {"own_taste": 1.0, "epsilon": 1.0, "rounds": 30}))
    )
    assert abs(figures_found["trained: parameters"]["auc"] - 0.5) < 0.2
    assert set(figures_found) == {
        "trained", "trained: parameters", "trained: fit", "trained: fit, likelihood ratio"
    }  # fmt: skip


def test_one_seed_gives_one_outcome() -> None:
    settings_of = RankerMembershipSettings(
        **(SMALL | {"rounds": 2, "n_shadows": 12, "n_attacked": 4})
    )
    assert measure_rankers(settings_of) == measure_rankers(settings_of)


def test_tastes_keep_every_query_s_grades_and_leave_others_queries_alone() -> None:
    data = load_fold(WORLD).train
    queries = np.arange(5)
    (view,) = with_own_tastes((ClientView(data, queries=queries),), 1.0, seed=1)
    assert view.labels is not None
    own = slice(0, int(data.offsets[5]))
    assert (view.labels[own] != data.labels[own]).any()
    np.testing.assert_array_equal(view.labels[own.stop :], data.labels[own.stop :])
    for query in queries:
        rows = data.rows(int(query))
        assert sorted(view.labels[rows]) == sorted(data.labels[rows])


def test_people_share_no_query_of_their_own_and_too_many_are_refused() -> None:
    people = make_people(RankerMembershipSettings(**SMALL))
    held = np.concatenate([view.queries for view in people.views])
    assert len(people.views) == 6
    assert len(np.unique(held)) == len(held) == 60
    with pytest.raises(DataError, match="need 120"):
        make_people(RankerMembershipSettings(**(SMALL | {"own_queries": 20})))
    with pytest.raises(CloisterError, match="own_taste"):
        RankerMembershipSettings(**(SMALL | {"own_queries": 0, "own_taste": 0.5}))


@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_claim_of_the_study_speaks_of_a_part_that_is_there(size: str, tmp_path: Path) -> None:
    for figure in figures(Size(size), Collections(tmp_path)):
        names = {part.name for part in figure.parts}
        assert len(names) == len(figure.parts)
        assert all(set(claim.parts) <= names for claim in figure.claims)
        assert all(claim.beyond for claim in figure.claims)


def test_single_updates_of_mq2008_tell_their_queries(
    real_data: Callable[[str], Path],
) -> None:
    found = str(real_data("ltr/mq2008"))
    trial = try_updates(
        UpdateMembershipSettings(data=found, observations=80, n_shadows=400, train_rounds=10)
    )
    assert trial.successes["likelihood ratio"].auc.low > 0.8
