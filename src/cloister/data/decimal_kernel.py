"""A kernel that reads decimal numbers as Python's ``float`` does.

The digits are gathered into a whole number of at most 63 bits and a power of ten. Where both are
exact in a double, one division or multiplication rounds once and is right (Clinger). Elsewhere the
power is taken as a sum of two doubles and the result carried as another; the one rounding at the
end is trusted only if a slightly larger and a slightly smaller result round to the same double.
What remains (about one in a thousand numbers of over 19 digits, and numbers near the ends of the
range) is left to the caller.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import inline_kernel, kernel

__all__ = ["Number", "ends_token", "is_digit", "parse_number"]

Bytes = NDArray[np.uint8]


class Number(IntEnum):
    """What came of reading a number."""

    READ = 0
    WRONG = 1  # not a number
    HARD = 2  # a number that needs arbitrary precision
    LARGEST = 3  # the largest double, which Istella writes for a missing value


_ZERO: Final = 48
_NINE: Final = 57
_TEN: Final = np.uint64(10)
_ONE: Final = np.uint64(1)
_FULL: Final = np.uint64(2**63 // 10 - 1)  # one more digit still fits into 63 bits
_EXACT: Final = np.uint64(2**53)  # whole numbers up to here are exact in a double
_EXACT_POWER: Final = 22  # powers of ten up to here are exact in a double
_MAX_POWER: Final = 290  # beyond, intermediate results could overflow or lose digits
_DOUBT: Final = 2.0**-40  # far above the error of a sum of two doubles
_SPLITTER: Final = 134217729.0  # 2^27 + 1, for Dekker's exact product
_LARGEST: Final = 1.7976e8  # the largest double over 10^300, to five digits

_HIGH: Final = np.array([float(10**k) for k in range(_MAX_POWER + 1)])
_LOW: Final = np.array([float(10**k - int(float(10**k))) for k in range(_MAX_POWER + 1)])


@inline_kernel
def is_digit(byte: Any) -> Any:
    """Say whether a byte is a decimal digit."""
    return _ZERO <= byte <= _NINE


@inline_kernel
def ends_token(byte: Any) -> Any:
    """Say whether a byte ends a word: a blank, a line end, or the beginning of a remark."""
    return byte == 32 or byte == 10 or byte == 9 or byte == 13 or byte == 35


@inline_kernel
def _exact_product(a: float, b: float) -> tuple[float, float]:
    """Return a product and its rounding error (Dekker)."""
    product = a * b
    c = _SPLITTER * a
    a1 = c - (c - a)
    a2 = a - a1
    c = _SPLITTER * b
    b1 = c - (c - b)
    b2 = b - b1
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


@kernel
def _scale(mantissa: Any, exponent: int) -> tuple[float, bool]:
    """Return mantissa times a power of ten, and whether its rounding is beyond doubt."""
    power = abs(exponent)
    if mantissa <= _EXACT and power <= _EXACT_POWER:
        value = float(mantissa)
        return (value * _HIGH[power] if exponent >= 0 else value / _HIGH[power]), True
    high = float(mantissa)
    low = float(np.int64(mantissa - np.uint64(high)))
    if exponent == 0:
        return high, True
    if exponent > 0:
        first, error = _exact_product(high, _HIGH[power])
        rest = error + (high * _LOW[power] + low * _HIGH[power])
    else:
        first = high / _HIGH[power]
        product, error = _exact_product(first, _HIGH[power])
        rest = ((high - product) - error + low - first * _LOW[power]) / _HIGH[power]
    value = first + rest
    return value, first + rest * (1 + _DOUBT) == first + rest * (1 - _DOUBT)


@kernel
def _scan_digits(data: Bytes, start: int) -> tuple[Any, int, bool, int]:
    """Gather digits around a point: number, power of ten, whether digits were lost, end.

    The end is ``start`` where there is no digit.
    """
    i = start
    mantissa = np.uint64(0)
    exponent, n_digits, point, lost = 0, 0, 0, False
    while True:
        byte = data[i]
        if is_digit(byte):
            n_digits += 1
            if mantissa <= _FULL:
                mantissa = mantissa * _TEN + np.uint64(byte - _ZERO)
                exponent -= point
            else:
                lost |= byte != _ZERO
                exponent += 1 - point
        elif byte == 46 and point == 0:
            point = 1
        else:
            break
        i += 1
    return mantissa, exponent, lost, (i if n_digits > 0 else start)


@kernel
def _scan_exponent(data: Bytes, start: int) -> tuple[int, int]:
    """Read the exponent behind an ``e``: its value and its end, 0 if there is none."""
    i = start
    negative = data[i] == 45
    if negative or data[i] == 43:
        i += 1
    if not is_digit(data[i]):
        return 0, 0
    value = 0
    while is_digit(data[i]):
        value = min(value * 10 + (data[i] - _ZERO), 100_000)
        i += 1
    return (-value if negative else value), i


@kernel
def parse_number(data: Bytes, start: int) -> tuple[float, int, int]:
    """Read a decimal number; return it, where it ends, and what came of it.

    The bytes must hold the end of a token (see `ends_token`) somewhere behind ``start``.
    """
    first = start
    if data[first] == 45 or data[first] == 43:
        first += 1
    mantissa, exponent, lost, i = _scan_digits(data, first)
    if i == first:
        return 0.0, i, Number.WRONG
    if data[i] == 101 or data[i] == 69:
        written, i = _scan_exponent(data, i + 1)
        exponent += written
    if i == 0 or not ends_token(data[i]):
        return 0.0, i, Number.WRONG
    sign = -1.0 if data[start] == 45 else 1.0
    if mantissa == 0:
        return sign * 0.0, i, Number.READ
    if abs(exponent) > _MAX_POWER:
        near = exponent - 300
        if abs(near) <= _EXACT_POWER and float(mantissa) * 10.0**near > _LARGEST:
            return 0.0, i, Number.LARGEST
        return 0.0, i, Number.HARD
    value, sure = _scale(mantissa, exponent)
    if lost:
        above, sure_above = _scale(mantissa + _ONE, exponent)
        sure = sure and sure_above and above == value
    return sign * value, i, (Number.READ if sure else Number.HARD)
