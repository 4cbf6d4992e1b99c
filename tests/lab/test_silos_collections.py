"""Collections as parties: sharing out, reference rankings, labels, splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cloister.core.errors import DataError, SettingsError
from cloister.index.analysis import TextAnalysis
from cloister.index.term_counts import count_terms
from cloister.lab.silos.collections import (
    _added,
    make_parties,
    open_silos,
    reference_labels,
)
from cloister.lab.silos.reference_ranking import FullTextRanking
from cloister.lab.silos.settings import CollectionSettings, RowSettings
from cloister.lab.silos.texts import MEDQUAD_GROUPS, by_topics, read_texts

TINY = "world:clinic?servers=4&organisations=4&pods=40&queries=80&document_bytes=0&staff=8"


def tiny(**fields: object) -> RowSettings:
    return RowSettings(collection="clinic", data=TINY, counts="exact", **fields)


def test_full_text_scores_equal_the_formula_of_bm25() -> None:
    texts = ["cough cough fever rash", "fever", "rash rash rash fever cough", "pain"]
    ranking = FullTextRanking(count_terms(texts))
    words = [text.split() for text in texts]
    mean = sum(map(len, words)) / 4
    for number, own in enumerate(words):
        expected = 0.0
        for term in ("cough", "fever"):
            df = sum(term in other for other in words)
            count = own.count(term)
            idf = np.log(1 + (4 - df + 0.5) / (df + 0.5))
            expected += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(own) / mean))
        assert ranking.scores(["cough", "fever", "unknown"])[number] == pytest.approx(expected)


def test_judged_documents_come_first_by_grade_and_then_by_score() -> None:
    texts = ["cough", "cough pain pain pain", "pain", "cough cough", "fever"]
    ranking = FullTextRanking(count_terms(texts))
    found = ranking.reference(["cough"], {4: 1, 1: 3, 0: 1}, np.arange(5), depth=10)
    assert found.documents.tolist() == [1, 0, 4, 3]
    assert found.grades.tolist() == [3, 1, 1, 0]


def test_a_reference_ranking_of_some_documents_knows_no_others() -> None:
    ranking = FullTextRanking(count_terms(["cough", "cough cough", "cough fever"]))
    found = ranking.reference(["cough"], {1: 2}, np.array([0, 2]), depth=10)
    assert sorted(found.documents.tolist()) == [0, 2]
    assert found.grades.tolist() == [0, 0]


def test_labels_are_those_of_the_paper() -> None:
    assert reference_labels(5).tolist() == [2] * 5
    assert Counter(reference_labels(150).tolist()) == {2: 10, 1: 90, 0: 50}


def test_fields_put_together_count_as_one_text() -> None:
    bodies, titles = ["cough fever", "", "rash"], ["fever", "pain rash", ""]
    whole = _added([count_terms(bodies), count_terms(titles)])
    together = count_terms(f"{a} {b}" for a, b in zip(bodies, titles, strict=True))
    words = ["cough", "fever", "rash", "pain"]
    documents = np.arange(3)
    assert np.array_equal(
        whole.term_counts(words, documents), together.term_counts(words, documents)
    )
    assert whole.lengths.tolist() == together.lengths.tolist()


def test_topics_put_documents_with_the_same_words_together() -> None:
    rng = np.random.default_rng(1)
    topics = rng.permutation(np.repeat([0, 1], 60))
    texts = [" ".join(rng.choice([f"t{topic}w{i}" for i in range(20)], 15)) for topic in topics]
    party = by_topics(count_terms(texts), 2, np.random.default_rng(2))
    agreement = np.mean(party == topics)
    assert max(agreement, 1 - agreement) > 0.95


def test_no_party_takes_much_more_than_its_share() -> None:
    texts = ["cough fever pain"] * 50 + ["rash itch"]
    party = by_topics(count_terms(texts), 3, np.random.default_rng(1))
    assert np.bincount(party, minlength=3).max() <= 1.6 * 51 / 3 + 1


def test_queries_lie_with_the_party_of_their_best_answer() -> None:
    texts = read_texts(CollectionSettings(collection="clinic", data=TINY))
    silos = open_silos(CollectionSettings(collection="clinic", data=TINY))
    home = {q.query_id: i for i, silo in enumerate(silos) for q in silo.queries}
    asked = {frozenset(TextAnalysis().terms(query.text)) for query in texts.queries}
    assert len(home) == len(asked)
    for query_id, grades in texts.judged.items():
        if query_id not in home:  # asked before in the same words
            continue
        best = max(grades.values())
        holders = {int(texts.party[d]) for d, grade in grades.items() if grade == best}
        assert home[query_id] in holders  # type: ignore[index]


def test_judged_labels_are_what_was_judged() -> None:
    basis = CollectionSettings(collection="clinic", data=TINY, labels="judged")
    texts, silos = read_texts(basis), open_silos(basis)
    for number, silo in enumerate(silos):
        own = np.flatnonzero(texts.party == number)
        for query in silo.queries:
            judged = texts.judged[query.query_id]
            expected = [min(2, judged.get(int(own[d]), 0)) for d in query.documents]
            assert query.grades.tolist() == expected


def test_splits_share_no_query_and_follow_the_seed() -> None:
    settings = tiny(n_training=6, n_validation=2, n_test=2)
    one, again, other = (
        make_parties(settings),
        make_parties(settings),
        make_parties(settings.model_copy(update={"seed": 2})),
    )
    for party in one:
        parts = [party.training, party.validation, party.test]
        names = [query.query_id for part in parts for query in part]
        assert len(names) == len(set(names))
        asked = [frozenset(query.terms) for part in parts for query in part]
        assert len(asked) == len(set(asked))
        assert all(parts)
    drawn = [[[q.query_id for q in p.training] for p in parties] for parties in (one, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_party_with_too_few_queries_is_refused_with_a_remedy() -> None:
    few = TINY.replace("queries=80", "queries=4")
    with pytest.raises(DataError, match="too few"):
        make_parties(RowSettings(collection="clinic", data=few, counts="exact"))


def test_a_world_with_other_organisations_is_refused() -> None:
    with pytest.raises(SettingsError, match="organisations"):
        read_texts(CollectionSettings(collection="clinic", data=TINY, n_parties=3))


def test_medquad_is_shared_out_by_source(real_data: Callable[[str], Path]) -> None:
    folder = real_data("text/medquad")
    texts = read_texts(CollectionSettings(collection="medquad", data=str(folder)))
    assert np.bincount(texts.party).tolist() == [1214, 1256, 10819, 4607]
    assert len({source for group in MEDQUAD_GROUPS for source in group}) == 12
    assert len(texts.queries) > 1000
    assert len(texts.judged) == 96


def test_ms_marco_has_no_titles_and_gets_known_items(real_data: Callable[[str], Path]) -> None:
    folder = str(real_data("text/trecdl-msmarco-5k"))
    basis = CollectionSettings(collection="msmarco-5k", data=folder, sharing="random")
    silos = open_silos(basis)
    assert [silo.fields["body"].n_documents for silo in silos] == [1250] * 4
    assert all(set(silo.fields) == {"body"} for silo in silos)
    assert sum(int(silo.judged.sum()) for silo in silos) == 43
    assert all(len(silo.queries) > 300 for silo in silos)
