"""What a process takes from itself for good: files, network, other processes, memory, time.

A seccomp filter (Linux, x86-64 and ARM64) lets through the few system calls that a program needs
which only computes, reads its standard input and writes its standard output. All others fail with
EPERM: no file can be opened, no socket made, no process started or signalled. Files that are open
already stay open; the child has its two standard streams alone.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys
from typing import Final

__all__ = ["ConfinementFailed", "confine"]

NICENESS: Final = 19  # the lowest priority
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_ALLOW: Final = 0x7FFF0000
_EPERM: Final = 0x00050000 | 1
_KILL: Final = 0x80000000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF: load a word, jump if equal, end
_ARCHITECTURES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
# By name: numbers on x86-64 and on ARM64.
_ALLOWED: Final = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "setitimer": (38, 103),
    "getpid": (39, 172),
    "exit": (60, 93),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "futex": (202, 98),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "getrandom": (318, 278),
}


class ConfinementFailed(Exception):
    """A process cannot be confined on this machine: it may not read documents."""


class _Program(ctypes.Structure):
    _fields_ = (("n_instructions", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def confine(*, memory_bytes: int, cpu_s: int) -> None:
    """Give up everything but computing, for good.

    Parameters
    ----------
    memory_bytes
        Address space of the process.
    cpu_s
        CPU seconds of its whole life.
    """
    os.nice(NICENESS)
    for what, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 3),
    ):
        resource.setrlimit(what, (most, most))
    _filter_calls()


def _filter_calls() -> None:
    known = _ARCHITECTURES.get(platform.machine())
    if sys.platform != "linux" or known is None:
        raise ConfinementFailed("no filter for this machine's system calls is known")
    program = _filter(*known)
    libc = ctypes.CDLL(None, use_errno=True)
    described = _Program(len(program) // 8, program)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0
    ):
        raise ConfinementFailed(f"prctl: {os.strerror(ctypes.get_errno())}")


def _filter(architecture: int, column: int) -> bytes:
    """Return the BPF program: another architecture's calls end the process."""
    allowed = [numbers[column] for numbers in _ALLOWED.values()]
    steps = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        *((_EQUAL, len(allowed) - place, 0, number) for place, number in enumerate(allowed)),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
