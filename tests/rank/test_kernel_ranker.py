from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from cloister.core.errors import DataError
from cloister.data.ranking_data import RankingData
from cloister.measure.mean import mean
from cloister.measure.named import evaluate
from cloister.rank.c_knrm_star import (
    CKnrmStar,
    CKnrmStarSettings,
    DocumentKernels,
    matches_of_key,
    query_keys,
)
from cloister.rank.drmm import Drmm
from cloister.rank.embedding import Embedding
from cloister.rank.kernel_pooling import count_grams, kernel_features, kernel_values, word_table
from cloister.rank.kernel_ranker import (
    KernelRanker,
    KernelRankerSettings,
    draw_pairs,
    fit_kernel_ranker,
)
from cloister.rank.knrm import Knrm
from cloister.rank.neural_ranker import NeuralRanker
from rank.labelled_data import made_data

RNG = np.random.default_rng(6)
WORDS = [f"w{i}" for i in range(40)]
EMBEDDING = Embedding(tuple(WORDS[:34]), RNG.normal(size=(34, 16)).astype(np.float32))
DOCUMENTS = [[str(w) for w in RNG.choice(WORDS, size)] for size in [60, 30, 1, 0, 200, 90, 12]]
QUERIES = [["w1"], ["w1", "w2", "w3"], ["w35", "w4", "w4", "w5"], ["unseen", "w7"], []]


def star(*, mask_exact: bool = True, exact_kernel: bool = True, n_extra: int = 0) -> NeuralRanker:
    settings = CKnrmStarSettings(
        n_filters=24, mask_exact=mask_exact, exact_kernel=exact_kernel, n_extra=n_extra
    )
    start = NeuralRanker.initial(CKnrmStar(settings), EMBEDDING, seed=2)
    weights = RNG.normal(size=start.parameters["weights"].shape).astype(np.float32)
    return NeuralRanker(
        start.model, EMBEDDING, {**start.parameters, "weights": weights, "bias": np.array([0.1])}
    )


@pytest.mark.parametrize("mask_exact", [True, False])
@pytest.mark.parametrize("exact_kernel", [True, False])
@pytest.mark.parametrize("query", QUERIES, ids="_".join)
def test_scores_without_torch_are_those_of_torch(
    mask_exact: bool, exact_kernel: bool, query: list[str]
) -> None:
    pytest.importorskip("torch")
    ranker = star(mask_exact=mask_exact, exact_kernel=exact_kernel)
    phi = DocumentKernels.of(ranker, DOCUMENTS).features(query)
    found = KernelRanker.of(ranker).score(phi)
    np.testing.assert_allclose(found, ranker.score(query, DOCUMENTS), atol=1e-5)


def test_further_features_follow_the_kernels() -> None:
    pytest.importorskip("torch")
    ranker = star(n_extra=2)
    extra = RNG.normal(size=(len(DOCUMENTS), 2))
    phi = DocumentKernels.of(ranker, DOCUMENTS).features(["w1", "w2"])
    found = KernelRanker.of(ranker).score(np.hstack([phi, extra]))
    np.testing.assert_allclose(found, ranker.score(["w1", "w2"], DOCUMENTS, extra), atol=1e-5)


def test_knrm_too_is_scored_without_torch() -> None:
    pytest.importorskip("torch")
    ranker = NeuralRanker.initial(Knrm(), EMBEDDING)
    table = word_table(count_grams(DOCUMENTS, 1), EMBEDDING)
    query = ["w1", "w2", "w36"]
    vectors = [EMBEDDING.vectors[row] if row >= 0 else None for row in EMBEDDING.rows(query)]
    values = np.stack([kernel_values([t], v, table) for t, v in zip(query, vectors, strict=True)])
    found = KernelRanker.of(ranker).score(kernel_features(values))
    np.testing.assert_allclose(found, ranker.score(query, DOCUMENTS), atol=1e-5)


def test_values_of_chosen_documents_are_those_of_all() -> None:
    kernels = DocumentKernels.of(star(), DOCUMENTS)
    chosen = np.array([4, 0, 4])
    for key in query_keys(["w1", "w2"]):
        whole = kernels.values(key)
        assert whole.shape == (7, len(matches_of_key(key)), 11)
        np.testing.assert_allclose(
            kernels.select(chosen).values(key), whole[chosen], rtol=1e-4, atol=1e-6
        )
    np.testing.assert_allclose(
        kernels.select(chosen).features(["w1", "w2"]),
        kernels.features(["w1", "w2"])[chosen],
        atol=1e-6,
    )


def test_ranking_by_kernel_values_imports_no_torch() -> None:
    program = (
        "import sys, numpy as np\n"
        "from cloister.rank.c_knrm_star import CKnrmStar, DocumentKernels\n"
        "from cloister.rank.embedding import Embedding\n"
        "from cloister.rank.kernel_ranker import KernelRanker\n"
        "from cloister.rank.neural_ranker import NeuralRanker\n"
        "table = Embedding(('a', 'b'), np.eye(2))\n"
        "ranker = NeuralRanker.initial(CKnrmStar(), table)\n"
        "phi = DocumentKernels.of(ranker, [['a', 'b'], ['b']]).features(['a', 'b'])\n"
        "print(len(KernelRanker.of(ranker).score(phi)), 'torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["2", "False"]


def test_pairs_are_of_one_query_and_the_first_is_the_better() -> None:
    data = made_data(n_queries=20)
    pairs = draw_pairs(data.labels, data.offsets, 7, np.random.default_rng(0))
    queries = np.searchsorted(data.offsets, pairs, side="right")
    assert (queries[:, 0] == queries[:, 1]).all()
    assert (data.labels[pairs[:, 0]] > data.labels[pairs[:, 1]]).all()
    assert np.bincount(queries[:, 0]).max() == 7
    assert len(np.unique(pairs, axis=0)) == len(pairs)


def ndcg_of(ranker: KernelRanker, data: RankingData) -> float:
    return mean(evaluate(ranker.score(data), data, ["nDCG@10"])["nDCG@10"])


def test_a_fitted_layer_ranks_and_the_same_seed_fits_the_same() -> None:
    train, validation, test = (made_data(seed, n_queries=60) for seed in range(3))
    settings = KernelRankerSettings(n_epochs=8)
    fitted = fit_kernel_ranker(train, settings, validation=validation)
    again = fit_kernel_ranker(train, settings, validation=validation)
    other = fit_kernel_ranker(train, settings, validation=validation, seed=1)
    assert ndcg_of(fitted, test) > ndcg_of(KernelRanker(np.zeros(4)), test) + 0.05
    np.testing.assert_array_equal(fitted.weights, again.weights)
    assert not np.array_equal(fitted.weights, other.weights)


def test_the_scale_of_a_feature_does_not_change_the_ranking() -> None:
    data = made_data(n_queries=30)
    scale, shift = np.array([1e-3, 1.0, 50.0, 1.0]), np.array([0.0, -7.0, 3.0, 0.0])
    scaled = RankingData(data.features * scale + shift, data.labels, data.offsets)
    settings = KernelRankerSettings(n_epochs=2)
    plain, moved = (fit_kernel_ranker(d, settings) for d in (data, scaled))
    np.testing.assert_allclose(plain.score(data), moved.score(scaled), atol=1e-4)


def test_documents_that_can_be_told_apart_end_up_apart_by_the_margin() -> None:
    rows = RNG.normal(size=(6, 3))
    data = RankingData(rows, np.array([1, 0, 1, 0, 1, 0], np.int8), np.array([0, 2, 4, 6]))
    settings = KernelRankerSettings(n_epochs=400, batch_pairs=3, learning_rate=0.05)
    fitted = fit_kernel_ranker(data, settings)
    scores = fitted.score(data)
    assert (scores[::2] - scores[1::2] > 0.9).all()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="finite"):
        KernelRanker(np.array([np.nan]))
    with pytest.raises(DataError, match="need 2 features"):
        KernelRanker(np.ones(2)).score(np.ones((1, 3)))
    with pytest.raises(DataError, match="different grades"):
        fit_kernel_ranker(RankingData(np.ones((2, 1)), np.zeros(2, np.int8), np.array([0, 2])))
    with pytest.raises(DataError, match="no such layer"):
        KernelRanker.of(NeuralRanker.initial(Drmm(), EMBEDDING))
    with pytest.raises(DataError, match="not a C-KNRM"):
        DocumentKernels.of(NeuralRanker.initial(Knrm(), EMBEDDING), DOCUMENTS)
    with pytest.raises(DataError, match="one or two words"):
        matches_of_key(["a", "b", "c"])
