from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from cloister.core.errors import DataError
from cloister.data.ranking_data import RankingData
from cloister.index.pooled_statistics import PooledStatistics
from cloister.index.term_counts import TermCounts, count_terms
from cloister.index.term_weights import TermWeightSettings, bm25, match_terms
from cloister.rank.features import (
    FEATURE_NAMES,
    WEIGHT_NAMES,
    feature_names,
    features_of,
    joined_rows,
    query_features,
)

BODIES = ["cough cough fever", "fever rash", "asthma inhaler cough", "ward ward night"]
TITLES = ["cough", "rash and fever", "", "night"]


def sources() -> dict[str, TermCounts]:
    return {"title": count_terms(TITLES), "body": count_terms(BODIES)}


def test_there_are_sixteen_features_and_eight_without_titles() -> None:
    assert len(FEATURE_NAMES) == 16
    assert FEATURE_NAMES[0] == "body.length"
    assert feature_names(["body"]) == FEATURE_NAMES[:8]
    everything = query_features(["cough"], np.arange(4), sources())
    bodies = query_features(["cough"], np.arange(4), {"body": count_terms(BODIES)})
    assert everything.shape == (4, 16)
    assert everything.dtype == np.float32
    np.testing.assert_array_equal(everything[:, :8], bodies)


def test_each_column_is_what_its_name_says() -> None:
    features = query_features(["cough", "fever"], np.arange(4), sources())
    column = FEATURE_NAMES.index("title.bm25")
    found = match_terms(["cough", "fever"], np.arange(4), count_terms(TITLES))
    wanted = bm25(found, TermWeightSettings()).astype(np.float32)
    np.testing.assert_array_equal(features[:, column], wanted)
    lengths = features[:, FEATURE_NAMES.index("title.length")]
    assert lengths.tolist() == count_terms(TITLES).lengths.tolist()


def test_documents_split_over_parties_have_the_features_of_the_union() -> None:
    """With pooled statistics it does not matter which party a document lies with."""
    whole, parts = count_terms(BODIES), (count_terms(BODIES[:2]), count_terms(BODIES[2:]))
    pooled = {"body": PooledStatistics(parts)}
    for settings in (TermWeightSettings(), TermWeightSettings.printed()):
        apart = [
            query_features(["cough", "ward"], np.arange(2), {"body": part}, pooled, settings)
            for part in parts
        ]
        together = query_features(["cough", "ward"], np.arange(4), {"body": whole}, None, settings)
        np.testing.assert_array_equal(np.concatenate(apart), together)
    own = query_features(["cough", "ward"], np.arange(2), {"body": parts[0]})
    assert not np.array_equal(own, together[:2])


def test_a_data_set_holds_the_features_of_each_query() -> None:
    queries = [["cough"], [], ["fever", "night"]]
    candidates = [np.array([2, 0]), np.array([], np.int64), np.array([3])]
    labels = [np.array([1, 2]), np.array([], np.int64), np.array([0])]
    data = features_of(
        queries, candidates, labels, sources(), query_ids=("a", "b", "c"), doc_ids="wxyz"
    )
    assert data.offsets.tolist() == [0, 2, 2, 3]
    assert data.labels.tolist() == [1, 2, 0]
    assert data.doc_ids == ("y", "w", "z")
    for number, terms in enumerate(queries):
        np.testing.assert_array_equal(
            data.features[data.rows(number)],
            query_features(terms, candidates[number], sources()),
        )


def test_rows_of_several_parties_are_joined_by_query() -> None:
    def part(first: float, lengths: list[int]) -> RankingData:
        n = sum(lengths)
        return RankingData(
            np.arange(first, first + n)[:, np.newaxis],
            np.full(n, int(first) // 10, np.int8),
            np.concatenate([[0], np.cumsum(lengths)]),
            ("a", "b"),
            tuple(f"{first:.0f}-{i}" for i in range(n)),
        )

    joined = joined_rows([part(0, [1, 2]), part(10, [2, 0])])
    assert joined.features[:, 0].tolist() == [0, 10, 11, 1, 2]
    assert joined.labels.tolist() == [0, 1, 1, 0, 0]
    assert joined.offsets.tolist() == [0, 3, 5]
    assert joined.doc_ids == ("0-0", "10-0", "10-1", "0-1", "0-2")
    assert joined.query_ids == ("a", "b")


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(DataError, match="no field"):
        query_features(["a"], np.arange(1), {})
    with pytest.raises(DataError, match="different numbers"):
        query_features(["a"], np.arange(1), {"body": count_terms(["a"]), "title": count_terms([])})
    with pytest.raises(DataError, match="title"):
        query_features(["a"], np.arange(1), sources(), {"body": count_terms(BODIES)})
    with pytest.raises(DataError, match="fit together"):
        features_of([["a"]], [np.arange(2)], [np.arange(1)], sources())
    one = RankingData(np.zeros((1, 1)), np.zeros(1, np.int8), np.array([0, 1]))
    with pytest.raises(DataError, match="different queries"):
        joined_rows([one, RankingData(np.zeros((1, 2)), np.zeros(1, np.int8), np.array([0, 1]))])


def test_a_training_set_of_the_papers_size_takes_seconds() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(3000)]
    texts = [" ".join(rng.choice(words, 80)) for _ in range(2000)]
    body, title = count_terms(texts), count_terms(text[:30] for text in texts)
    queries = [list(rng.choice(words, 5)) for _ in range(800)]
    candidates = [rng.integers(2000, size=140) for _ in queries]
    begin = time.process_time()
    data = features_of(
        queries, candidates, [np.zeros(140, int)] * 800, {"body": body, "title": title}
    )
    assert time.process_time() - begin < 5  # about one second; the bound allows for a busy machine
    assert np.isfinite(data.features).all()
    assert data.n_rows == 112_000


def test_the_bm25_feature_alone_reaches_the_known_ndcg_on_nfcorpus(real_data: Any) -> None:
    from cloister.data.beir import open_beir
    from cloister.index.analysis import TextAnalysis
    from cloister.measure.mean import mean
    from cloister.measure.named import evaluate

    collection = open_beir(real_data("text/nfcorpus"))
    exact = count_terms(document.text for document in collection.documents)
    numbers = {document.doc_id: n for n, document in enumerate(collection.documents)}
    texts = {query.query_id: query.text for query in collection.queries}
    grades: dict[Any, dict[int, int]] = {}
    for judgement in collection.judgements["test"]:
        grades.setdefault(judgement.query_id, {})[numbers[judgement.doc_id]] = judgement.grade
    everything = np.arange(exact.n_documents)
    data = features_of(
        [TextAnalysis().terms(texts[query]) for query in grades],
        [everything] * len(grades),
        [np.array([judged.get(n, 0) for n in everything]) for judged in grades.values()],
        {"body": exact},
    )
    column = WEIGHT_NAMES.index("bm25")
    value = mean(evaluate(data.features[:, column], data, ["nDCG@10"])["nDCG@10"])
    assert value == pytest.approx(0.311, abs=0.02)  # what the collection's notes give for BM25
