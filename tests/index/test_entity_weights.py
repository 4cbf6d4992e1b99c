"""Scores of entities against the printed formulas, word for word."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import AccessDenied
from cloister.core.ids import AgentId, DocId, PodId
from cloister.core.rights import NOBODY, STRANGER, Reader, Rights
from cloister.index.entity_scoring import EntityScorer, term_weight
from cloister.index.entity_statistics import StatisticsTable, added_statistics
from cloister.index.entity_view import LEVELS
from cloister.index.entity_weights import SPARSE_MODELS, ModelSettings, query_weights
from cloister.index.postings import Postings, TermPostings
from cloister.index.reader_view import ReaderView
from cloister.index.snapshot import Segment, Snapshot
from cloister.index.term_counts import count_terms

WORDS = ["cough", "fever", "rash", "ache", "pain"]
WORLDS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), max_size=6),
        st.integers(0, 2),  # pod
        st.booleans(),  # whether the reader may read it
        st.booleans(),  # whether it lies in the second segment
    ),
    min_size=1,
    max_size=10,
)
QUERIES = st.lists(st.sampled_from([*WORDS, "absent"]), min_size=1, max_size=4)
READER = Reader("reader")


def snapshot_of(world) -> Snapshot:
    segments = []
    for second in (False, True):
        part = [one for one in world if one[3] == second]
        segments.append(
            Segment(
                Postings.build(count_terms([" ".join(one[0]) for one in part])),
                [f"doc-{world.index(one)}" for one in part],
                np.array([one[1] for one in part], np.int32),
                np.ones(len(part), bool),
                np.array([int(one[2]) for one in part], np.int32),
            )
        )
    return Snapshot(1, tuple(segments), ("a", "b", "c"), (NOBODY, Rights().grant("reader")))


def entities_of(world, level) -> dict[int, list[str]]:
    """Return the readable words of each entity."""
    ordered = [one for one in world if not one[3]] + [one for one in world if one[3]]
    found: dict[int, list[str]] = {}
    for number, (words, pod, readable, _) in enumerate(ordered):
        if readable:
            key = {"document": number, "pod": pod, "server": 0}[level]
            found.setdefault(key, []).extend(words)
    return found


def printed_score(query, words, entities, model, form, k1=1.2, b=0.75, mixing=0.5) -> float:
    """Equations 5 to 16, entity by entity."""
    n = len(entities)
    every = {t for one in entities.values() for t in one}
    df = {t: sum(t in one for one in entities.values()) for t in every | set(query)}
    mean = sum(map(len, entities.values())) / n
    idf = {
        t: math.log(1 + (n - df[t] + 0.5) / (df[t] + 0.5))
        if form == "non_negative"
        else math.log((n - df[t] + 0.5) / (df[t] + 0.5)) + 1
        for t in df
    }
    counts = Counter(words)
    if model == "bm25":
        length = 1 - b + b * len(words) / mean
        return sum(idf[t] * counts[t] * (k1 + 1) / (counts[t] + k1 * length) for t in query)
    if model == "lm":
        pairs = sum(df[t] for t in every)
        return sum(
            q
            * math.log(
                (1 - mixing)
                + mixing * (counts[t] / len(words)) / (max(df[t], 0.5) / max(pairs, 0.5))
            )
            for t, q in Counter(query).items()
        )
    left = {t: q * idf[t] for t, q in Counter(query).items()}
    right = {t: c * idf[t] for t, c in counts.items()}
    if model == "tfidf-cosine":
        dot = sum(left[t] * right.get(t, 0.0) for t in left)
        norms = [math.sqrt(sum(x * x for x in one.values())) for one in (left, right)]
        return dot / (norms[0] * norms[1])
    return -math.sqrt(
        sum((left.get(t, 0.0) - right.get(t, 0.0)) ** 2 for t in left.keys() | right.keys())
    )


@pytest.mark.parametrize("model", SPARSE_MODELS)
@pytest.mark.parametrize("level", LEVELS)
@given(world=WORLDS, query=QUERIES, form=st.sampled_from(["non_negative", "printed"]))
@settings(max_examples=25)
def test_scores_are_those_of_the_printed_formulas_over_what_may_be_read(
    world, query, form, level, model
):
    view = ReaderView(snapshot_of(world), READER).level(level)
    entities = entities_of(world, level)
    matching = {e: words for e, words in entities.items() if set(words) & set(query)}
    ranked = view.best(query, 100, ModelSettings(model=model, idf=form))
    assert sorted(ranked.entities.tolist()) == sorted(matching)
    for entity, score in zip(ranked.entities.tolist(), ranked.scores.tolist(), strict=True):
        expected = printed_score(query, matching[entity], entities, model, form)
        assert score == pytest.approx(expected, rel=1e-9, abs=1e-6)
    assert ranked.scores.tolist() == sorted(ranked.scores.tolist(), reverse=True)


@given(world=WORLDS, query=QUERIES, level=st.sampled_from(LEVELS))
@settings(max_examples=50)
def test_statistics_are_exact_over_what_may_be_read(world, query, level):
    view = ReaderView(snapshot_of(world), READER).level(level)
    entities = entities_of(world, level)
    assert view.n_entities == len(entities)
    assert view.frequencies(query).tolist() == [
        sum(term in words for words in entities.values()) for term in query
    ]
    assert view.occurrences(query).tolist() == [
        sum(words.count(term) for words in entities.values()) for term in query
    ]
    assert view.n_pairs == sum(len(set(words)) for words in entities.values())
    lengths = [len(words) for words in entities.values()]
    assert view.mean_length == pytest.approx(np.mean(lengths) if lengths else 0.0)


@given(world=WORLDS, query=QUERIES, model=st.sampled_from(SPARSE_MODELS))
@settings(max_examples=50)
def test_hidden_documents_change_no_bit_of_an_answer(world, query, model):
    shown = [one for one in world if one[2]]
    with_hidden = ReaderView(snapshot_of(world), READER).level("document")
    without = ReaderView(snapshot_of(shown), READER).level("document")
    chosen = ModelSettings(model=model)
    scores = [sorted(view.best(query, 100, chosen).scores) for view in (with_hidden, without)]
    assert scores[0] == scores[1]


@given(world=WORLDS, query=QUERIES, k=st.integers(1, 5))
@settings(max_examples=50)
def test_the_best_k_come_with_all_that_are_equal_to_the_last(world, query, k):
    view = ReaderView(snapshot_of(world), READER).level("document")
    every, best = view.best(query, 100), view.best(query, k)
    scores = every.scores.tolist()
    kept = [s for s in scores if len(scores) <= k or s >= scores[k - 1]]
    assert best.scores.tolist() == kept
    assert set(best.entities.tolist()) <= set(every.entities.tolist())


def test_the_parts_of_a_score_add_up_to_it():
    world = [(["cough", "cough", "fever"], 0, True, False), (["fever"], 1, True, False)]
    view = ReaderView(snapshot_of(world), READER).level("document")
    query = query_weights(["cough", "fever"], view, ModelSettings())
    parts = [
        term_weight("bm25", parameters, count, 3.0)
        for parameters, count in zip(query.parameters, (2, 1), strict=True)
    ]
    assert view.best(["cough", "fever"], 1).scores[0] == parts[0] + parts[1]


@given(st.integers(1, 100), st.integers(0, 200), st.sampled_from(SPARSE_MODELS))
def test_published_statistics_that_contradict_each_other_give_finite_scores(n, df, model):
    table = StatisticsTable(n, 3.0, 5, {"cough": df})
    world = [(["cough", "fever"], 0, True, False)]
    view = ReaderView(snapshot_of(world), READER).level("document")
    for form in ("non_negative", "printed"):
        chosen = ModelSettings(model=model, idf=form)
        assert np.isfinite(view.best(["cough"], 1, chosen, table).scores).all()


@given(WORLDS, WORLDS, QUERIES)
@settings(max_examples=30)
def test_statistics_of_two_servers_add_up_to_those_of_both(left, right, query):
    views = [ReaderView(snapshot_of(part), READER).level("document") for part in (left, right)]
    both = ReaderView(snapshot_of([*left, *right]), READER).level("document")
    added = added_statistics(views, sorted(set(query)))
    assert added.n_entities == both.n_entities
    assert added.mean_length == pytest.approx(both.mean_length)
    assert added.n_pairs == both.n_pairs
    assert added.frequencies(query).tolist() == both.frequencies(query).tolist()


def test_a_term_in_all_servers_turns_the_printed_ranking_round_and_not_ours():
    table = StatisticsTable(50, 10.0, 50, {"cough": 50})
    for form, sign in (("printed", -1), ("non_negative", 1)):
        (weight,) = query_weights(["cough"], table, ModelSettings(idf=form)).parameters
        assert np.sign(weight.scale) == sign


def test_none_of_the_best_is_an_answer():
    query = query_weights(["cough"], StatisticsTable(2, 1.0, 2, {"cough": 2}), ModelSettings())
    scorer = EntityScorer(np.ones(2))
    held = TermPostings(np.array([0, 1], np.int32), np.ones(2, np.int32))
    for k in (0, -1):
        assert len(scorer.best(query, lambda term: held, k).entities) == 0


def test_queries_are_counted_anew_before_their_number_grows_too_large():
    query = query_weights(["cough", "rash"], StatisticsTable(2, 1.0, 4, {}), ModelSettings())
    held = TermPostings(np.array([0, 1], np.int32), np.ones(2, np.int32))
    scorer, fresh = EntityScorer(np.ones(2)), EntityScorer(np.ones(2))
    scorer._n_queries = 2**31 - 3
    wanted = fresh.best(query, lambda term: held, 2)
    for _ in range(6):
        found = scorer.best(query, lambda term: held, 2)
        assert found.entities.tolist() == wanted.entities.tolist()
        assert found.scores.tolist() == wanted.scores.tolist()


def test_ids_of_documents_that_may_not_be_read_are_refused():
    postings = Postings.build(count_terms(["a1", "b1", "c1"]))
    ids = tuple(map(DocId, "abc"))
    mine = np.array([0, 1, 0], np.int32)
    segment = Segment(postings, ids, np.zeros(3, np.int32), np.ones(3, np.bool_), mine)
    rights = (Rights(public=True), Rights(owner=AgentId("eve")))
    view = ReaderView(Snapshot(1, (segment, segment), (PodId("p"),), rights), STRANGER)
    assert view.doc_ids(view.documents) == ["a", "c", "a", "c"]
    for numbers in ([1], [0, 1, 2], [6], [-1]):
        with pytest.raises(AccessDenied):
            view.doc_ids(np.array(numbers, np.int32))
