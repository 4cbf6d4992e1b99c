"""Term statistics from a noisy release against the exact counts."""

from __future__ import annotations

import numpy as np
import pytest

from cloister.core.errors import DataError
from cloister.index.term_counts import TermCounts
from cloister.index.term_source import TermSource
from cloister.lab.silos.zipf_corpus import ZipfCorpus, ZipfCorpusSettings, make_corpus
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.noisy_release import NoisyReleaseSettings, make_release
from cloister.sketch.sketched_counts import SketchedCounts

KEY = HashKey(bytes(range(32)))


@pytest.fixture(scope="module")
def corpus() -> ZipfCorpus:
    return make_corpus(ZipfCorpusSettings(documents=400, mean_length=200, vocabulary=2000))


@pytest.fixture(scope="module")
def sketched(corpus: ZipfCorpus) -> SketchedCounts:
    settings = NoisyReleaseSettings(
        n_rows=3, n_columns=500, cell_size=400, epsilon=300.0, statistics_columns=4096
    )
    return SketchedCounts(make_release(corpus.counts, KEY, settings, words=SeededWords(1)), KEY)


def frequent(counts: TermCounts) -> list[str]:
    order = np.argsort(-counts.collection_frequencies(counts.vocabulary), kind="stable")
    return [counts.vocabulary[i] for i in order[:30]]


def test_with_hardly_any_noise_statistics_are_close_to_the_exact_ones(
    corpus: ZipfCorpus, sketched: SketchedCounts
) -> None:
    source: TermSource = sketched
    exact, terms = corpus.counts, frequent(corpus.counts)
    assert source.n_documents == exact.n_documents
    assert np.abs(source.lengths - exact.lengths).max() < 20
    assert source.n_tokens == pytest.approx(exact.n_tokens, rel=0.01)
    for name in ("document_frequencies", "collection_frequencies"):
        found, true = getattr(source, name)(terms), getattr(exact, name)(terms)
        assert np.median(np.abs(found - true) / true) < 0.1


def test_with_hardly_any_noise_counts_and_top_documents_are_close_to_the_exact_ones(
    corpus: ZipfCorpus, sketched: SketchedCounts
) -> None:
    terms, documents = frequent(corpus.counts), np.arange(0, 400, 7)
    found = sketched.term_counts(terms, documents)
    true = corpus.counts.term_counts(terms, documents)
    assert np.median(np.abs(found - true)) <= 1
    assert found.min() >= 0
    best = sketched.top(terms[0], k=20).documents[0]
    counts = corpus.exact_counts(terms[0])
    assert counts[best].mean() > 0.8 * np.sort(counts)[-20:].mean()


def test_estimates_stay_within_what_is_possible_under_much_noise(corpus: ZipfCorpus) -> None:
    settings = NoisyReleaseSettings(
        n_rows=2, n_columns=50, cell_size=50, epsilon=0.05, statistics_columns=32
    )
    noisy = SketchedCounts(make_release(corpus.counts, KEY, settings, words=SeededWords(2)), KEY)
    terms = list(corpus.counts.vocabulary[:200])
    assert noisy.lengths.min() >= 1
    found = noisy.document_frequencies(terms)
    assert found.min() == 0
    assert found.max() == 400
    assert noisy.collection_frequencies(terms).min() >= 0
    assert noisy.term_counts(terms, np.arange(400)).min() >= 0


def test_another_key_is_refused(sketched: SketchedCounts) -> None:
    with pytest.raises(DataError):
        SketchedCounts(sketched.release, HashKey(bytes(32)))
