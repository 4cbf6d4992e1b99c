from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.core.errors import Damaged, DataError, MissingDependency, NotFound, SettingsError
from cloister.index.term_counts import count_terms
from cloister.rank import neural_ranker as neural_ranker_module
from cloister.rank.c_knrm_star import CKnrmStar, CKnrmStarSettings
from cloister.rank.conv_knrm import ConvKnrm, ConvKnrmSettings
from cloister.rank.drmm import Drmm, DrmmSettings, inverse_document_frequencies
from cloister.rank.embedding import Embedding
from cloister.rank.kernel_pooling import KERNEL_MEANS, KERNEL_WIDTHS
from cloister.rank.knrm import Knrm, KnrmSettings
from cloister.rank.neural_batches import JudgedTexts
from cloister.rank.neural_file import load_neural, save_neural
from cloister.rank.neural_ranker import NeuralModel, NeuralRanker, TextRanker
from cloister.rank.neural_training import NeuralTraining, TrainingPass, fit_neural, validation_ndcg

torch = pytest.importorskip("torch")

LETTERS = "abcdefghij"  # of which i and j have no vector
EMBEDDING = Embedding(
    tuple("abcdefgh"), np.random.default_rng(2).normal(size=(8, 5)).astype(np.float32)
)
QUERIES: list[list[str]] = [["a"], ["a", "b"], ["a", "c", "a"], ["i", "b", "j", "d"], ["z"], []]
DOCUMENTS = [
    [str(word) for word in np.random.default_rng(seed).choice(list(LETTERS), size)]
    for seed, size in enumerate([7, 1, 2, 0, 12, 5])
]
IDF = {word: 0.3 + 0.2 * place for place, word in enumerate("abcdefg")}
MODELS: dict[str, NeuralModel] = {
    "knrm": Knrm(),
    "knrm unmasked": Knrm(KnrmSettings(mask_exact=False)),
    "knrm soft": Knrm(KnrmSettings(exact_kernel=False)),
    "conv-knrm": ConvKnrm(ConvKnrmSettings(n_filters=4)),
    "conv-knrm unmasked": ConvKnrm(ConvKnrmSettings(n_filters=4, mask_exact=False, longest=2)),
    "c-knrm-star": CKnrmStar(CKnrmStarSettings(n_filters=4)),
    "c-knrm-star soft": CKnrmStar(CKnrmStarSettings(n_filters=4, exact_kernel=False)),
    "c-knrm-star with its vectors": CKnrmStar(CKnrmStarSettings(n_filters=4, train_vectors=True)),
    "drmm": Drmm(DrmmSettings(), IDF),
}
Gram = tuple[str, ...]


def grams_of(words: Sequence[str], n: int) -> list[Gram]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def gram_vector(ranker: NeuralRanker, gram: Gram) -> Any:
    """The vector of an n-gram by its formula, or None."""
    rows = ranker.embedding.rows(gram)
    if (rows < 0).any():
        return None
    words = ranker.embedding.vectors[rows].astype(np.float64)
    if isinstance(ranker.model, Knrm | Drmm):
        return words[0]
    n = len(gram)
    filters = ranker.parameters[f"filters_{n}"].astype(np.float64)
    total = ranker.parameters[f"shifts_{n}"].astype(np.float64)
    for word, part in zip(words, filters, strict=True):
        total = total + word @ part
    total = np.maximum(total, 0)
    return total / np.linalg.norm(total) if total.any() else total


def literal_cosine(ranker: NeuralRanker, one: Gram, other: Gram) -> float | None:
    if one == other:
        return 1.0
    vectors = gram_vector(ranker, one), gram_vector(ranker, other)
    return None if vectors[0] is None or vectors[1] is None else float(vectors[0] @ vectors[1])


def literal_kernel_score(
    ranker: NeuralRanker, query: Sequence[str], document: Sequence[str]
) -> float:
    model: Any = ranker.model
    matches = [(1, 1)] if isinstance(model, Knrm) else model.matches
    phi = []
    for n_query, n_document in matches:
        for mean, width in list(zip(KERNEL_MEANS, KERNEL_WIDTHS, strict=True)):
            if mean == 1 and not model.settings.exact_kernel:
                continue
            feature = 0.0
            for key in grams_of(query, n_query):
                value = 0.0
                for gram in grams_of(document, n_document):
                    cosine = literal_cosine(ranker, key, gram)
                    masked = model.settings.mask_exact and set(key) & set(gram) and mean != 1
                    if cosine is not None and not masked:
                        value += math.exp(-((cosine - mean) ** 2) / (2 * width**2))
                feature += 0.01 * math.log(max(value, 1e-10))
            phi.append(feature)
    total = float(np.dot(phi, ranker.parameters["weights"]) + ranker.parameters["bias"][0])
    return math.tanh(total)


def literal_drmm_score(
    ranker: NeuralRanker, query: Sequence[str], document: Sequence[str]
) -> float:
    p = {name: value.astype(np.float64) for name, value in ranker.parameters.items()}
    outcomes, gates = [], []
    for term in query:
        counts = np.zeros(30)
        for word in document:
            cosine = literal_cosine(ranker, (term,), (word,))
            if term == word:
                counts[29] += 1
            elif cosine is not None:
                counts[min(28, int((cosine + 1) / 2 * 29))] += 1
        hidden = np.tanh(np.log(1 + counts) @ p["inner"] + p["inner_bias"])
        outcomes.append(math.tanh(hidden @ p["outer"] + p["outer_bias"][0]))
        rarest = max(IDF.values())
        gates.append(math.exp(p["gate"][0] * IDF.get(term, rarest)))
    return sum(g * z for g, z in zip(gates, outcomes, strict=True)) / sum(gates) if query else 0.0


def made_ranker(model: NeuralModel) -> NeuralRanker:
    """A ranker with larger weights than an untrained one has, so that faults show."""
    ranker = NeuralRanker.initial(model, EMBEDDING, seed=4)
    rng = np.random.default_rng(8)
    parameters = {
        name: value if name == "idf" else value + rng.normal(size=value.shape).astype(np.float32)
        for name, value in ranker.parameters.items()
    }
    return replace(ranker, parameters=parameters)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize("query", QUERIES, ids="_".join)
def test_scores_are_those_of_a_literal_loop(model: NeuralModel, query: list[str]) -> None:
    ranker: TextRanker = made_ranker(model)
    literal = literal_drmm_score if isinstance(model, Drmm) else literal_kernel_score
    expected = [literal(ranker, query, document) for document in DOCUMENTS]  # type: ignore[arg-type]
    np.testing.assert_allclose(ranker.score(query, DOCUMENTS), expected, atol=2e-5)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_a_score_does_not_depend_on_the_other_documents(model: NeuralModel) -> None:
    ranker = made_ranker(model)
    together = ranker.score(["a", "b"], DOCUMENTS)
    alone = [ranker.score(["a", "b"], [document])[0] for document in DOCUMENTS]
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert ranker.score(["a"], []).shape == (0,)


@pytest.mark.parametrize("kind", ["knrm", "conv-knrm", "c-knrm-star"])
def test_masked_soft_features_do_not_tell_how_often_a_query_word_occurs(kind: str) -> None:
    """With the exact kernels left out, more of the query's word changes nothing."""
    model: Any = MODELS[kind]
    soft = type(model)(model.settings.model_copy(update={"exact_kernel": False}))
    ranker = made_ranker(soft)
    # The word stands at the end, so that no other n-gram comes or goes with it.
    few, many = ([*"bcd", *"a" * n] for n in (1, 6))
    once, often = ranker.score(["a"], [few, many])
    assert once == pytest.approx(often, abs=1e-6)
    bare = type(model)(soft.settings.model_copy(update={"mask_exact": False}))
    once, often = made_ranker(bare).score(["a"], [few, many])
    assert abs(once - often) > 1e-3


def test_further_features_are_added_to_the_kernels() -> None:
    ranker = made_ranker(Knrm(KnrmSettings(n_extra=1)))
    extra = np.linspace(-1, 1, len(DOCUMENTS))[:, None]
    plain = replace(
        ranker,
        model=Knrm(),
        parameters={"weights": ranker.parameters["weights"][:11], "bias": np.zeros(1)},
    )
    expected = np.arctanh(plain.score(["a"], DOCUMENTS))
    expected = expected + ranker.parameters["weights"][11] * extra[:, 0]
    found = ranker.score(["a"], DOCUMENTS, extra)
    np.testing.assert_allclose(found, np.tanh(expected + ranker.parameters["bias"][0]), atol=1e-5)
    with pytest.raises(DataError, match="1 further features"):
        ranker.score(["a"], DOCUMENTS)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_gradients_are_those_of_finite_differences(model: NeuralModel) -> None:
    ranker = made_ranker(model)
    texts = judged([["a", "b", "i"]], [DOCUMENTS[0], DOCUMENTS[4]], [[1, 0]])
    batch = neural_ranker_module.NumberedTexts(texts, EMBEDDING).batch(np.arange(2))
    tensors = {
        name: value.double().requires_grad_(not model.constant(name))
        for name, value in neural_ranker_module.tensors_of(ranker).items()
    }
    batch = batch._replace(extra=batch.extra.astype(np.float64))
    score = model.scores(tensors, batch).sum()
    score.backward()
    rng = np.random.default_rng(1)
    for name, tensor in tensors.items():
        if model.constant(name):
            continue
        direction = torch.from_numpy(rng.normal(size=tuple(tensor.shape)))
        with torch.no_grad():
            up, down = (
                float(model.scores({**tensors, name: tensor + step * direction}, batch).sum())
                for step in (1e-6, -1e-6)
            )
        slope = float((tensor.grad * direction).sum())
        assert slope == pytest.approx((up - down) / 2e-6, rel=1e-3, abs=1e-6)


def judged(
    queries: list[list[str]], documents: list[list[str]], grades: list[list[int]]
) -> JudgedTexts:
    n = len(documents)
    return JudgedTexts(
        queries,
        documents,
        np.tile(np.arange(n), len(queries)),
        np.array(grades).reshape(-1),
        np.arange(len(queries) + 1) * n,
    )


def soft_world(seed: int, n_queries: int = 24) -> tuple[Embedding, JudgedTexts]:
    """A document is relevant if it has a word near the query's word; the word itself is noise."""
    rng = np.random.default_rng(99)
    topics = rng.normal(size=(6, 12))
    words = [f"t{topic}w{i}" for topic in range(6) for i in range(5)]
    vectors = np.repeat(topics, 5, axis=0) + 0.6 * rng.normal(size=(30, 12))
    rng = np.random.default_rng(seed)
    queries, documents, candidates, grades = [], [], [], []
    for _ in range(n_queries):
        topic = int(rng.integers(6))
        queries.append([f"t{topic}w0"])
        for _ in range(8):
            grade = int(rng.integers(2))
            others = [t for t in range(6) if t != topic]
            text = [f"t{rng.choice(others)}w{rng.integers(5)}" for _ in range(6)]
            text += [f"t{topic}w{rng.integers(1, 5)}" for _ in range(2 * grade)]
            candidates.append(len(documents))
            documents.append(text)
            grades.append(grade)
    texts = JudgedTexts(
        queries, documents, np.array(candidates), np.array(grades), np.arange(n_queries + 1) * 8
    )
    return Embedding(tuple(words), vectors.astype(np.float32)), texts


SMALL: dict[str, NeuralModel] = {
    "knrm": Knrm(),
    "knrm with its vectors": Knrm(KnrmSettings(train_vectors=True)),
    "conv-knrm": ConvKnrm(ConvKnrmSettings(n_filters=8, longest=2)),
    "c-knrm-star": CKnrmStar(CKnrmStarSettings(n_filters=8)),
    "drmm": Drmm(),
}
QUICK = NeuralTraining(learning_rate=0.02, n_epochs=6, pairs_per_query=8, patience=6)


@pytest.mark.parametrize("model", SMALL.values(), ids=SMALL.keys())
def test_a_ranker_learns_and_the_same_seed_learns_the_same(model: NeuralModel) -> None:
    embedding, train = soft_world(0)
    _, validation = soft_world(1)
    _, test = soft_world(2)
    start = NeuralRanker.initial(model, embedding, seed=1)
    told: list[TrainingPass] = []
    fitted = fit_neural(start, train, QUICK, seed=5, validation=validation, progress=told.append)
    assert tuple(told) == fitted.passes
    assert fitted.passes[fitted.best - 1].ndcg == max(p.ndcg for p in fitted.passes)
    assert validation_ndcg(fitted.ranker, validation) == max(p.ndcg for p in fitted.passes)
    blind = np.mean([validation_ndcg(NeuralRanker.initial(model, embedding, seed=s), test)
                     for s in range(6)])  # fmt: skip
    assert validation_ndcg(fitted.ranker, test) > blind + 0.05
    again = fit_neural(start, train, QUICK, seed=5, validation=validation)
    other = fit_neural(start, train, QUICK, seed=6, validation=validation)
    same = [
        all(
            np.array_equal(fitted.ranker.parameters[name], ranker.parameters[name])
            for name in fitted.ranker.parameters
        )
        for ranker in (again.ranker, other.ranker)
    ]
    assert same == [True, False]
    trained = not np.array_equal(fitted.ranker.embedding.vectors, embedding.vectors)
    assert trained == (not model.constant("vectors"))


def test_training_stops_when_nothing_gets_better() -> None:
    embedding, train = soft_world(0, n_queries=4)
    blank = JudgedTexts([["x"]], [["y"], ["z"]], np.array([0, 1]), np.array([0, 1]),
                        np.array([0, 2]))  # fmt: skip
    settings = NeuralTraining(n_epochs=10, patience=2)
    start = NeuralRanker.initial(Knrm(), embedding)
    fitted = fit_neural(start, train, settings, validation=blank)
    assert (len(fitted.passes), fitted.best) == (3, 1)
    unchecked = fit_neural(start, train, NeuralTraining(n_epochs=3))
    assert (len(unchecked.passes), unchecked.best) == (3, 3)
    assert math.isnan(unchecked.passes[0].ndcg)


def test_training_leaves_torchs_global_state_alone() -> None:
    embedding, train = soft_world(0, n_queries=3)
    torch.manual_seed(1)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    start = NeuralRanker.initial(Knrm(), embedding)
    fit_neural(start, train, NeuralTraining(n_epochs=1))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads
    np.testing.assert_array_equal(
        start.parameters["weights"], NeuralRanker.initial(Knrm(), embedding).parameters["weights"]
    )


def test_queries_without_a_better_candidate_cannot_be_learnt_from() -> None:
    embedding, train = soft_world(0, n_queries=2)
    flat = replace(train, labels=np.ones(train.n_rows, np.int8))
    with pytest.raises(DataError, match="different grades"):
        fit_neural(NeuralRanker.initial(Knrm(), embedding), flat)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_scores_are_equal_after_saving_and_loading(model: NeuralModel, tmp_path: Path) -> None:
    ranker = made_ranker(model)
    path = tmp_path / "a.safetensors"
    save_neural(ranker, path)
    loaded = load_neural(path)
    assert loaded.model.settings == model.settings
    assert loaded.model.kind == model.kind
    assert loaded.embedding.words == ranker.embedding.words
    np.testing.assert_array_equal(
        loaded.score(["a", "b"], DOCUMENTS), ranker.score(["a", "b"], DOCUMENTS)
    )
    assert path.stat().st_mode & 0o077 == 0
    content = path.read_bytes()
    save_neural(loaded, path)
    assert path.read_bytes() == content


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_neural(made_ranker(Knrm()), path)
    content = path.read_bytes()
    for place in range(8, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises((DataError, Damaged)):
            load_neural(path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="not a whole file"):
        load_neural(path)
    with pytest.raises(NotFound):
        load_neural(tmp_path / "none")


def test_a_ranker_is_made_and_kept_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(neural_ranker_module.importlib, "import_module", refuse)
    ranker = NeuralRanker.initial(CKnrmStar(), EMBEDDING)
    save_neural(ranker, tmp_path / "a")
    with pytest.raises(MissingDependency, match=r"cloister\[neural\]"):
        load_neural(tmp_path / "a").score(["a"], DOCUMENTS)


def test_unsound_parameters_and_texts_are_refused() -> None:
    with pytest.raises(DataError, match="not those of the model"):
        NeuralRanker(Knrm(), EMBEDDING, {"weights": np.zeros(10), "bias": np.zeros(1)})
    with pytest.raises(DataError, match="not finite"):
        NeuralRanker(Knrm(), EMBEDDING, {"weights": np.full(11, np.nan), "bias": np.zeros(1)})
    with pytest.raises(DataError, match="do not fit"):
        JudgedTexts([["a"]], [["a"]], np.array([1]), np.array([1]), np.array([0, 1]))
    with pytest.raises(SettingsError):
        CKnrmStarSettings(longest=3)


def test_rarer_words_have_higher_idf() -> None:
    idf = inverse_document_frequencies(count_terms(["aa bb", "bb", "bb"]))
    assert idf["aa"] == pytest.approx(math.log(1 + 2.5 / 1.5))
    assert idf["bb"] == pytest.approx(math.log(1 + 0.5 / 3.5))


def test_conv_knrm_has_nine_cross_matches_of_128_filters() -> None:
    parameters = NeuralRanker.initial(ConvKnrm(), EMBEDDING).parameters
    assert parameters["weights"].shape == (99,)
    assert parameters["filters_3"].shape == (3, 5, 128)
