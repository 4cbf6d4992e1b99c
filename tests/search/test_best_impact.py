from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.core.ids import ServerId
from cloister.index.entity_scoring import term_weight
from cloister.index.entity_statistics import StatisticsTable
from cloister.index.entity_weights import ModelSettings, query_weights
from cloister.search import best_impact
from cloister.search.adaptive_stop import StopSettings, can_stop, expected_entrants
from cloister.search.best_impact import rank_by_best_impact, server_outlooks
from cloister.search.impact_list import ImpactLists, document_number
from cloister.search.node import (
    Impact,
    LevelSummary,
    ServerSummary,
    SummaryRequest,
    TermSummary,
)
from cloister.search.summary_statistics import user_statistics
from search.small_world import (
    ANALYSIS,
    WORDS,
    Note,
    entities,
    literal_scores,
    node,
    nodes,
    queries,
    worlds,
)

settings = st.builds(
    ModelSettings,
    model=st.sampled_from(["bm25", "lm"]),
    k1=st.floats(0.1, 3),
    b=st.floats(0, 1),
    idf=st.sampled_from(["non_negative", "printed"]),
    mixing=st.floats(0.1, 0.9),
)
tables = st.builds(
    StatisticsTable,
    st.integers(1, 100),
    st.floats(0.5, 20),
    st.integers(1, 400),
    st.dictionaries(st.sampled_from(["asthma", "cough", "fever"]), st.integers(0, 100)),
)


def assert_bounds_hold(notes, terms, model, n_best, published=None):
    """Compare each document's literal score with what the lists say of it."""
    request = SummaryRequest(terms, n_best, with_pairs=True)
    summaries = [one.summarise(request) for one in nodes(notes)]
    whole = published or user_statistics(summaries, list(dict.fromkeys(terms)), "document")
    weights = query_weights(terms, whole, model)
    for summary, outlook in zip(summaries, server_outlooks(summaries, weights), strict=True):
        mine = [note for note in notes if note.server_id == summary.server_id]
        scores = literal_scores(entities(mine, "document"), terms, model, whole)
        places = {number: place for place, number in enumerate(outlook.documents.tolist())}
        lists = [summary.terms[term].best for term in weights.terms]
        assert places.keys() == {one.document for best in lists for one in best}
        for name, score in scores.items():
            assert score <= outlook.best_upper + 1e-9
            place = places.get(document_number(name))
            if place is None:
                assert outlook.n_unnamed > 0
                assert score <= outlook.unnamed_upper + 1e-9
            else:
                assert outlook.lower[place] - 1e-9 <= score <= outlook.upper[place] + 1e-9
                assert outlook.lower[place] - 1e-9 <= outlook.estimate[place]
                assert outlook.estimate[place] <= outlook.upper[place] + 1e-9


@given(worlds(), queries, settings, st.integers(0, 3), st.one_of(st.none(), tables))
def test_no_score_lies_outside_its_bounds(notes, query, model, n_best, published):
    """With any statistics, also ones that have nothing to do with the lists."""
    assert_bounds_hold(notes, tuple(ANALYSIS.terms(query)), model, n_best, published)


@pytest.mark.parametrize("n_terms", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_where_lists_are_short(seed, n_terms):
    rng = np.random.default_rng(seed)
    notes = []
    for number in range(120):
        words = rng.choice(WORDS, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.05], size=rng.integers(1, 25))
        notes.append(Note(f"d{number:03}", f"p{number % 7}", "s0", " ".join(words)))
    for _ in range(15):
        model = ModelSettings(
            model=str(rng.choice(["bm25", "lm"])),
            k1=rng.uniform(0.2, 3),
            b=rng.uniform(0, 1),
            idf=str(rng.choice(["non_negative", "printed"])),  # the latter below 0 for one word
        )
        frequencies = dict.fromkeys(WORDS, 60) | {WORDS[1]: 195}
        table = StatisticsTable(200, rng.uniform(2, 40), 900, frequencies)
        assert_bounds_hold(notes, WORDS[:n_terms], model, int(rng.integers(1, 6)), table)


@given(worlds(max_servers=1), st.sampled_from(["asthma", "cough"]), st.integers(1, 4))
def test_a_list_holds_the_documents_of_the_largest_weight(notes, term, n_best):
    found = entities(notes, "document")
    scores = literal_scores(found, [term], ModelSettings())
    wanted = sorted(scores, key=lambda name: (-round(scores[name], 9), name))[:n_best]
    summary = node(notes, "s0").summarise(SummaryRequest((term,), n_best))
    listed = [impact.document for impact in summary.terms[term].best]
    assert listed == [document_number(name) for name in wanted]


def test_a_complete_list_leaves_nothing_open():
    notes = [Note("a", "p", "s", "asthma cough"), Note("b", "p", "s", "asthma"),
             Note("c", "p", "s", "fever")]  # fmt: skip
    summary = node(notes, "s").summarise(SummaryRequest(("asthma", "cough"), 2))
    terms = ["asthma", "cough"]
    weights = query_weights(terms, user_statistics([summary], terms, "document"), ModelSettings())
    (outlook,) = server_outlooks([summary], weights)
    assert np.array_equal(outlook.lower, outlook.upper)
    assert outlook.unnamed_upper == -math.inf


@pytest.mark.parametrize("model", ["bm25", "lm"])
def test_weights_of_many_documents_are_those_of_each(model):
    whole = StatisticsTable(9, 5.0, 40, {"asthma": 3, "cough": 8})
    query = query_weights(["asthma", "cough"], whole, ModelSettings(model=model))
    counts = np.array([[0.0, 1], [3, 2], [7, 0]])
    lengths = np.array([4.0, 9, 7])
    wanted = [
        [term_weight(model, p, c, n) for p, c in zip(query.parameters, row, strict=True)]
        for row, n in zip(counts, lengths, strict=True)
    ]
    found = best_impact._weights(query, counts, lengths[:, None])
    assert found == pytest.approx(np.array(wanted), rel=1e-14)


def test_vector_models_have_no_bounds():
    summary = node([Note("a", "p", "s", "asthma")], "s").summarise(SummaryRequest(("asthma",), 1))
    weights = query_weights(
        ["asthma"], StatisticsTable(1, 1, 1, {}), ModelSettings(model="tfidf-cosine")
    )
    with pytest.raises(SettingsError):
        server_outlooks([summary], weights)


def test_a_server_with_one_excellent_document_comes_before_one_with_many_fair_ones():
    fair = [Note(f"f{i}", f"p{i}", "fair", "asthma ward ward night rash fever") for i in range(9)]
    notes = [*fair, Note("e", "p", "good", "asthma asthma cough"), Note("x", "p", "good", "ward")]
    summaries = [one.summarise(SummaryRequest(("asthma", "cough"), 2)) for one in nodes(notes)]
    terms = ["asthma", "cough"]
    weights = query_weights(terms, user_statistics(summaries, terms, "document"), ModelSettings())
    ranked = rank_by_best_impact(server_outlooks(summaries, weights), 1)
    assert [one.server_id for one in ranked] == ["good", "fair"]


def test_documents_of_one_name_on_two_servers_are_two_documents():
    notes = [Note("a", "p", "s0", "asthma cough"), Note("a", "q", "s1", "asthma")]
    summaries = [one.summarise(SummaryRequest(("asthma",), 2)) for one in nodes(notes)]
    whole = user_statistics(summaries, ["asthma"], "document")
    outlooks = server_outlooks(summaries, query_weights(["asthma"], whole, ModelSettings()))
    assert [len(one.documents) for one in outlooks] == [1, 1]


def test_lists_of_nothing_are_empty():
    lists = ImpactLists(node([Note("a", "p", "s", "asthma")], "s")._view())
    assert lists.best("asthma", 0) == ()
    assert lists.best("unknown", 3) == ()


def test_of_many_equal_documents_the_first_ids_are_listed():
    names = [f"d{number * 37 % 1000:03}" for number in range(400)]
    notes = [Note(name, "p", "s", "asthma", readable=i % 5 > 0) for i, name in enumerate(names)]
    found = ImpactLists(node(notes, "s")._view()).best("asthma", 3)
    wanted = sorted(note.doc_id for note in notes if note.readable)[:3]
    assert [one.document for one in found] == [document_number(name) for name in wanted]


@given(st.integers(0, 2**32 - 1), st.integers(1, 10))
def test_expected_entrants_are_what_independent_terms_give_on_average(seed, n_terms):
    rng = np.random.default_rng(seed)
    weights, presence = rng.random((3, n_terms)), rng.random(n_terms)
    lower, unnamed, n_unnamed = rng.random(3), rng.random(n_terms), 7
    outlook = best_impact.ServerOutlook(
        "s",
        np.arange(3),
        lower,
        lower,
        lower + weights.sum(1),
        weights,
        presence,
        n_unnamed,
        unnamed,
        0.0,
    )
    least = float(rng.random() * (n_terms / 2 + 1))
    there = rng.random((20_000, n_terms)) < presence
    if n_terms > 8:  # the lightest ones are taken to be there
        light = np.argsort(-np.vstack([weights, unnamed]).max(axis=0), kind="stable")[8:]
        there[:, light] = True
    sums = np.concatenate([lower + there @ weights.T, (there @ unnamed)[:, None]], axis=1)
    share = (sums >= least).mean(axis=0)
    wanted = share[:3].sum() + n_unnamed * share[3]
    assert expected_entrants(outlook, least) == pytest.approx(wanted, abs=0.15)


def test_a_probable_stop_comes_no_later_than_a_strict_one():
    notes = [Note(f"a{i}", "p", "a", "asthma cough " * 3) for i in range(4)]
    notes += [Note(f"b{i}", "q", "b", "cough " + "ward " * i) for i in range(30)]
    notes += [Note("b99", "q", "b", "asthma night night night night")]
    terms = ["asthma", "cough"]
    summaries = [one.summarise(SummaryRequest(tuple(terms), 3)) for one in nodes(notes)]
    weights = query_weights(terms, user_statistics(summaries, terms, "document"), ModelSettings())
    left = server_outlooks(summaries[1:], weights)
    upper = left[0].best_upper
    below = upper * 0.999
    assert not can_stop(StopSettings(form="strict"), left, below)
    assert can_stop(StopSettings(form="strict"), left, upper * 1.001)
    assert not can_stop(StopSettings(form="probable", risk=1e-9), left, below)
    assert can_stop(StopSettings(form="probable", risk=100.0), left, below)
    for form in ("never", "strict", "probable"):
        assert not can_stop(StopSettings(form=form), left, -math.inf)
    assert not can_stop(StopSettings(), left, upper * 2)


def server(name, n_documents, **terms):
    """Return what a server says that has so many documents of ten words."""
    level = LevelSummary(n_documents, 0)
    found = {term: TermSummary(df, df, n, tuple(best)) for term, (df, n, *best) in terms.items()}
    return ServerSummary(ServerId(name), 1, 10 * n_documents, level, level, 0, found)


def chosen(summaries, terms):
    whole = user_statistics(summaries, terms, "document")
    weights = query_weights(terms, whole, ModelSettings())
    ranked = rank_by_best_impact(server_outlooks(summaries, weights), 5)
    return [one.server_id for one in ranked]


def test_a_server_is_chosen_for_a_rare_term_without_a_list() -> None:
    listed = [best_impact_of(n) for n in range(3)]
    summaries = [
        server("a", 100, cough=(60, 80, *listed), huntington=(0, 0)),
        server("b", 100, cough=(60, 80, *listed), huntington=(1, 4)),
        server("c", 100, cough=(60, 80, *listed), huntington=(0, 0)),
    ]
    assert chosen(summaries, ["cough", "huntington"])[0] == "b"


def test_without_any_list_the_server_with_more_and_richer_documents_is_chosen() -> None:
    summaries = [
        server("a", 100, cough=(1, 1)),
        server("b", 100, cough=(4, 12)),
        server("c", 100, cough=(2, 2)),
        server("d", 100, cough=(0, 0)),
    ]
    # Five documents are looked for: four of b, and one of those of a and c, which are alike.
    assert chosen(summaries, ["cough"]) == ["b", "a", "c"]


def test_estimates_of_unnamed_documents_stay_under_their_bound() -> None:
    listed = [best_impact_of(n) for n in range(3)]
    summaries = [server("a", 100, cough=(60, 80, *listed), fever=(7, 30))]
    whole = user_statistics(summaries, ["cough", "fever"], "document")
    (outlook,) = server_outlooks(
        summaries, query_weights(["cough", "fever"], whole, ModelSettings())
    )
    assert len(outlook.unnamed_estimates) == best_impact.MOST_UNNAMED
    assert (np.diff(outlook.unnamed_estimates) <= 0).all()
    assert outlook.unnamed_estimates.max() <= outlook.unnamed_upper


def best_impact_of(number):
    return Impact(number, 3, 10)


def test_there_are_no_more_estimates_than_documents_that_no_list_names() -> None:
    """A document outside one term's list can be in another's."""
    listed = [best_impact_of(n) for n in range(3)]
    for n_documents, n_others in ((3, 0), (4, 1)):
        summaries = [server("a", n_documents, cough=(3, 9, *listed), fever=(2, 2))]
        whole = user_statistics(summaries, ["cough", "fever"], "document")
        (outlook,) = server_outlooks(
            summaries, query_weights(["cough", "fever"], whole, ModelSettings())
        )
        assert outlook.n_unnamed == n_others
        assert len(outlook.unnamed_estimates) == n_others
