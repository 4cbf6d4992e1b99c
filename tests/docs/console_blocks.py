"""The ``console`` blocks of a page: what is typed, and what is shown after it.

A line that begins with ``$ `` is typed, a line ``^C`` is Ctrl-C in the terminal of the last
service, and what follows is what the command says. Blank lines do not count, nor how many spaces
and strokes there are in a row: columns of tables are as wide as what stands in them. What services
log is left out.
"""

from __future__ import annotations

import os
import queue
import re
import secrets
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

DOCS: Final = Path(__file__).parents[2] / "docs"
ANYTHING: Final = "…"  # in a page: matches whatever a line has there
INTERRUPT: Final = "^C"
FINGERPRINT: Final = "FINGERPRINT"  # in a command: the one that was read out last
COLUMNS: Final = 100
PROGRAM: Final = [sys.executable, "-c", "from cloister.app.command_line import main; main()"]
SERVICES: Final = (("federation", "up"), ("serve",))  # these run until told to end
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DECIMALS: Final = re.compile(r"-?\d+\.\d{3,}\b")
_SHOWN_HOST: Final = "127.0.0.1"


class Step(NamedTuple):
    """A command of a page, and the lines that the page shows after it."""

    command: str
    shown: tuple[str, ...]


def steps_of(page: Path) -> list[Step]:
    """Return the commands of a page in order."""
    return [step for block in _BLOCK.findall(page.read_text("utf-8")) for step in steps_in(block)]


def steps_in(block: str) -> Iterator[Step]:
    """Return the commands of a block in order."""
    typed, shown = "", list[str]()
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("$ ") or line == INTERRUPT:
            if typed:
                yield Step(typed, tuple(shown))
            typed, shown = line.removeprefix("$ "), []
        elif line.strip():
            shown.append(_evened(line))
    if typed:
        yield Step(typed, tuple(shown))


def differences(shown: tuple[str, ...], said: str) -> list[str]:
    """Return where what was said is not what a page shows."""
    lines = [_evened(line) for line in said.splitlines() if line.strip()]
    wrong = [
        f"shown: {a}\n said: {b}" for a, b in zip(shown, lines, strict=False) if not _fits(a, b)
    ]
    missing = [f"shown: {line}\n said nothing" for line in shown[len(lines) :]]
    return wrong + missing + [f"shown nothing\n said: {line}" for line in lines[len(shown) :]]


def _fits(shown: str, said: str) -> bool:
    """Say whether a line is what a page shows; processors differ in last decimals."""
    if re.fullmatch(re.escape(shown).replace(re.escape(ANYTHING), ".*"), said):
        return True
    if ANYTHING in shown or _DECIMALS.sub("", shown) != _DECIMALS.sub("", said):
        return False
    pairs = zip(_DECIMALS.findall(shown), _DECIMALS.findall(said), strict=True)
    return all(abs(float(a) - float(b)) < 2.5 * 10.0 ** -len(a.partition(".")[2]) for a, b in pairs)


def _evened(line: str) -> str:
    return re.sub(r"([ ─])\1+", r"\1", line.strip())


def own_host() -> str:
    """Return a loopback address that no other test uses, as long as the one that pages show."""
    return f"127.{secrets.randbelow(9) + 1}.{secrets.randbelow(10)}.{secrets.randbelow(9) + 1}"


class Terminal:
    """Runs the commands of a page in one folder; in a ``with``, since it may run services.

    Services listen at a loopback address of their own, which is told as the usual one.

    Parameters
    ----------
    folder
        Where commands run.
    places
        Other addresses that pages show, and what stands for them here.
    """

    def __init__(self, folder: Path, places: Mapping[str, str] | None = None) -> None:
        self.folder, self.host = folder, own_host()
        self._places = {_SHOWN_HOST: self.host, **(places or {})}
        self._fingerprint = FINGERPRINT
        self._services: list[_Service] = []
        inherited = {name: v for name, v in os.environ.items() if not name.startswith("CLOISTER_")}
        self._environment = inherited | {
            "COLUMNS": str(COLUMNS),
            "TERM": "dumb",
            "PYTHONUNBUFFERED": "1",
            "CLOISTER_CACHE": str(folder / ".cache"),
            "CLOISTER_HOME": str(folder / ".home"),
            "CLOISTER_LEDGER": str(folder / ".ledger.db"),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for service in self._services:
            service.interrupt()
        for service in self._services:
            service.end()

    def here(self, text: str) -> str:
        """Return a text of a page with the addresses where services truly listen."""
        for shown, real in self._places.items():
            text = text.replace(shown, real)
        return text

    def check(self, step: Step) -> None:
        """Run a command; it leaves as it should, and says what the page shows."""
        if step.command == INTERRUPT:
            assert self._services.pop().end() == 0, step
            return
        typed = step.command.replace(FINGERPRINT, self._fingerprint)
        program, *arguments = shlex.split(self.here(typed))
        if program in ("cp", "sleep"):
            subprocess.run([program, *arguments], cwd=self.folder, check=True)
            return
        assert program == "cloister", step
        if arguments[:2] == ["federation", "init"]:
            arguments += ["--host", self.host]
        said = self._said(arguments, step)
        read_out = re.search(r"read this out to whoever signs: (\S+)", said)
        self._fingerprint = read_out[1] if read_out else self._fingerprint
        for shown, real in self._places.items():
            said = said.replace(real, shown)
        wrong = "\n".join(differences(step.shown, said))
        assert not wrong, f"$ {step.command}\n{wrong}\nall that it said:\n{said}"

    def _said(self, arguments: list[str], step: Step) -> str:
        if any(tuple(arguments[: len(words)]) == words for words in SERVICES):
            service = _Service(arguments, self.folder, self._environment)
            self._services.append(service)
            return service.first_lines(len(step.shown))
        done = subprocess.run(
            [*PROGRAM, *arguments],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        expected = int(any(line.startswith("error: ") for line in step.shown))
        assert done.returncode == expected, f"$ {step.command}\n{done.stdout}"
        return done.stdout


def ran(program: str, folder: Path) -> str:
    """Run a Python program of a page; return what it printed."""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class _Service:
    """A command that runs until told to end, in a group of processes of its own."""

    def __init__(self, arguments: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [*PROGRAM, *arguments],
            cwd=folder,
            env=environment | {"COLUMNS": "500"},  # a long name of a folder shall not wrap a line
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as said:
            for line in said:
                if not line.startswith('{"time": '):
                    self._lines.put(line)

    def first_lines(self, n: int, timeout_s: float = 60.0) -> str:
        """Wait for so many lines."""
        until = time.monotonic() + timeout_s
        lines = list[str]()
        while len(lines) < n and time.monotonic() < until and self._process.poll() is None:
            try:
                lines.append(self._lines.get(timeout=0.2))
            except queue.Empty:
                continue
        return "".join(lines)

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait for nothing."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Press Ctrl-C; what does not end is killed, with all that it started."""
        self.interrupt()
        try:
            return self._process.wait(40)
        finally:
            with suppress(ProcessLookupError):  # all have ended
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._reading.join()
