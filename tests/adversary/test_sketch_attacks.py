from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.adversary.audit import AuditSettings, audit
from cloister.adversary.guesses import (
    Guesses,
    advantage_bound,
    count_guesses,
    guess_by_score,
    joined,
    laplace_accuracy,
    noisy_accuracy,
    normal_accuracy,
)
from cloister.adversary.noisy_release_audit import NoisyReleaseAudit
from cloister.adversary.query_averaging import (
    median_accuracy,
    median_membership,
    repeated_query_membership,
)
from cloister.adversary.shared_noise_attack import (
    independent_noise_accuracy,
    independent_noise_membership,
    shared_noise_membership,
    sign_splitting,
)
from cloister.adversary.sketch_membership import (
    cell_bounds,
    document_accuracy,
    document_membership,
    first_tokens,
    is_listed,
    list_membership,
    selection_membership,
    with_tokens,
)
from cloister.adversary.sketch_targets import draw_targets, thinned
from cloister.adversary.term_identification import _as_good, identify_terms, link_repeats
from cloister.index.term_counts import TermCounts, count_terms
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.mechanisms import NoiseSource
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.privacy.releases.noisy_tables import NoiseFamily, NoisyTable
from cloister.sketch import noisy_release
from cloister.sketch.document_owner import DocumentOwner, exact_sketches
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.per_query_release import Asked, IndependentNoise, OwnerMedian
from cloister.sketch.query_budget import laplace_cost, median_cost, query_noise
from cloister.sketch.release_noise import NoisyReleaseSettings, planned_release
from cloister.sketch.rtk_lists import RtkLists, select_row

KEY, SHAPE = HashKey(bytes(32)), SketchShape(n_rows=30, n_columns=200)


def made_counts(n_documents: int = 120, length: int = 300) -> TermCounts:
    rng = np.random.default_rng(5)
    ranks = rng.zipf(1.3, (n_documents, length)) % 3000
    return count_terms(" ".join(f"t{i}" for i in row) for row in ranks)


COUNTS = made_counts()


# --- guesses


def test_the_interval_holds_the_true_chance_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    found = [count_guesses(rng.random(60) < 0.8) for _ in range(400)]
    assert np.mean([g.low <= 0.8 <= g.high for g in found]) > 0.93
    assert count_guesses(np.zeros(9, bool)).low == 0.0


def test_runs_join_to_one() -> None:
    parts = [count_guesses(np.arange(10) < k) for k in (3, 8)]
    assert joined(parts) == count_guesses(np.arange(20) < 11)
    assert joined(parts).advantage[0] == pytest.approx(0.1)


def test_the_bound_on_advantage_is_that_of_randomised_response() -> None:
    for epsilon in (0.1, 1.0, 5.0):
        keep = math.exp(epsilon) / (1 + math.exp(epsilon))
        assert advantage_bound(epsilon) == pytest.approx(2 * keep - 1)
    literal = (math.e - 1 + 2 * 0.1) / (math.e + 1)
    assert advantage_bound(1.0, 0.1) == pytest.approx(literal)
    assert advantage_bound(0.0, 0.3) == pytest.approx(0.3)


@pytest.mark.parametrize(("scale", "shift", "n_values"), [(0.7, 1, 3), (4.0, 2, 2), (2.5, 3, 2)])
def test_the_prediction_for_laplace_noise_is_the_sum_over_all_that_can_be_seen(
    scale: float, shift: int, n_values: int
) -> None:
    axis = np.arange(-80, 81 + shift)
    keep = math.exp(-1 / scale)
    chance = (1 - keep) / (1 + keep) * keep ** np.abs(axis)
    moved = (1 - keep) / (1 + keep) * keep ** np.abs(axis - shift)
    joint = [functools.reduce(np.multiply.outer, [p] * n_values) for p in (chance, moved)]
    literal = np.maximum(*joint).sum() / 2
    assert laplace_accuracy(scale, shift=shift, n_values=n_values) == pytest.approx(literal)


def test_the_prediction_for_normal_noise_is_that_of_many_draws() -> None:
    rng = np.random.default_rng(1)
    seen = rng.normal(0, 2.0, (200_000, 3)).sum(1)
    assert normal_accuracy(math.sqrt(3) / 2.0) == pytest.approx((seen < 1.5).mean(), abs=0.004)


def test_a_score_of_zero_is_a_coin() -> None:
    found = guess_by_score(np.zeros(4000), np.ones(4000, bool), rng=np.random.default_rng(1))
    assert 0.46 < found.accuracy < 0.54


# --- the printed noise


def test_targets_are_what_a_rebuilt_sketch_shows() -> None:
    rng = np.random.default_rng(2)
    targets = draw_targets(COUNTS, KEY, SHAPE, n_trials=5, n_true_rows=12, rng=rng)
    assert (targets.true_rows.sum(1) == 12).all()
    for i in range(5):
        chosen = np.arange(COUNTS.n_documents) == targets.documents[i]
        terms = np.full(COUNTS.n_documents, targets.terms[i])
        for counters, added in ((targets.counters, targets.added[i]), (targets.known, False)):
            rebuilt = with_tokens(COUNTS, terms, chosen & added)
            cells = exact_sketches(rebuilt, KEY, SHAPE)
            rows = np.arange(30)
            assert np.array_equal(
                cells[rows, targets.columns[i], targets.documents[i]], counters[i]
            )


@pytest.mark.parametrize("epsilon", [0.001, 0.5, 8.0])
@pytest.mark.parametrize("n_true_rows", [30, 15])
def test_one_answer_with_shared_noise_gives_a_token_away(epsilon: float, n_true_rows: int) -> None:
    rng = np.random.default_rng(3)
    targets = draw_targets(COUNTS, KEY, SHAPE, n_trials=1500, n_true_rows=n_true_rows, rng=rng)
    assert shared_noise_membership(targets, epsilon, rng=rng).low >= 0.99


def test_shared_noise_gives_a_token_away_also_where_the_document_is_not_known_exactly() -> None:
    rng = np.random.default_rng(4)
    targets = draw_targets(COUNTS, KEY, SHAPE, n_trials=1500, known_share=0.9, rng=rng)
    assert (targets.known != targets.counters - targets.shifts * targets.added[:, None]).any()
    assert shared_noise_membership(targets, 0.5, rng=rng).low >= 0.99


class HalfTheNoise(IndependentNoise):
    """Noise of half the width that it states."""

    def noised(self, asked: Asked, source: NoiseSource) -> np.ndarray:
        return IndependentNoise(noise=self.noise, width=self.width / 2).noised(asked, source)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("epsilon", "n_answers"), [(0.5, 16), (2.0, 1), (8.0, 1)])
def test_the_attack_on_independent_noise_is_as_good_as_the_noise_predicts(
    epsilon: float, n_answers: int, noise: str
) -> None:
    rng = np.random.default_rng(5)
    targets = draw_targets(COUNTS, KEY, SHAPE, n_trials=4000, rng=rng)
    policy = IndependentNoise.calibrated(epsilon, n_rows=30, noise=noise)
    predicted = independent_noise_accuracy(policy, n_rows=30, n_answers=n_answers)
    found = independent_noise_membership(targets, policy, n_answers=n_answers, rng=rng)
    assert found.agrees_with(predicted)
    if n_answers == 1:
        assert predicted <= 0.5 + advantage_bound(epsilon, 1e-6) / 2
    weak = HalfTheNoise(noise=noise, width=policy.width)
    caught = independent_noise_membership(targets, weak, n_answers=n_answers, rng=rng)
    assert caught.low > predicted
    assert not caught.agrees_with(predicted)


def test_splitting_by_sign_cancels_the_noise() -> None:
    rng = np.random.default_rng(6)
    found = sign_splitting(COUNTS, KEY, SHAPE, 0.05, n_trials=400, rng=rng)
    assert found.noise > 15
    assert found.printed > 10
    assert found.split < 1
    assert found.noise_error < 1


# --- averaging


@pytest.mark.parametrize("n_answers", [1, 10, 200])
def test_fresh_noise_averages_out_as_predicted(n_answers: int) -> None:
    rng = np.random.default_rng(7)
    targets = draw_targets(COUNTS, KEY, SHAPE, n_trials=2000, rng=rng)
    policy = OwnerMedian(epsilon=0.5)
    found = median_membership(targets, policy, n_answers=n_answers, rng=rng)
    assert found.agrees_with(median_accuracy(policy, n_answers=n_answers))
    assert median_cost(policy, 1e-6, n_answers=200) > 20


def ask_repeatedly(folder: Path, n_answers: int) -> tuple[Guesses, int]:
    with Ledger.open(folder / "ledger.db") as ledger:
        found = repeated_query_membership(
            COUNTS,
            KEY,
            SHAPE,
            OwnerMedian(epsilon=0.5),
            ledger,
            n_trials=2000,
            n_answers=n_answers,
            rng=np.random.default_rng(15),
        )
        return found, len(ledger.entries())


def test_an_owner_that_remembers_gives_nothing_more_away_and_pays_once(tmp_path: Path) -> None:
    found, n_paid = ask_repeatedly(tmp_path, 50)
    assert found.agrees_with(median_accuracy(OwnerMedian(epsilon=0.5)))
    assert n_paid == 1


def test_an_owner_that_forgot_its_answers_would_be_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DocumentOwner, "_recalled", lambda *_: None)
    found, n_paid = ask_repeatedly(tmp_path, 30)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        spent = ledger.cost("owner", delta=1e-6, level="token", simulated=True).epsilon
    assert spent == pytest.approx(median_cost(OwnerMedian(epsilon=0.5), 1e-6, n_answers=30))
    assert found.agrees_with(median_accuracy(OwnerMedian(epsilon=0.5), n_answers=30))
    assert found.low > median_accuracy(OwnerMedian(epsilon=0.5))
    assert n_paid == 30


def test_many_laplace_answers_cost_at_most_their_sum() -> None:
    assert laplace_cost(0.5, 1e-6, n_rows=30, n_answers=1) == pytest.approx(0.5, rel=1e-3)
    assert laplace_cost(0.5, 1e-6, n_rows=30, n_answers=2400) <= 1200


def test_noise_drawn_once_does_not_grow_with_the_number_of_answers() -> None:
    few, many = (query_noise(4.0, 1e-6, n_rows=30, n_answers=n) for n in (1, 100))
    assert many.once == few.once == few.gaussian
    assert many.gaussian == pytest.approx(10 * few.gaussian, rel=0.1)
    assert many.laplace == pytest.approx(30 * many.median)


# --- terms


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_candidates_are_counted_as_written(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = rng.integers(3, size=(20, 5)).astype(np.uint32)
    queries = rng.integers(3, size=(4, 5)).astype(np.uint32)
    truth = rng.integers(20, size=4)
    agreeing = (columns[None] == queries[:, None]).sum(2)
    literal = (agreeing >= agreeing[np.arange(4), truth][:, None]).sum(1)
    assert np.array_equal(_as_good(columns, queries, truth), literal)


def test_an_owner_with_the_key_finds_the_term_from_few_true_rows() -> None:
    hashed = KEY.hash_terms([f"term{i}" for i in range(20_000)], SHAPE)
    rng = np.random.default_rng(8)
    assert identify_terms(hashed, 1, n_trials=60, rng=rng).found.accuracy < 0.1
    assert identify_terms(hashed, 10, n_trials=60, rng=rng).found.accuracy == 1.0


def test_a_server_links_repeats_better_the_more_rows_are_true() -> None:
    hashed = KEY.hash_terms([f"term{i}" for i in range(5000)], SHAPE)
    rng = np.random.default_rng(9)
    found = [link_repeats(hashed, n, n_trials=2000, rng=rng).accuracy for n in (1, 5, 15)]
    assert found[0] < 0.6 < found[1] < found[2]
    assert found[2] > 0.98


# --- the one-shot release


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
def test_the_best_attack_on_a_release_stays_below_the_ledger(epsilon: float) -> None:
    subject = NoisyReleaseAudit(epsilon=epsilon)
    assert subject.releases()[0].tables[0].family == "discrete-laplace"
    found = audit(subject, AuditSettings(n_trials=40_000))
    assert 0 < found.lower_bound <= found.ledger_epsilon <= epsilon


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("n_rounds", [1, 3])
@pytest.mark.parametrize(("n_rows", "family"), [(1, "discrete-laplace"), (2, "narrowest"),
                                                (2, "discrete-gaussian")])  # fmt: skip
def test_the_best_attack_on_a_release_is_as_good_as_the_noise_predicts(
    epsilon: float, n_rounds: int, n_rows: int, family: Literal["narrowest"]
) -> None:
    rng = np.random.default_rng(16)
    subject = NoisyReleaseAudit(epsilon=epsilon, n_rounds=n_rounds, n_rows=n_rows, family=family)
    scores = np.concatenate([subject.scores(input_, 10_000, rng=rng) for input_ in (0, 1)])
    found = guess_by_score(scores, np.arange(20_000) >= 10_000, rng=rng)
    assert found.agrees_with(subject.predicted_accuracy)
    half = NoisyReleaseAudit(epsilon=epsilon / 2, n_rows=n_rows, family=family)
    assert not found.agrees_with(half.predicted_accuracy)


def test_a_release_with_a_quarter_of_its_noise_is_caught() -> None:
    class Weak(NoisyReleaseAudit):
        def scores(self, neighbour: int, n_trials: int, *, rng: np.random.Generator) -> np.ndarray:
            loud = NoisyReleaseAudit(epsilon=4 * self.epsilon)
            return loud.scores(neighbour, n_trials, rng=rng)

    found = audit(Weak(epsilon=1.0), AuditSettings(n_trials=40_000))
    assert found.refutes_ledger


def test_bounds_of_a_cell_hold_its_true_value() -> None:
    rng = np.random.default_rng(10)
    cells = rng.integers(-6, 7, (3, 9)).astype(np.int16)  # columns x documents
    lists = RtkLists.empty(n_cells=3, cell_size=2)
    select_row(cells, 2, lists, 0)
    columns = rng.integers(3, size=9)
    low, high = cell_bounds(lists, columns)
    truth = cells[columns, np.arange(9)]
    assert ((low <= truth) & (truth <= high)).all()
    listed = (lists.ids[columns] == np.arange(9)[:, None, None]).any((1, 2))
    assert np.array_equal(low[listed], truth[listed])
    assert np.array_equal(high[listed], truth[listed])


def from_lists(epsilon: float, cell_size: int, n_releases: int, n_rows: int = 1) -> Guesses:
    rng = np.random.default_rng(11)
    chosen = NoisyReleaseSettings(
        n_rows=n_rows, n_columns=200, cell_size=cell_size, epsilon=epsilon, statistics_columns=16
    )
    return joined(
        [
            list_membership(COUNTS, KEY, chosen, words=SeededWords(seed), rng=rng)
            for seed in range(n_releases)
        ]
    )


def predicted_from_cells(epsilon: float, n_rows: int = 1) -> float:
    chosen = NoisyReleaseSettings(n_rows=n_rows, epsilon=epsilon)
    return noisy_accuracy(planned_release(chosen, n_documents=COUNTS.n_documents).tables[:1])


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("n_rows", [1, 20])  # Laplace noise, and normal noise
def test_lists_of_all_documents_tell_what_the_noise_of_their_cells_predicts(
    epsilon: float, n_rows: int
) -> None:
    found = from_lists(epsilon, COUNTS.n_documents, 10, n_rows)
    assert found.agrees_with(predicted_from_cells(epsilon, n_rows))


def test_short_lists_tell_something_and_less_than_their_cells() -> None:
    found = from_lists(8.0, 20, 10)
    assert found.low > 0.5
    assert found.high < predicted_from_cells(8.0)


def test_lists_with_half_the_noise_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = noisy_release.noise_table
    monkeypatch.setattr(noisy_release, "noise_table", lambda kind, sigma: drawn(kind, sigma / 2))
    found = from_lists(2.0, COUNTS.n_documents, 10)
    assert found.low > predicted_from_cells(2.0)
    assert not found.agrees_with(predicted_from_cells(2.0))


def test_the_attack_on_lists_works_where_there_is_next_to_no_noise() -> None:
    assert from_lists(40.0, COUNTS.n_documents, 2).accuracy > 0.9


# --- exact selection, and whole documents


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_who_is_listed_is_who_the_selection_takes(seed: int, cell_size: int) -> None:
    cell = np.random.default_rng(seed).integers(-2, 3, 6)
    lists = RtkLists.empty(n_cells=1, cell_size=cell_size)
    select_row(cell[None].astype(np.int16), cell_size, lists, 0)
    taken = set(lists.ids[0, 0].tolist())
    listed = {d for d in range(6) if is_listed(cell, d, cell[d], cell_size)}
    assert listed == taken


def test_ids_of_exact_lists_give_a_token_away_wherever_they_change() -> None:
    rng = np.random.default_rng(12)
    found = selection_membership(COUNTS, KEY, SHAPE, 20, n_trials=150, rng=rng)
    assert found.on_exposed is not None
    assert found.on_exposed.accuracy == 1.0
    assert found.on_all.accuracy > found.exposed.accuracy / 2 + 0.4


@pytest.mark.parametrize("family", ["discrete-gaussian", "discrete-laplace"])
def test_a_longer_text_shows_through_noise_for_tokens(family: NoiseFamily) -> None:
    rng = np.random.default_rng(13)
    shape = SketchShape(n_rows=2, n_columns=500)
    for n, width in ((1, 1.5), (20, 3.0), (200, 6.2)):
        cut = (first_tokens(COUNTS, n, rng), KEY, shape)
        noise = NoisyTable(name="cells", family=family, width=width, n_moved=2)
        found = joined(
            [
                document_membership(*cut, noise, words=SeededWords(seed), rng=rng)
                for seed in range(10)
            ]
        )
        assert found.agrees_with(document_accuracy(*cut, noise))
        narrow = noise.model_copy(update={"width": width / 2})
        assert not found.agrees_with(document_accuracy(*cut, narrow)) or n == 200
    assert found.accuracy > 0.95


def test_documents_are_thinned_and_cut_as_asked() -> None:
    rng = np.random.default_rng(14)
    half = thinned(COUNTS, 0.5, rng)
    assert half.lengths.mean() == pytest.approx(COUNTS.lengths.mean() / 2, rel=0.05)
    assert (first_tokens(COUNTS, 7, rng).lengths == 7).all()
    more = with_tokens(COUNTS, np.zeros(120, np.int64), np.arange(120) < 5)
    assert np.array_equal(more.lengths - COUNTS.lengths, (np.arange(120) < 5).astype(float))
