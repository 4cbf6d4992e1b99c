from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.rank.c_knrm_star import CKnrmStar, CKnrmStarSettings
from cloister.rank.cross_match import text_grams
from cloister.rank.embedding import Embedding
from cloister.rank.knrm import Knrm, KnrmSettings
from cloister.rank.neural_batches import FlatTexts, JudgedTexts, NumberedTexts, TextBatch

EMBEDDING = Embedding(tuple("abcd"), np.eye(4, 5, dtype=np.float32))
LETTERS = "abcdxyz"  # of which x, y and z have no vector
words = st.lists(st.sampled_from(LETTERS), max_size=6)


@st.composite
def judged_texts(draw: st.DrawFn) -> JudgedTexts:
    documents = draw(st.lists(words, min_size=1, max_size=5))
    queries = draw(st.lists(words, min_size=1, max_size=4))
    some = st.lists(st.integers(0, len(documents) - 1), max_size=5)
    candidates = [draw(some) for _ in queries]
    offsets = np.cumsum([0, *map(len, candidates)])
    flat = np.array([place for own in candidates for place in own], np.int64)
    return JudgedTexts(queries, documents, flat, np.zeros(len(flat)), offsets)


def row_texts(batch: TextBatch, row: int) -> tuple[list[int], list[int]]:
    query, document = (
        texts.numbers[texts.starts[place] : texts.starts[place + 1]].tolist()
        for texts, place in zip((batch.queries, batch.documents), batch.rows[row], strict=True)
    )
    return query, document


@given(judged_texts(), st.integers(1, 40))
def test_batches_hold_each_row_once_with_its_own_texts(texts: JudgedTexts, n_cells: int) -> None:
    numbered = NumberedTexts(texts, EMBEDDING)
    query_of = texts.query_of_rows()
    number_of: dict[str, int] = {}
    seen = []
    for rows, batch in numbered.all_batches(n_cells):
        assert len(rows) == len(batch.rows) == len(batch.extra)
        for place, row in enumerate(rows.tolist()):
            seen.append(row)
            expected = texts.queries[query_of[row]], texts.documents[texts.candidates[row]]
            for given_words, numbers in zip(expected, row_texts(batch, place), strict=True):
                assert len(given_words) == len(numbers)
                for word, number in zip(given_words, numbers, strict=True):
                    assert number_of.setdefault(word, number) == number
                    assert (number <= batch.n_known) == (word in EMBEDDING.words)
    assert sorted(seen) == list(range(texts.n_rows))
    assert len(set(number_of.values())) == len(number_of)


def test_a_batch_holds_a_text_of_many_rows_once() -> None:
    texts = JudgedTexts(
        [["a"], ["b"]], [["c"], ["d"]], np.array([0, 1, 1]), np.zeros(3), np.array([0, 2, 3])
    )
    batch = NumberedTexts(texts, EMBEDDING).batch(np.array([1, 2, 1]))
    assert len(batch.documents.numbers) == 1
    assert batch.rows.tolist() == [[0, 0], [1, 0], [0, 0]]


@given(st.lists(st.lists(st.integers(1, 9), max_size=6), max_size=4), st.integers(1, 3))
def test_n_grams_are_adjacent_words_of_one_text(texts: list[list[int]], n: int) -> None:
    flat = FlatTexts.of([np.array(text, np.int64) for text in texts])
    grams = text_grams(flat, n, n_known=5)
    expected = [[text[i : i + n] for i in range(len(text) - n + 1)] for text in texts]
    assert grams.words.tolist() == [gram for own in expected for gram in own]
    assert np.diff(grams.starts).tolist() == [len(own) for own in expected]
    assert grams.known.tolist() == [max(gram) <= 5 for own in expected for gram in own]


def test_scores_do_not_depend_on_the_size_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from cloister.rank import neural_ranker

    rng = np.random.default_rng(3)
    documents = [list(rng.choice(list(LETTERS), size)) for size in (3, 0, 9, 5)]
    texts = JudgedTexts(
        [["a", "x"], ["b", "c"]],
        documents,
        np.tile(np.arange(4), 2),
        np.zeros(8),
        np.array([0, 4, 8]),
    )
    ranker = neural_ranker.NeuralRanker.initial(Knrm(), EMBEDDING, seed=2)
    at_once = ranker.score_rows(texts)
    monkeypatch.setattr(neural_ranker, "_BATCH_CELLS", 1)
    np.testing.assert_allclose(ranker.score_rows(texts), at_once, atol=1e-7)
    assert len(set(at_once.round(6).tolist())) > 4


def test_vectors_of_words_that_no_training_text_holds_stay() -> None:
    pytest.importorskip("torch")
    from cloister.rank.neural_ranker import NeuralRanker
    from cloister.rank.neural_training import NeuralTraining, fit_neural

    rng = np.random.default_rng(1)
    embedding = Embedding(tuple("abcd"), rng.normal(size=(4, 5)).astype(np.float32))
    texts = JudgedTexts(
        [["a"]], [["b", "a"], ["c"]], np.arange(2), np.array([1, 0]), np.array([0, 2])
    )
    start = NeuralRanker.initial(Knrm(KnrmSettings(train_vectors=True)), embedding)
    fitted = fit_neural(start, texts, NeuralTraining(n_epochs=3)).ranker.embedding
    moved = (fitted.vectors != embedding.vectors).any(axis=1)
    assert moved.tolist() == [True, True, True, False]
    frozen = replace(start, model=Knrm())
    assert fit_neural(frozen, texts, NeuralTraining(n_epochs=3)).ranker.embedding is embedding


def test_validation_texts_with_nothing_relevant_stop_no_training() -> None:
    pytest.importorskip("torch")
    from cloister.rank.neural_ranker import NeuralRanker
    from cloister.rank.neural_training import NeuralTraining, fit_neural

    texts = JudgedTexts(
        [["a"]], [["b", "a"], ["c"]], np.arange(2), np.array([1, 0]), np.array([0, 2])
    )
    start, settings = NeuralRanker.initial(Knrm(), EMBEDDING), NeuralTraining(n_epochs=5)
    without = fit_neural(start, texts, settings)
    flat = replace(texts, labels=np.zeros(2))
    found = fit_neural(start, texts, settings, validation=flat)
    assert found.best == without.best == 5
    assert found.ranker.parameters["weights"].tolist() == (
        without.ranker.parameters["weights"].tolist()
    )


class _Watched(Knrm):
    """Notes how many threads torch has whenever something is scored."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "n_threads", [])

    def scores(self, tensors: Any, batch: TextBatch) -> Any:
        self.n_threads.append(pytest.importorskip("torch").get_num_threads())  # type: ignore[attr-defined]
        return super().scores(tensors, batch)


def test_training_keeps_to_its_threads_whatever_kernels_ran_in_between() -> None:
    torch = pytest.importorskip("torch")
    from cloister.rank.neural_ranker import NeuralRanker
    from cloister.rank.neural_training import NeuralTraining, fit_neural

    texts = JudgedTexts(
        [["a"]], [["b", "a"], ["c"]], np.arange(2), np.array([1, 0]), np.array([0, 2])
    )
    model = _Watched()
    start = NeuralRanker.initial(model, EMBEDDING)
    before = torch.get_num_threads()
    try:  # after each pass, do what kernels that run on all threads do to torch
        fit_neural(
            start,
            texts,
            NeuralTraining(n_epochs=3, patience=3),
            validation=texts,
            progress=lambda _: torch.set_num_threads(2),
        )
    finally:
        torch.set_num_threads(before)
    assert model.n_threads == [1] * 6  # type: ignore[attr-defined]


def test_the_last_layer_learns_as_many_times_faster_as_is_said() -> None:
    """The first step of Adam moves each parameter by its rate, or not at all."""
    pytest.importorskip("torch")
    from cloister.rank.neural_ranker import NeuralRanker
    from cloister.rank.neural_training import NeuralTraining, fit_neural

    texts = JudgedTexts(
        [["a"]], [["b", "a", "d"], ["c"]], np.arange(2), np.array([1, 0]), np.array([0, 2])
    )
    rng = np.random.default_rng(1)
    embedding = Embedding(tuple("abcd"), rng.normal(size=(4, 5)).astype(np.float32))
    model = CKnrmStar(CKnrmStarSettings(n_filters=4))
    start = NeuralRanker.initial(model, embedding)
    settings = NeuralTraining(n_epochs=1, learning_rate=1e-3, layer_rate=50)
    fitted = fit_neural(start, texts, settings).ranker
    moved = {
        name: float(np.abs(fitted.parameters[name] - start.parameters[name]).max())
        for name in ("weights", "filters_1", "shifts_1")
    }
    assert moved == pytest.approx({"weights": 0.05, "filters_1": 1e-3, "shifts_1": 1e-3}, rel=0.01)
