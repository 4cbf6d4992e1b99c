"""Seeded random streams where speed does not matter: NumPy generators found by name.

A stream is a pure function of the seed and of names or numbers that say what it is for. Two parts
of an experiment never share a stream by accident, and none depends on what was drawn before.
Kernels use :mod:`cloister.core.counter_random` instead.
"""

from __future__ import annotations

import hashlib

import numpy as np

from cloister.core.errors import SettingsError

__all__ = ["stream"]


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
    if seed < 0:
        raise SettingsError(f"must be at least 0 (given: {seed})", where="seed")
    # repr() keeps 1 and "1" apart, and a tuple's repr keeps ("ab",) and ("a", "b") apart.
    digest = hashlib.blake2b(repr(purpose).encode(), digest_size=16).digest()
    words = np.frombuffer(digest, dtype=np.uint32).tolist()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=words)))
