"""Logarithm and exponential in single precision, written so that loops over them vectorise.

The library's versions are called once for each number; these are plain arithmetic, so a compiled
loop handles a whole vector register at once (three to five times faster). The polynomials are
those of the Cephes library. The result of one number does not depend on its neighbours.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cloister.core.kernel import inline_kernel

__all__ = ["exp32", "log32"]

_f = np.float32
_i = np.int32

_SQRT_HALF_BITS: Final = np.int32(0x3F3504F3)  # sqrt(1/2) as an integer
_MANTISSA: Final = np.int32(0x007FFFFF)
_23: Final = np.int32(23)
_LOG2_E: Final = np.float32(1.44269504088896341)
_LN2_HIGH: Final = np.float32(0.693359375)
_LN2_LOW: Final = np.float32(-2.12194440e-4)
_LOWEST: Final = np.float32(-87.3)  # below, the result would not be a normal number
_HIGHEST: Final = np.float32(88.0)


@inline_kernel
def log32(x: Any) -> Any:
    """Return the natural logarithm of a positive normal number.

    The error is below 3e-7, relative where the result is larger than 1.

    Examples
    --------
    >>> float(log32(np.float32(2.0)))
    0.693147...
    """
    bits = _i(_f(x).view(np.int32) - _SQRT_HALF_BITS)
    exponent = _f(_i(bits >> _23))
    f = _i(_i(bits & _MANTISSA) + _SQRT_HALF_BITS).view(np.float32) - _f(1.0)
    y = _f(7.0376836292e-2)
    y = y * f + _f(-1.1514610310e-1)
    y = y * f + _f(1.1676998740e-1)
    y = y * f + _f(-1.2420140846e-1)
    y = y * f + _f(1.4249322787e-1)
    y = y * f + _f(-1.6668057665e-1)
    y = y * f + _f(2.0000714765e-1)
    y = y * f + _f(-2.4999993993e-1)
    y = y * f + _f(3.3333331174e-1)
    square = f * f
    y = y * f * square + _LN2_LOW * exponent - _f(0.5) * square
    return f + y + _LN2_HIGH * exponent


@inline_kernel
def exp32(x: Any) -> Any:
    """Return e to the power x, to within 2e-7 of it; below -87.3 it is e^-87.3, above 88 e^88.

    Examples
    --------
    >>> float(exp32(np.float32(1.0)))
    2.71828...
    """
    x = min(max(_f(x), _LOWEST), _HIGHEST)
    n = np.floor(x * _LOG2_E + _f(0.5))
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    y = _f(1.9875691500e-4)
    y = y * r + _f(1.3981999507e-3)
    y = y * r + _f(8.3334519073e-3)
    y = y * r + _f(4.1665795894e-2)
    y = y * r + _f(1.6666665459e-1)
    y = y * r + _f(5.0000001201e-1)
    y = y * r * r + r + _f(1.0)
    return _i(_f(y).view(np.int32) + _i(_i(n) << _23)).view(np.float32)
