from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cloister.cloud.model_box import ModelBox
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.query_opening import open_model, open_query
from cloister.cloud.rank_request import AskedBox, RankAnswer, RankRequest
from cloister.cloud.server import PrivateIndexServer, score_trace
from cloister.core.errors import DataError, NotFound
from cloud.made_boxes import MadeIndex

WORDS = [f"w{n}" for n in range(6)] + ["?0", "?1"]


@hypothesis_settings(max_examples=60)
@given(
    seed=st.integers(0, 50),
    base=st.sampled_from([10.0, 5.0, None]),
    trees=st.booleans(),
    words=st.lists(st.sampled_from(WORDS), max_size=8, unique=True),
)
def test_scores_are_those_of_the_formula(
    seed: int, base: float | None, trees: bool, words: list[str]
) -> None:
    made = MadeIndex(seed, base=base, trees=trees)
    answer = PrivateIndexServer(made.index).rank(
        made.request(words, candidates=list(range(12)), k=12)
    )
    wanted = {d: made.literal_score(words, d) for d in range(12)}
    assert answer.scores == pytest.approx([wanted[d] for d in answer.documents], abs=1e-9)
    assert sorted(answer.documents) == list(range(12))
    assert list(answer.scores) == sorted(answer.scores, reverse=True)
    assert answer.n_scored == 12


def test_a_query_without_words_gives_all_candidates_in_the_order_of_their_numbers() -> None:
    made = MadeIndex(trees=False)
    answer = PrivateIndexServer(made.index).rank(made.request([], candidates=[7, 3, 5]))
    assert answer.documents == (3, 5, 7)
    assert set(answer.scores) == {0.25}


def test_without_candidates_all_documents_of_the_closures_are_scored() -> None:
    made = MadeIndex(3)
    words = ["w0", "w1", "w4"]
    answer = PrivateIndexServer(made.index).rank(made.request(words, k=100))
    phrase = made.secret.token("phrase", "w0\0w1")
    held = set(made.closures[0].tolist()) | set(made.closures[2].tolist())
    held |= set(made.closures[1 % 3].tolist())  # of the phrase
    assert phrase.label in made.boxes
    assert set(answer.documents) == held
    assert answer.n_scored == len(held)


def test_only_the_best_are_returned() -> None:
    made = MadeIndex(1)
    server = PrivateIndexServer(made.index)
    all_of_them = server.rank(made.request(["w2", "w0"], candidates=list(range(12)), k=12))
    three = server.rank(made.request(["w2", "w0"], candidates=list(range(12)), k=3))
    assert three.documents == all_of_them.documents[:3]
    assert three.scores == all_of_them.scores[:3]
    assert three.n_scored == 12


def test_names_come_sealed_and_open_with_the_clients_key_only() -> None:
    made = MadeIndex(2)
    answer = PrivateIndexServer(made.index).rank(made.request(["w0"], candidates=[4, 9]))
    opened = [
        made.secret.open_document("name", number, name)
        for number, name in zip(answer.documents, answer.names, strict=True)
    ]
    assert opened == [f"document {number}".encode() for number in answer.documents]
    with pytest.raises(DataError):
        made.secret.open_document("name", answer.documents[0], answer.names[1])


def test_the_order_of_two_words_decides_which_column_of_a_pair_is_read() -> None:
    made = MadeIndex(5)
    server = PrivateIndexServer(made.index)
    for words in (["w0", "w1"], ["w1", "w0"]):
        request = made.request(words, candidates=list(range(12)), k=12)
        assert [pair.turned for pair in request.pairs] == [words[0] > words[1]]
        answer = server.rank(request)
        wanted = [made.literal_score(words, d) for d in answer.documents]
        assert answer.scores == pytest.approx(wanted, abs=1e-9)


def altered(request: RankRequest, **parts: Any) -> RankRequest:
    return request.model_copy(update=parts)


def test_a_box_that_is_missing_is_refused() -> None:
    made = MadeIndex()
    request = made.request(["w0"], candidates=[0])
    word = request.words[0].model_copy(update={"label": bytes(16)})
    with pytest.raises(DataError, match="no box of this label"):
        PrivateIndexServer(made.index).rank(altered(request, words=(word,)))


def test_a_wrong_key_is_refused() -> None:
    made = MadeIndex()
    request = made.request(["w0"], candidates=[0])
    word = request.words[0].model_copy(update={"key": bytes(32)})
    server = PrivateIndexServer(made.index)
    with pytest.raises(DataError, match="does not open"):
        server.rank(altered(request, words=(word,)))
    server.rank(request)
    with pytest.raises(DataError, match="does not open"):  # also where the model is open already
        server.rank(altered(request, model=request.model.model_copy(update={"key": bytes(32)})))


def test_a_damaged_box_is_refused_and_others_are_served() -> None:
    made = MadeIndex()
    label = made.secret.token("word", "w0").label
    boxes = dict(made.boxes)
    boxes[label] = boxes[label][:-20] + bytes([boxes[label][-20] ^ 1]) + boxes[label][-19:]
    names = [bytes(made.index.document_name(d)) for d in range(12)]
    server = PrivateIndexServer(PrivateIndex.of(made.index.index_id, boxes, names))
    with pytest.raises(DataError, match="does not open"):
        server.rank(made.request(["w0"], candidates=[0]))
    assert server.rank(made.request(["w1"], candidates=[0])).documents == (0,)


def test_a_box_in_the_place_of_another_is_refused() -> None:
    made = MadeIndex()
    token, other = (made.secret.token("word", word) for word in ("w0", "w1"))
    boxes = made.boxes | {token.label: made.boxes[other.label]}
    names = [bytes(made.index.document_name(d)) for d in range(12)]
    server = PrivateIndexServer(PrivateIndex.of(made.index.index_id, boxes, names))
    with pytest.raises(DataError, match="does not open"):
        server.rank(made.request(["w0"], candidates=[0]))


def test_a_model_of_another_index_is_refused() -> None:
    made, other = MadeIndex(0), MadeIndex(1, n_documents=13)
    request = made.request(["w0"], candidates=[0])
    theirs = other.request(["w0"], candidates=[0]).model
    server = PrivateIndexServer(made.index)
    with pytest.raises(DataError, match="no box of this label"):
        server.rank(altered(request, model=theirs))
    mixed = PrivateIndex.of(  # a client that put another collection's model into its index
        made.index.index_id,
        made.boxes | {theirs.label: other.boxes[theirs.label]},
        [bytes(made.index.document_name(d)) for d in range(12)],
    )
    with pytest.raises(DataError, match="another index"):
        PrivateIndexServer(mixed).rank(altered(request, model=theirs))


@pytest.mark.parametrize("other", [{"trees": False}, {"base": None}])
def test_a_model_that_does_not_fit_the_words_boxes_is_refused(other: dict[str, Any]) -> None:
    made, second = MadeIndex(0), MadeIndex(1, **other)
    request = made.request(["w0"], candidates=[0])
    theirs = second.request(["w0"], candidates=[0]).model
    mixed = PrivateIndex.of(
        made.index.index_id,
        made.boxes | {theirs.label: second.boxes[theirs.label]},
        [bytes(made.index.document_name(d)) for d in range(12)],
    )
    with pytest.raises(DataError, match="does not fit"):
        PrivateIndexServer(mixed).rank(altered(request, model=theirs))


def test_a_word_asked_for_as_a_phrase_a_pair_or_a_model_is_refused() -> None:
    made = MadeIndex()
    server = PrivateIndexServer(made.index)
    request = made.request(["w0", "w2"], candidates=[0])
    box = AskedBox(label=request.words[0].label, key=request.words[0].key)
    near = request.pairs[0].model_dump(include={"label", "key"})
    pair = request.pairs[0].model_copy(update={"label": box.label, "key": box.key})
    forged = [
        altered(request, words=(), pairs=(), phrases=(box,)),
        altered(request, words=(request.words[1],), pairs=(pair,)),
        altered(request, model=box),
        altered(request, words=(request.words[0].model_copy(update=near),), pairs=()),
    ]
    for one in forged:
        with pytest.raises(DataError):
            server.rank(one)


def test_a_candidate_that_is_no_document_is_refused() -> None:
    made = MadeIndex()
    with pytest.raises(DataError, match="12 documents"):
        PrivateIndexServer(made.index).rank(made.request(["w0"], candidates=[0, 12]))


def _fields() -> dict[str, Any]:
    made = MadeIndex()
    return made.request(["w0", "w1", "?0"], candidates=[3, 1]).model_dump(mode="json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"k": 0}, "k: "),
        ({"k": True}, "k: "),
        ({"k": 10**9}, "k: "),
        ({"n_terms": -1}, "n_terms: "),
        ({"n_terms": 1}, "more words or places than terms"),
        ({"candidates": [1, 1]}, "a candidate is given twice"),
        ({"candidates": [-1]}, "candidates.0: "),
        ({"candidates": [2**40]}, "candidates.0: "),
        ({"candidates": ["1"]}, "candidates.0: "),
        ({"unknown": 1}, "unknown: "),
        ({"model": None}, "model: "),
    ],
)
def test_a_forged_request_is_refused_before_anything_is_opened(
    change: dict[str, Any], told: str
) -> None:
    content = json.dumps(_fields() | change)
    with pytest.raises(DataError, match=told):
        RankRequest.from_json(content)


@pytest.mark.parametrize(
    ("part", "change", "told"),
    [
        ("words", {"place": 32}, "words.0.place"),
        ("words", {"place": -2}, "words.0.place"),
        ("words", {"place": 1}, "a place is given twice"),
        ("words", {"label": "AAAA"}, "words.0.label"),
        ("words", {"key": "?"}, "words.0.key"),
        ("pairs", {"first": 1}, "lower first"),
        ("pairs", {"second": 2}, "two places of words"),
        ("pairs", {"turned": 1}, "pairs.0.turned"),
    ],
)
def test_a_forged_box_is_refused(part: str, change: dict[str, Any], told: str) -> None:
    fields = _fields()
    fields[part][0] |= change
    with pytest.raises(DataError, match=told):
        RankRequest.from_json(json.dumps(fields))


def test_a_box_asked_for_twice_is_refused() -> None:
    fields = _fields()
    fields["words"].append(fields["words"][0] | {"place": 2})
    with pytest.raises(DataError, match="a box is given twice"):
        RankRequest.from_json(json.dumps(fields))


def test_a_million_words_are_refused() -> None:
    fields = _fields() | {"n_terms": 1024, "pairs": [], "phrases": []}
    words = [
        fields["words"][0] | {"label": base64.urlsafe_b64encode(bytes(12) + n.to_bytes(4)).decode()}
        for n in range(2000)
    ]
    few = [word | {"place": -1} for word in words]
    RankRequest.from_json(json.dumps(fields | {"words": few[:1024]}))
    with pytest.raises(DataError, match=r"words: .* at most 1024 items"):
        RankRequest.from_json(json.dumps(fields | {"words": few}))
    with pytest.raises(DataError, match=r"words\.0: "):
        RankRequest.from_json(json.dumps(fields | {"words": [0] * 1_000_000}))


def test_what_is_no_json_is_refused_without_repeating_it() -> None:
    for content in (b"\xff\xfe", b"", b"[" * 100_000, b'{"secret": "asthma"}'):
        with pytest.raises(DataError) as told:
            RankRequest.from_json(content)
        assert "asthma" not in str(told.value)


def test_an_answer_of_parts_that_do_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="do not fit"):
        RankAnswer.from_json(b'{"documents":[1],"names":[],"scores":[0.5],"n_scored":1}')


def test_texts_are_given_sealed_and_only_where_they_are() -> None:
    made = MadeIndex(texts=True)
    sealed = PrivateIndexServer(made.index).document_text(3)
    assert made.secret.open_document("text", 3, sealed) == b"text 3"
    for server, number in [
        (PrivateIndexServer(made.index), 12),
        (PrivateIndexServer(made.index), -1),
        (PrivateIndexServer(MadeIndex().index), 3),
    ]:
        with pytest.raises(NotFound):
            server.document_text(number)


def test_a_model_whose_scores_are_not_finite_is_refused() -> None:
    made = MadeIndex(trees=False)
    request = made.request(["w0"], candidates=[0])
    trace = open_query(made.index, request, open_model(made.index, request.model))
    model = ModelBox(weights=np.full(30, 1e308), bias=1e308, base=10, n_documents=12)
    with np.errstate(over="ignore"), pytest.raises(DataError, match="no finite scores"):
        score_trace(model, trace, np.arange(3))


def test_serving_needs_neither_torch_nor_lightgbm_nor_gensim() -> None:
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from cloud.made_boxes import MadeIndex
from cloister.cloud.server import PrivateIndexServer
import cloister.cloud.http_routes
made = MadeIndex()
answer = PrivateIndexServer(made.index).rank(made.request(["w0", "w1"], candidates=[1, 2]))
loaded = set("torch lightgbm gensim sklearn pandas".split()) & set(sys.modules)
sys.exit(str(loaded) if loaded or len(answer.documents) != 2 else 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
