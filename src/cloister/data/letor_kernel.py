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
    VALUE = 7


_NEWLINE: Final = 10
_HASH: Final = 35
_COLON: Final = 58
_ZERO: Final = 48
_NINE: Final = 57

_TEN: Final = np.uint64(10)
_MANY: Final = np.uint64(2**63 // 10 - 1)  # one more digit still fits into 63 bits
_EXACT: Final = np.uint64(2**53)  # whole numbers up to here are exact in a double
_POWERS: Final = 10.0 ** np.arange(23)  # exact in a double
_SPLITTER: Final = 134217729.0  # 2^27 + 1, for Dekker's product

# What a chunk's parser remembers between calls.
POSITION: Final = 0
ROW: Final = 1
FAULT: Final = 2
COLUMN: Final = 3  # of a slow value, or the one that is not there yet
INSIDE: Final = 4  # 1 where the position is inside a line, behind its head
WIDTH: Final = 5  # columns that the lines so far need
STATE_SIZE: Final = 6


@inline_kernel
def _is_blank(byte: Any) -> Any:
    return byte == 32 or byte == 9 or byte == 13


@inline_kernel
def _is_digit(byte: Any) -> Any:
    return _ZERO <= byte <= _NINE


@inline_kernel
def _ends_token(byte: Any) -> Any:
    return byte <= 32 or byte == _HASH


@kernel
def _divide_exactly(mantissa: Any, power: float) -> float:
    """Return mantissa / power, rounded once, for a mantissa over 2^53.

    The quotient's remainder is found with Dekker's exact product and added: the sum is right to
    about 2^-100 before its one rounding.
    """
    high = float(mantissa)
    low = float(np.int64(mantissa - np.uint64(high)))
    quotient = high / power
    c = _SPLITTER * quotient
    a1 = c - (c - quotient)
    a2 = quotient - a1
    c = _SPLITTER * power
    b1 = c - (c - power)
    b2 = power - b1
    product = quotient * power
    error = a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)
    return quotient + ((high - product) - error + low) / power


@kernel
def parse_number(data: Bytes, start: int) -> tuple[float, int, int]:
    """Read a decimal number; return it, where it ends, and a fault.

    Numbers of at most 19 digits and a decimal exponent of at most 22 are read here, rounded as
    Python's ``float`` does; others are left to the caller (`Fault.SLOW_VALUE`).
    """
    i = start
    negative = data[i] == 45
    if negative or data[i] == 43:
        i += 1
    mantissa = np.uint64(0)
    n_digits = 0
    exponent = 0
    slow: Any = False
    while _is_digit(data[i]):
        slow |= mantissa > _MANY
        mantissa = mantissa * _TEN + np.uint64(data[i] - _ZERO)
        n_digits += 1
        i += 1
    if data[i] == 46:
        i += 1
        first = i
        while _is_digit(data[i]):
            slow |= mantissa > _MANY
            mantissa = mantissa * _TEN + np.uint64(data[i] - _ZERO)
            i += 1
        exponent = first - i
        n_digits += i - first
    if n_digits == 0:
        return 0.0, i, Fault.VALUE
    if data[i] == 101 or data[i] == 69:
        i += 1
        minus = data[i] == 45
        if minus or data[i] == 43:
            i += 1
        if not _is_digit(data[i]):
            return 0.0, i, Fault.VALUE
        written = 0
        while _is_digit(data[i]):
            written = min(written * 10 + (data[i] - _ZERO), 100_000)
            i += 1
        exponent += -written if minus else written
    if not _ends_token(data[i]):
        return 0.0, i, Fault.VALUE
    if mantissa == 0 and not slow:
        return (-0.0 if negative else 0.0), i, Fault.NONE
    if slow or exponent > 22 or exponent < -22 or (exponent > 0 and mantissa > _EXACT):
        return 0.0, i, Fault.SLOW_VALUE
    if exponent >= 0:
        value = float(mantissa) * _POWERS[exponent]
    elif mantissa <= _EXACT:
        value = float(mantissa) / _POWERS[-exponent]
    else:
        value = _divide_exactly(mantissa, _POWERS[-exponent])
    return (-value if negative else value), i, Fault.NONE


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
    return end if _ends_token(data[end]) else 0


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
    label, i, fault = parse_number(data, start)
    if fault != Fault.NONE or not _is_blank(data[i]):
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
    while not _ends_token(data[i]):
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
        while _is_digit(data[i]) and i - token < 10:
            column = column * 10 + (data[i] - _ZERO)
            i += 1
        if i == token or data[i] != _COLON or column < first_index:
            state[FAULT] = Fault.INDEX
            return
        column -= first_index
        state[COLUMN] = column
        state[WIDTH] = max(state[WIDTH], column + 1)
        if column >= features.shape[1]:
            state[FAULT] = Fault.WIDER
            return
        value, after, fault = parse_number(data, i + 1)
        if fault == Fault.VALUE:
            value, after = null_value, _is_null(data, i + 1)
            if after == 0:
                state[FAULT] = Fault.VALUE
                return
        elif fault == Fault.SLOW_VALUE:
            state[POSITION], state[FAULT] = i + 1, fault
            return
        features[row, column] = value
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
        _parse_features(data, end, state, features, name_spans, first_index, null_value)
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
) -> None:
    """Parse all chunks at once, each until its end or its first fault."""
    for chunk in numba.prange(len(ends)):
        _parse_chunk(
            data, ends[chunk], states[chunk], features, labels, query_spans, name_spans,
            first_index, null_value,
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
