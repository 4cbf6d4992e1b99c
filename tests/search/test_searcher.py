from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.core.ids import DocId, PodId, ServerId
from cloister.index.entity_statistics import StatisticsTable
from cloister.index.entity_view import Level
from cloister.index.entity_weights import SPARSE_MODELS, ModelSettings
from cloister.index.reader_view import ReaderView
from cloister.search.adaptive_stop import StopSettings
from cloister.search.asking import NodeAnswers, ask_in_turn
from cloister.search.document_ranking import ScoredDocument
from cloister.search.explanation import added_up
from cloister.search.node import Hit, ServerSummary, SubAnswer, SubQuery, SummaryRequest
from cloister.search.search_outcome import SearchOutcome
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import (
    Searcher,
)
from cloister.search.selection import rank_servers
from cloister.search.shard_node import PodReading, ShardNode, TextsRead
from search.small_world import (
    ANALYSIS,
    Note,
    entities,
    literal_scores,
    literal_statistics,
    nodes,
    ordered,
    queries,
    reader_only,
    worlds,
)

IDFS = ("non_negative", "printed")
models = st.builds(ModelSettings, model=st.sampled_from(SPARSE_MODELS), idf=st.sampled_from(IDFS))
for_each_model = pytest.mark.parametrize("name", SPARSE_MODELS)
few = settings(max_examples=40)  # for each model


class Published:
    """Exact tables over everything, hidden or not: for tests only."""

    def __init__(self, notes: list[Note]) -> None:
        every = [note._replace(readable=True) for note in notes]
        self._levels = {
            level: literal_statistics(entities(every, level))
            for level in ("document", "pod", "server")
        }

    def level(self, level: Level) -> StatisticsTable:
        return self._levels[level]


def found_by(notes: list[Note], settings: SearchSettings, query: str, k: int = 50) -> SearchOutcome:
    return Searcher(nodes(notes), ANALYSIS, settings, published=Published(notes)).search(query, k=k)


def assert_equal_ranking(
    outcome: SearchOutcome, wanted: dict[str, float], model: ModelSettings
) -> None:
    """Compare scores to 1e-12, distances by their squares, and the order of what was found."""
    found = {result.doc_id: result.score for result in outcome.results}
    assert found.keys() == wanted.keys()
    power = 2 if model.model == "tfidf-euclidean" else 1
    for name, score in wanted.items():
        assert found[name] ** power == pytest.approx(score**power, rel=1e-12, abs=1e-12)
    assert list(found.items()) == ordered(found)


@for_each_model
@few
@given(worlds(), queries, st.sampled_from(IDFS), st.sampled_from(["user", "global"]))
def test_asking_all_servers_equals_one_index_of_what_the_user_may_read(
    name, notes, query, idf, statistics
):
    model = ModelSettings(model=name, idf=idf)
    settings = SearchSettings(model=model, statistics=statistics, selection="all")
    whole = Published(notes).level("document") if statistics == "global" else None
    wanted = literal_scores(entities(notes, "document"), ANALYSIS.terms(query), model, whole)
    assert_equal_ranking(found_by(notes, settings, query), wanted, model)


@for_each_model
@few
@given(
    worlds(), queries, st.sampled_from(IDFS), st.sampled_from(["user", "global"]), st.integers(1, 3)
)
def test_documents_come_from_the_best_pods_of_each_server(
    name, notes, query, idf, statistics, n_pods
):
    model = ModelSettings(model=name, idf=idf)
    terms = ANALYSIS.terms(query)
    published = Published(notes) if statistics == "global" else None
    pod_table = published.level("pod") if published else literal_statistics(entities(notes, "pod"))
    wanted = literal_scores(
        entities(notes, "document"), terms, model, published and published.level("document")
    )
    scores = literal_scores(entities(notes, "pod"), terms, model, pod_table)
    kept: set[str] = set()
    for server in {note.server_id for note in notes}:
        mine = {pod: score for pod, score in scores.items() if pod.startswith(server)}
        ranked = ordered(mine)
        if any(math.isclose(a[1], b[1], rel_tol=1e-12) and a[1] != b[1]
               for a in ranked for b in ranked):  # fmt: skip
            return  # rounding decides which of two pods is better
        kept.update(pod for pod, _ in ranked[:n_pods])
    pod_of = {note.doc_id: note.pod_id for note in notes}
    settings = SearchSettings(model=model, statistics=statistics, selection="all", n_pods=n_pods)
    assert_equal_ranking(
        found_by(notes, settings, query),
        {name: score for name, score in wanted.items() if pod_of[name] in kept},
        model,
    )


@for_each_model
@few
@given(worlds(), queries, st.sampled_from(IDFS), st.sampled_from(["user", "global"]))
def test_servers_are_ranked_as_large_documents(name, notes, query, idf, statistics):
    model = ModelSettings(model=name, idf=idf)
    found = entities(notes, "server")
    whole = Published(notes).level("server") if statistics == "global" else None
    wanted = literal_scores(found, ANALYSIS.terms(query), model, whole)
    settings = SearchSettings(model=model, statistics=statistics, selection="entity")
    outcome = found_by(notes, settings, query)
    assert set(outcome.servers_asked) == wanted.keys()
    asked = [wanted[name] for name in outcome.servers_asked]
    assert all(a >= b - 1e-12 for a, b in pairwise(asked))


@for_each_model
@few
@given(worlds(), queries, st.sampled_from(IDFS), st.booleans())
def test_scores_of_servers_are_those_of_large_documents(name, notes, query, idf, published):
    model = ModelSettings(model=name, idf=idf)
    terms = tuple(ANALYSIS.terms(query))
    whole = Published(notes).level("server") if published else None
    wanted = literal_scores(entities(notes, "server"), terms, model, whole)
    request = SummaryRequest(terms, with_pairs=True, all_terms=True)
    summaries = [one.summarise(request) for one in nodes(notes)]
    found = dict(rank_servers(summaries, terms, model, whole))
    assert found.keys() == wanted.keys()
    power = 2 if model.model == "tfidf-euclidean" else 1
    for name, score in wanted.items():
        assert found[name] ** power == pytest.approx(score**power, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n_pods", [None, 1])
def test_of_equal_documents_the_first_ids_are_returned(n_pods):
    notes = [Note(name, "p", "s", "asthma cough") for name in ("c", "a", "b")]
    query = SubQuery(("asthma",), ModelSettings(), 2, n_pods)
    assert [hit.doc_id for hit in nodes(notes)[0].answer(query).hits] == ["a", "b"]


def test_a_strict_stop_looks_at_the_last_of_the_best():
    """The second server is below the first's best document, and above its second."""
    notes = [
        Note("a1", "p", "a", "asthma asthma asthma"),
        Note("a2", "p", "a", "asthma ward ward ward ward ward ward ward night rash"),
        Note("b1", "q", "b", "asthma cough fever"),
    ]
    settings = SearchSettings(stop=StopSettings(form="strict"))
    outcome = found_by(notes, settings, "asthma", 2)
    assert [one.doc_id for one in outcome.results] == ["a1", "b1"]


@given(worlds(), queries, models, st.integers(1, 3))
def test_at_most_so_many_servers_are_asked(notes, query, model, n_servers):
    for selection in ("entity", "best-impact"):
        settings = SearchSettings(model=model, selection=selection, n_servers=n_servers)
        outcome = found_by(notes, settings, query)
        assert len(outcome.servers_asked) <= n_servers
        assert {result.server_id for result in outcome.results} <= set(outcome.servers_asked)


@given(worlds(), queries, st.sampled_from(["bm25", "lm"]), st.integers(1, 5), st.integers(1, 4),
       st.sampled_from(["user", "global"]), st.sampled_from(IDFS))  # fmt: skip
def test_a_strict_stop_changes_nothing(notes, query, name, k, n_best, statistics, idf):
    whole = SearchSettings(
        model=ModelSettings(model=name, idf=idf), statistics=statistics, selection="all"
    )
    strict = whole.model_copy(
        update={
            "selection": "best-impact",
            "n_best": n_best,
            "stop": StopSettings(form="strict"),
        }
    )
    outcome = found_by(notes, strict, query, k)
    assert outcome.results == found_by(notes, whole, query, k).results


def test_a_strict_stop_leaves_servers_out():
    notes = [Note(f"a{i}", f"p{i}", "a", "asthma asthma cough") for i in range(5)]
    notes += [Note("b0", "p", "b", "fever night ward rash asthma night rash fever")]
    stop = StopSettings(form="strict")
    settings = SearchSettings(selection="best-impact", stop=stop)
    assert found_by(notes, settings, "asthma", 3).servers_asked == ("a",)


@given(worlds(), queries, models)
def test_one_server_alone_gives_the_same_with_its_own_statistics(notes, query, model):
    notes = [note._replace(server_id="s0") for note in notes]
    own = SearchSettings(model=model, statistics="own", selection="entity")
    user = SearchSettings(model=model, statistics="user", selection="all")
    found, wanted = found_by(notes, own, query), found_by(notes, user, query)
    assert [one.doc_id for one in found.results] == [one.doc_id for one in wanted.results]


class Failing:
    """A node that works until told not to; what it raises names a secret."""

    def __init__(self, node, calls=()):
        self._node, self._calls = node, calls
        self.server_id = node.server_id

    def summarise(self, request: SummaryRequest) -> ServerSummary:
        if "summarise" in self._calls:
            raise TimeoutError("the secret note d99 took too long")
        return self._node.summarise(request)

    def answer(self, query: SubQuery) -> SubAnswer:
        if "answer" in self._calls:
            raise RuntimeError("the secret note d99 is damaged")
        return self._node.answer(query)


NOTES = [
    Note("d1", "p1", "s1", "asthma cough"),
    Note("d2", "p2", "s2", "asthma fever"),
    Note("d3", "p3", "s3", "asthma night night", readable=False),
    Note("d4", "p4", "s3", "asthma rash"),
]


@pytest.mark.parametrize("call", ["summarise", "answer"])
def test_a_server_that_fails_is_named_and_the_rest_is_answered(call):
    good = nodes(NOTES)
    searcher = Searcher([good[0], Failing(good[1], [call]), good[2]], ANALYSIS)
    outcome = searcher.search("asthma")
    assert outcome.missing == (ServerId("s2"),)
    assert {result.doc_id for result in outcome.results} == {"d1", "d4"}
    assert "secret" not in repr(outcome)


def test_a_failed_server_counts_again_once_it_is_back():
    calls = ["summarise"]
    good = nodes(NOTES)
    searcher = Searcher([good[0], Failing(good[1], calls)], ANALYSIS)
    assert searcher.search("asthma").statistics.n_entities == 1
    calls.clear()
    outcome = searcher.search("asthma")
    assert outcome.missing == ()
    assert outcome.statistics.n_entities == 2


def test_a_server_that_answers_for_another_is_missing():
    first, second, _ = nodes(NOTES)
    liar = Failing(first)
    liar.server_id = second.server_id
    outcome = Searcher([first, liar], ANALYSIS).search("asthma")
    assert outcome.missing == (ServerId("s2"),)
    assert [result.doc_id for result in outcome.results] == ["d1"]


def test_documents_in_the_name_of_another_server_are_not_taken():
    def ask(asked, request):
        answers, missing = ask_in_turn(asked, request)
        if isinstance(request, SubQuery):
            answers = {name: one._replace(server_id="s1") for name, one in answers.items()}
        return answers, missing

    outcome = Searcher(nodes(NOTES), ANALYSIS, ask=ask).search("asthma")
    assert outcome.missing == (ServerId("s2"), ServerId("s3"))
    assert [result.doc_id for result in outcome.results] == ["d1"]


def test_a_score_that_is_no_number_is_refused():
    def ask(asked, request):
        found = ask_in_turn(asked, request)
        return NodeAnswers(
            {
                name: one._replace(hits=tuple(hit._replace(score=math.nan) for hit in one.hits))
                if isinstance(one, SubAnswer)
                else one
                for name, one in found.answers.items()
            },
            found.missing,
        )

    outcome = Searcher(nodes(NOTES), ANALYSIS, ask=ask).search("asthma")
    assert outcome.results == ()
    assert len(outcome.missing) == 3


def test_a_query_without_terms_asks_nobody():
    assert Searcher([Failing(nodes(NOTES)[0], ["summarise"])], ANALYSIS).search(" .") == (
        SearchOutcome(())
    )


def test_settings_that_do_not_fit_are_refused():
    for wrong in (
        {"statistics": "own", "stop": StopSettings(form="strict")},
        {"model": ModelSettings(model="tfidf-cosine"), "stop": StopSettings(form="probable")},
        {"statistics": "own", "selection": "all"},
        {"selection": "all", "n_servers": 2},
    ):
        with pytest.raises(SettingsError):
            SearchSettings(**wrong)
    with pytest.raises(SettingsError, match="published"):
        Searcher([], settings=SearchSettings(statistics="global"))
    with pytest.raises(SettingsError, match="learned"):
        Searcher([], settings=SearchSettings(selection="learned"))
    with pytest.raises(SettingsError, match="k"):
        Searcher([]).search("asthma", k=0)


@for_each_model
@few
@given(worlds(), queries, st.sampled_from(IDFS))
def test_explanations_add_up_to_the_scores(name, notes, query, idf):
    model = ModelSettings(model=name, idf=idf)
    searcher = Searcher(nodes(notes), ANALYSIS, SearchSettings(model=model, selection="all"))
    outcome = searcher.search(query, k=50, explain=True)
    assert len(outcome.explanations) == len(outcome.results)
    texts = {note.doc_id: ANALYSIS.terms(note.text) for note in reader_only(notes)}
    for result, explained in zip(outcome.results, outcome.explanations, strict=True):
        assert added_up(explained.parts, explained.rest) == result.score
        for part in explained.parts:
            assert part.n_occurrences == texts[result.doc_id].count(part.term)
            assert part.frequency == sum(part.term in words for words in texts.values())
            assert part.n_entities == len(texts)
        assert explained.text().startswith(f"{result.doc_id}: ")
        assert explained.as_dict()["length"] == len(texts[result.doc_id])


def test_a_mean_length_is_one_division_of_whole_numbers():
    """Added up from the means of the servers, the last bit would be another one."""
    assert (47 * (3 / 47) + 3 * (1 / 3)) / 50 != 4 / 50
    words = {("s0", 0): "asthma cough night", ("s1", 0): "asthma"}
    notes = [
        Note(f"{name}-{n:02}", "p", name, words.get((name, n), ""))
        for name, size in (("s0", 47), ("s1", 3))
        for n in range(size)
    ]
    outcome = Searcher(nodes(notes), ANALYSIS).search("asthma")
    assert outcome.statistics is not None
    assert outcome.statistics.mean_length == 4 / 50


class _Aside(PodReading):
    """Pods of which documents 0 to n - 1 are known not to be fit to be shown."""

    timeout_s = 1.0

    def __init__(self, n: int) -> None:
        self._n = n

    def away(self) -> frozenset[PodId]:
        return frozenset()

    def is_aside(self, doc_id: DocId, pod_id: PodId) -> bool:
        return int(doc_id) < self._n

    def n_aside(self) -> int:
        return self._n

    def read(self, documents: Any) -> TextsRead:
        raise AssertionError


class _Ordered:
    """Documents in the order of their numbers; counts how often they are ranked."""

    n_ranked = 0

    def best(self, k: int) -> list[ScoredDocument]:
        self.n_ranked += 1
        return [ScoredDocument(DocId(str(i)), PodId("p"), 2000.0 - i, 1, i) for i in range(k)][
            :2000
        ]

    def explained(self, found: ScoredDocument, hit: Hit) -> Hit:
        raise AssertionError


@pytest.mark.parametrize(("n_aside", "n_ranked"), [(0, 1), (1, 2), (1500, 2), (1999, 2)])
def test_documents_set_aside_cost_one_ranking_more_however_many(
    n_aside: int, n_ranked: int
) -> None:
    ranking = _Ordered()
    one = ShardNode(ServerId("s"), _never, pods=_Aside(n_aside))
    found = [int(doc.doc_id) for doc in one._fit(ranking, 50)]
    assert found == list(range(n_aside, min(2000, n_aside + 50)))
    assert ranking.n_ranked == n_ranked


def _never() -> ReaderView:
    raise AssertionError
