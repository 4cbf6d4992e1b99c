"""The made-up corpus: its sizes, its chances, and that it does not depend on threads."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from cloister.core.errors import SettingsError
from cloister.lab.bench.sketch import measure
from cloister.lab.silos.zipf_corpus import ZipfCorpusSettings, make_corpus

SMALL = ZipfCorpusSettings(documents=2000, mean_length=100, vocabulary=3000)


def test_sizes_are_as_asked() -> None:
    counts = make_corpus(SMALL).counts
    assert counts.n_documents == 2000
    assert counts.n_terms == 3000
    assert counts.lengths.mean() == pytest.approx(100, rel=0.05)
    assert counts.lengths.min() >= 10
    assert counts.lengths.max() <= 500


def test_without_bursts_terms_occur_as_zipf_says() -> None:
    settings = SMALL.model_copy(update={"burst_share": 0.0})
    counts = make_corpus(settings).counts
    chances = np.arange(1, 3001) ** -1.07
    expected = counts.n_tokens * chances / chances.sum()
    found = counts.collection_frequencies(counts.vocabulary)
    score = ((found - expected) ** 2 / expected).sum()
    assert abs(score - 2999) < 6 * np.sqrt(2 * 2999)


def test_tokens_follow_zipf_whatever_the_bursts() -> None:
    shares = []
    for share in (0.0, 1.0):
        counts = make_corpus(SMALL.model_copy(update={"burst_share": share})).counts
        found = counts.collection_frequencies(counts.vocabulary)
        shares.append([found[low:high].sum() / found.sum() for low, high in ((0, 10), (10, 300))])
    np.testing.assert_allclose(shares[0], shares[1], rtol=0.05)


def test_bursts_make_rarer_terms_repeat_within_documents() -> None:
    repeats = []
    for share in (0.0, 1.0):
        counts = make_corpus(SMALL.model_copy(update={"burst_share": share})).counts
        repeats.append(counts.counts[counts.terms >= 500].mean())
    assert repeats[1] > 1.3 * repeats[0]


def test_exact_counts_and_query_terms_agree_with_the_counts() -> None:
    corpus = make_corpus(SMALL)
    terms = corpus.query_terms(50)
    assert len(set(terms)) == 50
    documents = np.arange(2000)
    for term in terms[:10]:
        assert (corpus.exact_counts(term) == corpus.counts.term_counts([term], documents)[0]).all()
    assert not corpus.exact_counts("unknown").any()
    often = corpus.query_terms(2000, distinct=False)
    assert often.count("term1") > often.count("term50")
    with pytest.raises(SettingsError):
        corpus.query_terms(4000)


def test_one_seed_gives_one_corpus_for_any_number_of_threads() -> None:
    before = numba.get_num_threads()
    try:
        made = []
        for n_threads in (1, before):
            numba.set_num_threads(n_threads)
            made.append(make_corpus(SMALL).counts)
    finally:
        numba.set_num_threads(before)
    assert (made[0].terms == made[1].terms).all()
    assert (made[0].counts == made[1].counts).all()
    other = make_corpus(SMALL.model_copy(update={"seed": 2})).counts
    assert len(other.terms) != len(made[0].terms) or (other.terms != made[0].terms).any()


def test_the_benchmark_gives_its_figures_on_a_small_corpus() -> None:
    steps: list[tuple[int, int]] = []
    small = ZipfCorpusSettings(documents=300, mean_length=50, vocabulary=2000)
    figures = measure(
        small, lambda done, total: steps.append((done, total)), k=10, n_queries=20, epsilons=(8.0,)
    )
    assert steps[-1][0] == steps[-1][1]
    assert 0 <= figures["planned_epsilon_8_cover"] <= 1
    assert figures["planned_epsilon_8_true_epsilon"] <= 8.0
    assert figures["paper_shape_cover"] > figures["paper_shape_epsilon_8_cover"]
