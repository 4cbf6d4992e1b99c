"""Real vectors as integers modulo 2^64, so that sums are exact and masks can be uniform.

A value ``x`` becomes ``trunc(x * 2**scale_bits)``. Truncation is toward zero, so no coordinate
grows in size: the Euclidean length after encoding is at most that before it, and a clipping norm
that held for the real vector holds for what is summed. Each value loses less than
``2**-scale_bits``; the sum of n clients loses less than ``n * 2**-scale_bits`` a coordinate.

Values outside the bound are refused, and so is a session whose largest possible sum would reach
2^63: an overflow is an error, never a wrong sum. Integers are compared with the bound as integers:
a float near 2^60 stands for many of them.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from cloister.core.errors import DataError, SettingsError
from cloister.core.settings import Settings

__all__ = ["FixedPoint"]

_HALF = 2**63  # sums at or above it in size would come back with the wrong sign


class FixedPoint(Settings):
    """How real numbers, or counts with ``scale_bits=0``, become integers modulo 2^64.

    Parameters
    ----------
    bound
        The largest size that one client's value may have; below 2^63 when encoded.
    scale_bits
        Binary digits kept after the point; 0 for counts.

    Examples
    --------
    >>> code = FixedPoint(bound=8.0, scale_bits=20)
    >>> total = code.encode([0.5, -1.25]) + code.encode([0.25, 0.25])
    >>> code.decode(total, n_clients=2)
    array([ 0.75, -1.  ])
    """

    bound: float = Field(gt=0)
    scale_bits: int = Field(default=32, ge=0, le=62)

    @model_validator(mode="after")
    def _fits_a_word(self) -> Self:
        if self._integer_bound() >= _HALF:
            raise ValueError(
                f"a value up to {self.bound} at {self.scale_bits} bits may reach 2^63;"
                " lower bound or scale_bits"
            )
        return self

    def largest_sum(self, n_clients: int) -> int:
        """Return the largest size that a sum over clients can have, or raise if it overflows."""
        largest = n_clients * self._integer_bound()
        if largest >= _HALF:
            raise SettingsError(
                f"{n_clients} clients with values up to {self.bound} at {self.scale_bits} bits"
                " may add up to 2^63 or more",
                where="FixedPoint",
                remedy="lower bound or scale_bits",
            )
        return largest

    def encode(self, values: ArrayLike) -> NDArray[np.uint64]:
        """Return a vector as integers modulo 2^64; refuse what is out of range or no number."""
        given: NDArray[Any] = np.asarray(values)
        if given.dtype.kind not in "iuf":
            raise DataError(f"not numbers but {given.dtype}", where="FixedPoint.encode")
        if given.dtype.kind == "f":
            given = given.astype(np.float64, copy=False)
            if not bool(np.all(np.isfinite(given))):
                raise DataError("a value is NaN or infinite", where="FixedPoint.encode")
        if self._is_exceeded_by(given):
            raise DataError(
                f"a value is larger in size than the bound {self.bound}",
                where="FixedPoint.encode",
                remedy="clip the values, or agree on a larger bound",
            )
        if given.dtype.kind == "f":  # a power of two shifts the exponent: no rounding here
            scaled: NDArray[np.float64] = np.trunc(np.ldexp(given, self.scale_bits))
            return scaled.astype(np.int64).view(np.uint64)
        scale = np.uint64(self.scale_bits)
        return np.left_shift(given.astype(np.int64).view(np.uint64), scale)

    def decode(self, total: NDArray[np.uint64], *, n_clients: int) -> NDArray[np.float64]:
        """Return the sum of ``n_clients`` vectors as real numbers."""
        return np.ldexp(self._signed(total, n_clients).astype(np.float64), -self.scale_bits)

    def decode_counts(self, total: NDArray[np.uint64], *, n_clients: int) -> NDArray[np.int64]:
        """Return the sum of ``n_clients`` vectors of counts, exact up to 2^63.

        Examples
        --------
        >>> code = FixedPoint(bound=2.0**60, scale_bits=0)
        >>> code.decode_counts(code.encode([2**60 - 1, 3]), n_clients=1)
        array([1152921504606846975,                   3])
        """
        if self.scale_bits:
            raise SettingsError("counts have scale_bits=0", where="FixedPoint.decode_counts")
        return self._signed(total, n_clients)

    def _signed(self, total: NDArray[np.uint64], n_clients: int) -> NDArray[np.int64]:
        largest = self.largest_sum(n_clients)
        signed = total.view(np.int64)
        if signed.size and (int(signed.max()) > largest or int(signed.min()) < -largest):
            raise DataError(
                f"the sum is larger than {n_clients} clients can reach",
                where="FixedPoint.decode",
                remedy="refuse the sum: a client sent a value out of range, or masks are left",
            )
        return signed

    def _is_exceeded_by(self, given: NDArray[np.generic]) -> bool:
        """Compare exactly: Python does so between an integer and a float, NumPy does not."""
        return bool(given.size) and (
            given.max().item() > self.bound or given.min().item() < -self.bound
        )

    def _integer_bound(self) -> int:
        """Return the largest size of one encoded value, exactly."""
        numerator, denominator = self.bound.as_integer_ratio()
        return (numerator << self.scale_bits) // denominator
