from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.rank.c_knrm_star import DocumentKernels
from cloister.rank.query_kernels import QueryKernels
from cloud.private_ranking_world import WORDS, made_documents, made_ranker

DOCUMENTS = made_documents(30)
KERNELS = {
    masked: DocumentKernels.of(made_ranker(mask_exact=masked), DOCUMENTS)
    for masked in (True, False)
}


@given(
    st.lists(st.sampled_from([*WORDS, "zebra"]), max_size=5, unique=True),
    st.lists(st.integers(0, 29), max_size=6),
    st.booleans(),
)
def test_values_of_a_query_are_those_of_its_keys_one_by_one(
    terms: list[str], documents: list[int], masked: bool
) -> None:
    numbers = np.array(documents, np.int64)
    kernels = KERNELS[masked].select(numbers)
    found = QueryKernels(KERNELS[masked]).values(terms, numbers)
    assert found.words.shape == (len(terms), len(numbers), 2, 11)
    for row, term in enumerate(terms):
        np.testing.assert_allclose(found.words[row], kernels.values([term]), rtol=2e-4, atol=1e-6)
    for row, phrase in enumerate(pairwise(terms)):
        expected = kernels.values(phrase)[:, 0]
        np.testing.assert_allclose(found.phrases[row], expected, rtol=2e-4, atol=1e-6)


def test_features_are_those_of_the_trained_model() -> None:
    terms, numbers = ["a", "q", "c"], np.array([7, 3, 3])
    kernels = KERNELS[True]
    found = QueryKernels(kernels).values(terms, numbers).features()
    expected = kernels.select(numbers).features(terms)
    by_match = found.reshape(3, 3, 11), expected.reshape(3, 3, 11)
    np.testing.assert_allclose(*by_match, rtol=1e-4, atol=1e-4)


def test_a_word_that_stands_twice_in_the_query_is_one_key() -> None:
    once = QueryKernels(KERNELS[True]).values(["a", "b"], np.arange(4))
    twice = QueryKernels(KERNELS[True]).values(["a", "b", "a"], np.arange(4))
    assert twice.words.tolist() == once.words.tolist()
    assert twice.phrases.tolist() == once.phrases.tolist()


def test_a_document_that_is_not_there_is_refused() -> None:
    with pytest.raises(DataError, match="there are 30"):
        QueryKernels(KERNELS[True]).values(["a"], np.array([30]))
