"""NFCorpus spread over servers and pods, half of it hidden."""

from __future__ import annotations

import numpy as np
import pytest

from cloister.core.random import stream
from cloister.data.beir import open_beir
from cloister.search.adaptive_stop import StopSettings
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from search.small_world import ANALYSIS, Note, entities, literal_scores, nodes, ordered

N_SERVERS, N_DOCUMENTS, N_QUERIES = 20, 1000, 25


@pytest.fixture
def collection(real_data) -> tuple[list[Note], list[str]]:
    found = open_beir(real_data("text/nfcorpus"))
    rng = stream(11, "nfcorpus on servers")
    notes = []
    for document in found.documents[:N_DOCUMENTS]:
        server, pod = int(rng.integers(N_SERVERS)), int(rng.integers(5))
        readable = bool(rng.random() < 0.5)
        place = (f"s{server:02}-p{pod}", f"s{server:02}")
        notes.append(Note(document.doc_id, *place, document.text[:400], readable))
    texts = [query.text for query in found.queries]
    return notes, [text for text in texts if len(ANALYSIS.terms(text)) <= 5][:N_QUERIES]


def test_real_queries_find_what_one_index_would_find(collection):
    notes, queries = collection
    whole = Searcher(nodes(notes), ANALYSIS, SearchSettings(selection="all"))
    strict = SearchSettings(n_best=5, stop=StopSettings(form="strict"))
    careful = Searcher(nodes(notes), ANALYSIS, strict)
    chosen = Searcher(nodes(notes), ANALYSIS, SearchSettings(n_best=5, n_servers=5))
    documents, shares, n_asked = entities(notes, "document"), [], []
    for query in queries:
        gold = ordered(literal_scores(documents, ANALYSIS.terms(query), whole.settings.model))[:5]
        results = whole.search(query, k=5).results
        assert [one.score for one in results] == pytest.approx([s for _, s in gold], rel=1e-12)
        outcome = careful.search(query, k=5)
        assert outcome.results == results
        n_asked.append(len(outcome.servers_asked))
        found = {one.doc_id for one in chosen.search(query, k=5).results}
        shares += [len(found & {one.doc_id for one in results}) / len(results)] if results else []
    assert np.mean(shares) > 0.9
    assert np.mean(n_asked) < N_SERVERS
