"""The child process that takes the words from documents: it computes, and can do nothing else.

Its parent sends a group of documents over its standard input: their number, then of each its kind,
its length and its bytes. It reads all of them, then answers one by one on its standard output: what
became of the document, the CPU time that this process has used, a length, and the words as UTF-8 or
the reason. A document that computes for too long ends the process by SIGPROF; the parent knows
which one it was, since it has the answers to those before.

It starts with an empty environment and no open files besides its streams, and imports no more than
the standard library and the modules that read documents.
"""

from __future__ import annotations

import signal
import struct
import sys
import time
from typing import BinaryIO, Final

from cloister.core.errors import DataError
from cloister.pods.document_text import MEDIA_TYPES, checked_text
from cloister.pods.extraction.confinement import ConfinementFailed, confine

__all__ = [
    "CPU_LIFE_S",
    "FAILED",
    "GROUP",
    "KINDS",
    "MEMORY_BYTES",
    "NO_MEMORY",
    "READ",
    "READY",
    "REPLY",
    "REQUEST",
    "cpu_limit_s",
    "main",
]

MEMORY_BYTES: Final = 768_000_000  # address space; 16 MB of ordinary JSON take about 300 MB
CPU_LIFE_S: Final = 60  # of a child, against one that a document has taken over
KINDS: Final = tuple(sorted(set(MEDIA_TYPES.values())))
GROUP: Final = struct.Struct("=I")  # number of documents
REQUEST: Final = struct.Struct("=BI")  # place in `KINDS`, bytes
REPLY: Final = struct.Struct("=BII")  # what became of it, CPU milliseconds so far, bytes
READY: Final = b"ready\n"
READ, FAILED, NO_MEMORY = range(3)


def cpu_limit_s(n_bytes: int) -> float:
    """Return the CPU seconds that a document of this size may take.

    Examples
    --------
    >>> cpu_limit_s(1_000), cpu_limit_s(16_000_000)
    (2.0005, 10.0)
    """
    return 2 + n_bytes / 2_000_000


def main() -> None:
    """Confine this process, then read documents until its input ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    for kind in KINDS:  # imports what reading needs, while files can still be opened
        checked_text(b'["&eacute;"]', kind)
    try:
        confine(memory_bytes=MEMORY_BYTES, cpu_s=CPU_LIFE_S)
    except (ConfinementFailed, OSError, ValueError) as error:
        sink.write(f"{error}\n".encode())
        return
    sink.write(READY)
    sink.flush()
    while head := source.read(GROUP.size):
        _answer(source, sink, *GROUP.unpack(head))


def _answer(source: BinaryIO, sink: BinaryIO, n_documents: int) -> None:
    waiting = []
    for _ in range(n_documents):
        kind, n_bytes = REQUEST.unpack(source.read(REQUEST.size))
        waiting.append((kind, source.read(n_bytes)))
    for kind, content in waiting:
        outcome, told = _outcome(content, KINDS[kind])
        sink.write(REPLY.pack(outcome, int(1000 * time.process_time()), len(told)))
        sink.write(told)
        sink.flush()


def _outcome(content: bytes, media_type: str) -> tuple[int, bytes]:
    signal.setitimer(signal.ITIMER_PROF, cpu_limit_s(len(content)))
    try:
        return READ, checked_text(content, media_type).encode("utf-8")
    except DataError as error:
        return FAILED, error.what.encode()
    except MemoryError:
        return NO_MEMORY, b""
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
