from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.index.entity_weights import ModelSettings
from cloister.rank.forest import ForestSettings
from cloister.search.learned_selection import (
    FEATURES,
    TrainingQuery,
    fit_selection,
    server_features,
)
from cloister.search.node import SummaryRequest
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.selection import rank_servers
from search.small_world import ANALYSIS, Note, node, nodes

TREES = ForestSettings(n_trees=30, min_leaf_rows=5)
N_SERVERS = 8


@cache
def world() -> tuple[list[Note], list[str]]:
    """Make servers that differ in length and in which of 40 words they use; some notes hidden."""
    rng = stream(5, "learned selection")
    notes = []
    for server in range(N_SERVERS):
        chances = rng.dirichlet(np.full(40, 0.15))
        for number in range(60):
            words = rng.choice(40, size=int(rng.integers(3, 30)), p=chances)
            text = " ".join(f"w{word}" for word in words)
            doc_id = f"d{server}-{number:02}"
            readable = bool(rng.random() < 0.7)
            notes.append(Note(doc_id, f"p{doc_id}", f"s{server}", text, readable))
    queries = [" ".join(f"w{word}" for word in rng.choice(40, 3, False)) for _ in range(80)]
    return notes, queries


@cache
def training() -> list[TrainingQuery]:
    notes, queries = world()
    servers = nodes(notes)
    searcher = Searcher(servers, ANALYSIS, SearchSettings(selection="all"))
    made = []
    for query in queries:
        terms = tuple(ANALYSIS.terms(query))
        held: dict[str, int] = {}
        for result in searcher.search(query, k=5).results:
            held[result.server_id] = held.get(result.server_id, 0) + 1
        summaries = [one.summarise(SummaryRequest(terms, 2)) for one in servers]
        made.append(TrainingQuery(terms, summaries, held))
    return made


def found_share(ranked: list[str], held: dict[str, int], n_servers: int) -> float:
    return sum(held.get(name, 0) for name in ranked[:n_servers]) / max(sum(held.values()), 1)


def test_a_learned_selection_finds_more_than_chance_and_than_large_documents():
    pytest.importorskip("lightgbm")
    learn, check = training()[:60], training()[60:]
    selection = fit_selection(learn, 5, forest=TREES)
    shares, chance, entity = [], [], []
    for one in check:
        ranked = [score.server_id for score in selection.rank(one.summaries, one.terms)]
        large = rank_servers(one.summaries, one.terms, ModelSettings())
        shares.append(found_share(ranked, one.n_best_held, 2))
        entity.append(found_share([score.server_id for score in large], one.n_best_held, 2))
        chance.append(2 / N_SERVERS)
    assert np.mean(shares) > np.mean(chance) + 0.2
    assert np.mean(shares) >= np.mean(entity) - 0.02


def test_the_same_queries_give_the_same_trees():
    pytest.importorskip("lightgbm")
    one, two = (fit_selection(training()[:20], 5, forest=TREES, seed=3) for _ in range(2))
    assert one.forest.text == two.forest.text


def test_a_learned_selection_serves_a_searcher():
    pytest.importorskip("lightgbm")
    notes, queries = world()
    selection = fit_selection(training()[:60], 5, forest=TREES)
    settings = SearchSettings(selection="learned", n_servers=2, n_best=2)
    outcome = Searcher(nodes(notes), ANALYSIS, settings, learned=selection).search(queries[70])
    ranked = selection.rank(training()[70].summaries, training()[70].terms)
    assert outcome.servers_asked == tuple(one.server_id for one in ranked[:2])


def test_features_are_finite_and_count_what_they_say():
    notes = [
        Note("a", "p", "s0", "asthma cough"),
        Note("b", "q", "s1", "fever"),
        Note("c", "q", "s1", "asthma fever"),
        Note("d", "q", "s2", "", readable=False),
    ]
    terms = ("asthma", "cough")
    summaries = [node(notes, f"s{i}").summarise(SummaryRequest(terms, 2)) for i in range(3)]
    rows = server_features(summaries, terms, 2)
    assert np.isfinite(rows).all()
    table = {name: rows[:, column].tolist() for column, name in enumerate(FEATURES)}
    assert table["terms_found"] == [1.0, 0.5, 0.0]
    assert table["documents"] == pytest.approx(np.log1p([1, 2, 0]))
    assert table["documents_share"] == pytest.approx([1 / 3, 2 / 3, 0])
    assert table["holdings_most"] == [1.0, 0.5, 0.0]
    assert table["frequency_mean"] == [1.0, 0.25, 0.0]


def test_hidden_documents_change_no_feature():
    notes, queries = world()
    terms = tuple(ANALYSIS.terms(queries[0]))
    for server in range(2):
        name = f"s{server}"
        full = [node(notes, name).summarise(SummaryRequest(terms, 2))]
        plain = [node([n for n in notes if n.readable], name).summarise(SummaryRequest(terms, 2))]
        assert np.array_equal(server_features(full, terms, 5), server_features(plain, terms, 5))


def test_nothing_is_learnt_from_no_queries():
    with pytest.raises(DataError):
        fit_selection([], 5)
