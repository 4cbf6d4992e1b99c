"""The four ways in which Cloister compiles a kernel.

A kernel does arithmetic on arrays and knows nothing of files, networks or settings. All of them
are compiled with the same options, given here once: machine code is kept on disk where there is a
place for it, the interpreter lock is released, and a division by zero gives infinity or NaN as it
does in NumPy.

A kernel gives the same bits in the process that compiles it and in those that find it compiled.
That needs care. A kernel's machine code holds a copy of each kernel that it calls, optimised once
more, and where sums may be ordered, a copy can order them otherwise than the original does. numba
lets all copies share a name, and whichever was loaded first runs; here each kernel runs its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

__all__ = ["inline_kernel", "kernel", "parallel_kernel", "summing_kernel"]

P = ParamSpec("P")
R = TypeVar("R")


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
    return _compiled(function)


def inline_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small function that is copied into the kernels that call it."""
    return _compiled(function, inline="always")


def summing_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function whose sums may be added up in another order than written.

    Only so can a sum run over a whole vector register. The result is the same for any number of
    threads, and in each process of a machine; its last bits may differ between two kinds of
    processor, or two versions of the compiler.
    """
    return _compiled(function, fastmath={"reassoc", "contract", "nsz"})


def parallel_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function whose ``numba.prange`` loops run on all threads.

    Every iteration must write to places of its own: then the result does not depend on the
    number of threads.
    """
    return _compiled(function, parallel=True)


class _OwnCopies(JITCodeLibrary):
    """Machine code of one kernel, in which it calls its own copies of other kernels."""

    def _finalize_final_module(self) -> None:
        self._shared_module = self._final_module.clone()  # for kernels that will call this one
        _relink(self._shared_module, "external", "linkonce_odr")
        _relink(self._final_module, "linkonce_odr", "internal")
        super()._finalize_final_module()  # type: ignore[no-untyped-call]


def _relink(module: Any, before: str, after: str) -> None:
    for function in module.functions:
        if not function.is_declaration and function.linkage.name == before:
            function.linkage = after


class _KernelCompiler(Compiler):
    """numba's compiler, except for where calls between kernels lead."""

    def compile_extra(self, func: Any) -> Any:
        library: Any = _OwnCopies(  # type: ignore[no-untyped-call]
            self.state.targetctx.codegen(), func.__qualname__
        )
        library.enable_object_caching()
        self.state.library = library
        return super().compile_extra(func)  # type: ignore[no-untyped-call]


_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "pipeline_class": _KernelCompiler,
}


def _compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Wrap a function for compilation at its first call; keep the machine code if possible."""
    try:
        compiled = numba.njit(cache=True, **_OPTIONS, **options)(function)
    except RuntimeError as error:
        # The function lives in no file, or neither its folder nor the home can be written.
        if "cannot cache function" not in str(error):
            raise
        compiled = numba.njit(cache=False, **_OPTIONS, **options)(function)
    _watch_sources(compiled)
    return cast(Callable[P, R], compiled)


def _watch_sources(compiled: Any) -> None:
    """Let machine code grow old with any file whose kernels it may contain, not only its own.

    numba looks at the file of the function alone; the kernels that it calls are compiled into it,
    and a change to one of them in another file, or to this one, would go unnoticed.
    """
    function = compiled.py_func
    sources = {__file__, function.__code__.co_filename}
    for value in function.__globals__.values():
        sources |= getattr(value, "kernel_sources", frozenset())
    compiled.kernel_sources = frozenset(sources)
    index: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(index, "_source_stamp"):
        index._source_stamp = tuple((path, *_stamp(path)) for path in sorted(sources))


def _stamp(path: str) -> tuple[int, int]:
    try:
        state = Path(path).stat()
    except OSError:
        return 0, 0
    return state.st_mtime_ns, state.st_size
