"""Why a server and a pod stand where they do: parts that add up, places that ranking gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.ids import ServerId
from cloister.index.entity_weights import SPARSE_MODELS, ModelSettings
from cloister.index.reader_view import ReaderView
from cloister.search.document_ranking import best_pods
from cloister.search.explanation import added_up
from cloister.search.node import LevelScore, SubQuery, SummaryRequest
from cloister.search.search_outcome import SearchOutcome
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.selection import rank_servers
from search.small_world import (
    ALICE,
    ANALYSIS,
    Note,
    entities,
    literal_scores,
    node,
    nodes,
    queries,
    snapshot,
    worlds,
)

IDFS = ("non_negative", "printed")
for_each_model = pytest.mark.parametrize("name", SPARSE_MODELS)
few = settings(max_examples=40)  # for each model
ways = st.sampled_from(
    [
        {"selection": "all"},
        {"selection": "all", "n_pods": 2},
        {"selection": "entity", "n_servers": 1},
        {"selection": "best-impact", "statistics": "own"},
    ]
)


def explained(notes: list[Note], query: str, way: SearchSettings) -> SearchOutcome:
    return Searcher(nodes(notes), ANALYSIS, way).search(query, k=50, explain_levels=True)


def assert_adds_up(found: LevelScore) -> None:
    assert added_up(found.parts, found.rest) == found.score  # to the last bit
    assert 1 <= found.rank <= found.n_ranked


def assert_close(found: float, wanted: float, model: ModelSettings) -> None:
    """Compare scores to 1e-12, distances by their squares."""
    power = 2 if model.model == "tfidf-euclidean" else 1
    assert found**power == pytest.approx(wanted**power, rel=1e-12, abs=1e-12)


@for_each_model
@few
@given(worlds(), queries, st.sampled_from(IDFS), ways)
def test_parts_of_servers_add_up_and_their_places_are_those_of_the_selection(
    name, notes, query, idf, way
):
    model, terms = ModelSettings(model=name, idf=idf), tuple(ANALYSIS.terms(query))
    outcome = explained(notes, query, SearchSettings(model=model, **way))
    request = SummaryRequest(terms, with_pairs=True, all_terms=True)
    ranked = rank_servers([one.summarise(request) for one in nodes(notes)], terms, model)
    assert [(name, found.score) for name, found in outcome.servers] == ranked
    assert [found.rank for _, found in outcome.servers] == list(range(1, len(ranked) + 1))
    literal = literal_scores(entities(notes, "server"), terms, model)
    assert {name for name, _ in outcome.servers} == literal.keys()
    readable = entities(notes, "server")
    for name, found in outcome.servers:
        assert_adds_up(found)
        assert_close(found.score, literal[name], model)
        assert found.length == readable[name].total()
        assert {part.term: part.n_occurrences for part in found.parts} == {
            term: readable[name][term] for term in terms
        }
    assert {one.server_id for one in outcome.candidates} <= literal.keys()


@for_each_model
@few
@given(worlds(), queries, st.sampled_from(IDFS))
def test_parts_of_pods_add_up_and_their_places_are_those_of_the_server(name, notes, query, idf):
    model, terms = ModelSettings(model=name, idf=idf), tuple(ANALYSIS.terms(query))
    outcome = explained(notes, query, SearchSettings(model=model, selection="all"))
    for server in {note.server_id for note in notes}:
        mine = [note for note in notes if note.server_id == server]
        view, readable = ReaderView(snapshot(mine), ALICE), entities(mine, "pod")
        asked = SubQuery(terms, model, 50)
        order = [view.level("pod").name(n) for n in best_pods(view, asked, 50).tolist()]
        literal = literal_scores(readable, terms, model)
        assert set(order) == literal.keys()
        for hit in (one.hit for one in outcome.candidates if one.server_id == server):
            pod = hit.pod
            assert pod is not None
            assert_adds_up(pod)
            assert order[pod.rank - 1] == hit.pod_id
            assert pod.n_ranked == len(order)
            assert_close(pod.score, literal[hit.pod_id], model)
            assert pod.length == readable[hit.pod_id].total()
            for part in pod.parts:
                assert part.n_occurrences == readable[hit.pod_id][part.term]
                assert part.n_entities == len(readable)
                assert part.frequency == sum(one[part.term] > 0 for one in readable.values())


@few
@given(worlds(), queries, st.integers(1, 2))
def test_where_pods_are_chosen_those_that_were_chosen_stand_first(notes, query, n_pods):
    outcome = explained(notes, query, SearchSettings(selection="all", n_pods=n_pods))
    for one in outcome.candidates:
        assert one.hit.pod is not None
        assert_adds_up(one.hit.pod)
        assert one.hit.pod.rank <= n_pods


@few
@given(worlds(), queries, ways, st.booleans())
def test_explanations_of_levels_change_no_result_and_come_only_where_asked_for(
    notes, query, way, explain
):
    search = Searcher(nodes(notes), ANALYSIS, SearchSettings(**way)).search
    plain, found = (
        search(query, explain=explain),
        search(query, explain=explain, explain_levels=True),
    )
    assert plain.servers == ()
    assert all(one.hit.pod is None for one in plain.candidates)
    assert bool(found.servers) or not found.candidates
    assert found.results == plain.results
    assert found[1:5] == plain[1:5]  # whom it asked, who is missing, statistics, explanations
    bare = [one._replace(hit=one.hit._replace(pod=None)) for one in found.candidates]
    if explain:
        assert tuple(bare) == plain.candidates


def test_of_equal_pods_the_first_names_stand_first():
    notes = [Note(f"d{n}", pod, "s", "asthma cough") for n, pod in enumerate(("c", "a", "b"))]
    query = SubQuery(("asthma",), ModelSettings(), 3, explain=True, explain_pods=True)
    hits = node(notes, "s").answer(query).hits
    assert {hit.pod_id: hit.pod.rank for hit in hits if hit.pod} == {"a": 1, "b": 2, "c": 3}


def test_a_server_that_has_nothing_for_the_query_is_not_ranked():
    notes = [Note("d0", "p", "a", "asthma"), Note("d1", "p", "b", "fever")]
    outcome = explained(notes, "asthma", SearchSettings(selection="all"))
    ((name, found),) = outcome.servers
    assert (name, found.rank, found.n_ranked) == (ServerId("a"), 1, 1)
    assert found.parts[0].n_entities == 2
    assert set(outcome.servers_asked) == {"a", "b"}
