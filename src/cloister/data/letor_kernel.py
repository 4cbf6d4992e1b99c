"""Kernels that turn the bytes of a LETOR file into arrays.

A line reads ``label qid:ID index:value index:value ... # comment``. Nothing here knows of files or
settings: `cloister.data.letor` drives these functions and explains what they refuse.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import inline_kernel, kernel, parallel_kernel
from cloister.data.decimal_kernel import Number, ends_token, is_digit, parse_number

__all__ = ["Fault", "copy_spans", "count_rows", "parse_chunks", "same_spans"]

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


class Fault(IntEnum):
    """Why a chunk's parser stopped before the end of its bytes."""

    NONE = 0
    WIDER = 1  # a feature index beyond the columns that there are
    SLOW_VALUE = 2  # a number that needs arbitrary precision
    LABEL = 3
    LABEL_RANGE = 4
    NO_QUERY = 5
    INDEX = 6
    ORDER = 7
    VALUE = 8
    RANGE = 9  # a number that the precision cannot hold


_NEWLINE: Final = 10
_HASH: Final = 35
_COLON: Final = 58
_ZERO: Final = 48

# What a chunk's parser remembers between calls.
POSITION: Final = 0
ROW: Final = 1
FAULT: Final = 2
COLUMN: Final = 3  # the last one that this line has set, or that of a slow value
INSIDE: Final = 4  # 1 where the position is inside a line, behind its head
WIDTH: Final = 5  # columns that the lines so far need
STATE_SIZE: Final = 6


@inline_kernel
def _is_blank(byte: Any) -> Any:
    return byte == 32 or byte == 9 or byte == 13


@kernel
def _is_null(data: Bytes, start: int) -> int:
    """Return where a missing value (``NULL`` or ``NaN``, in any case) ends, or 0."""
    if data[start] | 32 != 110:
        return 0
    if data[start + 1] | 32 == 117 and data[start + 2] | 32 == 108 and data[start + 3] | 32 == 108:
        end = start + 4
    elif data[start + 1] | 32 == 97 and data[start + 2] | 32 == 110:
        end = start + 3
    else:
        return 0
    return end if ends_token(data[end]) else 0


@kernel
def count_rows(data: Bytes, start: int, end: int) -> int:
    """Count the lines between two places that hold more than blanks and comments."""
    n_rows = 0
    fresh = True
    for i in range(start, end):
        byte = data[i]
        if byte == _NEWLINE:
            fresh = True
        elif fresh and not _is_blank(byte):
            fresh = False
            if byte != _HASH:
                n_rows += 1
    return n_rows


@kernel
def _read_comment(data: Bytes, start: int, end: int) -> tuple[int, int, int]:
    """Return the span of a row's name in its comment, and where the line ends.

    LETOR writes ``#docid = NAME inc = ...``; other comments are taken whole.
    """
    stop = start
    while stop < end and data[stop] != _NEWLINE:
        stop += 1
    first, last = start + 1, stop
    while first < last and _is_blank(data[first]):
        first += 1
    while last > first and _is_blank(data[last - 1]):
        last -= 1
    if (
        last - first > 5
        and data[first] == 100  # "docid"
        and data[first + 1] == 111
        and data[first + 2] == 99
        and data[first + 3] == 105
        and data[first + 4] == 100
    ):
        name = first + 5
        while name < last and (_is_blank(data[name]) or data[name] == 61):
            name += 1
        first = name
        while name < last and not _is_blank(data[name]):
            name += 1
        last = name
    return first, last, stop


@kernel
def _parse_head(
    data: Bytes, start: int, row: int, labels: NDArray[np.int8], query_spans: Ints
) -> tuple[int, int]:
    """Read the label and the query id of a line; return where they end, and a fault."""
    label, i, outcome = parse_number(data, start)
    if outcome != Number.READ or not _is_blank(data[i]):
        return start, Fault.LABEL
    if label != np.floor(label) or not -128 <= label <= 127:
        return start, Fault.LABEL_RANGE
    labels[row] = np.int8(label)
    while _is_blank(data[i]):
        i += 1
    if not (data[i] == 113 and data[i + 1] == 105 and data[i + 2] == 100 and data[i + 3] == _COLON):
        return i, Fault.NO_QUERY
    i += 4
    first = i
    while not ends_token(data[i]):
        i += 1
    if i == first:
        return i, Fault.NO_QUERY
    query_spans[row, 0], query_spans[row, 1] = first, i
    return i, Fault.NONE


@kernel
def _parse_features(
    data: Bytes,
    end: int,
    state: Ints,
    features: NDArray[Any],
    name_spans: Ints,
    first_index: int,
    null_value: float,
    largest: float,
) -> None:
    """Read the features and the comment of a line; leave the state at its end or at a fault."""
    row, i = state[ROW], state[POSITION]
    while True:
        while _is_blank(data[i]):
            i += 1
        state[POSITION] = i
        if data[i] == _NEWLINE:
            return
        if data[i] == _HASH:
            name_spans[row, 0], name_spans[row, 1], state[POSITION] = _read_comment(data, i, end)
            return
        token = i
        column = 0
        while is_digit(data[i]) and i - token < 10:
            column = column * 10 + (data[i] - _ZERO)
            i += 1
        if i == token or data[i] != _COLON or column < first_index:
            state[FAULT] = Fault.INDEX
            return
        column -= first_index
        if column <= state[COLUMN]:
            state[FAULT] = Fault.ORDER
            return
        state[WIDTH] = max(state[WIDTH], column + 1)
        if column >= features.shape[1]:
            state[FAULT] = Fault.WIDER
            return
        value, after, outcome = parse_number(data, i + 1)
        if outcome == Number.WRONG:
            after = _is_null(data, i + 1)
        if outcome == Number.LARGEST or (outcome == Number.WRONG and after > 0):
            value = null_value
        elif outcome == Number.WRONG:
            state[FAULT] = Fault.VALUE
            return
        elif outcome == Number.HARD:
            state[POSITION], state[COLUMN], state[FAULT] = i + 1, column, Fault.SLOW_VALUE
            return
        elif abs(value) > largest:
            state[FAULT] = Fault.RANGE
            return
        features[row, column] = value
        state[COLUMN] = column
        i = after


@kernel
def _parse_chunk(
    data: Bytes,
    end: int,
    state: Ints,
    features: NDArray[Any],
    labels: NDArray[np.int8],
    query_spans: Ints,
    name_spans: Ints,
    first_index: int,
    null_value: float,
    largest: float,
) -> None:
    """Parse lines from the state on; at a fault, leave the state there.

    After `Fault.SLOW_VALUE` and `Fault.WIDER` the caller may mend the state and call again: the
    parser goes on in the middle of the line.
    """
    state[FAULT] = Fault.NONE
    while True:
        if state[INSIDE] == 0:
            i = state[POSITION]
            while i < end and (_is_blank(data[i]) or data[i] == _NEWLINE):
                i += 1
            state[POSITION] = i
            if i >= end:
                return
            if data[i] == _HASH:
                _, _, state[POSITION] = _read_comment(data, i, end)
                continue
            row = state[ROW]
            state[POSITION], state[FAULT] = _parse_head(data, i, row, labels, query_spans)
            if state[FAULT] != Fault.NONE:
                return
            state[INSIDE] = 1
            state[COLUMN] = -1
        _parse_features(data, end, state, features, name_spans, first_index, null_value, largest)
        if state[FAULT] != Fault.NONE:
            return
        state[INSIDE] = 0
        state[ROW] += 1


@parallel_kernel
def parse_chunks(
    data: Bytes,
    ends: Ints,
    states: Ints,
    features: NDArray[Any],
    labels: NDArray[np.int8],
    query_spans: Ints,
    name_spans: Ints,
    first_index: int,
    null_value: float,
    largest: float,
) -> None:
    """Parse all chunks at once, each until its end or its first fault."""
    for chunk in numba.prange(len(ends)):
        _parse_chunk(
            data, ends[chunk], states[chunk], features, labels, query_spans, name_spans,
            first_index, null_value, largest,
        )  # fmt: skip


@parallel_kernel
def same_spans(data: Bytes, spans: Ints, same: NDArray[np.bool_]) -> None:
    """Say for each row but the first whether its query id is that of the row before."""
    for row in numba.prange(1, len(spans)):
        length = spans[row, 1] - spans[row, 0]
        equal = length == spans[row - 1, 1] - spans[row - 1, 0]
        i = 0
        while equal and i < length:
            equal = data[spans[row, 0] + i] == data[spans[row - 1, 0] + i]
            i += 1
        same[row] = equal


@kernel
def copy_spans(data: Bytes, spans: Ints, offsets: Ints, out: Bytes) -> None:
    """Put the spans' bytes one behind the other."""
    for row in range(len(spans)):
        for i in range(spans[row, 1] - spans[row, 0]):
            out[offsets[row] + i] = data[spans[row, 0] + i]
