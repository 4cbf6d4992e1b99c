"""Clipping: no vector longer than a bound, as a fact about the floats that come out.

A sensitivity rests on it, so a norm that exceeds the bound by one rounding error would make the
statement of privacy false. Factors are rounded down and products towards 0; what comes out has an
exact norm of at most ``clip_norm``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import SettingsError
from cloister.privacy.mechanisms.noise_source import checked_floats

__all__ = ["Norm", "clipped"]

Norm = Literal["l1", "l2"]

# Numbers this much smaller than the largest are taken for 0 where a vector is clipped.
NEGLIGIBLE: Final = 2.0**-1000


def clipped(values: ArrayLike, clip_norm: float, *, norm: Norm = "l2") -> NDArray[Any]:
    """Return the vector, shortened to ``clip_norm`` if it is longer, in the same direction.

    Parameters
    ----------
    values
        Finite numbers; their shape is kept, and so is single precision. All of them together are
        one vector.
    clip_norm
        The bound, above 0.
    norm
        ``l2`` for Euclidean length, ``l1`` for the sum of absolute values.

    Examples
    --------
    >>> clipped([3.0, 4.0], 10.0), clipped([3.0, 4.0], 1.0).round(6)
    (array([3., 4.]), array([0.6, 0.8]))
    """
    if not 0 < clip_norm < math.inf:
        raise SettingsError(f"must be finite and above 0 (given: {clip_norm!r})", where="clip_norm")
    if norm not in ("l1", "l2"):
        raise SettingsError(f"no such norm: {norm!r}", where="norm", remedy="use l1 or l2")
    single = getattr(values, "dtype", None) == np.float32
    array = checked_floats(values, where="clipped")
    short = _shortened(array, float(clip_norm), norm)
    return _towards_zero(short) if single else short


def _shortened(array: NDArray[np.float64], bound: float, norm: Norm) -> NDArray[np.float64]:
    largest = float(np.abs(array).max())
    if largest == 0:
        return array
    exponent = math.frexp(largest)[1]
    scaled = _scaled(array, -exponent)  # the largest is now between 1/2 and 1
    length = _length(scaled, norm)
    # Any order of summation errs by at most n rounding errors; a few more for squares and root.
    slack = (array.size + 8) * 2.0**-52
    scaled_bound = float(_scaled(np.float64(bound), -exponent))  # exact wherever it matters
    if length * (1 + slack) <= scaled_bound:
        return array
    if length * (1 - slack) <= scaled_bound and _is_within(array, bound, norm):
        return array
    scaled[np.abs(scaled) < NEGLIGIBLE] = 0
    factor = np.nextafter(bound / (length * (1 + slack)), 0)
    short: NDArray[np.float64] = np.nextafter(scaled * factor, 0)
    return short


def _scaled(values: Any, exponent: int) -> Any:
    """Multiply by a power of two."""
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(values, exponent)


def _length(scaled: NDArray[np.float64], norm: Norm) -> float:
    if norm == "l1":
        return float(np.abs(scaled).sum())
    return math.sqrt(float(np.square(scaled).sum()))  # no BLAS: it would depend on threads


def _is_within(array: NDArray[np.float64], bound: float, norm: Norm) -> bool:
    """Compare the exact norm with the bound."""
    values = [abs(Fraction(value)) for value in array.ravel().tolist()]
    if norm == "l1":
        return sum(values) <= Fraction(bound)
    return sum(value * value for value in values) <= Fraction(bound) ** 2


def _towards_zero(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round to single precision, never away from 0."""
    single = values.astype(np.float32)
    return np.where(np.abs(single) > np.abs(values), np.nextafter(single, np.float32(0)), single)
