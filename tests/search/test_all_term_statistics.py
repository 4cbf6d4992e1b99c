from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.index.entity_statistics import StatisticsTable
from cloister.index.entity_weights import EntityStatistics, ModelSettings, inverse_frequencies
from cloister.search.all_term_statistics import AllTermStatistics
from cloister.search.asking import ask_in_turn
from cloister.search.asking_each import NodeGroup, ask_each
from cloister.search.node import ServerSummary, SubAnswer, SubQuery, SummaryRequest
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.selection import rank_servers
from cloister.search.summary_statistics import user_statistics
from search.small_world import (
    ANALYSIS,
    Note,
    entities,
    literal_statistics,
    node,
    nodes,
    queries,
    worlds,
)

WHOLE = SummaryRequest((), all_terms=True)
TFIDF = ("tfidf-cosine", "tfidf-euclidean")
NOTES = [
    Note("d1", "p1", "s1", "asthma cough cough"),
    Note("d2", "p2", "s2", "asthma fever night"),
    Note("d3", "p3", "s2", "rash rash", readable=False),
    Note("d4", "p4", "s3", "asthma rash ward"),
]
models = st.builds(
    ModelSettings, model=st.sampled_from(TFIDF), idf=st.sampled_from(["non_negative", "printed"])
)


class Watched:
    """A node that remembers what it was asked, and by which thread."""

    def __init__(self, inner) -> None:
        self._inner = inner
        self.server_id = inner.server_id
        self.requests: list[SummaryRequest] = []
        self.queries: list[SubQuery] = []
        self.threads: list[int] = []

    def summarise(self, request: SummaryRequest) -> ServerSummary:
        self.requests.append(request)
        return self._inner.summarise(request)

    def answer(self, query: SubQuery) -> SubAnswer:
        self.queries.append(query)
        self.threads.append(threading.get_ident())
        return self._inner.answer(query)


class PublishedEverything:
    """Exact tables over all notes, hidden or not."""

    def __init__(self, notes: Sequence[Note]) -> None:
        self._notes = [note._replace(readable=True) for note in notes]

    def level(self, level) -> StatisticsTable:
        return literal_statistics(entities(self._notes, level))


def literal_norms(
    summaries: Sequence[ServerSummary], form: str, statistics: EntityStatistics | None
) -> list[float]:
    """Return the length of each server's TF-IDF vector, term by term from dictionaries."""
    terms = sorted({term for one in summaries for term in one.terms})
    whole = statistics or user_statistics(summaries, terms, "server")
    idf = inverse_frequencies(np.maximum(whole.frequencies(terms), 0.0), whole.n_entities, form)
    weight = dict(zip(terms, idf.tolist(), strict=True))
    return [
        sum((found.n_occurrences * weight[term]) ** 2 for term, found in one.terms.items()) ** 0.5
        for one in summaries
    ]


@given(worlds(), st.sampled_from(["non_negative", "printed"]), st.booleans())
def test_lengths_of_servers_are_those_of_their_vectors_term_by_term(notes, form, published):
    summaries = [one.summarise(WHOLE) for one in nodes(notes)]
    whole = PublishedEverything(notes).level("server") if published else None
    known = AllTermStatistics({"server": whole} if whole else None)
    known.update(summaries)
    assert known.norms(form).tolist() == pytest.approx(
        literal_norms(summaries, form, whole), rel=1e-12, abs=1e-15
    )


@given(st.lists(worlds(max_servers=3, max_notes=6), min_size=1, max_size=4))
def test_what_is_kept_over_changes_is_what_would_be_made_anew(states):
    """Servers change, appear and go; versions say so."""
    known = AllTermStatistics()
    for notes in states:
        summaries = [one.summarise(WHOLE) for one in nodes(notes)]
        fresh = AllTermStatistics()
        for each in (known, fresh):
            each.update(summaries)
        assert known.norms("printed").tolist() == fresh.norms("printed").tolist()
        for one in summaries:
            for level in ("document", "pod"):
                query = user_statistics(summaries, ["asthma", "unknown"], level)
                found = known.table(one.server_id, level, query)
                assert found == fresh.table(one.server_id, level, query)
                every = user_statistics(summaries, sorted(found.table), level)
                assert (found.n_entities, found.mean_length) == (
                    every.n_entities,
                    every.mean_length,
                )
                assert {term: n for term, n in found.table.items() if n} == {
                    term: n for term, n in every.table.items() if n
                }


def test_a_summary_without_all_terms_is_refused():
    summaries = [one.summarise(SummaryRequest(("asthma",))) for one in nodes(NOTES)]
    with pytest.raises(DataError, match=r"s1: .*all_terms"):
        AllTermStatistics().update(summaries)
    with pytest.raises(DataError, match="all_terms"):
        rank_servers(summaries, ["asthma"], ModelSettings(model="tfidf-cosine"))


@settings(max_examples=60)
@given(worlds(), queries, models, st.sampled_from([None, 1, 2]), st.booleans())
def test_a_table_of_a_servers_own_terms_gives_the_scores_of_the_whole_table(
    notes, query, model, n_pods, published
):
    """To the last bit: what each server answers to statistics of all terms of all servers."""
    watched = [Watched(one) for one in nodes(notes)]
    tables = PublishedEverything(notes) if published else None
    chosen = SearchSettings(
        model=model,
        selection="all",
        n_pods=n_pods,
        statistics="global" if published else "user",
    )
    searcher = Searcher(watched, ANALYSIS, chosen, published=tables)
    searcher.search(query, k=20, explain=True)
    summaries = [one.summarise(WHOLE) for one in nodes(notes)]
    every = sorted({term for one in summaries for term in one.terms} | set(ANALYSIS.terms(query)))
    for asked, fresh in zip(watched, nodes(notes), strict=True):
        for sent in asked.queries:
            whole = {
                level: StatisticsTable(given.n_entities, given.mean_length, given.n_pairs, df)
                for level in ("document", "pod")
                for given in [
                    tables.level(level) if tables else user_statistics(summaries, every, level)
                ]
                for df in [dict(zip(every, given.frequencies(every).tolist(), strict=True))]
            }
            full = sent._replace(
                document_statistics=whole["document"],
                pod_statistics=None if n_pods is None else whole["pod"],
            )
            assert asked._inner.answer(sent).hits == fresh.answer(full).hits


@given(worlds(), queries, models, st.sampled_from(["user", "global"]))
def test_a_server_is_told_of_its_own_terms_and_the_querys_and_of_no_others(
    notes, query, model, statistics
):
    watched = [Watched(one) for one in nodes(notes)]
    chosen = SearchSettings(model=model, selection="all", n_pods=2, statistics=statistics)
    Searcher(watched, ANALYSIS, chosen, published=PublishedEverything(notes)).search(query)
    for one in watched:
        mine = [note for note in notes if note.server_id == one.server_id]
        own = set(literal_statistics(entities(mine, "document")).table)
        for sent in one.queries:
            for table in (sent.document_statistics.table, sent.pod_statistics.table):
                assert own <= set(table) <= own | set(ANALYSIS.terms(query))


def test_terms_of_earlier_queries_are_not_told_again():
    watched = [Watched(one) for one in nodes(NOTES)]
    settings = SearchSettings(model=ModelSettings(model="tfidf-cosine"), selection="all")
    searcher = Searcher(watched, ANALYSIS, settings)
    searcher.search("rash unknown")
    searcher.search("asthma")
    first, second = (one.document_statistics.table for one in watched[0].queries)
    assert first == {"asthma": 3.0, "cough": 1.0, "rash": 1.0}
    assert second == {"asthma": 3.0, "cough": 1.0}


def test_a_server_gets_the_same_object_until_something_changes():
    """Servers keep the lengths of their documents' vectors for it."""
    now = {"s1": node(NOTES, "s1"), "s2": node(NOTES, "s2")}
    watched = [Watched(one) for one in now.values()]
    settings = SearchSettings(model=ModelSettings(model="tfidf-cosine"), selection="all")
    searcher = Searcher(watched, ANALYSIS, settings)
    for query in ("asthma", "cough asthma", "unknown"):
        searcher.search(query)
    sent = [one.document_statistics for one in watched[0].queries]
    assert sent[0] is sent[1] is sent[2]
    watched[1]._inner = node([*NOTES, Note("d5", "p5", "s2", "cough")], "s2")
    searcher.search("asthma")
    assert watched[0].queries[-1].document_statistics.table == {"asthma": 2.0, "cough": 2.0}


def test_lengths_are_made_once_for_the_versions_of_the_summaries(monkeypatch):
    read = []
    monkeypatch.setattr(
        AllTermStatistics,
        "_read",
        lambda self, one, way=AllTermStatistics._read: read.append(one.server_id) or way(self, one),
    )
    changing = Watched(node(NOTES, "s2"))
    settings = SearchSettings(model=ModelSettings(model="tfidf-cosine"), selection="entity")
    searcher = Searcher([node(NOTES, "s1"), changing, node(NOTES, "s3")], ANALYSIS, settings)
    for query in ("asthma", "fever", "asthma rash"):
        searcher.search(query)
    assert read == ["s1", "s2", "s3"]
    changing._inner = node([*NOTES, Note("d5", "p5", "s2", "cough")], "s2")
    searcher.search("asthma")
    assert read == ["s1", "s2", "s3", "s2"]


def test_with_each_servers_own_statistics_all_terms_are_asked_for_only_to_rank_servers():
    for selection, wanted in (("best-impact", False), ("entity", True)):
        watched = [Watched(one) for one in nodes(NOTES)]
        model = ModelSettings(model="tfidf-cosine")
        settings = SearchSettings(model=model, statistics="own", selection=selection)
        outcome = Searcher(watched, ANALYSIS, settings).search("asthma")
        assert {one.doc_id for one in outcome.results} == {"d1", "d2", "d4"}
        assert any(request.all_terms for request in watched[0].requests) is wanted
        assert watched[0].queries[0].document_statistics is None


def test_a_server_whose_counts_contradict_each_other_does_not_stop_a_search():
    """Its first answer with a new version is a lie, and the whole one after it is not."""
    watched = Watched(node(NOTES, "s2"))

    def ask(asked, request):
        answers, missing = ask_in_turn(asked, request)
        lie = isinstance(request, SummaryRequest) and not request.all_terms and len(asked) == 1
        if lie and "s2" in answers:
            terms = {t: one._replace(n_occurrences=3) for t, one in answers["s2"].terms.items()}
            answers = {"s2": answers["s2"]._replace(terms=terms)}
        return answers, missing

    settings = SearchSettings(model=ModelSettings(model="tfidf-cosine"), selection="best-impact")
    searcher = Searcher([watched], ANALYSIS, settings, ask=ask)
    searcher.search("asthma")
    watched._inner = node([*NOTES, Note("d5", "p5", "s2", "cough asthma")], "s2")
    outcome = searcher.search("fever cough")
    assert {one.doc_id for one in outcome.results} == {"d2", "d5"}


def test_different_requests_are_asked_at_once():
    """Each waits for the other: one after the other they would wait in vain."""
    meeting = threading.Barrier(2, timeout=10)

    def ask(asked, request):
        meeting.wait()
        return ask_in_turn(asked, request)

    groups = [NodeGroup([one], SummaryRequest((one.server_id,))) for one in nodes(NOTES)[:2]]
    assert ask_each(ask, groups).keys() == {"s1", "s2"}


def test_asking_in_turn_stays_in_the_thread_of_the_searcher():
    watched = [Watched(one) for one in nodes(NOTES)]
    settings = SearchSettings(model=ModelSettings(model="tfidf-cosine"), selection="all")
    Searcher(watched, ANALYSIS, settings).search("asthma")
    assert {one for each in watched for one in each.threads} == {threading.get_ident()}


def test_a_request_that_cannot_be_sent_is_told():
    def ask(asked, request):
        if isinstance(request, SubQuery):
            raise DataError("3000000 bytes, of 900000 allowed", where="message")
        return ask_in_turn(asked, request)

    settings = SearchSettings(model=ModelSettings(model="tfidf-cosine"), selection="all")
    searcher = Searcher(nodes(NOTES), ANALYSIS, settings, ask=ask)
    with pytest.raises(DataError, match="900000 allowed"):
        searcher.search("asthma")


def test_who_is_missing_in_one_group_is_missing_alone():
    groups = [NodeGroup([one], SummaryRequest((one.server_id,))) for one in nodes(NOTES)]

    def ask(asked, request):
        answers, missing = ask_in_turn(asked, request)
        return {name: one for name, one in answers.items() if name != "s2"}, missing

    assert list(ask_each(ask, groups)) == [ServerId("s1"), ServerId("s3")]
