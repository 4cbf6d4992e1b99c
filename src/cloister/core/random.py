"""Seeded random streams where speed does not matter: NumPy generators found by name.

A stream is a pure function of the seed and of names or numbers that say what it is for. Two parts
of an experiment never share a stream by accident, and none depends on what was drawn before.
Kernels use :mod:`cloister.core.counter_random` instead.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeGuard

import numpy as np

from cloister.core.errors import SettingsError

__all__ = ["stream", "whole_number"]


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return the generator for one purpose under one seed.

    Parameters
    ----------
    seed
        The experiment's seed, at least 0.
    purpose
        Names and numbers that tell this stream from all others.

    Examples
    --------
    >>> a = stream(7, "clicks", 3).integers(100, size=4)
    >>> b = stream(7, "clicks", 3).integers(100, size=4)
    >>> c = stream(7, "clicks", 4).integers(100, size=4)
    >>> bool((a == b).all()), bool((a == c).all())
    (True, False)
    """
    seed = whole_number(seed, where="seed")
    if seed < 0:
        raise SettingsError(f"must be at least 0 (given: {seed})", where="seed")
    # NumPy's integers and strings name the same stream as Python's; their repr() differs.
    plain = tuple(map(_plain, purpose))
    # repr() keeps 1 and "1" apart, and a tuple's repr keeps ("ab",) and ("a", "b") apart.
    digest = hashlib.blake2b(repr(plain).encode(), digest_size=16).digest()
    words = np.frombuffer(digest, dtype=np.uint32).tolist()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=words)))


def _plain(part: str | int) -> str | int:
    if isinstance(part, str):
        return str(part)
    if not _is_whole(part):
        raise SettingsError(f"must be a name or a whole number (given: {part!r})", where="purpose")
    return int(part)


def whole_number(value: object, *, where: str) -> int:
    """Return Python's or NumPy's integer as Python's; refuse all else, also True and False.

    Examples
    --------
    >>> whole_number(np.int64(3), where="seed")
    3
    >>> whole_number(1.5, where="seed")
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: seed: must be a whole number (given: 1.5); ...
    """
    if not _is_whole(value):
        raise SettingsError(f"must be a whole number (given: {value!r})", where=where)
    return int(value)


def _is_whole(value: object) -> TypeGuard[int | np.integer[Any]]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
