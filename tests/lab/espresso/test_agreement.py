"""Agreement with the user's centralised BM25: federations, gold, measures, and prefixes of S."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.ids import AgentId
from cloister.core.rights import Reader
from cloister.lab.espresso import agreement
from cloister.lab.espresso.agreement import (
    CUTOFFS,
    SYSTEMS,
    AgreementSettings,
    Trial,
    at,
    measure,
    opened,
    published_statistics,
    rankings_by_servers,
)
from cloister.lab.espresso.federation import (
    build_federation,
    federation_folder,
    n_servers_there,
    open_federation,
)
from cloister.lab.espresso.federation_contents import (
    ANALYSIS,
    FederationSettings,
    clinic_world,
    server_name,
    texts_of,
)
from cloister.search.published_statistics import exact_statistics
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.server_contents import contents_of

FEDERATION = FederationSettings(servers=3, pods=40)
SMALL = AgreementSettings(
    data="world:clinic", federation=FEDERATION, access=50, n_queries=6, n_sample=60, n_servers=3
)


def ignore(done: int, total: int) -> None:
    """Be told how far a trial is."""
    assert done <= total


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the federation of these tests is kept."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cached_here(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOISTER_CACHE", str(cache))


@pytest.fixture(scope="module")
def trial(cache: Path) -> Iterator[Trial]:
    """Open a small federation as its reader of half of all pods."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOISTER_CACHE", str(cache))
        made = opened(SMALL)
    yield made
    made.close()


def literal_bm25(texts: dict[str, str], query: str) -> dict[str, float]:
    """Score documents by BM25 as it is written in books, over just these documents."""
    counts = {name: Counter(ANALYSIS.terms(text)) for name, text in texts.items()}
    mean = sum(sum(one.values()) for one in counts.values()) / len(counts)
    scores: dict[str, float] = {}
    for term in ANALYSIS.terms(query):
        df = sum(term in one for one in counts.values())
        idf = math.log(1 + (len(counts) - df + 0.5) / (df + 0.5))
        for name, one in counts.items():
            if term in one:
                length = 0.25 + 0.75 * sum(one.values()) / mean
                weight = idf * one[term] * 2.2 / (one[term] + 1.2 * length)
                scores[name] = scores.get(name, 0.0) + weight
    return scores


def test_readers_read_the_pods_that_the_world_grants_them(trial: Trial) -> None:
    world = clinic_world(FEDERATION)
    for reader in trial.federation.readers.values():
        expected = int(world.readable(reader.agent_id).sum())
        found = sum(len(shard.view(reader).documents) for shard in trial.federation.shards)
        assert found == expected


def test_a_stranger_reads_nothing_of_a_federation(trial: Trial) -> None:
    stranger = Reader(AgentId("stranger"))
    assert all(not len(shard.view(stranger).documents) for shard in trial.federation.shards)


def test_a_stopped_build_goes_on_and_leaves_what_is_there(tmp_path: Path) -> None:
    settings = FederationSettings(servers=2, pods=3)
    one = FederationSettings(servers=1, pods=3)  # the first server alone
    build_federation(settings.model_copy(update={"servers": 1}), tmp_path, workers=1)
    assert n_servers_there(one, tmp_path) == n_servers_there(settings, tmp_path) == 1
    before = (tmp_path / server_name(0) / "CURRENT").stat().st_ino
    (tmp_path / server_name(1)).mkdir()  # as a killed process may leave it
    told: list[tuple[int, int]] = []
    build_federation(settings, tmp_path, workers=1, advance=lambda *now: told.append(now))
    assert told == [(2, 2)]
    assert (tmp_path / server_name(0) / "CURRENT").stat().st_ino == before
    with_all = open_federation(settings, tmp_path)
    assert with_all.n_documents == 6
    with_all.close()


def test_the_gold_is_bm25_over_all_that_the_user_may_read(trial: Trial) -> None:
    views = [shard.view(trial.reader) for shard in trial.federation.shards]
    names = [view.doc_id(int(n)) for view in views for n in view.documents]
    texts = dict(zip(map(str, names), texts_of(FEDERATION, names), strict=True))
    for query, gold in zip(trial.queries, trial.gold, strict=True):
        scores = literal_bm25(texts, query.text)
        assert len(gold) == min(SMALL.n_gold, len(scores))
        least = min(scores[name] for name in gold)
        others = [score for name, score in scores.items() if name not in gold]
        assert all(score <= least + 1e-9 for score in others)
        ranked = [scores[name] for name in gold]
        assert ranked == pytest.approx(sorted(ranked, reverse=True))


def test_published_statistics_by_server_are_those_of_all_together(trial: Trial) -> None:
    contents = [contents_of(one.snapshot(), one.server_id) for one in trial.federation.shards]
    whole, found = exact_statistics(contents), published_statistics(trial.federation)
    for level in ("document", "pod", "server"):
        one, other = whole.level(level), found.level(level)
        assert dict(one.table) == dict(other.table)
        assert one.n_entities == other.n_entities
        assert one.mean_length == pytest.approx(other.mean_length)


def test_one_search_has_what_fewer_servers_would_give(trial: Trial) -> None:
    def searcher(n: int) -> Searcher:
        settings = SearchSettings(selection="entity", n_servers=n, n_pods=5)
        return Searcher(trial.nodes, ANALYSIS, settings)

    for query in trial.queries:
        rankings = rankings_by_servers(searcher(3), query, 3)
        for n in (1, 2, 3):
            alone = searcher(n).search(query.text, k=max(CUTOFFS)).results
            assert list(rankings[n - 1])[: max(CUTOFFS)] == [one.doc_id for one in alone]


@given(st.lists(st.integers(0, 30), max_size=25, unique=True), st.integers(1, 20))
def test_measures_are_those_of_trec_eval(shown: list[int], n_gold: int) -> None:
    gold, ranking = [str(n) for n in range(n_gold)], [str(n) for n in shown]
    found = agreement._values([ranking], [gold])
    qrels = [ir_measures.Qrel("q", doc_id, 1) for doc_id in gold]
    run = [ir_measures.ScoredDoc("q", doc_id, 100.0 - i) for i, doc_id in enumerate(ranking)]
    run = run or [ir_measures.ScoredDoc("q", "none", 1.0)]
    names = {f"ndcg@{k}": ir_measures.nDCG @ k for k in CUTOFFS}
    names |= {f"p@{k}": ir_measures.P @ k for k in CUTOFFS} | {"map": ir_measures.AP}
    expected = ir_measures.calc_aggregate(names.values(), qrels, run)
    for name, oracle in names.items():
        assert found[name][0] == pytest.approx(expected[oracle], abs=1e-9)


def test_overlap_asks_for_the_very_best_and_ndcg_does_not() -> None:
    gold = [[str(n) for n in range(50)]]
    found = agreement._values([["40", "41", "42", "43", "44"]], gold)
    assert found["ndcg@5"][0] == 1.0
    assert found["overlap@5"][0] == 0.0


def test_a_query_with_nothing_to_find_does_not_count() -> None:
    found = agreement._values([["a"], ["b"]], [[], ["b"]])
    assert np.isnan(found["ndcg@5"]).tolist() == [True, False]


def test_figures_have_every_system_and_number_of_servers(trial: Trial) -> None:
    chosen = ("BM25 global", "LM user", "BM25 user, printed IDF")
    figures = measure(SMALL.model_copy(update={"systems": chosen}), ignore)
    assert set(figures) == {at(name, n) for name in chosen for n in (1, 2, 3)}
    assert set(chosen) <= set(SYSTEMS)
    for values in figures.values():
        assert 0 <= values["ndcg@5"] <= 1  # type: ignore[operator]
    # All of three servers: nothing is lost but what lies beyond the best five pods.
    assert figures[at("LM user", 3)]["n_queries"] == len(trial.queries)


def test_queries_are_made_once_and_kept(trial: Trial) -> None:
    folder = federation_folder(FEDERATION)
    kept = list(folder.glob("queries-*.json"))
    assert kept
    assert agreement.trial_queries(SMALL, SMALL.seed, SMALL.n_queries) == list(trial.queries)
