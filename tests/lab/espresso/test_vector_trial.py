"""Word vectors across servers: means by document are those of search, and so are rankings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.ids import AgentId, DocId, PodId
from cloister.core.rights import Reader, Rights
from cloister.index.postings import Postings
from cloister.index.reader_view import ReaderView
from cloister.index.snapshot import Segment, Snapshot
from cloister.index.term_counts import count_terms
from cloister.lab.espresso.agreement import Trial, at, opened
from cloister.lab.espresso.federation_contents import ANALYSIS, FederationSettings
from cloister.lab.espresso.server_vectors import document_terms, query_means, server_means
from cloister.lab.reproduce.espresso import vector_trial
from cloister.lab.reproduce.espresso.vector_trial import SYSTEMS, VectorTrialSettings
from cloister.search.word_vector_ranking import VECTOR_MODELS, EntityVectors, similarities
from cloister.search.word_vector_table import WordVectors
from cloister.search.word_vectors import WordVectorSettings

WORDS = ("asthma", "cough", "fever", "lung", "rash", "unknown")
SMALL = VectorTrialSettings(
    data="world:clinic",
    federation=FederationSettings(servers=3, pods=30),
    access=50,
    n_queries=6,
    n_sample=60,
    n_servers=3,
    n_public=40,
    n_tuning=30,
    base=WordVectorSettings(size=16, epochs=2),
)


def vectors() -> WordVectors:
    """Return vectors of all words but the last."""
    rows = np.random.default_rng(5).normal(size=(len(WORDS) - 1, 4)).astype(np.float32)
    return WordVectors(WORDS[:-1], rows, np.ones(len(WORDS) - 1, np.int64))


def view_of(texts: list[str], pods: list[int], readable: list[bool]) -> ReaderView:
    """Return what one reader reads of some documents in two segments."""
    middle = len(texts) // 2
    segments = tuple(
        Segment(
            Postings.build(count_terms(texts[part])),
            [DocId(f"d{i}") for i in range(len(texts))[part]],
            np.array(pods[part], np.int32),
            np.ones(len(texts[part]), np.bool_),
            np.array(readable[part], np.int32),
        )
        for part in (slice(None, middle), slice(middle, None))
        if texts[part]
    )
    reader = Reader(AgentId("ann"))
    rights = (Rights(), Rights(agents=frozenset({reader.agent_id})))
    pod_ids = tuple(PodId(f"p{i}") for i in range(6))
    return ReaderView(Snapshot(1, segments, pod_ids, rights), reader)


documents = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=8), st.integers(0, 5), st.booleans()
    ),
    min_size=1,
    max_size=12,
)


@given(documents)
def test_means_are_those_of_search_at_each_level(made: list[tuple[list[str], int, bool]]) -> None:
    view = view_of(
        [" ".join(words) for words, _, _ in made],
        [pod for _, pod, _ in made],
        [r for *_, r in made],
    )
    sorted_terms = document_terms(view)
    found = server_means(sorted_terms, vectors())
    for means, level in zip(found, ("server", "pod", "document"), strict=True):
        expected = EntityVectors(view.level(level), vectors())  # type: ignore[arg-type]
        assert means.means[means.n_words > 0] == pytest.approx(expected.means, abs=1e-5)
    names = [view.doc_id(int(n)) for n in sorted_terms.numbers]
    assert names == [DocId(f"d{i}") for i, (*_, readable) in enumerate(made) if readable]


@given(documents, st.lists(st.sampled_from(WORDS[:-1]), min_size=1, max_size=3))
def test_scores_of_all_queries_at_once_are_those_of_one(
    made: list[tuple[list[str], int, bool]], query: list[str]
) -> None:
    texts = [" ".join(words) for words, _, _ in made]
    view = view_of(texts, [pod for _, pod, _ in made], [True] * len(texts))
    found = server_means(document_terms(view), vectors()).documents
    queries = query_means(vectors(), [query, ["fever"]])
    for model in VECTOR_MODELS:
        one = similarities(found.means, queries[0], model)
        known = found.n_words > 0
        # A distance is the root of a difference: what is 1e-12 off in a square is 1e-6 off in it.
        assert found.scores(queries, model)[known, 0] == pytest.approx(one[known], abs=2e-6)
        assert np.isneginf(found.scores(queries, model)[~known]).all()


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Trial, WordVectors]]:
    """Open a small federation, with the vectors of one user."""
    pytest.importorskip("gensim")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOISTER_CACHE", str(tmp_path_factory.mktemp("cache")))
        made = opened(SMALL)
        yield made, vector_trial._base(SMALL)
        made.close()


def test_rankings_are_those_of_word_vectors_in_search(trial: tuple[Trial, WordVectors]) -> None:
    made, base = trial
    found = vector_trial._found(made, {"paper": base, "backed_off": base}, 5)
    for name, (model, _) in SYSTEMS.items():
        for query in made.queries:
            terms = ANALYSIS.terms(query.text)
            for shard, one in zip(made.federation.shards, found[name][query], strict=True):
                view = shard.view(made.reader)
                whole, pods = (EntityVectors(view.level(n), base) for n in ("server", "pod"))
                assert one.score == pytest.approx(whole.scores(terms, model)[0], abs=1e-5)
                best = pods.best(terms, 5, model)
                listed = sorted(one.documents, reverse=True)
                assert [s for s, _ in listed] == pytest.approx(best.scores[:5], abs=1e-5)


def test_a_trial_has_every_system_and_says_how_long_it_took(
    trial: tuple[Trial, WordVectors], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, base = trial
    monkeypatch.setattr(vector_trial, "opened", lambda settings: made)
    monkeypatch.setattr(vector_trial, "_base", lambda settings: base)
    monkeypatch.setattr(Trial, "close", lambda self: None)
    told: list[tuple[int, int]] = []
    found = vector_trial.measure(SMALL, lambda *now: told.append(now))
    assert set(found) == {at(name, n) for name in SYSTEMS for n in (1, 2, 3)}
    assert all(0 <= one["ndcg@5"] <= 1 for one in found.values())  # type: ignore[operator]
    assert all(one["tuning_s"] > 0 for one in found.values())  # type: ignore[operator]
    assert told[-1] == (4, 4)


def test_a_user_reads_what_the_vectors_are_tuned_on(trial: tuple[Trial, WordVectors]) -> None:
    made, _ = trial
    texts = vector_trial._read(made, SMALL)
    assert len(texts) == SMALL.n_tuning
    more = vector_trial._read(made, SMALL.model_copy(update={"n_tuning": 10_000}))
    n = sum(len(shard.view(made.reader).documents) for shard in made.federation.shards)
    assert len(more) == n
    assert set(texts) <= set(more)
