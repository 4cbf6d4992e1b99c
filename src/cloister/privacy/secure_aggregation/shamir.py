"""Shamir's secret sharing modulo the Mersenne prime 2^521 - 1, in Python integers.

A secret of up to 65 bytes is the value at 0 of a random polynomial of degree t - 1; a share is its
value at a point other than 0. Any t shares give the secret back. Fewer say nothing about it,
whatever the computing power. A wrong share gives a wrong secret: who needs to notice keeps a
commitment to the secret, or gives more than t shares to `reconstruct`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import comb, prod
from operator import mul
from typing import Final

import numpy as np

from cloister.core.errors import DataError, SettingsError

__all__ = ["PRIME", "SHARE_BYTES", "lagrange_at_zero", "reconstruct", "share"]

PRIME: Final = 2**521 - 1
SHARE_BYTES: Final = 66
SECRET_BYTES: Final = 65  # below the prime, whatever their value

RandomBytes = Callable[[int], bytes]


def share(
    secret: bytes,
    threshold: int,
    points: Sequence[int],
    *,
    random_bytes: RandomBytes = os.urandom,
) -> list[int]:
    """Return the share of a secret at each point; any ``threshold`` of them give it back.

    Examples
    --------
    >>> shares = dict(zip((1, 2, 3), share(b"secret", 2, (1, 2, 3)), strict=True))
    >>> reconstruct({1: shares[1], 3: shares[3]}, 2).to_bytes(6, "big")
    b'secret'
    """
    if len(secret) > SECRET_BYTES:
        raise SettingsError(f"a secret has at most {SECRET_BYTES} bytes", where="shamir.share")
    if not 1 <= threshold <= len(points):
        raise SettingsError(
            f"a threshold of {threshold} does not fit {len(points)} shares", where="shamir.share"
        )
    _check_points(points)
    coefficients = [_random_element(random_bytes) for _ in range(threshold - 1)]
    coefficients.append(int.from_bytes(secret, "big"))  # highest power first
    return [_evaluate(coefficients, point) for point in points]


def reconstruct(shares: Mapping[int, int], threshold: int) -> int:
    """Return the secret from shares by point; refuse too few, and shares that disagree.

    With exactly ``threshold`` shares there is nothing to compare, and a wrong one goes unnoticed.
    """
    if len(shares) < threshold or threshold < 1:
        raise DataError(
            f"{len(shares)} shares of the {threshold} that are needed", where="shamir.reconstruct"
        )
    _check_points(tuple(shares))
    if not all(0 <= value < PRIME for value in shares.values()):
        raise DataError("a share is no element of the field", where="shamir.reconstruct")
    points = tuple(sorted(shares))
    secret = _interpolate(points[:threshold], shares)
    for last in range(threshold, len(points)):
        # The polynomial through t - 1 shares and this one must have the same value at 0.
        if _interpolate((*points[: threshold - 1], points[last]), shares) != secret:
            raise DataError("the shares disagree: at least one is wrong", where="shamir")
    return secret


@lru_cache(maxsize=64)
def lagrange_at_zero(points: tuple[int, ...]) -> tuple[int, ...]:
    """Return what each share is multiplied with to give the secret, for one set of holders.

    The weight of point x_i is the product over j of x_j / (x_j - x_i), without j = i.

    Examples
    --------
    >>> lagrange_at_zero((1, 2)) == (2, PRIME - 1)
    True
    """
    if max(points) <= 2 * len(points):
        return _weights_with_gaps(points)
    weights = []
    for point in points:
        others = [other for other in points if other != point]
        below = prod(other - point for other in others)
        weights.append(prod(others) * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)


def _interpolate(points: tuple[int, ...], shares: Mapping[int, int]) -> int:
    weights = lagrange_at_zero(points)
    total: int = sum(map(mul, weights, (shares[point] for point in points)))
    return total % PRIME


def _weights_with_gaps(points: tuple[int, ...]) -> tuple[int, ...]:
    """Return the weights of points that are most of 1, 2, ..., m.

    All of 1, ..., m would have the weights (-1)^(i-1) C(m, i). A point g that is missing takes its
    factor g / (g - i) out of each: few small factors, where the definition has many.
    """
    last = max(points)
    gaps = sorted(set(range(1, last + 1)).difference(points))
    scale = pow(prod(gaps), -1, PRIME)
    binomials = _binomials(last)
    return tuple(
        (factor if point % 2 else -factor) * binomials[point] * scale % PRIME
        for point, factor in zip(points, _products_of_differences(gaps, points), strict=True)
    )


@lru_cache(maxsize=256)
def _binomials(m: int) -> tuple[int, ...]:
    return tuple(comb(m, i) for i in range(m + 1))


def _products_of_differences(gaps: Sequence[int], points: Sequence[int]) -> list[int]:
    """Return for each point the product over g of g - point, exactly.

    Several small factors are multiplied in one machine word before Python's integers take over.
    """
    per_word = 62 // max(points).bit_length()
    padded = -(-len(gaps) // per_word) * per_word
    table = np.ones((len(points), padded), np.int64)
    table[:, : len(gaps)] = np.subtract.outer(np.array(gaps, np.int64), points).T
    words = table.reshape(len(points), -1, per_word).prod(axis=2)
    return [prod(row) for row in words.tolist()]


def _evaluate(coefficients: Sequence[int], point: int) -> int:
    """Return the polynomial at a small point, by Horner's rule.

    Points have a few bits only, so it is cheaper to let the value grow than to reduce each step.
    """
    value = 0
    for coefficient in coefficients:
        value = value * point + coefficient
    return value % PRIME


def _random_element(random_bytes: RandomBytes) -> int:
    """Draw a uniform element of the field: 521 random bits, again if they are all ones."""
    while True:
        drawn = int.from_bytes(random_bytes(SHARE_BYTES), "big") & PRIME
        if drawn != PRIME:
            return drawn


def _check_points(points: Sequence[int]) -> None:
    if any(not 0 < point < PRIME for point in points) or len(set(points)) != len(points):
        raise DataError("the points of shares are positive and all different", where="shamir")
