"""The two ways in which Cloister compiles a kernel.

A kernel does arithmetic on arrays and knows nothing of files, networks or settings. All of them
are compiled with the same options, given here once: machine code is kept on disk, the interpreter
lock is released, and a division by zero gives infinity or NaN as it does in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

__all__ = ["inline_kernel", "kernel", "parallel_kernel"]

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of arrays and numbers, for one thread.

    Examples
    --------
    >>> import numpy as np
    >>> @kernel
    ... def total(values):
    ...     result = 0.0
    ...     for value in values:
    ...         result += value
    ...     return result
    >>> total(np.array([1.0, 2.0, 3.5]))
    6.5
    """
    # Machine code can be kept only for functions that live in a file.
    options = _OPTIONS | {"cache": not function.__code__.co_filename.startswith("<")}
    return cast(Callable[P, R], numba.njit(**options)(function))


def inline_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small function that is copied into the kernels that call it."""
    return cast(Callable[P, R], numba.njit(inline="always", **_OPTIONS)(function))


def parallel_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function whose ``numba.prange`` loops run on all threads.

    Every iteration must write to places of its own: then the result does not depend on the
    number of threads.
    """
    return cast(Callable[P, R], numba.njit(parallel=True, **_OPTIONS)(function))
