"""Search by word vectors across servers: servers, pods and documents, and what must not matter."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cloister.core.errors import NotFound, SettingsError
from cloister.core.ids import ServerId
from cloister.index.entity_weights import ModelSettings
from cloister.index.reader_view import ReaderView
from cloister.search.adaptive_stop import StopSettings
from cloister.search.node import ServerSummary, SubQuery, SummaryRequest, VectorQuery
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.shard_node import ShardNode
from cloister.search.vector_selection import similar_servers
from cloister.search.word_vector_ranking import VECTOR_MODELS, VectorModel
from cloister.search.word_vector_table import WordVectors
from search.small_world import (
    ALICE,
    ANALYSIS,
    WORDS,
    Note,
    entities,
    queries,
    reading,
    snapshot,
    worlds,
)
from search.test_no_leak import pairs_of_worlds

KNOWN = WORDS[:5]  # "night" has no vector
VECTORS = WordVectors(
    tuple(KNOWN),
    np.random.default_rng(3).normal(size=(len(KNOWN), 6)).astype(np.float32),
    np.ones(len(KNOWN), np.int64),
)
OTHERS = WordVectors(tuple(KNOWN), VECTORS.vectors + np.float32(1), VECTORS.counts)
models = st.sampled_from(VECTOR_MODELS)


def vector_nodes(
    notes: list[Note], sizes: Any = (), vectors: WordVectors = VECTORS
) -> list[ShardNode]:
    return [
        vector_node(notes, name, sizes, vectors)
        for name in sorted({note.server_id for note in notes})
    ]


def vector_node(
    notes: list[Note], name: str, sizes: Any = (), vectors: WordVectors = VECTORS
) -> ShardNode:
    mine = [note for note in notes if note.server_id == name]
    view = ReaderView(snapshot(mine, sizes=sizes), ALICE)
    return ShardNode(
        ServerId(name), lambda: view, reading(mine), analysis=ANALYSIS, vectors=lambda: vectors
    )


def literal(words: Counter[str], query: list[str], model: VectorModel) -> float | None:
    """Algorithm 1, part 2: the mean vectors of both sides, word by word, and their similarity."""
    rows = {word: VECTORS.vectors[i].astype(np.float64) for i, word in enumerate(KNOWN)}
    own = [rows[word] for word in words.elements() if word in rows]
    asked = [rows[word] for word in query if word in rows]
    if not own or not asked:
        return None
    v, q = sum(own) / len(own), sum(asked) / len(asked)
    if model == "w2v-cosine":
        return float(v @ q / (np.sqrt(v @ v) * np.sqrt(q @ q)))
    return float(1 / (1 + np.sqrt(((v - q) ** 2).sum())))


def literal_best(
    notes: list[Note], level: Any, query: list[str], model: VectorModel, n: int | None
) -> list[tuple[str, float]]:
    scores = {
        name: score
        for name, words in entities(notes, level).items()
        if (score := literal(words, query, model)) is not None
    }
    ranked = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    if n is not None and n < len(ranked):  # which of two equal ones is taken hangs on the last bit
        assume(ranked[n - 1][1] - ranked[n][1] > 1e-9)
    return ranked[:n]


def literal_search(
    notes: list[Note],
    query: list[str],
    model: VectorModel,
    n_servers: int | None,
    n_pods: int | None,
) -> list[tuple[str, float]]:
    """Choose servers, then pods of each, then documents."""
    left = []
    for server, _ in literal_best(notes, "server", query, model, n_servers):
        mine = [note for note in notes if note.server_id == server]
        pods = {pod for pod, _ in literal_best(mine, "pod", query, model, n_pods)}
        left += [note for note in mine if note.pod_id in pods]
    return literal_best(left, "document", query, model, None)


@given(
    worlds(),
    queries,
    models,
    st.none() | st.integers(1, 3),
    st.none() | st.integers(1, 2),
    st.integers(1, 15),
)
def test_a_search_is_the_literal_algorithm_at_three_levels(
    notes, query, model, n_servers, n_pods, k
):
    settings = SearchSettings(
        vector_model=model, selection="entity", n_servers=n_servers, n_pods=n_pods
    )
    outcome = Searcher(vector_nodes(notes), ANALYSIS, settings, vectors=VECTORS).search(query, k=k)
    wanted = literal_search(notes, query.split(), model, n_servers, n_pods)[:k]
    assert [one.score for one in outcome.results] == pytest.approx(
        [score for _, score in wanted], abs=1e-9
    )
    listed = dict(literal_search(notes, query.split(), model, n_servers, n_pods))
    for one in outcome.results:
        assert one.score == pytest.approx(listed[one.doc_id], abs=1e-9)


@given(worlds(), queries, models)
def test_asking_all_servers_is_one_ranking_of_all_that_may_be_read(notes, query, model):
    settings = SearchSettings(vector_model=model, selection="all")
    outcome = Searcher(vector_nodes(notes), ANALYSIS, settings, vectors=VECTORS).search(
        query, k=100
    )
    wanted = dict(literal_best(notes, "document", query.split(), model, None))
    assert {str(one.doc_id): one.score for one in outcome.results} == pytest.approx(
        wanted, abs=1e-9
    )


@given(worlds(), queries, models)
def test_servers_are_ranked_by_their_mean_vectors(notes, query, model):
    def ask(nodes, request):
        return {node.server_id: node.summarise(request) for node in nodes}, ()

    found = similar_servers(vector_nodes(notes), ask, VECTORS, query.split(), model)
    wanted = dict(literal_best(notes, "server", query.split(), model, None))
    assert {str(one.server_id): one.score for one in found.servers} == pytest.approx(
        wanted, abs=1e-9
    )
    scores = [one.score for one in found.servers]
    assert scores == sorted(scores, reverse=True)


@given(
    pairs_of_worlds(),
    queries,
    models,
    st.none() | st.integers(1, 3),
    st.none() | st.integers(1, 2),
    st.integers(1, 6),
)
def test_hidden_documents_change_no_bit(pair, query, model, n_servers, n_pods, k):
    plain, full, sizes = pair
    settings = SearchSettings(
        vector_model=model, selection="entity", n_servers=n_servers, n_pods=n_pods
    )

    def outcome(nodes):
        found = Searcher(nodes, ANALYSIS, settings, vectors=VECTORS)
        return found.search(query, k=k, explain=True)

    wanted, found = outcome(vector_nodes(plain)), outcome(vector_nodes(full, sizes))
    assert found == wanted
    assert [one.text() for one in found.explanations] == [one.text() for one in wanted.explanations]
    request = SummaryRequest((), vectors=VECTORS.digest)
    for name in {note.server_id for note in plain}:
        assert (
            vector_node(full, name, sizes).summarise(request).mean_vector
            == vector_node(plain, name).summarise(request).mean_vector
        )


@given(worlds(), queries, models)
def test_the_parts_of_an_explanation_make_the_score(notes, query, model):
    settings = SearchSettings(vector_model=model, selection="all")
    searcher = Searcher(vector_nodes(notes), ANALYSIS, settings, vectors=VECTORS)
    outcome = searcher.search(query, k=50, explain=True)
    assert len(outcome.explanations) == len(outcome.results)
    for result, told in zip(outcome.results, outcome.explanations, strict=True):
        assert (told.doc_id, told.score) == (result.doc_id, result.score)
        assert sum(part.weight for part in told.parts) == pytest.approx(told.rest.cosine, abs=1e-9)
        score = told.rest.cosine if model == "w2v-cosine" else 1 / (1 + told.rest.distance)
        assert score == pytest.approx(result.score, abs=1e-9)
        assert {part.term for part in told.parts} == set(query.split()) & set(KNOWN)
        assert set(told.rest.unknown) == set(query.split()) - set(KNOWN)


NOTES = [Note("d1", "s-p1", "s", "asthma cough"), Note("d2", "t-p1", "t", "fever rash")]
ENTITY = SearchSettings(vector_model="w2v-cosine", selection="entity", n_servers=1)


class _Watched(ShardNode):
    """Keeps what it is asked."""

    def __init__(self, node: ShardNode) -> None:
        self.__dict__.update(node.__dict__)
        self.asked: list[Any] = []

    def summarise(self, request: SummaryRequest) -> ServerSummary:
        self.asked.append(request)
        return super().summarise(request)

    def answer(self, query: SubQuery) -> Any:
        self.asked.append(query)
        return super().answer(query)


def test_a_server_that_is_not_chosen_is_told_no_term_of_the_query() -> None:
    watched = [_Watched(one) for one in vector_nodes(NOTES)]
    outcome = Searcher(watched, ANALYSIS, ENTITY, vectors=VECTORS).search("asthma")
    assert outcome.servers_asked == ("s",)
    assert watched[1].asked == [SummaryRequest((), vectors=VECTORS.digest)]
    assert watched[0].asked[1].document_statistics is None


def test_a_node_with_other_vectors_or_none_refuses() -> None:
    query = SubQuery(
        ("cough",), ModelSettings(), 5, vectors=VectorQuery("w2v-cosine", OTHERS.digest)
    )
    without = ShardNode(ServerId("s"), lambda: ReaderView(snapshot(NOTES[:1]), ALICE))
    for node in (vector_node(NOTES, "s"), without):
        with pytest.raises(NotFound):
            node.answer(query)
        with pytest.raises(NotFound):
            node.summarise(SummaryRequest((), vectors=OTHERS.digest))
    mixed = [vector_node(NOTES, "s"), vector_node(NOTES, "t", vectors=OTHERS)]
    outcome = Searcher(mixed, ANALYSIS, ENTITY, vectors=VECTORS).search("asthma")
    assert [one.doc_id for one in outcome.results] == ["d1"]
    assert outcome.missing == ("t",)


def test_new_vectors_of_the_same_reader_are_used_at_the_next_request() -> None:
    current = [VECTORS]
    view = ReaderView(snapshot(NOTES[:1]), ALICE)
    node = ShardNode(ServerId("s"), lambda: view, vectors=lambda: current[0])
    first = node.summarise(SummaryRequest((), vectors=VECTORS.digest)).mean_vector
    current[0] = OTHERS
    second = node.summarise(SummaryRequest((), vectors=OTHERS.digest)).mean_vector
    assert second == pytest.approx([value + 1 for value in first], abs=1e-6)


@pytest.mark.parametrize(
    "mean", [(1.0,), (float("nan"),) * 6, (float("inf"),) * 6, (1e300,) * 6, (1.0,) * 7]
)
def test_a_server_whose_vector_cannot_be_used_is_missing(mean) -> None:
    class Lying(_Watched):
        def summarise(self, request: SummaryRequest) -> ServerSummary:
            return super().summarise(request)._replace(mean_vector=mean)

    nodes = [vector_node(NOTES, "s"), Lying(vector_node(NOTES, "t"))]
    settings = SearchSettings(vector_model="w2v-euclidean", selection="entity")
    outcome = Searcher(nodes, ANALYSIS, settings, vectors=VECTORS).search("asthma")
    assert outcome.missing == ("t",)
    assert [one.doc_id for one in outcome.results] == ["d1"]


def test_a_query_without_vectors_asks_nobody() -> None:
    watched = [_Watched(one) for one in vector_nodes(NOTES)]
    outcome = Searcher(watched, ANALYSIS, ENTITY, vectors=VECTORS).search("night unknown")
    assert not outcome.results
    assert not any(one.asked for one in watched)


@pytest.mark.parametrize(
    "fields",
    [
        {"selection": "best-impact"},
        {"selection": "learned"},
        {"selection": "entity", "statistics": "global"},
        {"selection": "entity", "statistics": "own"},
        {"selection": "entity", "stop": StopSettings(form="strict")},
    ],
)
def test_settings_that_do_not_fit_word_vectors_are_refused(fields) -> None:
    with pytest.raises(SettingsError):
        SearchSettings(vector_model="w2v-cosine", **fields)


def test_a_search_without_vectors_is_refused() -> None:
    with pytest.raises(SettingsError, match="vectors"):
        Searcher(vector_nodes(NOTES), ANALYSIS, ENTITY)
