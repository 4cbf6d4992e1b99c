"""Term-frequency recovery: near certain from plain kernel values, bounded from levels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from cloister.adversary.frequency_bounds import frequency_bounds
from cloister.adversary.frequency_readers import (
    AnchoredColumns,
    FrequencyForestSettings,
    FrequencyPosterior,
    estimated_posterior,
    fit_forest,
    frequency_table,
    kernel_at_09,
    kernel_sum,
)
from cloister.adversary.frequency_views import (
    VIEWS,
    FrequencyView,
    estimated_lengths,
    view_columns,
)
from cloister.adversary.kernel_scene import (
    NO_VALUES,
    KernelDesign,
    KernelScene,
    KernelSceneSettings,
    c_knrm_star_scene,
    knrm_scene,
)
from cloister.adversary.term_frequency_recovery import (
    RecoverySettings,
    TermFrequencyRecovery,
    recover_term_frequencies,
)
from cloister.cloud.adaptive_clustering import AdaptiveThresholds
from cloister.cloud.fixed_threshold_clustering import FixedThreshold
from cloister.cloud.kernel_obfuscation import TermFrequencyGuess, bayes_success
from cloister.core.errors import DataError
from cloister.data.text_layout import open_text_collection
from cloister.index.analysis import TextAnalysis
from cloister.rank.c_knrm_star import CKnrmStar, CKnrmStarSettings, DocumentKernels
from cloister.rank.embedding import Embedding
from cloister.rank.knrm import Knrm
from cloister.rank.neural_ranker import NeuralRanker
from cloister.rank.proximity_features import TermSequences

PLAIN, SLIDES = KernelDesign(False, None), KernelDesign(False, 10)
MASKED, OURS = KernelDesign(True, None), KernelDesign(True, 10)
QUICK = FrequencyForestSettings(n_rounds=10, n_leaves=15, n_rows=4000, min_class_rows=50)


def made_texts(n_documents: int = 80, n_words: int = 300, length: int = 60) -> TermSequences:
    """Documents that draw words by Zipf's law, each with a few words that it repeats."""
    rng = np.random.default_rng(3)
    chances = 1 / (10 + np.arange(n_words))
    chances /= chances.sum()
    documents = []
    for _ in range(n_documents):
        words = rng.choice(n_words, size=int(rng.integers(length // 2, 2 * length)), p=chances)
        own = np.repeat(rng.choice(n_words, size=6), rng.integers(1, 5, size=6))
        documents.append([f"w{word}" for word in rng.permutation(np.concatenate([words, own]))])
    return TermSequences.of(documents)


def made_embedding(texts: TermSequences, *, size: int = 20, share: float = 0.9) -> Embedding:
    """Vectors of most words, those of neighbouring numbers alike."""
    rng = np.random.default_rng(4)
    words = sorted(texts.vocabulary)[: int(share * len(texts.vocabulary))]
    centres = rng.normal(size=(len(words) // 4 + 1, size))
    vectors = [centres[i // 4] + rng.normal(size=size) for i in range(len(words))]
    return Embedding(tuple(words), np.array(vectors, np.float32))


@pytest.fixture(scope="module")
def texts() -> TermSequences:
    return made_texts()


@pytest.fixture(scope="module")
def scene(texts: TermSequences) -> KernelScene:
    return knrm_scene(texts, made_embedding(texts))


@pytest.fixture(scope="module")
def recoveries(scene: KernelScene) -> list[TermFrequencyRecovery]:
    settings = RecoverySettings(designs=(NO_VALUES, PLAIN, SLIDES, MASKED, OURS), forest=QUICK)
    return recover_term_frequencies(scene, settings)


def found(
    recoveries: list[TermFrequencyRecovery], design: KernelDesign, view: str, reader: str
) -> TermFrequencyRecovery:
    chosen = [r for r in recoveries if (r.design, r.view, r.reader) == (design, view, reader)]
    assert len(chosen) == 1
    return chosen[0]


# The scene


def test_a_scene_has_every_word_of_a_closure_with_every_document_of_it(
    texts: TermSequences, scene: KernelScene
) -> None:
    for row in range(0, scene.n_rows, 97):
        closure, document = scene.closures[row], scene.documents[row]
        here = (scene.closures == closure) & (scene.documents == document)
        assert sorted(scene.words[here]) == sorted(set(scene.words[scene.closures == closure]))
        assert scene.frequencies[here].max() > 0  # else the map would not hold the pair


def test_frequencies_are_those_of_the_documents(texts: TermSequences, scene: KernelScene) -> None:
    for row in range(0, scene.n_rows, 53):
        document = texts.document(int(scene.documents[row]))
        word = texts.vocabulary[int(scene.words[row])]
        assert scene.frequencies[row] == document.count(word)


def test_lengths_count_words_with_a_vector(texts: TermSequences, scene: KernelScene) -> None:
    known = made_embedding(texts).positions
    for row in range(0, scene.n_rows, 501):
        document = texts.document(int(scene.documents[row]))
        assert scene.lengths[row] == sum(word in known for word in document)


def test_every_occurrence_in_the_documents_is_a_row(
    texts: TermSequences, scene: KernelScene
) -> None:
    assert scene.frequencies.sum() == len(texts.terms)  # all documents are taken


def test_kernel_values_are_the_literal_sums(texts: TermSequences, scene: KernelScene) -> None:
    embedding = made_embedding(texts)
    means = [-0.9, -0.7, -0.5, -0.3, -0.1, 0.1, 0.3, 0.5, 0.7, 0.9]
    for row in range(0, scene.n_rows, 2003):
        key = texts.vocabulary[int(scene.words[row])]
        masked, unmasked = np.zeros(10), np.zeros(10)
        for word in texts.document(int(scene.documents[row])):
            rows = embedding.rows([key, word])
            if word != key and rows.min() < 0:
                continue
            cosine = 1.0 if word == key else float(np.prod(embedding.vectors[rows], axis=0).sum())
            values = np.array([math.exp(-((cosine - mean) ** 2) / 0.02) for mean in means])
            unmasked += values
            masked += values if word != key else 0.0
        np.testing.assert_allclose(scene.masked[row], masked, atol=1e-3)
        np.testing.assert_allclose(scene.unmasked[row], unmasked, atol=1e-3)


def test_known_documents_are_whole_and_half_of_them(scene: KernelScene) -> None:
    known = set(scene.documents[scene.known])
    assert not known & set(scene.documents[~scene.known])
    assert len(known) == 40


def test_a_seed_draws_the_documents(texts: TermSequences) -> None:
    embedding = made_embedding(texts)
    draws = [
        set(knrm_scene(texts, embedding, KernelSceneSettings(n_documents=9, seed=s)).documents)
        for s in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]
    assert len(draws[0]) == 9


def test_closures_by_a_fixed_threshold_can_be_taken(texts: TermSequences) -> None:
    embedding = made_embedding(texts)
    fixed = KernelSceneSettings(n_documents=10, closures=FixedThreshold(threshold=0.99))
    wide = KernelSceneSettings(n_documents=10, closures=AdaptiveThresholds(min_size=20))
    assert knrm_scene(texts, embedding, fixed).n_rows < knrm_scene(texts, embedding, wide).n_rows


def test_a_c_knrm_star_scene_has_the_kernels_of_document_kernels(texts: TermSequences) -> None:
    ranker = NeuralRanker.initial(
        CKnrmStar(CKnrmStarSettings(n_filters=8)), made_embedding(texts), seed=1
    )
    scene = c_knrm_star_scene(texts, ranker, KernelSceneSettings(n_documents=8))
    assert scene.masked.shape[1] == 20
    numbers = np.unique(scene.documents)
    kernels = DocumentKernels.of(ranker, [texts.document(int(number)) for number in numbers])
    assert kernels.settings.mask_exact
    for row in range(0, scene.n_rows, 211):
        word = texts.vocabulary[int(scene.words[row])]
        at = int(np.searchsorted(numbers, scene.documents[row]))
        expected = kernels.values((word,))[at, :, :10].reshape(-1)
        np.testing.assert_allclose(scene.masked[row], expected, atol=2e-3)
    assert (scene.unmasked.sum(axis=1) >= scene.masked.sum(axis=1) - 1e-3).all()


def test_another_model_has_no_such_scene(texts: TermSequences) -> None:
    ranker = NeuralRanker.initial(Knrm(), made_embedding(texts))
    with pytest.raises(DataError, match="not a C-KNRM"):
        c_knrm_star_scene(texts, ranker)


def test_columns_that_do_not_fit_are_refused(scene: KernelScene) -> None:
    with pytest.raises(DataError, match="do not fit"):
        replace(scene, words=scene.words[1:])
    with pytest.raises(DataError, match="documents to learn from"):
        replace(scene, known=np.ones(scene.n_rows, bool))


# Readers


@given(
    npst.arrays(np.int64, st.integers(1, 30), elements=st.integers(0, 50)),
    st.floats(0, 0.55),
)
def test_the_kernel_at_09_is_read_exactly_where_soft_matches_are_few(
    frequencies: NDArray[np.int64], soft: float
) -> None:
    values = np.zeros((len(frequencies), 10), np.float32)
    values[:, 9] = frequencies * math.exp(-0.5) + soft
    assert (kernel_at_09(values) == frequencies).all()


def test_the_kernel_at_09_is_never_read_too_low(scene: KernelScene) -> None:
    assert (kernel_at_09(scene.unmasked) >= scene.frequencies).all()


@given(st.lists(st.floats(-0.7, 0.7), min_size=1, max_size=60), st.integers(0, 20), st.booleans())
def test_the_sum_of_kernels_tells_how_many_words_are_missing(
    cosines: list[float], frequency: int, masked: bool
) -> None:
    at = np.array(cosines + ([] if masked else [1.0] * frequency))
    means = np.linspace(-0.9, 0.9, 10)
    values = np.exp(-((at[:, None] - means) ** 2) / 0.02).sum(axis=0)[None, :]
    length = np.array([len(cosines) + frequency])
    estimate = kernel_sum(values, length, masked=masked)[0]
    # Each word's sum is 1.253 give or take 1.5 %; unmasked, errors count about twice.
    assert abs(estimate - frequency) <= 0.016 * len(cosines) * (1 if masked else 2) + 0.01


vectors_and_frequencies = st.integers(1, 60).flatmap(
    lambda n: st.tuples(
        npst.arrays(np.uint8, (n, 2), elements=st.integers(1, 3)),
        npst.arrays(np.int64, n, elements=st.integers(0, 4)),
    )
)


@given(vectors_and_frequencies, vectors_and_frequencies)
def test_a_table_without_doubt_is_the_bayes_guess(
    sample: tuple[NDArray[np.uint8], NDArray[np.int64]],
    asked: tuple[NDArray[np.uint8], NDArray[np.int64]],
) -> None:
    table = frequency_table(*sample, asked[0], doubt=0.0)
    guess = TermFrequencyGuess.learnt(*sample).guess(asked[0])
    assert (table.likeliest == guess).all()
    own = frequency_table(*sample, sample[0], doubt=0.0)
    assert (own.likeliest == sample[1]).mean() == pytest.approx(bayes_success(*sample))


@given(vectors_and_frequencies, st.floats(0, 10))
def test_chances_add_up_to_one(
    sample: tuple[NDArray[np.uint8], NDArray[np.int64]], doubt: float
) -> None:
    table = frequency_table(*sample, sample[0], doubt=doubt)
    np.testing.assert_allclose(table.chances.sum(axis=1), 1.0)
    near = estimated_posterior(sample[1] + 0.25, 9)
    np.testing.assert_allclose(near.chances.sum(axis=1), 1.0)
    assert (near.likeliest == sample[1]).all()


@given(npst.arrays(np.float64, (5, 4), elements=st.floats(0.01, 1)))
def test_the_middle_has_the_smallest_mean_absolute_error(chances: NDArray[np.float64]) -> None:
    chances = chances / chances.sum(axis=1, keepdims=True)
    posterior = FrequencyPosterior(np.array([0, 1, 3, 7]), chances)
    errors = np.abs(posterior.values[:, None] - posterior.values) @ chances.T  # [guess, row]
    at = np.searchsorted(posterior.values, posterior.middle)
    np.testing.assert_allclose(errors[at, np.arange(5)], errors.min(axis=0))


def test_trees_learn_what_an_anchor_is_off_by() -> None:
    rng = np.random.default_rng(5)
    frequencies = rng.integers(0, 9, size=900)
    off = rng.integers(0, 3, size=900)  # in view, as a column
    seen = AnchoredColumns(off[:, None].astype(float), frequencies + off)
    blind = AnchoredColumns(off[:, None].astype(float), np.zeros(900, np.int64))
    assert (fit_forest(seen, frequencies, seen, QUICK).likeliest == frequencies).all()
    assert (fit_forest(blind, frequencies, blind, QUICK).likeliest == frequencies).mean() < 0.3


def test_trees_say_the_same_for_a_seed() -> None:
    rng = np.random.default_rng(6)
    frequencies = rng.integers(0, 3, size=800)
    rows = AnchoredColumns(frequencies[:, None] + rng.normal(size=(800, 2)), np.zeros(800, int))
    few = FrequencyForestSettings(n_rounds=5, n_rows=300)
    one, other = (fit_forest(rows, frequencies, rows, few, seed=7) for _ in range(2))
    assert (one.chances == other.chances).all()
    assert (fit_forest(rows, frequencies, rows, few, seed=8).chances != one.chances).any()


def test_a_rare_frequency_is_learnt_as_the_nearest() -> None:
    frequencies = np.array([0] * 300 + [1] * 200 + [9])
    rows = AnchoredColumns(frequencies[:, None].astype(float), np.zeros(501, np.int64))
    assert fit_forest(rows, frequencies, rows, QUICK).likeliest[-1] == 1


# Views


def test_lengths_are_estimated_by_the_median_word(scene: KernelScene) -> None:
    estimates = estimated_lengths(scene.masked, scene.documents)
    assert np.abs(estimates / scene.lengths - 1).max() < 0.03


@pytest.mark.parametrize("design", [PLAIN, OURS])
def test_each_view_has_all_that_the_view_before_has(
    scene: KernelScene, design: KernelDesign
) -> None:
    before = np.empty((scene.n_rows, 0))
    for view in VIEWS:
        columns = view_columns(scene, design, view).columns
        assert columns.shape[1] > before.shape[1]
        assert (columns[:, : before.shape[1]] == before).all()
        before = columns


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("design", [PLAIN, MASKED, OURS])
def test_no_view_shows_a_frequency_that_is_attacked(
    scene: KernelScene, design: KernelDesign, view: FrequencyView
) -> None:
    secret = replace(scene, frequencies=np.where(scene.known, scene.frequencies, 77))
    one, other = (view_columns(s, design, view) for s in (scene, secret))
    assert (one.columns == other.columns).all()
    assert (one.anchors == other.anchors).all()


def test_a_known_row_does_not_see_its_own_frequency(scene: KernelScene) -> None:
    row = int(np.flatnonzero(scene.known)[5])
    changed = scene.frequencies.copy()
    changed[row] += 1
    rates = [
        view_columns(s, OURS, "label").columns[row, -3:]
        for s in (scene, replace(scene, frequencies=changed))
    ]
    np.testing.assert_allclose(rates[0], rates[1], atol=1e-3)  # but for the mean over all rows


# Bounds


def test_no_rule_on_the_vector_alone_passes_the_ceiling(
    scene: KernelScene, recoveries: list[TermFrequencyRecovery]
) -> None:
    for one in recoveries:
        if one.view == "vector" and one.design.base is not None:
            assert one.exact.value <= one.bounds.ceiling + 1e-12
            assert one.exact_told.value <= one.bounds.ceiling_told + 1e-12
            assert one.auc.value <= one.bounds.ceiling_auc + 1e-12


def test_bounds_are_in_order(scene: KernelScene) -> None:
    for design in (SLIDES, OURS):
        bounds = frequency_bounds(scene, design)
        assert max(bounds.prior, bounds.bayes) <= bounds.ceiling
        assert bounds.bayes_told <= bounds.ceiling_told
    assert frequency_bounds(scene, PLAIN).ceiling == pytest.approx(1, abs=0.01)


def test_without_values_the_vector_tells_nothing(scene: KernelScene) -> None:
    bounds = frequency_bounds(scene, NO_VALUES)
    assert bounds.prior == bounds.bayes == bounds.ceiling
    assert bounds.ceiling_auc == 0.5
    attacked = scene.frequencies[~scene.known]
    assert bounds.prior == pytest.approx((attacked == 0).mean())
    assert bounds.prior_error == pytest.approx(attacked.mean())  # the median is 0


# The attack: it succeeds on plain values, and is bounded on levels


def test_unmasked_plain_values_give_frequencies_away(
    recoveries: list[TermFrequencyRecovery],
) -> None:
    assert found(recoveries, PLAIN, "vector", "kernel-0.9").exact.value > 0.95
    best = found(recoveries, PLAIN, "length", "forest")
    assert best.exact.value > 0.98
    assert best.auc.value > 0.98


def test_the_kernel_at_09_tells_little_once_it_is_masked(
    recoveries: list[TermFrequencyRecovery],
) -> None:
    masked = found(recoveries, MASKED, "vector", "kernel-0.9")
    assert masked.exact_occurring.value < 0.1
    assert abs(masked.auc.value - 0.5) < 0.1


def test_masking_alone_fails_once_the_length_is_known_or_estimated(
    recoveries: list[TermFrequencyRecovery],
) -> None:
    for view in ("length", "document"):
        read = found(recoveries, MASKED, view, "kernel-sum")
        assert read.exact.value > read.bounds.prior + 0.1
        assert read.exact_occurring.value > 0.6


@pytest.mark.parametrize("reader", ["table", "forest"])
def test_levels_tell_no_more_than_the_bayes_guess(
    recoveries: list[TermFrequencyRecovery], reader: str
) -> None:
    read = found(recoveries, OURS, "vector", reader)
    assert read.above_bayes.low is not None
    assert read.above_bayes.low <= 0.0
    assert read.exact.value <= read.bounds.ceiling
    assert read.exact.value < found(recoveries, MASKED, "length", "kernel-sum").exact.value - 0.1


def test_what_more_views_add_is_measured_against_no_values(
    recoveries: list[TermFrequencyRecovery],
) -> None:
    for view in VIEWS:
        levels = found(recoveries, OURS, view, "forest")
        nothing = found(recoveries, NO_VALUES, view, "forest")
        plain = found(recoveries, PLAIN, view, "forest")
        assert nothing.auc.value - 0.03 < levels.auc.value < plain.auc.value - 0.1


def test_every_design_and_view_is_attacked_once(recoveries: list[TermFrequencyRecovery]) -> None:
    keys = [(one.design, one.view, one.reader) for one in recoveries]
    assert len(keys) == len(set(keys)) == 5 * len(VIEWS) + 2 * 3 + 3
    for one in recoveries:
        assert one.exact.low is not None
        assert one.exact.high is not None
        assert one.exact.low <= one.exact.value <= one.exact.high
        assert one.exact.n == 40  # documents
        assert 0 <= one.balanced_accuracy <= 1


def test_measures_are_the_literal_ones(
    scene: KernelScene, recoveries: list[TermFrequencyRecovery]
) -> None:
    attacked = ~scene.known
    truth, guess = scene.frequencies[attacked], kernel_at_09(scene.unmasked[attacked])
    read = found(recoveries, PLAIN, "vector", "kernel-0.9")
    guess = np.minimum(guess, scene.frequencies[scene.known].max())  # the highest that is known
    assert read.exact.value == pytest.approx((guess == truth).mean())
    assert read.exact_occurring.value == pytest.approx((guess == truth)[truth > 0].mean())
    assert read.absolute_error.value == pytest.approx(np.abs(guess - truth).mean())
    hits, alarms = (guess > 0)[truth > 0].mean(), (guess > 0)[truth == 0].mean()
    assert read.balanced_accuracy == pytest.approx((hits + 1 - alarms) / 2)
    assert read.auc.value == pytest.approx((hits + 1 - alarms) / 2)  # of two scores, 0 and 1


def test_a_scene_where_nothing_occurs_is_refused(scene: KernelScene) -> None:
    silent = replace(scene, frequencies=np.where(scene.known, scene.frequencies, 0))
    with pytest.raises(DataError, match="words that occur and others"):
        recover_term_frequencies(silent)


def test_progress_is_told(scene: KernelScene) -> None:
    told: list[tuple[int, int]] = []
    few = RecoverySettings(
        designs=(OURS, MASKED), views=("vector",), forest=FrequencyForestSettings(n_rounds=1)
    )
    recover_term_frequencies(scene, few, progress=lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2)]


def test_an_estimate_that_misleads_is_not_learnt_from(scene: KernelScene) -> None:
    # Where all vectors are nearly parallel, every word looks like an exact match.
    cloudy = replace(scene, unmasked=scene.unmasked + np.float32(5.0))
    settings = RecoverySettings(designs=(PLAIN,), views=("vector",), forest=QUICK)
    recoveries = recover_term_frequencies(cloudy, settings)
    misled = found(recoveries, PLAIN, "vector", "kernel-0.9")
    learnt = found(recoveries, PLAIN, "vector", "forest")
    assert misled.exact.value < 0.2
    assert learnt.exact.value > learnt.bounds.prior


def test_plain_values_of_real_texts_are_read_and_levels_are_not(
    real_data: Callable[[str], Path],
) -> None:
    collection = open_text_collection(real_data("text/cranfield"))
    analysis = TextAnalysis()
    texts = TermSequences.of(analysis.terms(one.text) for one in collection.documents[:200])
    # Vectors of no meaning, whose cosines are spread about 0 as GloVe's are.
    vectors = np.random.default_rng(8).normal(size=(len(texts.vocabulary), 50))
    embedding = Embedding(tuple(texts.vocabulary), vectors.astype(np.float32))
    scene = knrm_scene(texts, embedding, KernelSceneSettings(n_documents=60))
    designs = (PLAIN, MASKED, OURS)
    settings = RecoverySettings(designs=designs, views=("vector",), forest=QUICK)
    recoveries = recover_term_frequencies(scene, settings)
    assert found(recoveries, PLAIN, "vector", "kernel-0.9").exact.value > 0.98
    assert found(recoveries, MASKED, "document", "kernel-sum").exact.value > 0.9
    ours = found(recoveries, OURS, "vector", "forest")
    assert ours.exact.value <= ours.bounds.ceiling
    assert ours.above_bayes.low is not None
    assert ours.above_bayes.low <= 0.0
