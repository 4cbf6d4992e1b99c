"""Augmentation: who is asked, what comes back, and how it is labelled."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.core.ids import PartyId, QueryId
from cloister.federate.silos.augmentation import (
    AugmentationSettings,
    ExactAnswers,
    Released,
    appended,
    ask,
    augment,
    labels_by_rank,
)
from cloister.federate.silos.party import Party, SiloQuery, others_than, own_candidates
from cloister.index.pooled_statistics import PooledStatistics
from cloister.index.term_counts import count_terms
from cloister.rank.features import query_features

WORDS = tuple(f"w{i}" for i in range(12))


def texts(seed: int, n: int = 40) -> list[str]:
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, len(WORDS) + 1)
    return [
        " ".join(rng.choice(WORDS, rng.integers(3, 30), p=weights / weights.sum()))
        for _ in range(n)
    ]


def released(seed: int, n: int = 40) -> Released:
    fields = {"body": count_terms(texts(seed, n)), "title": count_terms(texts(seed + 100, n))}
    exact = {name: ExactAnswers(counts) for name, counts in fields.items()}
    return Released(PartyId(f"party-{seed}"), exact)


def pooled(parties: list[Released]) -> dict[str, PooledStatistics]:
    return {
        name: PooledStatistics([one.fields[name] for one in parties]) for name in ("body", "title")
    }


def query(*terms: str) -> SiloQuery:
    return SiloQuery(QueryId("q"), terms, np.empty(0, np.int64), np.empty(0, np.int8))


@given(st.integers(0, 50), st.sampled_from(WORDS), st.integers(1, 60))
def test_exact_answers_are_the_documents_with_the_highest_counts(
    seed: int, term: str, k: int
) -> None:
    bodies = texts(seed)
    counts = [Counter(text.split())[term] for text in bodies]
    documents, values = ExactAnswers(count_terms(bodies)).top(term, k)
    expected = sorted((d for d in range(len(bodies)) if counts[d]), key=lambda d: (-counts[d], d))
    assert documents.tolist() == expected[:k]
    assert values.tolist() == [counts[d] for d in expected[:k]]


def test_an_unknown_term_has_no_answers() -> None:
    documents, values = ExactAnswers(count_terms(["cough"])).top("fever", 5)
    assert len(documents) == len(values) == 0


def test_answers_are_ranked_by_bm25_of_body_and_title_together() -> None:
    parties = [released(1), released(2)]
    statistics = pooled(parties)
    found = ask(["w3", "w5"], parties[0], statistics, 1000)
    body, title = parties[0].fields["body"], parties[0].fields["title"]
    scores = {}
    n = statistics["body"].n_documents
    mean = sum(statistics[name].n_tokens / n for name in statistics)
    for d in range(40):
        total = 0.0
        for term in ("w3", "w5"):
            one = np.array([d])
            count = float(
                body.term_counts([term], one)[0, 0] + title.term_counts([term], one)[0, 0]
            )
            df = max(float(statistics[name].document_frequencies([term])[0]) for name in statistics)
            idf = np.log(1 + (n - df + 0.5) / (df + 0.5))
            length = body.lengths[d] + title.lengths[d]
            total += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / mean))
        if total > 0:
            scores[d] = total
    assert found.documents.tolist() == sorted(scores, key=lambda d: (-scores[d], d))
    assert found.scores == pytest.approx([scores[d] for d in found.documents])


def test_only_k_documents_a_term_and_field_are_asked_for() -> None:
    one = released(3)
    found = ask(["w0"], one, pooled([one]), 4)
    assert len(found.documents) <= 8


@pytest.mark.parametrize("labels", ["each-party", "together", "positive"])
def test_rows_have_the_features_that_the_other_party_would_compute(labels: str) -> None:
    parties = [released(1), released(2)]
    statistics = pooled(parties)
    settings = AugmentationSettings(labels=labels, n_documents=80, n_others=0)
    rows = augment([query("w2", "w4")], parties, statistics, np.random.default_rng(1), settings)
    expected = np.concatenate(
        [
            query_features(
                ["w2", "w4"],
                ask(["w2", "w4"], one, statistics, 150).documents[:40],
                one.fields,
                statistics,
            )
            for one in parties
        ]
    )
    order = [np.lexsort(matrix.T) for matrix in (rows.features, expected)]
    assert np.array_equal(rows.features[order[0]], expected[order[1]])


def test_labels_by_each_partys_ranks_treat_all_parties_alike() -> None:
    parties = [released(1), released(2), released(3)]
    rows = augment(
        [query("w0"), query("w1")],
        parties,
        pooled(parties),
        np.random.default_rng(1),
        AugmentationSettings(labels="each-party", n_documents=60, n_others=9),
    )
    assert rows.n_queries == 6
    for number in range(6):
        labels = rows.labels[rows.rows(number)]
        assert np.bincount(labels, minlength=3).tolist() == [3, 10, 10]


def test_labels_together_make_one_query_with_ten_best_of_all_parties() -> None:
    parties = [released(1), released(2), released(3)]
    rows = augment(
        [query("w0")],
        parties,
        pooled(parties),
        np.random.default_rng(1),
        AugmentationSettings(labels="together", n_documents=60, n_others=9),
    )
    assert rows.n_queries == 1
    assert np.bincount(rows.labels, minlength=3).tolist() == [9, 50, 10]


def test_positive_labels_are_all_one() -> None:
    parties = [released(1), released(2)]
    rows = augment(
        [query("w0")],
        parties,
        pooled(parties),
        np.random.default_rng(1),
        AugmentationSettings(labels="positive", n_documents=20, n_others=6),
    )
    assert np.bincount(rows.labels).tolist() == [6, 20]


def test_the_grades_of_a_partys_own_documents_do_not_reach_the_augmented_rows() -> None:
    parties = [released(1), released(2)]
    plain = query("w0")
    graded = plain._replace(documents=np.arange(5), grades=np.full(5, 2, np.int8))
    both = [
        augment([one], parties, pooled(parties), np.random.default_rng(1))
        for one in (plain, graded)
    ]
    assert np.array_equal(both[0].features, both[1].features)
    assert np.array_equal(both[0].labels, both[1].labels)


@given(st.integers(0, 20), st.integers(0, 30), st.integers(0, 1000))
def test_other_documents_are_others_and_all_different(taken: int, wanted: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    own = rng.choice(20, taken, replace=False)
    drawn = others_than(own, 20, wanted, rng)
    assert len(drawn) == len(set(drawn.tolist())) == min(wanted, 20 - taken)
    assert not set(drawn.tolist()) & set(own.tolist())


def test_own_candidates_keep_their_grades() -> None:
    one = SiloQuery(QueryId("q"), ("a",), np.array([4, 2]), np.array([2, 1], np.int8))
    (found,) = own_candidates([one], 50, 10, np.random.default_rng(1))
    graded = dict(zip(found.documents.tolist(), found.labels.tolist(), strict=True))
    assert {document: grade for document, grade in graded.items() if grade} == {4: 2, 2: 1}
    assert len(graded) == 12


def test_ranks_become_the_labels_of_the_paper() -> None:
    assert np.bincount(labels_by_rank(np.arange(140))).tolist() == [40, 90, 10]


def test_appended_data_keeps_every_query() -> None:
    parties = [released(1)]
    rows = augment([query("w0")], parties, pooled(parties), np.random.default_rng(1))
    both = appended([rows, rows])
    assert both.n_queries == 2 * rows.n_queries
    assert np.array_equal(both.features[rows.n_rows :], rows.features)


@pytest.mark.parametrize(
    ("documents", "grades"), [([0, 0], [1, 1]), ([7], [1]), ([-1], [1]), ([0, 1], [1])]
)
def test_a_party_refuses_queries_that_do_not_fit_its_documents(
    documents: list[int], grades: list[int]
) -> None:
    one = SiloQuery(QueryId("q"), ("a",), np.array(documents), np.array(grades, np.int8))
    with pytest.raises(DataError, match="one grade"):
        Party(PartyId("p"), {"body": count_terms(["a", "b"])}, training=(one,))


def test_a_party_refuses_fields_of_different_documents() -> None:
    fields = {"body": count_terms(["a", "b"]), "title": count_terms(["a"])}
    with pytest.raises(DataError, match="same documents"):
        Party(PartyId("p"), fields)
