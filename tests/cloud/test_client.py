from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cloister.cloud.client import InProcessTransport, PrivateIndexClient
from cloister.cloud.query_opening import open_model, open_query
from cloister.cloud.rank_request import RankAnswer, RankRequest
from cloister.cloud.server import score_trace
from cloister.core.errors import DataError, NotFound, SettingsError
from cloud.built_index import KINDS, BuiltIndex, built

# "y" and "z" are in no document, "s" and "t" have no vector.
QUERIES = st.lists(st.sampled_from("abcdefghklmstyz"), max_size=8)


def connected(made: BuiltIndex, folder: Path) -> PrivateIndexClient:
    path = folder / "index"
    made.index.write(path)
    client = PrivateIndexClient(made.dictionary, InProcessTransport())
    client.upload(path)
    return client


@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_order_are_those_of_the_plain_ranker(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = built(kind, seed=len(kind))
    n = len(made.doc_ids)
    # Plain kernel values are of single precision, and are added up in two ways.
    near = 1e-5 if made.ranker.settings.obfuscation.base is None else 1e-9
    client = connected(made, tmp_path_factory.mktemp("index"))

    @hypothesis_settings(max_examples=40)
    @given(QUERIES)
    def check(terms: list[str]) -> None:
        wanted = made.plain_scores(terms)
        hits = client.search_terms(terms, n, candidates=range(n))
        assert {hit.doc_id for hit in hits} == set(wanted)
        assert [hit.score for hit in hits] == pytest.approx(
            [wanted[hit.doc_id] for hit in hits], abs=near
        )
        assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.number))
        found = client.search_terms(terms, n)
        assert {hit.doc_id for hit in found} == made.held(terms)
        assert found == [hit for hit in hits if hit.doc_id in made.held(terms)]

    check()


def test_the_tree_part_is_the_plain_forests_to_the_bit(tmp_path: Path) -> None:
    made = built("T1")
    client = connected(made, tmp_path)
    weights = made.ranker.layer.weights
    for terms in ("a", "ba", "cab", "hagbd"):
        request = client.request(list(terms), candidates=range(len(made.doc_ids)))
        scores = made.plain_scores(list(terms))
        server_scores = _scores_with(made, request, np.append(np.zeros(30), 1.0))
        everywhere = np.arange(len(made.doc_ids))
        signal = made.world.served.signal(list(terms), everywhere, made.ranker.forests)
        assert len(set(scores.values())) > 1
        assert weights[30] != 0
        assert server_scores == dict(zip(made.doc_ids, signal.tolist(), strict=True))


def _scores_with(made: BuiltIndex, request: RankRequest, weights: np.ndarray) -> dict[str, float]:
    """Score as the server does, with other weights and no bias."""
    model = replace(open_model(made.index, request.model), weights=weights, bias=0.0)
    trace = open_query(made.index, request, model)
    assert trace.candidates is not None
    scores = score_trace(model, trace, trace.candidates)
    boxes = made.dictionary.boxes
    names = [
        boxes.open_document("name", d, made.index.document_name(d)).decode()
        for d in trace.candidates.tolist()
    ]
    return dict(zip(names, scores.tolist(), strict=True))


def test_a_query_in_words_is_analysed_as_the_documents_were(tmp_path: Path) -> None:
    made = built("T1")
    client = connected(made, tmp_path)
    assert client.search("B, a! b", 5) == client.search_terms(["b", "a", "b"], 5)
    assert client.search("...", 5) == []


def test_texts_are_opened_by_the_client(tmp_path: Path) -> None:
    made = built("T1")
    client = connected(made, tmp_path)
    for hit in client.search("a b", 3):
        assert client.document(hit.number) == made.texts[made.doc_ids.index(hit.doc_id)]
    with pytest.raises(NotFound):
        client.document(10**6)


def test_words_that_the_collection_does_not_have_are_not_sent() -> None:
    client = PrivateIndexClient(built("T1").dictionary, InProcessTransport())
    request = client.request(["z", "a", "y"])
    assert request.n_terms == 3
    assert len(request.words) == 1
    assert not request.phrases
    assert not request.pairs


def test_a_word_has_the_same_label_in_every_query_and_another_in_another_index() -> None:
    clients = [PrivateIndexClient(built(k).dictionary, InProcessTransport()) for k in ("T1", "T2")]
    labels = [client.request(["a"]).words[0].label for client in clients]
    assert labels[0] in [word.label for word in clients[0].request(["b", "a"]).words]
    assert labels[0] != labels[1]


def test_the_order_of_boxes_and_turned_pairs_tell_nothing_of_the_alphabet() -> None:
    made = built("T1")
    client = PrivateIndexClient(made.dictionary, InProcessTransport())
    turned = []
    for a, b in made.world.keys.pairs:
        there, back = client.request([a, b]), client.request([b, a])
        assert [word.label for word in there.words] == sorted(word.label for word in back.words)
        assert there.pairs[0].turned != back.pairs[0].turned  # the trees need the query's order
        labels = [made.dictionary.boxes.token("word", word).label for word in (a, b)]
        assert there.pairs[0].turned == (labels[0] > labels[1])
        turned.append(there.pairs[0].turned)
    assert 0.1 < np.mean(turned) < 0.9
    request = client.request(list("hgfedcba"))
    for boxes in (request.words, request.phrases, request.pairs):
        assert [box.label for box in boxes] == sorted(box.label for box in boxes)


def test_an_index_that_is_not_the_dictionarys_is_not_uploaded(tmp_path: Path) -> None:
    built("T2").index.write(tmp_path / "other")
    client = PrivateIndexClient(built("T1").dictionary, InProcessTransport())
    with pytest.raises(DataError, match="another index"):
        client.upload(tmp_path / "other")
    with pytest.raises(NotFound):
        client.search("a")


@pytest.mark.parametrize("k", [0, -1, 10**9])
def test_a_senseless_number_of_results_is_refused(k: int) -> None:
    client = PrivateIndexClient(built("T1").dictionary, InProcessTransport())
    with pytest.raises(SettingsError, match="documents can be asked for"):
        client.search("a", k)


class _Cheat(InProcessTransport):
    """A server that gives documents each other's names, one twice, or others than asked for."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def rank(self, index_id: str, request: RankRequest) -> RankAnswer:
        true = super().rank(index_id, request)
        if self.way == "names":
            return true.model_copy(update={"names": true.names[::-1]})
        if self.way == "others":
            return super().rank(index_id, request.model_copy(update={"candidates": (0, 2)}))
        return true.model_copy(
            update={"documents": (true.documents[0],) * 2, "names": (true.names[0],) * 2,
                    "scores": (1.0, 1.0)}
        )  # fmt: skip


@pytest.mark.parametrize("way", ["names", "twice", "others"])
def test_a_server_that_changes_names_is_found_out(way: str, tmp_path: Path) -> None:
    made = built("T1")
    made.index.write(tmp_path / "index")
    client = PrivateIndexClient(made.dictionary, _Cheat(way))
    client.upload(tmp_path / "index")
    with pytest.raises(DataError):
        client.search("a b", 2, candidates=[0, 1])
