"""Exact counts of terms, against counters of Python's library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.data.beir import open_beir
from cloister.index.analysis import TextAnalysis
from cloister.index.term_counts import TermCounts, count_terms
from cloister.index.term_source import TermSource

PLAIN = TextAnalysis(stop_words="none", min_length=1)
WORDS = ["cough", "fever", "rash", "asthma", "x"]
texts_of_words = st.lists(st.lists(st.sampled_from(WORDS)).map(" ".join), max_size=8)


def literal(texts: list[str]) -> list[Counter[str]]:
    return [Counter(text.split()) for text in texts]


@given(texts_of_words)
def test_counts_lengths_and_frequencies_are_those_of_counters(texts: list[str]) -> None:
    counts, expected = count_terms(texts, PLAIN), literal(texts)
    terms = [*WORDS, "unknown"]
    found = counts.term_counts(terms, np.arange(len(texts)))
    assert found.tolist() == [[document[term] for document in expected] for term in terms]
    assert counts.lengths.tolist() == [document.total() for document in expected]
    assert counts.n_tokens == sum(document.total() for document in expected)
    df = [sum(term in document for document in expected) for term in terms]
    cf = [sum(document[term] for document in expected) for term in terms]
    assert counts.document_frequencies(terms).tolist() == df
    assert counts.collection_frequencies(terms).tolist() == cf


@given(texts_of_words, st.data())
def test_selected_documents_are_counted_as_if_they_stood_alone(
    texts: list[str], data: st.DataObject
) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(texts) - 1)) if texts else st.just([]))
    chosen = count_terms(texts, PLAIN).select(np.array(numbers, np.int64))
    alone = count_terms([texts[number] for number in numbers], PLAIN)
    everything = np.arange(len(numbers))
    assert chosen.lengths.tolist() == alone.lengths.tolist()
    assert chosen.term_counts(WORDS, everything).tolist() == (
        alone.term_counts(WORDS, everything).tolist()
    )
    assert chosen.document_frequencies(WORDS).tolist() == (
        alone.document_frequencies(WORDS).tolist()
    )


def test_no_documents_have_no_terms() -> None:
    nothing = count_terms([])
    assert (nothing.n_documents, nothing.n_terms, nothing.n_tokens) == (0, 0, 0.0)
    assert nothing.term_counts(["cough"], np.array([], np.int64)).shape == (1, 0)
    assert nothing.lengths.shape == (0,)


def test_exact_counts_are_a_source_of_terms() -> None:
    source: TermSource = count_terms(["cough"])
    assert source.n_documents == 1


@pytest.mark.parametrize("document", [-1, 2])
def test_a_document_that_is_not_there_is_refused(document: int) -> None:
    counts = count_terms(["cough", "fever"])
    for ask in (counts.select, lambda numbers: counts.term_counts(["cough"], numbers)):
        with pytest.raises(DataError, match="2 documents"):
            ask(np.array([document]))


@pytest.mark.parametrize(
    ("starts", "terms", "counts"),
    [
        ([], [], []),
        ([1], [0], [1]),
        ([0, 2], [0], [1]),
        ([0, 1], [0], [0]),
        ([0, 1], [0], [-1]),
        ([0, 1], [2], [1]),
        ([0, 1], [-1], [1]),
        ([0, 2], [1, 0], [1, 1]),
        ([0, 2], [1, 1], [1, 1]),
        ([0, 2, 1, 2], [0, 1], [1, 1]),
        ([0, 1], [0], [1, 1]),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(
    starts: list[int], terms: list[int], counts: list[int]
) -> None:
    arrays: list[Any] = [np.array(starts, np.int64), np.array(terms, np.int32)]
    with pytest.raises(DataError, match="do not fit"):
        TermCounts(*arrays, np.array(counts, np.int32), ["a", "b"])


def test_terms_of_a_real_collection_are_counted_as_counters_do(
    real_data: Callable[[str], Path],
) -> None:
    collection = open_beir(real_data("text/nfcorpus"))
    texts = [document.text for document in islice(collection.iter_documents(), 200)]
    counts = count_terms(texts)
    analysis = TextAnalysis()
    for number, text in enumerate(texts):
        expected = Counter(analysis.terms(text))
        found = counts.term_counts(list(expected), np.array([number]))[:, 0]
        assert found.tolist() == list(expected.values())
