"""Click inference: attacks against literal formulas, exact recovery, and what baselines see."""

from __future__ import annotations

import itertools
import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cloister.adversary.click_best_linear import guess_prior, prior_and_update
from cloister.adversary.click_chances import (
    PageBeliefs,
    all_patterns,
    page_beliefs,
    pattern_chances,
)
from cloister.adversary.click_clipped_squares import clipped_least_squares
from cloister.adversary.click_grades import fit_grades
from cloister.adversary.click_inference import (
    Guess,
    higher_distance_count,
    higher_probability,
    higher_score,
    least_squares,
)
from cloister.adversary.click_least_absolute import least_absolute_deviations
from cloister.adversary.click_pages import (
    clicks_of_others,
    score_gradients,
    search,
)
from cloister.adversary.click_protections import seen_in_sums, seen_under_paper_noise
from cloister.adversary.click_sparse import sparse
from cloister.adversary.inferred_clicks import (
    advantage,
    area_under_curve,
    individual_advantage,
    success,
)
from cloister.core.errors import DataError
from cloister.data.clicks import StopRule, click_model, click_probabilities
from cloister.data.ranking_data import RankingData
from cloister.federate.paper_laplace import PaperLaplaceNoise
from cloister.rank.pdgd import PdgdSettings, click_gradient
from cloister.rank.ranker import Ranker, RankerSettings

Floats = NDArray[np.float64]


def made_data(rng: np.random.Generator, n_queries: int = 6, n_features: int = 20) -> RankingData:
    """Return random documents, 15 a query, with a few relevant ones."""
    n_rows = 15 * n_queries
    return RankingData(
        rng.random((n_rows, n_features)).astype(np.float32),
        rng.choice(3, size=n_rows, p=[0.5, 0.3, 0.2]).astype(np.int8),
        np.arange(0, n_rows + 1, 15),
    )


def made_ranker(rng: np.random.Generator, n_features: int = 20, hidden: int = 0) -> Ranker:
    """Return a ranker that is neither zero nor certain."""
    chosen = RankerSettings(n_features=n_features)
    if hidden:
        chosen = RankerSettings(kind="mlp", n_features=n_features, hidden=hidden)
    return Ranker(chosen, rng.normal(0, 0.5, chosen.n_parameters).astype(np.float32))


@given(st.integers(0, 2**32))
@settings(max_examples=25)
def test_score_heuristics_are_the_reports_formulas(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before, after = rng.normal(size=(2, 3, 10))
    for page in range(3):
        f, g = before[page], after[page]
        chance = [math.exp(g[d]) / sum(map(math.exp, g)) for d in range(10)]
        was = [math.exp(f[d]) / sum(map(math.exp, f)) for d in range(10)]
        for d in range(10):
            count = sum(g[d] - g[e] > f[d] - f[e] for e in range(10) if e != d)
            assert higher_score(before, after).clicked[page, d] == (g[d] > f[d])
            assert higher_probability(before, after).clicked[page, d] == (chance[d] > was[d])
            found = higher_distance_count(before, after)
            assert found.values[page, d] == count
            assert found.clicked[page, d] == (count > 5)


def test_least_squares_are_numpys_page_by_page() -> None:
    rng = np.random.default_rng(1)
    for n_documents in (10, 40, 200):  # fewer than parameters, more, and many more
        rows, updates = rng.normal(size=(4, n_documents, 20)), rng.normal(size=(4, 20))
        found = least_squares(rows, updates)
        for i in range(4):
            slow = np.linalg.lstsq(rows[i].T, updates[i], rcond=None)[0]
            np.testing.assert_allclose(found.values[i], slow, atol=1e-6)
            assert (found.clicked[i] == (slow > 0)).all()


@given(st.integers(0, 2**32), st.sampled_from(["whole_page", "to_last_click"]))
@settings(max_examples=25)
def test_one_update_without_noise_gives_all_clicks_away(
    seed: int, negatives: Literal["whole_page", "to_last_click"]
) -> None:
    rng = np.random.default_rng(seed)
    data, ranker = made_data(rng), made_ranker(rng)
    found = search(
        ranker,
        data,
        np.arange(6)[:, None],
        click_model("informational", 3),
        settings=PdgdSettings(negatives=negatives),
        seed=seed,
    ).with_clicks()
    assume(found.n_clients > 0)
    rows = data.features[found.rows(data)[:, 0]].astype(np.float64)
    parameters = ranker.parameters.astype(np.float64)
    guesses = [
        least_squares(rows, found.updates, parameters),
        least_absolute_deviations(rows, found.updates, parameters),
    ]
    for guess in guesses:
        assert (guess.clicked == found.clicked[:, 0]).all()


def test_updates_are_pdgds_own_and_move_page_by_page() -> None:
    rng = np.random.default_rng(3)
    data, ranker = made_data(rng), made_ranker(rng)
    queries = np.array([[0, 1, 2], [3, 3, 3]])
    chosen = PdgdSettings(learning_rate=0.5)
    found = search(ranker, data, queries, click_model("perfect", 3), settings=chosen, seed=5)
    for client in range(2):
        local = ranker
        for step, query in enumerate(queries[client]):
            features = data.features[data.rows(query)]
            page = np.argsort(-local.score(features), kind="stable")[:10]
            assert (found.pages[client, step] == page).all()
            gradient = click_gradient(local, features, page, found.clicked[client, step], chosen)
            local = local.with_parameters(local.parameters + np.float32(0.5) * gradient)
        moved = local.parameters - ranker.parameters
        np.testing.assert_array_equal(found.updates[client], moved.astype(np.float64))


def test_a_query_without_a_full_page_is_refused() -> None:
    rng = np.random.default_rng(1)
    data, ranker = made_data(rng), made_ranker(rng)
    with pytest.raises(DataError, match="fewer than 16"):
        search(ranker, data, np.array([[0]]), click_model("perfect", 3), page_length=16, seed=1)


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_score_gradients_of_a_neural_ranker_are_finite_differences(
    activation: Literal["relu", "sigmoid"],
) -> None:
    rng = np.random.default_rng(2)
    chosen = RankerSettings(kind="mlp", n_features=4, hidden=3, activation=activation)
    ranker = Ranker(chosen, rng.normal(size=chosen.n_parameters).astype(np.float32))
    features = rng.random((5, 4)).astype(np.float32)
    gradients = score_gradients(ranker, features)
    step = np.float32(1e-2)
    for k in range(chosen.n_parameters):
        moved = [ranker.parameters.copy(), ranker.parameters.copy()]
        moved[0][k] += step
        moved[1][k] -= step
        high, low = (ranker.with_parameters(own).score(features) for own in moved)
        np.testing.assert_allclose(gradients[:, k], (high - low) / (2 * step), atol=2e-3)


def test_clicks_on_a_neural_rankers_page_are_found_from_score_gradients() -> None:
    rng = np.random.default_rng(4)
    data, ranker = made_data(rng), made_ranker(rng, hidden=8)
    queries = np.arange(6)[:, None]
    model = click_model("informational", 3)
    found = search(ranker, data, queries, model, seed=2).with_clicks()
    rows = score_gradients(ranker, data.features[found.rows(data)[:, 0]])
    guess = least_squares(rows, found.updates, ranker.parameters.astype(np.float64))
    assert found.n_clients > 2
    assert (guess.clicked == found.clicked[:, 0]).all()


def test_clipping_alone_hides_nothing_from_who_knows_of_it() -> None:
    rng = np.random.default_rng(5)
    rows, ranker = rng.normal(size=(8, 10, 46)), rng.normal(size=46)
    weights = rng.normal(size=(8, 10))
    weights -= weights.mean(axis=1, keepdims=True)
    client = ranker + np.einsum("od,odp->op", weights, rows)
    seen = 0.3 * client - ranker
    guess = clipped_least_squares(rows, seen, ranker)
    np.testing.assert_allclose(guess.values, 0.3 * weights, atol=1e-6)
    assert (guess.clicked == (weights > 0)).all()


@given(st.integers(0, 2**32), st.integers(0, 6))
@settings(max_examples=25)
def test_noise_in_few_coordinates_does_not_stop_least_absolute_deviations(
    seed: int, n_struck: int
) -> None:
    rng = np.random.default_rng(seed)
    rows, weights = rng.normal(size=(1, 10, 46)), rng.normal(size=(1, 10))
    weights -= weights.mean(axis=1, keepdims=True)
    seen = np.einsum("od,odp->op", weights, rows)
    seen[0, rng.choice(46, n_struck, replace=False)] += 10 * rng.normal(size=n_struck)
    guess = least_absolute_deviations(rows, seen, np.zeros(46))
    np.testing.assert_allclose(guess.values, weights, atol=1e-5)


def test_the_papers_noise_clips_weights_and_strikes_few_coordinates() -> None:
    rng = np.random.default_rng(6)
    parameters, updates = np.full(100, 0.5), rng.normal(0, 0.01, (200, 100))
    noise = PaperLaplaceNoise(epsilon=1.2, sensitivity=3, clip="whole")
    seen = seen_under_paper_noise(updates, parameters, noise, n_clients=1000, rng=rng)
    whole = parameters + updates
    clipped = whole * 3 / np.linalg.norm(whole, axis=1, keepdims=True)
    share = seen.updates + parameters - clipped
    assert (np.abs(share) < 1e-6).mean() > 0.95
    # The kurtosis is huge: 20,000 numbers tell the standard deviation to about a third.
    assert share.std() == pytest.approx(seen.sigma, rel=0.5)


@given(st.integers(0, 2**32))
@settings(max_examples=20)
def test_sums_add_up_clipped_updates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    updates = rng.normal(size=(7, 4))
    seen = seen_in_sums(updates, 3, clip_norm=1.0)
    assert seen.members.tolist() == [[0, 1, 2], [3, 4, 5]]
    slow = [
        sum(updates[i] * min(1.0, 1.0 / np.linalg.norm(updates[i])) for i in members)
        for members in seen.members
    ]
    np.testing.assert_allclose(seen.updates, slow)
    noisy = seen_in_sums(updates, 3, sigma=2.0, rng=np.random.default_rng(1))
    assert not np.allclose(noisy.updates, seen_in_sums(updates, 3).updates)
    with pytest.raises(DataError, match="do not make a sum"):
        seen_in_sums(updates, 8)


@pytest.mark.parametrize("name", ["perfect", "navigational", "informational", "pbm-1"])
@pytest.mark.parametrize("stop", ["after_click", "at_each_document"])
def test_pattern_chances_add_up_and_agree_with_the_click_models_own(
    name: str, stop: StopRule
) -> None:
    model = click_model(name, 3, stop=stop)
    patterns, labels = all_patterns(4), np.array([[2, 0, 1, 2]], np.int8)
    chances = pattern_chances(patterns, np.eye(3)[labels[0]], model.table(4))
    assert chances.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(chances @ patterns, click_probabilities(model, labels)[0])


def test_beliefs_are_the_literal_moments_over_grades_and_patterns() -> None:
    rng = np.random.default_rng(7)
    scores, page = rng.normal(size=6).astype(np.float32), np.array([4, 1, 5])
    grades = rng.dirichlet(np.ones(3), size=3)
    model, chosen = click_model("navigational", 3), PdgdSettings()
    found = page_beliefs(scores, page, grades, model, chosen)
    eye = Ranker(RankerSettings(n_features=6), scores)  # document i has feature i alone
    total, clicked, weight = 0.0, np.zeros(3), np.zeros(3)
    for pattern in itertools.product([False, True], repeat=3):
        if all(pattern) or not any(pattern):
            continue
        chance = sum(
            math.prod(grades[rank, grade] for rank, grade in enumerate(labels))
            * pattern_chances(np.array([pattern]), np.eye(3)[list(labels)], model.table(3))[0]
            for labels in itertools.product(range(3), repeat=3)
        )
        gradient = click_gradient(eye, np.eye(6), page, np.array(pattern), chosen)
        total += chance
        clicked += chance * np.array(pattern)
        weight += chance * 0.1 * gradient[page]
    np.testing.assert_allclose(found.clicked, clicked / total)
    np.testing.assert_allclose(found.weight, weight / total, rtol=1e-5)
    assert found.covariance.sum() == pytest.approx(0.0, abs=1e-9)  # weights add up to 0


def test_beliefs_without_the_order_are_those_with_it_where_one_order_is_sure() -> None:
    scores, page = np.array([40.0, 20.0, 0.0], np.float32), np.array([0, 1, 2])
    grades = np.array([[0.2, 0.8], [0.5, 0.5], [0.7, 0.3]])
    model, chosen = click_model("navigational", 2), PdgdSettings()
    exact = page_beliefs(scores, page, grades, model, chosen)
    drawn = page_beliefs(scores, page, grades, model, chosen, rng=np.random.default_rng(1), shown=3)
    np.testing.assert_allclose(drawn.clicked, exact.clicked, atol=0.06)


def test_grades_rise_with_scores_and_their_chances_add_up() -> None:
    rng = np.random.default_rng(8)
    scores = rng.normal(size=(300, 10))
    labels = (scores + rng.normal(size=scores.shape) > 1).astype(np.int8) * 2
    chances = fit_grades(scores, labels, 3).chances(scores)
    np.testing.assert_allclose(chances.sum(axis=2), 1.0)
    assert (chances >= 0).all()
    relevant = chances[..., 2]
    assert relevant.mean() == pytest.approx((labels == 2).mean(), abs=0.02)
    assert relevant[scores > 1].mean() > 3 * relevant[scores < 0].mean()


def test_the_best_linear_estimate_is_the_conditional_mean_where_all_is_normal() -> None:
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(2, 3, 4))
    joint = [a @ a.T for a in rng.normal(size=(2, 6, 6))]  # clicks and weights of each page
    beliefs = PageBeliefs(
        rng.random((2, 3)),
        rng.normal(size=(2, 3)),
        np.stack([j[3:, 3:] for j in joint]),
        np.stack([j[:3, 3:] for j in joint]),
    )
    update = rng.normal(size=4)
    found = prior_and_update(beliefs, rows, update, sigma=0.7).values.reshape(-1)
    all_rows, zeros = rows.reshape(6, 4), np.zeros((3, 3))
    cross = np.block([[joint[0][:3, 3:], zeros], [zeros, joint[1][:3, 3:]]]) @ all_rows
    weights = np.block([[joint[0][3:, 3:], zeros], [zeros, joint[1][3:, 3:]]])
    spread = all_rows.T @ weights @ all_rows + 0.49 * np.eye(4)
    surprise = update - beliefs.weight.reshape(-1) @ all_rows
    slow = beliefs.clicked.reshape(-1) + cross @ np.linalg.inv(spread) @ surprise
    np.testing.assert_allclose(found, slow, rtol=1e-6)


def test_with_endless_noise_the_update_changes_no_belief() -> None:
    rng = np.random.default_rng(10)
    scores, page = rng.normal(size=12).astype(np.float32), np.arange(10)
    grades = rng.dirichlet(np.ones(3), size=10)
    one = page_beliefs(scores, page, grades, click_model("informational", 3), PdgdSettings())
    beliefs = PageBeliefs(*(part[None] for part in one))
    rows = rng.normal(size=(1, 10, 5))
    guess = prior_and_update(beliefs, rows, 1e3 * rng.normal(size=5), sigma=1e9)
    np.testing.assert_allclose(guess.values, guess_prior(beliefs).values, atol=1e-9)


def test_few_weights_among_many_candidates_are_found() -> None:
    rng = np.random.default_rng(11)
    rows, weights = rng.normal(size=(100, 46)), np.zeros(100)
    weights[:10] = [0.5, 0.4, -0.1, -0.1, -0.2, -0.1, -0.1, -0.1, -0.1, -0.1]
    guess = sparse(rows, weights @ rows)
    assert np.flatnonzero(guess.clicked[0]).tolist() == [0, 1]


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=40))
def test_the_area_is_the_share_of_pairs_in_order(documents: list[tuple[int, bool]]) -> None:
    values = np.array([value for value, _ in documents], np.float64)
    clicked = np.array([is_click for _, is_click in documents])
    assume(clicked.any() and not clicked.all())
    pairs = [
        1.0 if up > down else 0.5 if up == down else 0.0
        for up in values[clicked]
        for down in values[~clicked]
    ]
    assert area_under_curve(values, clicked) == pytest.approx(sum(pairs) / len(pairs))


def test_measures_are_the_means_over_pages() -> None:
    rng = np.random.default_rng(12)
    clicked = rng.random((5, 3, 10)) < 0.3
    values = rng.random(clicked.shape)
    guess = Guess(values, values > 0.6)
    found = success(guess, clicked)
    pages = [(guess.clicked[i, j], clicked[i, j]) for i in range(5) for j in range(3)]
    assert found.accuracy.value == pytest.approx(np.mean([(g == c).mean() for g, c in pages]))
    precision = np.mean([(g & c).sum() / g.sum() for g, c in pages if g.any()])
    recall = np.mean([(g & c).sum() / c.sum() for g, c in pages if c.any()])
    assert found.precision.value == pytest.approx(precision)
    assert found.recall.value == pytest.approx(recall)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(13)
    held = {"auc": 0, "accuracy": 0}
    for _ in range(300):
        level = rng.normal(size=(30, 1, 1))  # documents of an observation go together
        clicked = rng.random((30, 2, 10)) < 0.3
        noise = rng.normal(size=(2, 30, 2, 10))
        one, other = (Guess(part + level + clicked, part > 1) for part in noise)
        for name, found in advantage(one, other, clicked).items():
            assert found.low is not None
            assert found.high is not None
            held[name] += found.low <= 0 <= found.high
    assert all(0.90 <= count / 300 <= 0.99 for count in held.values())


def test_what_everybody_clicks_is_no_advantage_over_the_one_client() -> None:
    rng = np.random.default_rng(14)
    model = click_model("informational", 3)
    labels = rng.integers(0, 3, (4000, 10)).astype(np.int8)
    nobody = np.zeros(labels.shape, np.bool_)
    clicked, others = (
        clicks_of_others(model, labels, nobody, seed=seed).reshape(100, 40, 10) for seed in (1, 2)
    )
    relevance = labels.reshape(clicked.shape).astype(np.float64)
    public = Guess(relevance, relevance > 1)
    blind = Guess(np.zeros(clicked.shape), np.zeros(clicked.shape, np.bool_))
    own = Guess(clicked.astype(np.float64), clicked)
    assert advantage(public, blind, clicked)["auc"].value > 0.05
    public_part = individual_advantage(public, blind, clicked, others)
    assert public_part.low is not None
    assert public_part.high is not None
    assert public_part.low < 0 < public_part.high < 0.02
    assert individual_advantage(own, blind, clicked, others).value > 0.3


@pytest.mark.parametrize("wrong", ["values", "clicked"])
def test_a_guess_of_another_shape_than_the_clicks_is_refused(wrong: str) -> None:
    truth = np.zeros((2, 1, 3), np.bool_)
    guess = Guess(np.zeros(truth.shape), truth)._replace(**{wrong: np.zeros((2, 1, 4), np.bool_)})
    with pytest.raises(DataError, match="observations x pages"):
        success(guess, truth)


def test_places_without_a_document_count_for_nothing() -> None:
    clicked = np.array([[[True, False, False]]])
    values = np.array([[[0.9, 0.1, np.nan]]])
    found = success(Guess(values, np.array([[[True, False, True]]]) & ~np.isnan(values)), clicked)
    assert (found.accuracy.value, found.auc.value) == (1.0, 1.0)
