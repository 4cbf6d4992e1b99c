"""The messages of :mod:`cloister.search.node` as bytes: versioned JSON, checked field by field.

How a record is written follows from its type hints: a named tuple or dataclass is a list of its
fields in their order, settings and tables are objects, the rest is plain JSON. Reading accepts
exactly what writing makes: no missing or further fields, no repeated names, no infinite numbers.
What does not fit raises `DataError` and has no other effect.

A selector table is the one answer that is not JSON. It is long and packed already: behind a mark
come its version, its server's name and its bytes as they are. Whoever asked reads them, and checks
them (`cloister.search.selector_table`).

Long requests are deflated: with TF-IDF they hold the statistics of all terms of a server.
"""

from __future__ import annotations

import json
import logging
import struct
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.pods.overlay.record_codec import Codec, codec_of
from cloister.search.node import (
    Hit,
    NodeAnswer,
    NodeRequest,
    ServerSummary,
    ServerTable,
    SubAnswer,
    SubQuery,
    SummaryRequest,
    TableRequest,
)

__all__ = [
    "MAX_ANSWER_BYTES",
    "MAX_PLAIN_BYTES",
    "MAX_REQUEST_BYTES",
    "Question",
    "WIRE_VERSION",
    "decode_answer",
    "decode_question",
    "encode_answer",
    "encode_question",
]

WIRE_VERSION: Final = 2
MAX_REQUEST_BYTES: Final = 900_000  # sealed, one message of a broker that takes a megabyte
MAX_ANSWER_BYTES: Final = 16_000_000
MAX_PLAIN_BYTES: Final = 8_000_000  # of a request that is deflated
DEFLATED_FROM_BYTES: Final = 100_000

_REQUESTS: Final[dict[str, type[Any]]] = {
    "summary": SummaryRequest,
    "table": TableRequest,
    "query": SubQuery,
}
_ANSWERS: Final[dict[str, type[Any]]] = {"summary": ServerSummary, "query": SubAnswer}
_TABLE_MARK: Final = b"T"  # what is written as JSON begins with "["
_TABLE_HEAD: Final = struct.Struct(">BqH")  # of the encoding, of the table, bytes of the name
_DEFLATED_MARK: Final = b"Z"
_WHERE: Final = "message of the overlay"
_log: Final = logging.getLogger(__name__)


class Question(NamedTuple):
    """A request, and the version of the answer that the searcher still has."""

    request: NodeRequest
    known_version: int | None = None


def encode_question(question: Question) -> bytes:
    """Write a question.

    Examples
    --------
    >>> question = Question(SummaryRequest(("cough",), n_best=3), known_version=7)
    >>> encode_question(question)[:33]
    b'[2,"summary",7,[["cough"],3,false'
    >>> decode_question(encode_question(question)) == question
    True
    """
    kind = _kind_of(question.request, _REQUESTS)
    payload = _codec(_REQUESTS[kind]).encode(question.request)
    known = _codec(int | None).encode(question.known_version)
    content = _dumped([WIRE_VERSION, kind, known, payload], MAX_PLAIN_BYTES)
    if len(content) >= DEFLATED_FROM_BYTES:
        content = _DEFLATED_MARK + zlib.compress(content)
    return _checked_size(content, MAX_REQUEST_BYTES)


def decode_question(content: bytes) -> Question:
    """Read a question; raise `DataError` where it is not exactly one."""
    content = _checked_size(content, MAX_REQUEST_BYTES)
    if content[:1] == _DEFLATED_MARK:
        content = _inflated(content[1:])
    kind, known, payload = _loaded(content, MAX_PLAIN_BYTES, n_fields=3)
    request = _codec(_known(kind, _REQUESTS)).decode(payload)
    return Question(request, _codec(int | None).decode(known))


def encode_answer(answer: NodeAnswer, *, max_bytes: int = MAX_ANSWER_BYTES) -> bytes:
    """Write an answer.

    Where documents do not fit, the largest ones are left out: the answer names their pods, and the
    log says how many they are.
    """
    if isinstance(answer, ServerTable):
        return _checked_size(_written_table(answer), max_bytes)
    kind = _kind_of(answer, _ANSWERS)
    payload = _codec(_ANSWERS[kind]).encode(answer)
    content = _ENCODER.encode([WIRE_VERSION, kind, payload]).encode()
    if len(content) > max_bytes and isinstance(answer, SubAnswer):
        fitting = _fitting(answer, len(content) - max_bytes)
        _log.warning(
            "%s: %d of %d documents were too large for an answer and were left out",
            answer.server_id,
            len(answer.hits) - len(fitting.hits),
            len(answer.hits),
        )
        payload = _codec(SubAnswer).encode(fitting)
        content = _ENCODER.encode([WIRE_VERSION, kind, payload]).encode()
    return _checked_size(content, max_bytes)


def _fitting(answer: SubAnswer, n_surplus: int) -> SubAnswer:
    """Leave out documents, the largest first, that have so many bytes together; name their pods."""
    codec = _codec(Hit)
    sizes = [len(_ENCODER.encode(codec.encode(hit)).encode()) for hit in answer.hits]
    gone: set[int] = set()
    named = set(answer.missing_pods)
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        if n_surplus <= 0:
            break
        n_surplus -= sizes[place]
        gone.add(place)
        if (pod_id := answer.hits[place].pod_id) not in named:
            named.add(pod_id)
            n_surplus += len(_ENCODER.encode(pod_id).encode()) + 1
    kept = tuple(hit for place, hit in enumerate(answer.hits) if place not in gone)
    return answer._replace(hits=kept, missing_pods=tuple(sorted(named)))


def decode_answer(content: bytes, request: NodeRequest) -> NodeAnswer:
    """Read the answer to a request; raise `DataError` where it is not exactly one.

    Examples
    --------
    >>> from cloister.core.ids import ServerId
    >>> answer = SubAnswer(ServerId("clinic-a"), 3, ())
    >>> decode_answer(encode_answer(answer), SummaryRequest(("cough",)))
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: message of the overlay: an answer to something else; ...
    """
    if isinstance(request, TableRequest):
        return _read_table(content)
    kind, payload = _loaded(content, MAX_ANSWER_BYTES, n_fields=2)
    wanted = _kind_of(request, _REQUESTS)
    if kind != wanted:
        raise DataError("an answer to something else", where=_WHERE)
    answer: ServerSummary | SubAnswer = _codec(_ANSWERS[wanted]).decode(payload)
    return answer


def _inflated(content: bytes) -> bytes:
    """Undo `zlib.compress`, up to `MAX_PLAIN_BYTES`; nothing may be left or missing."""
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(content, MAX_PLAIN_BYTES)
    except zlib.error:
        raise DataError("not a message", where=_WHERE) from None
    if not stream.eof or stream.unused_data or len(plain) < DEFLATED_FROM_BYTES:
        raise DataError("not a message, or too long a one", where=_WHERE)
    return plain


def _written_table(table: ServerTable) -> bytes:
    name = _codec(str).encode(table.server_id).encode()
    version = _codec(int).encode(table.version)
    try:
        head = _TABLE_HEAD.pack(WIRE_VERSION, version, len(name))
    except struct.error:
        raise DataError("a server's name that is too long", where=_WHERE) from None
    return b"".join((_TABLE_MARK, head, name, table.content))


def _read_table(content: bytes) -> ServerTable:
    begin = len(_TABLE_MARK) + _TABLE_HEAD.size
    if len(content) > MAX_ANSWER_BYTES or len(content) < begin or content[:1] != _TABLE_MARK:
        raise DataError("no table, or too long a one", where=_WHERE)
    wire_version, version, n_name = _TABLE_HEAD.unpack_from(content, len(_TABLE_MARK))
    if wire_version != WIRE_VERSION:
        raise _other_version(wire_version)
    if len(content) < begin + n_name:
        raise DataError("not a message", where=_WHERE)
    try:
        name = content[begin : begin + n_name].decode("utf-8")
    except UnicodeDecodeError:
        raise DataError("not a message", where=_WHERE) from None
    return ServerTable(ServerId(name), version, content[begin + n_name :])


_codec: Final[Callable[[Any], Codec]] = cache(codec_of)


def _kind_of(record: object, kinds: dict[str, type[Any]]) -> str:
    for name, kind in kinds.items():
        if type(record) is kind:
            return name
    raise DataError(f"{type(record).__name__} is not a message", where=_WHERE)


def _known(kind: object, kinds: dict[str, type[Any]]) -> type[Any]:
    if not isinstance(kind, str) or kind not in kinds:
        raise DataError("no such kind of message", where=_WHERE)
    return kinds[kind]


def _dumped(fields: list[Any], max_bytes: int) -> bytes:
    return _checked_size(_ENCODER.encode(fields).encode(), max_bytes)


def _checked_size(content: bytes, max_bytes: int) -> bytes:
    if len(content) > max_bytes:
        raise DataError(
            f"{len(content)} bytes, of {max_bytes} allowed", where=_WHERE, remedy="ask for less"
        )
    return content


def _loaded(content: bytes, max_bytes: int, *, n_fields: int) -> list[Any]:
    """Parse a message, check its frame and return its fields without the version."""
    if len(content) > max_bytes:
        raise DataError(f"more than {max_bytes} bytes", where=_WHERE)
    try:
        fields = _DECODER.decode(content.decode("utf-8"))
    except (ValueError, RecursionError):  # of the parser: not UTF-8, not JSON, or nested too deep
        raise DataError("not a message", where=_WHERE) from None
    if not isinstance(fields, list) or not fields or type(fields[0]) is not int:
        raise DataError("not a message", where=_WHERE)
    if fields[0] != WIRE_VERSION:
        raise _other_version(fields[0])
    if len(fields) != n_fields + 1:
        raise DataError("not a message", where=_WHERE)
    return fields[1:]


def _other_version(version: int) -> DataError:
    return DataError(
        f"version {version}, where version {WIRE_VERSION} is known",
        where=_WHERE,
        remedy="let both sides run the same release",
    )


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


# Made once: making them takes as long as a short message.
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_unique)
