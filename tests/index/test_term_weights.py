from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from cloister.core.errors import DataError
from cloister.index.pooled_statistics import PooledStatistics
from cloister.index.term_counts import count_terms
from cloister.index.term_weights import (
    TermMatches,
    TermWeightSettings,
    absolute_discounting,
    bm25,
    dirichlet,
    inverse_document_frequencies,
    jelinek_mercer,
    match_terms,
    matched_idf,
    term_frequency,
    tf_idf,
)

TEXTS = [
    "cough cough fever night night night cough",
    "fever rash",
    "asthma inhaler cough",
    "",
    "rash rash rash fever ward ward ward ward ward",
]
QUERIES = [["cough"], ["cough", "fever"], ["rash", "unknown", "fever"], ["cough", "cough"], []]
WEIGHTS = (
    term_frequency,
    matched_idf,
    tf_idf,
    bm25,
    absolute_discounting,
    dirichlet,
    jelinek_mercer,
)


class LiteralCollection:
    """The formulas word by word, over lists of words."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.documents = [text.split() for text in texts]
        self.n = len(texts)
        self.all = Counter(word for document in self.documents for word in document)
        self.n_tokens = sum(self.all.values())

    def df(self, term: str) -> int:
        return sum(term in document for document in self.documents)

    def idf(self, term: str, form: str) -> float:
        df = self.df(term)
        if form == "printed":
            return math.log(self.n / max(df, 0.5))
        return math.log(1 + (self.n - df + 0.5) / (df + 0.5))

    def weights(self, query: Sequence[str], number: int, s: TermWeightSettings) -> list[float]:
        words = self.documents[number]
        length, mean = len(words), self.n_tokens / self.n
        sums = dict.fromkeys(["tf", "idf", "tf-idf", "bm25", "abs", "dir", "jm"], 0.0)
        for term in query:
            c = words.count(term)
            tf = c if s.tf == "raw" else (c / length if length else 0.0)
            idf = self.idf(term, s.idf)
            p = max(self.all[term], 0.5) / self.n_tokens
            sums["tf"] += tf
            sums["idf"] += idf if c else 0.0
            sums["tf-idf"] += tf * idf
            if s.bm25 == "printed":
                x = c / length if length else 0.0
                sums["bm25"] += idf * x * (s.k1 + 1) / (x + s.k1)
            else:
                scale = s.k1 * (1 - s.b + s.b * length / mean)
                sums["bm25"] += idf * c * (s.k1 + 1) / (c + scale) if c else 0.0
            given = s.discount * len(set(words)) / length if length else 1.0
            kept = max(c - s.discount, 0) / length if length else 0.0
            sums["abs"] += math.log(kept + given * p)
            sums["dir"] += math.log((c + s.prior * p) / (length + s.prior))
            relative = c / length if length else 0.0
            sums["jm"] += math.log((1 - s.mixing) * relative + s.mixing * p)
        return list(sums.values())


def all_weights(found: TermMatches, settings: TermWeightSettings) -> NDArray[np.float64]:
    return np.stack([weight(found, settings) for weight in WEIGHTS], axis=1)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(
    "settings",
    [
        TermWeightSettings(distinct="exact"),
        TermWeightSettings.printed().model_copy(update={"distinct": "exact"}),
        TermWeightSettings(
            distinct="exact", tf="raw", k1=2.0, b=1.0, discount=0.3, prior=10, mixing=0.6
        ),
    ],
)
def test_weights_are_those_of_the_literal_formulas(
    query: list[str], settings: TermWeightSettings
) -> None:
    exact, literal = count_terms(TEXTS), LiteralCollection(TEXTS)
    found = match_terms(query, np.arange(len(TEXTS)), exact, settings=settings)
    wanted = [literal.weights(query, number, settings) for number in range(len(TEXTS))]
    np.testing.assert_allclose(all_weights(found, settings), wanted, rtol=1e-12, atol=1e-14)


def test_tf_idf_is_that_of_scikit_learn() -> None:
    # Its smooth_idf=False gives ln(N / df) + 1.
    vectorizer = TfidfVectorizer(smooth_idf=False, norm=None, token_pattern=r"\w+")
    table = vectorizer.fit_transform(TEXTS).toarray()
    columns = [vectorizer.vocabulary_[term] for term in ("cough", "fever")]
    settings = TermWeightSettings(tf="raw", idf="printed")
    found = match_terms(["cough", "fever"], np.arange(len(TEXTS)), count_terms(TEXTS))
    ours = tf_idf(found, settings) + term_frequency(found, settings)
    np.testing.assert_allclose(ours, table[:, columns].sum(axis=1), rtol=1e-12)


def test_a_term_that_occurs_nowhere_adds_nothing_but_to_the_language_models() -> None:
    exact, settings = count_terms(TEXTS), TermWeightSettings()
    found = match_terms(["unknown"], np.arange(len(TEXTS)), exact)
    weights = all_weights(found, settings)
    assert (weights[:, :4] == 0).all()
    assert np.isfinite(weights).all()
    once = match_terms(["inhaler"], np.array([1]), exact)  # occurs once, not in document 1
    assert (weights[1, 4:] < all_weights(once, settings)[0, 4:]).all()


def test_more_occurrences_never_weigh_less() -> None:
    exact = count_terms([f"{'cough ' * n}{'ward ' * (20 - n)}" for n in range(21)])
    found = match_terms(["cough"], np.arange(21), exact)
    weights = all_weights(found, TermWeightSettings())
    assert (np.diff(weights, axis=0) >= 0).all()


def test_the_estimated_number_of_distinct_terms_is_near_the_exact_one(real_data: Any) -> None:
    from cloister.data.beir import open_beir

    collection = open_beir(real_data("text/nfcorpus"))
    exact = count_terms(document.text for document in collection.documents)
    documents = np.arange(exact.n_documents)
    shares = [
        match_terms([], documents, exact, settings=TermWeightSettings(distinct=how)).distinct_shares
        for how in ("estimated", "exact")
    ]
    longer = exact.lengths >= 20
    ratio = shares[0][longer] / shares[1][longer]
    assert 0.9 < np.median(ratio) < 1.1
    assert np.mean(np.abs(ratio - 1) < 0.25) > 0.8


class Estimates(NamedTuple):
    """A source that says whatever noise made of the counts."""

    counts: NDArray[np.float64]
    lengths: NDArray[np.float64]
    n_documents: int
    n_tokens: float
    df: NDArray[np.float64]
    cf: NDArray[np.float64]

    def term_counts(self, terms: Sequence[str], documents: Any) -> NDArray[np.float64]:
        return self.counts[:, documents]

    def document_frequencies(self, terms: Sequence[str]) -> NDArray[np.float64]:
        return self.df

    def collection_frequencies(self, terms: Sequence[str]) -> NDArray[np.float64]:
        return self.cf


def noisy_numbers(n: int) -> st.SearchStrategy[NDArray[np.float64]]:
    number = st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 0.5, 1e-12, -1e9, 1e9])
    return st.lists(number, min_size=n, max_size=n).map(lambda values: np.array(values, np.float64))


@given(
    noisy_numbers(6),
    noisy_numbers(3),
    st.integers(0, 5),
    st.floats(-1e7, 1e7),
    noisy_numbers(2),
    noisy_numbers(2),
    st.sampled_from([
        TermWeightSettings(),
        TermWeightSettings.printed(),
        TermWeightSettings(tf="raw", b=1.0, mixing=1.0, discount=1.0),
    ]),
)  # fmt: skip
def test_no_noise_makes_a_weight_infinite(
    counts: NDArray[np.float64],
    lengths: NDArray[np.float64],
    n_documents: int,
    n_tokens: float,
    df: NDArray[np.float64],
    cf: NDArray[np.float64],
    settings: TermWeightSettings,
) -> None:
    source = Estimates(counts.reshape(2, 3), lengths, n_documents, n_tokens, df, cf)
    found = match_terms(["a", "b"], np.arange(3), source, settings=settings)
    weights = all_weights(found, settings)
    assert np.isfinite(weights).all()
    assert (weights[:, :4] >= 0).all()  # TF, IDF, TF-IDF and BM25
    assert (weights[:, 4:] <= 1e-9).all()  # logarithms of probabilities
    assert (inverse_document_frequencies(found, settings) >= 0).all()


def test_a_count_that_is_no_number_is_refused() -> None:
    source = Estimates(np.array([[np.nan]]), np.ones(1), 1, 1.0, np.ones(1), np.ones(1))
    with pytest.raises(DataError, match="not finite"):
        match_terms(["a"], np.array([0]), source)


def test_exact_distinct_counts_are_not_asked_of_estimates() -> None:
    source = Estimates(np.ones((1, 1)), np.ones(1), 1, 1.0, np.ones(1), np.ones(1))
    with pytest.raises(DataError, match="distinct"):
        match_terms(["a"], np.array([0]), source, settings=TermWeightSettings(distinct="exact"))


@given(
    st.lists(st.lists(st.sampled_from(["xx", "yy", "zz"]), max_size=6).map(" ".join), min_size=2),
    st.integers(1, 5),
)
def test_pooled_statistics_are_those_of_the_union(texts: list[str], cut: int) -> None:
    pooled = PooledStatistics([count_terms(texts[:cut]), count_terms(texts[cut:])])
    union, terms = count_terms(texts), ["xx", "yy", "zz", "unknown"]
    assert (pooled.n_documents, pooled.n_tokens) == (union.n_documents, union.n_tokens)
    for of_all, of_parts in (
        (union.document_frequencies, pooled.document_frequencies),
        (union.collection_frequencies, pooled.collection_frequencies),
    ):
        assert of_parts(terms).tolist() == of_all(terms).tolist()


def test_a_negative_estimate_takes_nothing_from_another_party() -> None:
    low = Estimates(np.ones((1, 1)), np.ones(1), 1, 1.0, np.array([-3.0]), np.array([-2.0]))
    pooled = PooledStatistics([count_terms(["cough"]), low])
    assert pooled.document_frequencies(["cough"]).tolist() == [1.0]
    assert pooled.collection_frequencies(["cough"]).tolist() == [1.0]


def test_nothing_cannot_be_pooled() -> None:
    with pytest.raises(DataError):
        PooledStatistics([])
