from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cloister.cloud.client import InProcessTransport, PrivateIndexClient
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.query_opening import open_model, open_query
from cloister.cloud.query_trace import QueryTrace, RestingView, server_view
from cloister.cloud.rank_request import RankRequest
from cloister.cloud.server import PrivateIndexServer, score_trace
from cloister.core.errors import DataError
from cloud.built_index import built
from cloud.made_boxes import MadeIndex


def traced(index: PrivateIndex, request: RankRequest) -> QueryTrace:
    return open_query(index, request, open_model(index, request.model))


def shape(view: RestingView) -> list[Any]:
    """Return a view without labels and id, and without an order that labels give."""
    return [sorted(view.box_bytes.tolist()), view.name_bytes.tolist(), view.text_bytes.tolist()]


def test_indexes_of_equal_sizes_differ_in_labels_and_sealed_bytes_only() -> None:
    views = []
    for seed in (0, 1):
        made = MadeIndex(seed, n_held=5, texts=True)
        views.append((server_view(made.index), made.index))
    (first, one), (second, other) = views
    assert shape(first) == shape(second)
    assert not set(map(bytes, first.labels)) & set(map(bytes, second.labels))
    names = (first.index_id, second.index_id)
    headers = [
        {key: value for key, value in index._header.items() if key != "index_id"}
        for index in (one, other)
    ]
    assert headers[0] == headers[1]
    assert names[0] != names[1]


def test_a_view_shows_sizes_and_sizes_tell_indexes_apart() -> None:
    few, many = (server_view(MadeIndex(0, n_held=n).index) for n in (2, 9))
    assert shape(few) != shape(many)


def test_the_bytes_of_an_index_look_random() -> None:
    index = built("T1").index
    for part in (index.labels, index.sealed, index.document_names, index.document_texts):
        content = np.asarray(part).reshape(-1)
        counts = np.bincount(content, minlength=256)
        expected = len(content) / 256
        chi_squared = float(((counts - expected) ** 2 / expected).sum())
        assert abs(chi_squared - 255) < 6 * np.sqrt(2 * 255)  # mean 255, variance 510


def test_a_stranger_could_have_made_the_view_from_sizes_alone() -> None:
    index = built("T2").index
    view = server_view(index)
    rng = np.random.default_rng(0)
    boxes = {rng.bytes(16): rng.bytes(size) for size in view.box_bytes.tolist()}
    names = [rng.bytes(size) for size in view.name_bytes.tolist()]
    texts = [rng.bytes(size) for size in view.text_bytes.tolist()]
    simulated = server_view(PrivateIndex.of(rng.bytes(16), boxes, names, texts))
    assert shape(simulated) == shape(view)
    assert simulated.n_documents == view.n_documents == len(built("T2").doc_ids)


def stripped(index: PrivateIndex, opened: set[bytes]) -> PrivateIndex:
    """Fill all boxes but the opened ones, all names and all texts with noise."""
    rng = np.random.default_rng(0)
    view = server_view(index)
    boxes = {}
    for label, size in zip(map(bytes, view.labels), view.box_bytes.tolist(), strict=True):
        content = index.box(label)
        boxes[label] = bytes(content) if label in opened and content else rng.bytes(size)
    names = [rng.bytes(size) for size in view.name_bytes.tolist()]
    return PrivateIndex.of(index.index_id, boxes, names)


def same(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


@pytest.mark.parametrize("words", [["w0"], ["w1", "w0", "?0", "w4"], [], ["?0"]])
def test_a_trace_holds_what_the_opened_boxes_hold_and_no_more(words: list[str]) -> None:
    made = MadeIndex(4)
    request = made.request(words, candidates=[2, 7])
    trace = traced(made.index, request)
    asked = {box.label for box in (*request.words, *request.phrases, *request.pairs)}
    opened = asked | set(trace.closures) | {request.model.label}
    again = traced(stripped(made.index, opened), request)
    assert same(tuple(vars(trace).values()), tuple(vars(again).values()))
    assert len(opened) == 1 + len(asked) + trace.counts.n_closures


def test_the_answer_follows_from_the_model_and_the_trace_alone() -> None:
    made = MadeIndex(6)
    request = made.request(["w3", "w0", "w2"], k=100)
    model = open_model(made.index, request.model)
    trace = open_query(made.index, request, model)
    scores = score_trace(model, trace, trace.documents)
    answer = PrivateIndexServer(made.index).rank(request)
    assert dict(zip(trace.documents.tolist(), scores.tolist(), strict=True)) == dict(
        zip(answer.documents, answer.scores, strict=True)
    )


def test_counts_say_how_much_was_opened() -> None:
    made = MadeIndex(0, n_held=5)
    counts = traced(made.index, made.request(["w0", "w1", "?0"])).counts
    # w0 and w1 share a closure; their phrase has another one; pair (w0, w1).
    union = len(set(made.closures[0].tolist()) | set(made.closures[1].tolist()))
    levels, codes = 2 * 5 * 20 + 5 * 10, 2 * 5 * 3 + 5 * 4
    assert counts == (3, 2, 1, 1, 2, union, levels, codes)


def test_a_server_links_words_that_come_again_and_words_of_one_closure() -> None:
    made = MadeIndex(0)
    first = traced(made.index, made.request(["w0", "w2"]))
    second = traced(made.index, made.request(["w1", "w0"]))
    assert first.words[0].label == second.words[1].label
    assert second.words[0].closure == second.words[1].closure != first.words[1].closure


def test_the_trace_of_a_query_says_nothing_of_its_words() -> None:
    made = built("T1")
    client = PrivateIndexClient(made.dictionary, InProcessTransport())
    sent = client.request(["alpha", "a", "b"]).to_json()
    assert b"alpha" not in sent
    trace = traced(made.index, client.request(["alpha", "a", "b"]))
    assert trace.n_terms == 3
    places = {word.label: word.place for word in trace.words}
    labels = [made.dictionary.boxes.token("word", word).label for word in "ab"]
    # "b" is rarer than "a", and the server sees which of the two is
    assert places[labels[0]] > places[labels[1]]


def test_a_closure_of_other_length_than_its_words_is_refused() -> None:
    made = MadeIndex(0, n_held=5)
    other = MadeIndex(0, n_held=6)
    token = made.secret.token("closure", "0")
    content = other.plain["closure", "0"].encode()
    made.secret._sealed.clear()  # a faulty client, which seals twice
    boxes = made.boxes | {token.label: made.secret.seal(token, content)}
    names = [bytes(made.index.document_name(d)) for d in range(12)]
    with pytest.raises(DataError, match="does not fit"):
        traced(PrivateIndex.of(made.index.index_id, boxes, names), made.request(["w0"]))
