"""A command of Cloister's as a child process: its progress, its result, and its end.

What takes minutes and many processors is done beside the console, not in it: the child is ended by
its id, and its own worker processes leave with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import IO, Any, Final

from cloister.app.output import PROGRESS_LINES
from cloister.core.errors import CloisterError

__all__ = ["run_command"]

Told = Callable[[str, int, int], None]

LOOK_S: Final = 0.3  # how soon a child hears that it is to end
_ENDED_S: Final = 5.0
_SHOWN: Final = 500  # characters of what a child said last
_CODE: Final = "from cloister.app.command_line import main; main()"


def run_command(arguments: Sequence[str], told: Told) -> dict[str, Any]:
    """Run ``cloister`` with these arguments and ``--json``; return its result.

    Parameters
    ----------
    arguments
        Of the command.
    told
        Told, a few times a second, what is being done, how much of it is done and how much there
        is. What it raises ends the child.
    """
    with ThreadPoolExecutor(2) as pool, _started([*arguments, "--json"]) as child:
        lines: SimpleQueue[str | None] = SimpleQueue()
        output = pool.submit(_read, child.stdout)
        pool.submit(_read_lines, child.stderr, lines)
        said = _followed(lines, told)
        return _result(child.wait(), output.result(), said)


@contextmanager
def _started(arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a child, which has ended when this does."""
    child = subprocess.Popen(
        [sys.executable, "-c", _CODE, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, PROGRESS_LINES[0]: PROGRESS_LINES[1]},
    )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(_ENDED_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _read(stream: IO[str] | None) -> str:
    if stream is None:
        return ""
    with stream:
        return stream.read()


def _read_lines(stream: IO[str] | None, lines: SimpleQueue[str | None]) -> None:
    if stream is not None:
        with stream:
            for line in stream:
                lines.put(line)
    lines.put(None)


def _followed(lines: SimpleQueue[str | None], told: Told) -> str:
    """Tell of progress until the child has nothing more to say; return its other words."""
    known, said = ("", 0, 0), ""
    while True:
        try:
            line = lines.get(timeout=LOOK_S)
        except Empty:
            line = ""
        if line is None:
            return said
        progress = _progress(line)
        if progress is None:
            said = (said + line)[-_SHOWN:]
        else:
            known = progress
        told(*known)


def _progress(line: str) -> tuple[str, int, int] | None:
    try:
        found = json.loads(line)
        return str(found["progress"]), int(found["done"]), int(found["total"])
    except (ValueError, KeyError, TypeError):
        return None


def _result(code: int, output: str, said: str) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(output)
    except ValueError:
        result = {}
    if code == 0 and result:
        return result
    error = result.get("error") or f"the command ended with exit code {code}: {said.strip()}"
    raise CloisterError(error, remedy=result.get("remedy", "run it in a terminal to see more"))
