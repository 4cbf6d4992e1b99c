"""The benchmark of private neural ranking, at a small size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cloister.cloud.box_layout import PairBox, PhraseBox, WordBox
from cloister.cloud.private_trees import PrivateForest
from cloister.cloud.sealed_boxes import BoxKind, box_name, open_box
from cloister.cloud.server import PrivateIndexServer
from cloister.core.errors import StoreError
from cloister.lab.bench import Figures, neural, select
from cloister.lab.bench.neural_closures import closure_figures
from cloister.lab.bench.neural_index import BuiltScene, NeuralSize, build, prepare
from cloister.lab.bench.neural_serving import ServedTimes, serve_fresh
from cloister.lab.bench.neural_storage import storage
from cloister.lab.bench.neural_trees import tree_figures
from cloister.rank.tree_features import distinct_terms

SIZE = NeuralSize(
    world="servers=2&pods=20&document_bytes=0&queries=90&staff=4",
    n_training=60,
    n_queries=6,
    n_candidates=16,
    n_rounds=2,
    n_filters=4,
    n_trees=40,
    n_closed=300,
    n_random_rows=200,
)


def quiet(done: int, total: int) -> None:
    """Show nothing."""


@pytest.fixture(scope="module", autouse=True)
def _no_vectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Take no word vectors that somebody has fetched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOISTER_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("CLOISTER_WORD_VECTORS", raising=False)
        yield


@pytest.fixture(scope="module")
def made(_no_vectors: None) -> tuple[BuiltScene, Figures]:
    return build(prepare(SIZE), quiet)


@pytest.fixture(scope="module")
def built(made: tuple[BuiltScene, Figures]) -> BuiltScene:
    return made[0]


@pytest.fixture(scope="module")
def figures(made: tuple[BuiltScene, Figures]) -> Figures:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neural, "prepare", lambda size: made[0].scene)
        patch.setattr(neural, "build", lambda scene, advance: made)
        return neural.measure(SIZE, quiet)


def test_the_benchmark_has_a_name() -> None:
    assert select("neural") == ("neural",)


def test_the_server_scores_as_the_plain_ranker_does(figures: Figures) -> None:
    assert figures["queries_with_other_scores"] == 0
    assert figures["queries"] == SIZE.n_queries
    assert figures["candidates"] == SIZE.n_candidates


def test_times_are_those_of_rankings(figures: Figures) -> None:
    for name in ("server_rank", "server_with_json", "peer_plain_rank"):
        assert 0 < figures[f"{name}_median_ms"] <= figures[f"{name}_p95_ms"]
    for name in ("http", "search"):
        assert 0 < figures[f"{name}_median_wall_ms"] <= figures[f"{name}_p95_wall_ms"]
    assert figures["server_rank_median_ms"] < figures["server_with_json_median_ms"]
    assert figures["server_open_median_ms"] < figures["server_rank_median_ms"]
    assert figures["keys_and_build_documents_per_cpu_s"] > 0


def test_the_parts_of_a_ranking_add_up_to_it() -> None:
    rng = np.random.default_rng(0)
    names = ("parse", "rank", "write", "open", "score", "score_without_trees", "layer")
    times = ServedTimes({name: rng.random((3, 5)) for name in names}, [], 0.0)
    assert np.allclose(sum(times.parts.values()), times.steps["rank"])


def test_another_score_or_document_is_found_out(built: BuiltScene) -> None:
    server = PrivateIndexServer(built.index)
    answers = [server.rank(built.request(query)) for query in built.scene.queries]
    assert neural._differing(built, answers) == 0
    scores = list(answers[0].scores)
    scores[2] += 1e-6 * (1 + max(map(abs, scores)))
    wrong = [answers[0].model_copy(update={"scores": tuple(scores)}), *answers[1:]]
    assert neural._differing(built, wrong) == 1
    (other,) = (set(range(built.index.n_documents)).difference(answers[1].documents).pop(),)
    documents = (other, *answers[1].documents[1:])
    wrong[1] = answers[1].model_copy(update={"documents": documents})
    assert neural._differing(built, wrong) == 2


def test_a_server_that_imports_a_trainer_is_found_out(
    built: BuiltScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading = "import sys, types; sys.modules['gensim'] = types.ModuleType('gensim')"
    (tmp_path / "sitecustomize.py").write_text(loading)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    built.index.write(tmp_path / "index")
    request = built.request(built.scene.warming)
    with pytest.raises(StoreError, match="imports gensim"):
        serve_fresh(tmp_path / "index", [request], request, 1)


def test_a_server_that_fails_is_said(tmp_path: Path, built: BuiltScene) -> None:
    request = built.request(built.scene.warming)
    with pytest.raises(StoreError, match=r"process failed(.|\n)*NotFound"):
        serve_fresh(tmp_path / "nothing", [request], request, 1)


def test_queries_have_three_terms_and_documents_that_hold_one(built: BuiltScene) -> None:
    texts = built.scene.collection.texts
    for terms, documents in (*built.scene.queries, built.scene.warming):
        assert len(distinct_terms(terms)) == 3
        assert len(set(documents.tolist())) == SIZE.n_candidates
        assert all(set(terms) & set(texts.document(d)) for d in documents.tolist())
    assert built.scene.warming.terms not in {query.terms for query in built.scene.queries}


def test_secret_numbers_are_those_of_the_names(built: BuiltScene) -> None:
    for place, doc_id in enumerate(built.scene.collection.doc_ids):
        number = int(built.numbers[place])
        sealed = built.index.document_name(number)
        assert built.dictionary.boxes.open_document("name", number, sealed).decode() == doc_id


def test_the_bytes_of_an_index_add_up(built: BuiltScene) -> None:
    found = storage(built)
    kinds = ("model_boxes", "word_boxes", "phrase_boxes", "closure_boxes", "pair_boxes")
    parts = [found[f"{name}_bytes_per_document"] for name in (*kinds, "names", "labels")]
    assert sum(parts) == pytest.approx(found["index_bytes_per_document"])
    labels = built.index.labels.nbytes + built.index.starts.nbytes
    assert found["labels_bytes_per_document"] * built.index.n_documents >= labels


def test_levels_and_codes_are_counted_as_they_lie_in_the_boxes(built: BuiltScene) -> None:
    found, keys, n = storage(built), built.keys, built.index.n_documents

    def opened(kind: BoxKind, *words: str) -> memoryview:
        token = built.dictionary.boxes.token(kind, box_name(*words))
        sealed = built.index.box(token.label)
        assert sealed is not None
        return open_box(token.key, sealed, token.label)

    words = [opened("word", word) for word in keys.words]
    phrases = [opened("phrase", *phrase) for phrase in keys.phrases]
    pairs = [opened("pair", *pair) for pair in keys.pairs]
    levels = sum(WordBox.decode(box).levels.nbytes for box in words)
    assert found["word_levels_bytes_per_document"] == levels / n
    levels = sum(PhraseBox.decode(box).levels.nbytes for box in phrases)
    assert found["phrase_levels_bytes_per_document"] == levels / n
    heads = 56 * len(words)  # see cloister.cloud.box_layout
    codes = sum(map(len, words)) - heads - found["word_levels_bytes_per_document"] * n
    assert found["word_codes_bytes_per_document"] == pytest.approx(codes / n)
    rows = sum(len(PairBox.decode(box, n).documents) for box in pairs)
    codes = sum(map(len, pairs)) - 8 * len(pairs) - 4 * rows
    assert found["pair_codes_bytes_per_document"] == codes / n


def test_the_open_map_has_what_occurs(built: BuiltScene) -> None:
    found, texts = storage(built), built.scene.collection.texts
    known, n_bytes = set(built.keys.phrases), 0
    for number in range(texts.n_documents):
        words = texts.document(number)
        n_bytes += 24 * len(set(words))
        n_bytes += 14 * len(known & set(itertools.pairwise(words)))
    assert found["open_map_bytes_per_document"] * texts.n_documents == pytest.approx(n_bytes)
    maps = [found[f"{kind}_map_bytes_per_document"] for kind in ("open", "closed", "full")]
    assert maps == sorted(maps)
    assert found["closed_map_share_of_full"] == maps[1] / maps[2]


def test_private_trees_give_the_same_bits(figures: Figures) -> None:
    assert figures["tree_rows_with_other_bits"] == 0
    assert figures["tree_distinct_scores"] > SIZE.n_random_rows / 4
    assert figures["trees"] == SIZE.n_trees


def test_trees_that_are_off_by_a_bit_are_found_out(
    built: BuiltScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    score = PrivateForest.score
    monkeypatch.setattr(
        PrivateForest, "score", lambda self, rows: np.nextafter(score(self, rows), np.inf)
    )
    assert tree_figures(built.scene.forests.common, 50)["tree_rows_with_other_bits"] == 50


def test_closures_are_of_as_many_terms_as_asked_for() -> None:
    found = closure_figures(130)
    assert found["closed_terms"] == 130
    assert found["closed_vectors"] == "made up, in groups"
    assert found["closures_adaptive_0_3_mean_size"] >= 5
    assert found["closures_fixed_0_7_mean_size"] < found["closures_fixed_0_3_mean_size"]
    assert found["closures_adaptive_0_7_cpu_s"] > 0
