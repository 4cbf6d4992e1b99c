"""The cumulative chances of discrete noise, for inversion by words of 64 bits.

The sums are computed with 60 decimal digits, and with 400 where a word leaves a draw open; how the
table is used, and what its draws are worth, says :mod:`cloister.privacy.mechanisms.aes_noise`.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError

__all__ = ["NoiseKind", "NoiseTable", "noise_table"]

NoiseKind = Literal["discrete-gaussian", "discrete-laplace"]

GUIDE_BITS: Final = 14  # 2^14 entries
MOST_WIDTH: Final = 10_000.0  # the table then has 200,000 entries
LEAST_WIDTH: Final = 0.01
MORE_BITS: Final = 1024
_TABLE_DIGITS: Final = 60  # 199 bits: the first 64 are then right beyond doubt
_EXACT_DIGITS: Final = 400  # 1,328 bits
_WORD: Final = 1 << 64

Words64 = NDArray[np.uint64]


class NoiseTable(NamedTuple):
    """A distribution of whole numbers, ready for inversion.

    The draw for a word is ``low + i`` for the least i with word < ``bounds[i]``, the first 64 bits
    of P(X <= low + i). ``guide`` has that i for a word's first bits where they decide, else -1.
    """

    kind: NoiseKind
    width: float
    low: int
    bounds: Words64
    guide: NDArray[np.int32]

    def settle(self, word: int, more: int) -> int:
        """Return the draw for a word with 1,024 further bits."""
        digits = (word << MORE_BITS) + more
        sums, low = _exact_sums(self.kind, self.width)
        for i, part in enumerate(sums):
            if digits < part:
                return low + i
        return low + len(sums)


@lru_cache(maxsize=64)
def noise_table(kind: NoiseKind, width: float) -> NoiseTable:
    """Return the table of a distribution.

    Parameters
    ----------
    kind
        ``discrete-gaussian``: chances in proportion to exp(-x^2 / (2 width^2));
        ``discrete-laplace``: to exp(-abs(x) / width).
    width
        From 0.01 to 10,000.

    Examples
    --------
    >>> table = noise_table("discrete-gaussian", 1.0)
    >>> int(table.bounds[-table.low]) / 2**64 - int(table.bounds[-table.low - 1]) / 2**64
    0.3989422...
    """
    if not LEAST_WIDTH <= width <= MOST_WIDTH:
        raise SettingsError(
            f"must be {LEAST_WIDTH:g} to {MOST_WIDTH:g} (given: {width})", where="width"
        )
    sums, low = _cumulated(kind, width, Decimal(2) ** -180, _TABLE_DIGITS, 64)
    n_zeros = sum(part == 0 for part in sums)
    n_below = sum(part < _WORD - 1 for part in sums)
    bounds = np.array(sums[n_zeros : n_below + 1], np.uint64)
    return NoiseTable(kind, width, low + n_zeros, bounds, _guide(bounds))


def _guide(bounds: Words64) -> NDArray[np.int32]:
    firsts = np.arange(1 << GUIDE_BITS, dtype=np.uint64) << np.uint64(64 - GUIDE_BITS)
    lasts = firsts + np.uint64((1 << (64 - GUIDE_BITS)) - 1)
    begin = np.searchsorted(bounds, firsts, side="left")
    end = np.searchsorted(bounds, lasts, side="right")
    decided = begin == end
    decided[[0, -1]] = False  # where the tails are
    return np.where(decided, begin, -1).astype(np.int32)


@lru_cache(maxsize=4)
def _exact_sums(kind: NoiseKind, width: float) -> tuple[list[int], int]:
    bits = 64 + MORE_BITS
    return _cumulated(kind, width, Decimal(2) ** -(bits + 10), _EXACT_DIGITS, bits)


def _cumulated(
    kind: NoiseKind, width: float, least: Decimal, n_digits: int, n_bits: int
) -> tuple[list[int], int]:
    """Return the first bits of P(X <= x) for x = low, low + 1, ..., and low.

    Beyond the range the weights are below ``least``: what they add up to is below what the bits
    show, save that the first sum takes it in.
    """
    context = Context(prec=n_digits)
    positive = _weights(kind, width, least, context)
    weights = positive[:0:-1] + positive
    total = Decimal(0)
    for weight in weights:
        total = context.add(total, weight)
    scale = context.divide(Decimal(1 << n_bits), total)
    sums, running = [], Decimal(0)
    for weight in weights[:-1]:
        running = context.add(running, weight)
        sums.append(int(context.multiply(running, scale).to_integral_value(ROUND_FLOOR)))
    return sums, 1 - len(positive)


def _weights(kind: NoiseKind, width: float, least: Decimal, context: Context) -> list[Decimal]:
    """Return exp(-x^2 / (2 width^2)) or exp(-x / width) for x = 0, 1, ... while above ``least``.

    Each is the one before times a ratio; for the normal that ratio shrinks by a constant factor.
    """
    exact = Decimal(width)
    if kind == "discrete-gaussian":
        ratio = context.exp(context.divide(Decimal(-1), 2 * exact * exact))
        shrink = context.multiply(ratio, ratio)
    else:
        ratio, shrink = context.exp(context.divide(Decimal(-1), exact)), Decimal(1)
    weights = [Decimal(1)]
    while (weight := context.multiply(weights[-1], ratio)) > least:
        weights.append(weight)
        ratio = context.multiply(ratio, shrink)
    return weights
