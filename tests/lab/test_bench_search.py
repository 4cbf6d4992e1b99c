"""The benchmarks of search, at small sizes."""

from __future__ import annotations

import numpy as np

from cloister.index.snapshot import Snapshot
from cloister.lab.bench.search import measure
from cloister.lab.bench.search_corpus import make_search_corpus
from cloister.lab.bench.search_rights import check_rights


def quiet(done: int, total: int) -> None:
    """Show nothing."""


def test_the_index_and_the_oracle_agree_on_what_each_reader_may_read():
    assert check_rights(150, quiet) == 0


def test_an_index_that_shows_too_much_is_found_out(monkeypatch):
    def everything(self, reader, hidden=frozenset()):
        return tuple(segment.live for segment in self.segments)

    monkeypatch.setattr(Snapshot, "masks", everything)
    assert check_rights(60, quiet, seed=2) > 30


def test_an_index_that_shows_too_little_is_found_out(monkeypatch):
    masks = Snapshot.masks

    def without_the_first(self, reader, hidden=frozenset()):
        return tuple(mask & (np.arange(len(mask)) > 0) for mask in masks(self, reader, hidden))

    monkeypatch.setattr(Snapshot, "masks", without_the_first)
    assert check_rights(60, quiet, seed=2) > 0


def test_both_engines_are_measured_on_the_same_queries():
    figures = measure(300, 20, quiet)
    for name in ("reader_10", "reader_50"):
        ratio = figures[f"{name}_queries_per_s"] / figures[f"tantivy_{name}_queries_per_s"]
        assert figures[f"{name}_times_tantivy"] == ratio
    assert 0 < figures["postings_and_lengths_mb"] < figures["disk_mb"]
    assert figures["first_query_hidden_term_ms"] > 0


def test_queries_have_three_words_that_documents_hold():
    corpus = make_search_corpus(500, 30)
    held = {word for text in corpus.texts for word in text.split()}
    assert all(len(query) == 3 for query in corpus.queries)
    assert sum(word in held for query in corpus.queries for word in query) > 60
