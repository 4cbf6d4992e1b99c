"""Where noise comes from, and what values noise may be added to.

Continuous noise is never drawn alone and added in floating point: the gaps between the floats near
a value would tell the value from its neighbour (Mironov 2012). A source is given the values and
returns them noised.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import DataError, SettingsError

__all__ = ["MOST", "MOST_WIDTH", "NoiseSource", "checked_floats", "checked_integers"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Whole numbers up to MOST with noise up to MOST_WIDTH wide leave 64 bits with a chance below
# exp(-128) a value.
MOST: Final = 2**62
MOST_WIDTH: Final = 2.0**55


class NoiseSource(Protocol):
    """What a mechanism draws from.

    All arrays are flat; ``scale`` is that of a Laplace and ``sigma`` that of a normal variable.
    """

    @property
    def simulated(self) -> bool:
        """Whether the noise can be drawn again by whoever knows a seed."""

    def laplace(self, values: Floats, scale: float) -> Floats:
        """Return the values with Laplace noise."""

    def gaussian(self, values: Floats, sigma: float) -> Floats:
        """Return the values with normal noise."""

    def discrete_laplace(self, values: Integers, scale: float) -> Integers:
        """Return the values with noise of chances in proportion to exp(-abs(x) / scale)."""

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        """Return the values with noise of chances in proportion to exp(-x^2 / (2 sigma^2))."""

    def randomised_response(
        self, answers: Integers, keep_probability: float, n_options: int
    ) -> Integers:
        """Return each answer with the given chance, else one of the others, all alike."""

    def gamma_difference(self, n_values: int, scale: float, n_parts: int) -> Floats:
        """Return differences of two Gamma variables; ``n_parts`` of them add up to Laplace."""

    def polya_difference(self, n_values: int, scale: float, n_parts: int) -> Integers:
        """Return differences of two Polya variables; ``n_parts`` add up to discrete Laplace."""


def checked_floats(values: ArrayLike, *, where: str) -> Floats:
    """Return finite numbers in double precision; refuse all else.

    Examples
    --------
    >>> checked_floats([1.5, float("nan")], where="update")
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: update: a value is not finite; ...
    """
    array = _checked_array(values, where=where)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise DataError(f"numbers are needed, not {array.dtype}", where=where)
    if not np.isfinite(array).all():
        raise DataError("a value is not finite", where=where)
    return array.astype(np.float64)


def checked_integers(values: ArrayLike, *, where: str) -> Integers:
    """Return whole numbers of up to 62 bits, which must have an integer type already.

    Examples
    --------
    >>> checked_integers([1.0, 2.0], where="counts")
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: counts: whole numbers are needed, not float64; ...
    """
    array = _checked_array(values, where=where)
    if array.dtype.kind not in "iu":
        raise DataError(f"whole numbers are needed, not {array.dtype}", where=where)
    if array.max() > MOST or array.min() < -MOST:
        raise DataError("a value is beyond 2^62, and noise might not fit", where=where)
    return array.astype(np.int64)


def checked_width(width: float, *, where: str) -> float:
    """Return the width of discrete noise; refuse what would leave 64 bits."""
    if not 0 < width <= MOST_WIDTH:
        raise SettingsError(f"must be above 0 and at most 2^55 (given: {width})", where=where)
    return float(width)


def _checked_array(values: ArrayLike, *, where: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise DataError("rows of different lengths", where=where) from None
    if array.ndim == 0 or array.size == 0:
        raise DataError("an array with at least one value is needed", where=where)
    return array
