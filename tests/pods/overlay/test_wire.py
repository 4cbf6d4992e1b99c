"""The encoding of messages: what goes in comes out, and nothing else is let in."""

from __future__ import annotations

import json
import math
import zlib
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.core.ids import ServerId
from cloister.index.entity_statistics import StatisticsTable
from cloister.index.entity_weights import ModelSettings
from cloister.pods.overlay.frames import AskFrame, ReplyFrame, ReplyKind, signed_content
from cloister.pods.overlay.parts import PartsOfOne, in_parts
from cloister.pods.overlay.record_codec import codec_of
from cloister.pods.overlay.wire import (
    MAX_ANSWER_BYTES,
    MAX_PLAIN_BYTES,
    MAX_REQUEST_BYTES,
    Question,
    decode_answer,
    decode_question,
    encode_answer,
    encode_question,
)
from cloister.search.node import (
    ServerSummary,
    ServerTable,
    SubAnswer,
    SubQuery,
    SummaryRequest,
    TableRequest,
)
from cloister.search.table_settings import TableSettings

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ascii_texts = st.text(st.characters(max_codepoint=127), max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)
integers = st.integers(-(2**63) + 1, 2**63 - 1)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    float: numbers,
    int: integers,
    bool: st.booleans(),
    NoneType: st.none(),
    StatisticsTable: st.builds(
        StatisticsTable, numbers, numbers, numbers, st.dictionaries(texts, numbers, max_size=4)
    ),
    ModelSettings: st.builds(
        lambda k1, b: ModelSettings(k1=k1, b=b), st.floats(0.1, 3), st.floats(0, 1)
    ),
    TableSettings: st.builds(
        TableSettings, n_best=st.integers(0, 50), max_bytes=st.integers(0, 10**7)
    ),
    bytes: st.binary(max_size=100),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Draw values of a type, whatever fields the records have."""
    if kind in PLAIN:
        return PLAIN[kind]
    if hasattr(kind, "__supertype__"):
        return values_of(kind.__supertype__)
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if get_origin(kind) is dict:
        return st.dictionaries(texts, values_of(arguments[1]), max_size=3)
    if get_origin(kind) is Literal:
        return st.sampled_from(arguments)
    if arguments:
        return st.one_of(*map(values_of, arguments))
    hints = get_type_hints(kind)
    return st.builds(kind, *(values_of(hints[name]) for name in kind._fields))


requests = values_of(SummaryRequest) | values_of(SubQuery) | values_of(TableRequest)
known = st.none() | integers

QUERY = SubQuery(("cough",), ModelSettings(), 10)


@settings(max_examples=40)
@given(requests, known)
def test_a_question_comes_out_as_it_went_in(request_: Any, version: int | None) -> None:
    question = Question(request_, version)
    assert decode_question(encode_question(question)) == question


@settings(max_examples=40)
@given(values_of(ServerSummary))
def test_a_summary_comes_out_as_it_went_in(summary: ServerSummary) -> None:
    assert decode_answer(encode_answer(summary), SummaryRequest(())) == summary


@settings(max_examples=40)
@given(values_of(SubAnswer))
def test_an_answer_comes_out_as_it_went_in(answer: SubAnswer) -> None:
    assert decode_answer(encode_answer(answer), QUERY) == answer


@settings(max_examples=40)
@given(values_of(ServerTable))
def test_a_table_comes_out_as_it_went_in_and_answers_nothing_else(table: ServerTable) -> None:
    content = encode_answer(table)
    assert decode_answer(content, TableRequest()) == table
    assert len(content) <= len(table.content) + len(table.server_id.encode()) + 12
    for request in (QUERY, SummaryRequest(())):
        with pytest.raises(DataError):
            decode_answer(content, request)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"",
        lambda content: content[:5],
        lambda content: b"[" + content[1:],
        lambda content: content[:1] + b"\1" + content[2:],
        lambda content: content[:10] + b"\xff\xff" + content[12:],
        lambda content: content.replace(b"clinic", b"\xff\xff\xff\xff\xff\xff"),
        lambda content: content + bytes(MAX_ANSWER_BYTES),
        lambda content: encode_answer(SubAnswer(ServerId("clinic"), 3, ())),
    ],
    ids=["empty", "cut", "mark", "version", "name", "text", "long", "other"],
)
def test_what_is_no_table_is_refused(change: Any) -> None:
    content = encode_answer(ServerTable(ServerId("clinic"), 3, b"packed"))
    assert decode_answer(content, TableRequest()).server_id == "clinic"
    with pytest.raises(DataError):
        decode_answer(change(content), TableRequest())


def test_a_table_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(DataError, match="ask for less"):
        encode_answer(ServerTable(ServerId("clinic"), 3, bytes(MAX_ANSWER_BYTES)))
    with pytest.raises(DataError, match="name"):
        encode_answer(ServerTable(ServerId("x" * 70_000), 3, b""))


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(DataError):
        decode_question(content)
    with pytest.raises(DataError):
        decode_answer(b"[" + content, TableRequest())


@given(st.data())
def test_a_message_with_another_byte_is_refused_or_reads_as_a_question(data: st.DataObject) -> None:
    content = bytearray(encode_question(Question(QUERY, 3)))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    try:
        question = decode_question(bytes(content))
    except DataError:
        return
    assert isinstance(question.request, (SubQuery, SummaryRequest))
    assert decode_question(encode_question(question)) == question


def _altered(change: Any) -> bytes:
    fields = json.loads(encode_question(Question(QUERY)))
    change(fields)
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.__setitem__(0, 1),
        lambda f: f.__setitem__(0, True),
        lambda f: f.__setitem__(1, "other"),
        lambda f: f.__setitem__(1, ["query"]),
        lambda f: f.__setitem__(2, 1.5),
        lambda f: f.append(1),
        lambda f: f.pop(),
        lambda f: f[3].append(1),
        lambda f: f[3].pop(),
        lambda f: f[3].__setitem__(0, "cough"),
        lambda f: f[3].__setitem__(0, [1]),
        lambda f: f[3].__setitem__(0, ["\ud800"]),
        lambda f: f[3].__setitem__(2, "10"),
        lambda f: f[3].__setitem__(2, 10.0),
        lambda f: f[3].__setitem__(2, 2**70),
        lambda f: f[3].__setitem__(2, True),
        lambda f: f[3].__setitem__(2, math.inf),
        lambda f: f[3].__setitem__(3, "all"),
        lambda f: f[3][1].__setitem__("other", 1),
        lambda f: f[3][1].pop("k1"),
        lambda f: f[3][1].__setitem__("k1", "1.2"),
        lambda f: f[3][1].__setitem__("k1", -1),
        lambda f: f[3].__setitem__(5, {"a": 1}),
    ],
)
def test_a_question_with_a_wrong_field_is_refused(change: Any) -> None:
    assert decode_question(_altered(lambda fields: None)).request == QUERY
    with pytest.raises(DataError):
        decode_question(_altered(change))


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'[2,"query",null,' + b"9" * 10_000 + b"]",
        b" " * (MAX_REQUEST_BYTES + 1),
        b'[2,"summary",null,[["\xff"],0,false,false]]',
        b'{"a":1,"a":1}',
    ],
    ids=["deep", "digits", "long", "not UTF-8", "twice"],
)
def test_hostile_content_is_refused(content: bytes) -> None:
    with pytest.raises(DataError):
        decode_question(content)


def test_too_long_a_question_is_not_sent() -> None:
    with pytest.raises(DataError, match="ask for less"):
        encode_question(Question(SummaryRequest(("x" * MAX_PLAIN_BYTES,))))


def test_a_table_with_a_name_twice_is_refused() -> None:
    table = StatisticsTable(1.0, 1.0, 1.0, {"cough": 2.0})
    content = encode_question(Question(QUERY._replace(document_statistics=table)))
    assert decode_question(content).request.document_statistics == table
    with pytest.raises(DataError):
        decode_question(content.replace(b'{"cough":2.0}', b'{"cough":2.0,"cough":3.0}'))


def test_numbers_of_numpy_travel_and_infinite_ones_do_not() -> None:
    answer = SubAnswer(ServerId("a"), np.int64(3), ())  # type: ignore[arg-type]
    assert decode_answer(encode_answer(answer), QUERY).version == 3
    with pytest.raises(DataError, match="finite"):
        codec_of(float).encode(np.nan)


def test_a_type_that_cannot_travel_is_named() -> None:
    with pytest.raises(SettingsError, match="cannot be part of a message"):
        codec_of(set[str])


@given(ascii_texts, ascii_texts, st.binary(), st.binary())
def test_a_request_frame_comes_out_as_it_went_in(
    token: str, proof: str, prekey: bytes, question: bytes
) -> None:
    frame = AskFrame(token, proof, prekey, question)
    content = frame.to_bytes()
    assert AskFrame.from_bytes(content) == frame
    for wrong in (content[:-1], content + b"x", b"X" + content[1:], content[:5]):
        with pytest.raises(DataError):
            AskFrame.from_bytes(wrong)


@given(st.binary(max_size=5), st.binary(max_size=5), st.binary(max_size=5), st.binary(max_size=5))
def test_no_two_requests_are_signed_as_one(a: bytes, b: bytes, c: bytes, d: bytes) -> None:
    assert (signed_content(a, b) == signed_content(c, d)) == ((a, b) == (c, d))


def test_an_answer_to_another_nonce_is_refused() -> None:
    content = ReplyFrame(ReplyKind.ANSWER, "n1", b"documents").to_bytes()
    assert ReplyFrame.from_bytes(content, "n1").content == b"documents"
    for wrong, nonce in ((content, "n2"), (content[:10], "n1"), (b"x" + content[1:], "n1")):
        with pytest.raises(DataError):
            ReplyFrame.from_bytes(wrong, nonce)


@given(st.binary(max_size=300), st.integers(5, 50), st.randoms())
def test_parts_come_together_in_any_order(content: bytes, size: int, shuffled: Any) -> None:
    parts = in_parts(content, size)
    shuffled.shuffle(parts)
    together = PartsOfOne()
    assert [together.add(part) for part in parts][-1] == content


def test_parts_that_do_not_fit_are_refused() -> None:
    first, second, _ = in_parts(b"abcdef", 2)
    other = in_parts(b"abcd", 2)[1]
    for wrong in (first, other, b"", b"\1\0\5\0\3x", b"\2" + second[1:]):
        together = PartsOfOne()
        together.add(first)
        with pytest.raises(DataError):
            together.add(wrong)
    with pytest.raises(DataError, match="too long"):
        in_parts(bytes(1_000), 2)


def asked(table: StatisticsTable) -> Question:
    model = ModelSettings(model="tfidf-cosine")
    return Question(SubQuery(("cough",), model, 10, None, None, table))


@pytest.mark.parametrize("n", [1, 5_000, 112_572])
def test_a_request_with_the_statistics_of_many_terms_is_deflated(n: int) -> None:
    listed = {f"term{i * 7919 % 1000003}": float(i % 977) for i in range(n)}
    question = asked(StatisticsTable(475_000.0, 500.0, 0.0, listed))
    content = encode_question(question)
    assert len(content) <= MAX_REQUEST_BYTES
    assert decode_question(content) == question


def test_what_cannot_be_deflated_enough_is_refused_with_its_size() -> None:
    rng = np.random.default_rng(1)
    listed = {f"{one}": one for one in rng.random(80_000).tolist()}
    with pytest.raises(DataError, match="of 900000 allowed"):
        encode_question(asked(StatisticsTable(9.0, 1.0, 0.0, listed)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"xx",
        zlib.compress(b"[" * 200_000)[:-3],
        zlib.compress(b"[1]" * 50_000) + b"x",
        zlib.compress(bytes(9_000_000)),
        zlib.compress(b"[]"),
    ],
)
def test_deflated_requests_that_are_damaged_or_too_long_are_refused(content: bytes) -> None:
    with pytest.raises(DataError):
        decode_question(b"Z" + content)
