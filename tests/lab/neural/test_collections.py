from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.core.ids import DocId, QueryId
from cloister.core.records import Document, Judgement, Query
from cloister.data.text_collection import TextCollection, TextRecord
from cloister.lab.neural.candidates import (
    CandidateSettings,
    CandidateStatistics,
    find_candidates,
)
from cloister.lab.neural.collection import (
    COLLECTIONS,
    RankingCollection,
    RankingCollectionSettings,
    open_ranking_collection,
    ranking_collection,
)
from cloister.lab.neural.folds import cross_validation, query_folds

TEXTS = ("dry cough", "cough cough fever", "fever", "a rash", "cough of children at night")
URLS = ("https://nih.gov/1", "https://nih.gov/2", "http://cdc.gov/3", "", "https://nih.gov/5")
QUERIES = {"q1": "The cough", "q2": "fever cough fever", "q3": "rash", "q4": "the", "q5": "gout"}
GRADES = {
    "train": [("q1", "d0", 2), ("q1", "d3", 0), ("q1", "d9", 3)],
    "dev": [("q2", "d2", 1), ("q2", "d3", 1)],
    "test": [("q3", "d3", 0), ("q4", "d0", 2), ("q5", "d4", 1)],
}


def made(kind: str = "beir", splits: tuple[str, ...] = ("train", "dev", "test")) -> TextCollection:
    def records() -> Iterator[TextRecord]:
        for number, (text, url) in enumerate(zip(TEXTS, URLS, strict=True)):
            yield TextRecord(Document(DocId(f"d{number}"), text), {"url": url} if url else {})

    judgements = {
        split: tuple(Judgement(QueryId(q), DocId(d), grade) for q, d, grade in GRADES[split])
        for split in splits
    }
    queries = tuple(Query(QueryId(name), text) for name, text in QUERIES.items())
    return TextCollection(kind, "made", records, queries, judgements)


def test_a_record_holds_queries_with_terms_and_something_relevant() -> None:
    collection = ranking_collection("made", made())
    assert [query.query_id for query in collection.queries] == ["q1", "q2", "q5"]
    first, second, _ = collection.queries
    assert first.terms == ("cough",)
    assert second.terms == ("fever", "cough")  # in their order, each once
    assert (first.documents.tolist(), first.grades.tolist()) == ([0, 3], [2, 0])  # no d9 here
    assert collection.texts.document(4) == ["cough", "children", "night"]
    assert collection.sources == ("nih.gov", "nih.gov", "cdc.gov", "", "nih.gov")
    assert [query.role for query in collection.queries] == ["training", "validation", "test"]


def test_a_query_can_be_cut() -> None:
    settings = RankingCollectionSettings(most_terms=1)
    assert ranking_collection("made", made(), settings).queries[1].terms == ("fever",)


def test_a_collection_with_its_own_split_is_one_fold() -> None:
    (fold,) = query_folds(ranking_collection("made", made()))
    assert [part.tolist() for part in fold] == [[0], [1], [2]]


def test_a_collection_with_one_split_has_none_of_its_own() -> None:
    collection = ranking_collection("made", made(splits=("test",)))
    assert not collection.has_split
    assert {query.role for query in collection.queries} == {""}


def test_a_collection_with_nothing_relevant_is_refused() -> None:
    with pytest.raises(DataError, match="no query has a relevant document"):
        ranking_collection("made", made(splits=()))


def test_retrieved_candidates_hold_a_term_and_come_best_first() -> None:
    collection = ranking_collection("made", made())
    first, second, third = find_candidates(collection)
    assert set(first.documents.tolist()) == {0, 1, 4}
    assert (np.diff(first.bm25) <= 0).all()
    assert first.bm25.min() > 0
    assert dict(zip(first.documents.tolist(), first.grades.tolist(), strict=True))[0] == 2
    assert second.documents[0] == 1  # the only one with both terms
    assert not len(third.documents)  # nobody writes of gout
    (cut, *_) = find_candidates(collection, CandidateSettings(depth=2))
    assert cut.documents.tolist() == first.documents[:2].tolist()


def test_given_candidates_are_the_judged_ones_alone_or_with_others() -> None:
    collection = ranking_collection("made", made("mediqa"))
    first, *_ = find_candidates(collection)
    assert first.documents.tolist() == [0, 3]  # 3 has no term and comes last
    joined, *_ = find_candidates(collection, CandidateSettings(given="joined"))
    assert sorted(joined.documents.tolist()) == [0, 1, 3, 4]
    assert joined.documents[-1] == 3


def test_statistics_count_relevant_documents_that_are_not_candidates() -> None:
    collection = ranking_collection("made", made())
    figures = CandidateStatistics.of(collection, find_candidates(collection)).as_dict()
    assert figures["queries"] == 3
    assert figures["documents"] == 5
    assert figures["candidates_a_query"] == pytest.approx((3 + 4 + 0) / 3)
    assert figures["relevant_a_query"] == pytest.approx((1 + 2 + 1) / 3)
    assert figures["recall"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert figures["sources"] == 2


def test_grade_counts_are_of_all_that_was_judged() -> None:
    collection = ranking_collection("made", made())
    assert collection.grade_counts([1, 0]).tolist() == [[0, 2, 0], [1, 0, 1]]


@given(st.integers(5, 60), st.integers(0, 9))
def test_folds_test_each_query_once_and_never_mix(n_queries: int, seed: int) -> None:
    folds = cross_validation(n_queries, seed=seed)
    tested = np.concatenate([fold.test for fold in folds])
    assert sorted(tested.tolist()) == list(range(n_queries))
    for fold in folds:
        assert sorted(np.concatenate(fold).tolist()) == list(range(n_queries))
        assert abs(len(fold.test) - n_queries / 5) < 1
    again = cross_validation(n_queries, seed=seed)
    assert all((a.test == b.test).all() for a, b in zip(folds, again, strict=True))


def test_another_seed_draws_other_folds() -> None:
    assert cross_validation(40, seed=1)[0].test.tolist() != cross_validation(40)[0].test.tolist()


def test_too_few_queries_make_no_folds() -> None:
    with pytest.raises(DataError, match="4 queries"):
        cross_validation(4)


def opened(name: str, folder: Path) -> RankingCollection:
    return open_ranking_collection(RankingCollectionSettings(name=name, data=str(folder)))


def test_the_real_sample_of_ms_marco_is_searched(real_data: Callable[[str], Path]) -> None:
    collection = opened("msmarco-5k", real_data(COLLECTIONS["msmarco-5k"]))
    assert (collection.texts.n_documents, len(collection.queries)) == (5000, 43)
    assert not collection.given
    assert len(query_folds(collection)) == 5
    candidates = find_candidates(collection)
    assert max(len(one.documents) for one in candidates) == 100


def test_real_wikiqa_has_its_own_split_and_candidates(real_data: Callable[[str], Path]) -> None:
    collection = opened("wikiqa", real_data(COLLECTIONS["wikiqa"]))
    assert collection.given
    (fold,) = query_folds(collection)
    assert [len(part) for part in fold] == [872, 125, 243]
    sizes = [len(one.documents) for one in find_candidates(collection)]
    assert sum(sizes) < 12153  # two questions are of stop words alone
