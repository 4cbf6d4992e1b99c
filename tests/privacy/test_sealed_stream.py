from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.privacy.sealed.envelope import Kind, seal_envelope
from cloister.privacy.sealed.padding import padme
from cloister.privacy.sealed.refusals import MessageRefused, Replayed
from privacy.sealed_parties import Pair, open_database

PAIR = Pair(chunk_bytes=64)


class ShortReads(io.BytesIO):
    """A source that returns less than was asked for, as pipes and sockets do."""

    def read(self, n_bytes: int | None = -1, /) -> bytes:
        return super().read(min(n_bytes or -1, 7))


def pieces_of(content: bytes, pair: Pair = PAIR) -> list[bytes]:
    return list(pair.ann.sender.seal_stream("bob", "sketch", ShortReads(content)))


def joined(pieces: Iterable[bytes], pair: Pair = PAIR) -> bytes:
    return b"".join(pair.bob.receiver.open_stream(pieces))


@given(st.binary(max_size=2000))
def test_stream_comes_back_as_it_was_and_its_size_is_a_class(content: bytes) -> None:
    head, *chunks = pieces_of(content)
    assert joined([head, *chunks]) == content
    assert len(chunks) == padme(max(1, -(-len(content) // 64)))
    assert {len(chunk) for chunk in chunks} == {64 + 4 + 16}


@given(st.integers(0, 1200), st.data())
def test_missing_moved_repeated_added_or_altered_chunk_is_detected(
    n_bytes: int, data: st.DataObject
) -> None:
    pieces = pieces_of(bytes(n_bytes))
    n_pieces = len(pieces)
    i = data.draw(st.integers(1, n_pieces - 1))
    j = data.draw(st.integers(1, n_pieces - 1))
    flipped = bytearray(pieces[i])
    flipped[data.draw(st.integers(0, len(flipped) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    swapped = list(pieces)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    wrong = [
        pieces[:i],
        pieces[:i] + pieces[i + 1 :],
        [*pieces[:i], pieces[j], *pieces[i:]],
        [*pieces[:i], bytes(flipped), *pieces[i + 1 :]],
        [*pieces[:i], pieces[i][:-1], *pieces[i + 1 :]],
        [*pieces, b""],
    ]
    if i != j:
        wrong.append(swapped)
    for attempt in wrong:
        with pytest.raises(MessageRefused):
            joined(attempt)


def test_chunks_of_another_stream_are_refused() -> None:
    first, second = pieces_of(b"a" * 100), pieces_of(b"b" * 100)
    with pytest.raises(MessageRefused, match="chunk 0"):
        joined([first[0], *second[1:]])
    with pytest.raises(MessageRefused, match="chunk 1"):
        joined([*first[:2], second[2]])


def test_nothing_and_a_head_alone_are_no_stream() -> None:
    with pytest.raises(MessageRefused, match="too short"):
        joined([])
    with pytest.raises(MessageRefused, match="no chunks"):
        joined(pieces_of(b"")[:1])


def test_message_is_no_stream_and_stream_is_no_message() -> None:
    with pytest.raises(MessageRefused, match="open_stream"):
        PAIR.opened(pieces_of(b"")[0])
    with pytest.raises(MessageRefused, match="open for messages"):
        joined([PAIR.sealed()])


@pytest.mark.parametrize("head", [b"", bytes(4), b"\xff" * 4, bytes(5)])
def test_head_that_asks_for_too_much_memory_is_refused(head: bytes) -> None:
    pair = Pair()
    pair.sealed()
    session = pair.ann.sender._sessions["bob"]
    envelope = seal_envelope(session.keys.cipher, session.opening, Kind.STREAM, 99, b"sketch", head)
    with pytest.raises(MessageRefused, match=r"head|too large"):
        joined([envelope, bytes(84)], pair)


def test_stream_is_accepted_once_and_only_when_it_was_read_to_its_end(tmp_path: Path) -> None:
    pair = Pair(chunk_bytes=64)
    pieces = pieces_of(b"x" * 500, pair)
    with open_database(tmp_path / "bob.db") as database:
        stream = pair.bob.receiver.open_stream(iter(pieces))
        assert (stream.sender, stream.topic) == ("ann", "sketch")
        with database.transaction() as connection, pytest.raises(SettingsError, match="end"):
            stream.accept(connection)
        assert b"".join(stream) == b"x" * 500
        with database.transaction() as connection:
            stream.accept(connection)
        again = pair.bob.receiver.open_stream(pieces)
        assert b"".join(again) == b"x" * 500
        with database.transaction() as connection, pytest.raises(Replayed):
            again.accept(connection)


def test_truncated_stream_cannot_be_accepted(tmp_path: Path) -> None:
    pair = Pair(chunk_bytes=64)
    stream = pair.bob.receiver.open_stream(pieces_of(b"x" * 500, pair)[:-1])
    with pytest.raises(MessageRefused):
        list(stream)
    with (
        open_database(tmp_path / "bob.db") as database,
        database.transaction() as connection,
        pytest.raises(SettingsError, match="end"),
    ):
        stream.accept(connection)


def test_a_second_look_at_a_truncated_stream_is_refused_and_does_not_finish_it(
    tmp_path: Path,
) -> None:
    pair = Pair(chunk_bytes=64)
    stream = pair.bob.receiver.open_stream(pieces_of(b"x" * 500, pair)[:4])
    for _ in range(2):
        with pytest.raises(MessageRefused):
            list(stream)
        assert not stream.finished
    with (
        open_database(tmp_path / "bob.db") as database,
        database.transaction() as connection,
        pytest.raises(SettingsError, match="end"),
    ):
        stream.accept(connection)


def test_a_source_that_fails_midway_leaves_the_stream_unfinished() -> None:
    def failing() -> Iterator[bytes]:
        yield from pieces_of(b"x" * 500)[:4]
        raise ConnectionError("the line is down")

    stream = PAIR.bob.receiver.open_stream(failing())
    with pytest.raises(ConnectionError):
        list(stream)
    with pytest.raises(MessageRefused, match="ask for the stream again"):
        next(stream)
    assert not stream.finished


@given(st.binary(max_size=700), st.lists(st.integers(0, 3), max_size=4))
def test_a_stream_that_is_peeked_into_goes_on_where_it_stopped(
    content: bytes, peeks: list[int]
) -> None:
    stream = PAIR.bob.receiver.open_stream(pieces_of(content))
    read = [part for n_parts in peeks for part in islice(iter(stream), n_parts)]
    read += list(stream)
    assert b"".join(read) == content
    assert stream.finished


def test_parts_read_by_several_loops_are_the_whole_content() -> None:
    stream = PAIR.bob.receiver.open_stream(pieces_of(bytes(range(250))))
    read = [next(iter(stream))]
    for part in stream:
        read.append(part)
        break
    assert not stream.finished
    read += list(stream)
    assert b"".join(read) == bytes(range(250))
    assert stream.finished
    assert list(stream) == []
    assert stream.finished


def test_pieces_may_be_any_object_that_holds_bytes() -> None:
    pieces = pieces_of(b"x" * 300)
    assert joined([bytearray(piece) for piece in pieces]) == b"x" * 300  # type: ignore[misc]
    assert joined([memoryview(piece) for piece in pieces]) == b"x" * 300  # type: ignore[misc]
    with pytest.raises(SettingsError, match="bytes are needed"):
        joined([*pieces[:2], "text"])  # type: ignore[list-item]


@pytest.mark.parametrize("given_instead", ["text", None])
def test_a_source_of_no_bytes_is_refused_not_cut_short(given_instead: str | None) -> None:
    class Wrong(io.BytesIO):
        def read(self, n_bytes: int | None = -1, /) -> bytes:
            return super().read(n_bytes) or given_instead  # type: ignore[return-value]

    with pytest.raises(SettingsError, match="bytes are needed"):
        list(PAIR.ann.sender.seal_stream("bob", "sketch", Wrong(b"x" * 100)))


class Zeros(io.RawIOBase):
    """A long source that is nowhere in memory."""

    def __init__(self, n_bytes: int) -> None:
        self.n_left = n_bytes

    def readable(self) -> bool:
        return True

    def read(self, n_bytes: int = -1, /) -> bytes:
        n_now = min(n_bytes, self.n_left)
        self.n_left -= n_now
        return bytes(n_now)


def test_long_stream_passes_through_little_memory() -> None:
    pair = Pair()
    tracemalloc.start()
    try:
        pieces = pair.ann.sender.seal_stream("bob", "sketch", Zeros(40_000_000))  # type: ignore[arg-type]
        n_bytes = sum(map(len, pair.bob.receiver.open_stream(pieces)))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_bytes == 40_000_000
    assert peak_bytes < 12 * pair.ann.settings.chunk_bytes
