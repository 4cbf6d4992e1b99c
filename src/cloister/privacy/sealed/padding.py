"""Padmé: sizes rounded up so that they say little (Nikitin et al., PETS 2019, algorithm 1)."""

from __future__ import annotations

__all__ = ["padme"]


def padme(size: int) -> int:
    """Return the padded size: at most 12 % more, with O(log log size) bits of the size left.

    Examples
    --------
    >>> [padme(size) for size in (0, 9, 200, 1_000, 1_000_000)]
    [0, 10, 208, 1024, 1015808]
    """
    if size < 2:
        return size
    exponent = size.bit_length() - 1  # the paper's E = floor(log2 L)
    n_kept = exponent.bit_length()  # the paper's S = floor(log2 E) + 1
    mask = (1 << (exponent - n_kept)) - 1 if exponent > n_kept else 0
    return (size + mask) & ~mask
