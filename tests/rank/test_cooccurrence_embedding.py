"""Word vectors by counting, against the formula written out and a matrix square root."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from cloister.core.errors import DataError
from cloister.rank import cooccurrence_embedding as module
from cloister.rank.cooccurrence_embedding import CooccurrenceSettings, cooccurrence_embedding
from cloister.rank.proximity_features import TermSequences

Documents = list[list[str]]


def information(documents: Documents, given: CooccurrenceSettings) -> tuple[list[str], NDArray]:
    """The matrix of Levy and Goldberg, entry by entry."""
    n_each = Counter(word for document in documents for word in document)
    words = [word for word in n_each if n_each[word] >= given.min_count]
    near: Counter[tuple[str, str]] = Counter()
    for document in documents:
        left = [word for word in document if word in words]
        for i, word in enumerate(left):
            for j, other in enumerate(left):
                if i != j and abs(i - j) <= given.window:
                    near[word, other] += 1
    total = sum(near.values())
    matrix = np.zeros((len(words), len(words)))
    for (word, other), n in near.items():
        of_word = sum(k for (first, _), k in near.items() if first == word)
        of_other = sum(k for (_, second), k in near.items() if second == other)
        pmi = math.log(n * total / (of_word * of_other))
        value = pmi - math.log(given.shift)
        matrix[words.index(word), words.index(other)] = value if value > 1e-9 else 0
    return words, matrix


def clustered(seed: int, n_documents: int = 80) -> Documents:
    """Documents about one of two subjects, with words in common."""
    rng = np.random.default_rng(seed)
    subjects = [[f"a{i}" for i in range(12)], [f"b{i}" for i in range(12)]]
    return [
        [
            str(rng.choice(subjects[number % 2])) if rng.random() < 0.7 else f"c{rng.integers(6)}"
            for _ in range(20)
        ]
        for number in range(n_documents)
    ]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcdef"), max_size=8), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 2),
    st.sampled_from([1.0, 1.3]),
)
def test_whole_vectors_have_the_cosines_of_the_matrix_root_of_the_formula(
    documents: Documents, window: int, min_count: int, shift: float
) -> None:
    given = CooccurrenceSettings(size=50, window=window, min_count=min_count, shift=shift)
    words, matrix = information(documents, given)
    texts = TermSequences.of(documents)
    if not matrix.any():
        with pytest.raises(DataError, match="no word has a telling context"):
            cooccurrence_embedding(texts, given)
        return
    made = cooccurrence_embedding(texts, given)
    told = matrix.any(axis=1)
    assert set(made.words) == {word for word, has in zip(words, told, strict=True) if has}
    # (U S^1/2)(U S^1/2)^T = U S U^T = (M M^T)^1/2
    squares, basis = np.linalg.eigh(matrix @ matrix.T)
    root = basis @ np.diag(np.sqrt(np.maximum(squares, 0))) @ basis.T
    rows = [words.index(word) for word in made.words]
    inner = root[np.ix_(rows, rows)]
    lengths = np.sqrt(np.diag(inner))
    np.testing.assert_allclose(
        made.vectors @ made.vectors.T, inner / np.outer(lengths, lengths), atol=1e-4
    )


def test_sparse_and_dense_decompositions_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = TermSequences.of(clustered(1))
    given = CooccurrenceSettings(size=6, min_count=1)
    dense = cooccurrence_embedding(texts, given)
    monkeypatch.setattr(module, "DENSE", 0)
    sparse = cooccurrence_embedding(texts, given)
    assert sparse.words == dense.words
    assert sparse.size == dense.size == 6
    np.testing.assert_allclose(sparse.vectors, dense.vectors, atol=1e-5)


def test_words_of_one_subject_are_like_each_other() -> None:
    made = cooccurrence_embedding(
        TermSequences.of(clustered(2)), CooccurrenceSettings(size=4, min_count=1)
    )
    alike = made.vectors @ made.vectors.T
    kind = np.array([word[0] for word in made.words])
    within = alike[np.ix_(kind == "a", kind == "a")].mean()
    across = alike[np.ix_(kind == "a", kind == "b")].mean()
    assert within > 0.6
    assert across < 0.2


def test_rare_words_take_no_place_and_get_no_vector() -> None:
    common = [["dry", "cough"], ["mild", "fever"], ["dry", "cough"], ["mild", "fever"]]
    with_rare = [["dry", "once", "cough"], *common[1:]]
    given = CooccurrenceSettings(size=3, window=1, min_count=2)
    plain = cooccurrence_embedding(TermSequences.of(common), given)
    made = cooccurrence_embedding(TermSequences.of(with_rare), given)
    assert "once" not in made.words
    assert made.words == plain.words
    np.testing.assert_allclose(made.vectors, plain.vectors, atol=1e-6)


@pytest.mark.parametrize("dense", [True, False])
def test_signs_are_settled_and_the_same_texts_give_the_same_bits(
    dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DENSE", 1000 if dense else 0)
    _, matrix = information(clustered(3, 20), CooccurrenceSettings(min_count=1))
    factors = module._factor(csr_matrix(matrix), 5)
    singular = np.linalg.svd(matrix, compute_uv=False)[:5]
    np.testing.assert_allclose((factors**2).sum(axis=0), singular, rtol=1e-6)
    assert (factors[np.abs(factors).argmax(axis=0), np.arange(5)] > 0).all()
    assert module._factor(csr_matrix(matrix), 5).tobytes() == factors.tobytes()


def test_texts_without_words_are_refused_with_a_remedy() -> None:
    with pytest.raises(DataError, match="lower min_count"):
        cooccurrence_embedding(TermSequences.of([["a"], []]))
