"""How every command speaks: one JSON object, or text for people; errors with their remedy.

Results go to standard output. Progress and messages go to standard error. `report` decides the exit
code of every failure: 1 the work failed, 2 wrong usage (a name, a path, a number or a combination
of options that cannot be meant), 130 Ctrl-C.

A program that starts a command and wants to know how far it is sets ``CLOISTER_PROGRESS=lines``:
then standard error has one JSON object a line, ``{"progress": LABEL, "done": N, "total": N}``.
"""

from __future__ import annotations

import functools
import json
import os
import select
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, ParamSpec, TextIO

import click
import typer

from cloister.core.errors import CloisterError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "DEBUG",
    "PROGRESS_LINES",
    "ForceFlag",
    "JsonFlag",
    "checked_usage",
    "command_result",
    "printable",
    "progress",
    "report",
    "say",
    "table",
]

P = ParamSpec("P")
Result = dict[str, Any]
Render = Callable[[Result], None]
Advance = Callable[[int, int], None]

DEBUG: Final = "CLOISTER_DEBUG"  # shows the traceback of a failure
PROGRESS_LINES: Final = ("CLOISTER_PROGRESS", "lines")
_LINE_EVERY_S: Final = 0.2  # whoever reads them draws a bar

JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")
]

ForceFlag = Annotated[
    bool, typer.Option("--force", help="Replace a file of the same kind that is there.")
]


def command_result(render: Render) -> Callable[[Callable[P, Result]], Callable[P, None]]:
    """Make a command from a function that returns its result.

    With ``--json`` the result is printed as one JSON object, else ``render`` shows it. `report`
    tells what went wrong.
    """

    def decorate(function: Callable[P, Result]) -> Callable[P, None]:
        @functools.wraps(function)
        def command(*args: P.args, **kwargs: P.kwargs) -> None:
            as_json = bool(kwargs.get("as_json"))
            try:
                result = function(*args, **kwargs)
                if as_json:
                    print_json(result)
                else:
                    render(result)
            except (click.ClickException, click.exceptions.Exit):
                raise
            except Exception as error:
                raise typer.Exit(report(error, as_json=as_json)) from None

        return command

    return decorate


def checked_usage(check: Callable[[Mapping[str, Any]], None]) -> Callable[..., Callable[P, None]]:
    """Let ``check`` see a command's options together before it runs: wrong usage is exit code 2."""

    def decorate(command: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(command)
        def checked(*args: P.args, **kwargs: P.kwargs) -> None:
            check(kwargs)
            command(*args, **kwargs)

        return checked

    return decorate


def print_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object; what is not finite becomes null, as JSON has no word for it."""
    typer.echo(json.dumps(_plain(result), ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return _plain(value.tolist())
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


class Failure(NamedTuple):
    """What a failed command says, and its exit code."""

    code: int
    error: str
    remedy: str


def report(error: BaseException, *, as_json: bool) -> int:
    """Say what went wrong, in one line and with ``--json`` as an object; return the exit code."""
    if isinstance(error, BrokenPipeError) and _nobody_reads():
        return 1  # as `click` and `rich` leave then
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        typer.echo("stopped", err=True)
        return 130
    if os.environ.get(DEBUG, "") not in ("", "0"):
        traceback.print_exception(error)
    code, what, remedy = _failure(error)
    what, remedy = printable(what), printable(remedy)
    if as_json:
        print_json({"error": what, "remedy": remedy})
    typer.echo(f"error: {what}; {remedy}", err=True)
    return code


def _nobody_reads() -> bool:
    """Say whether whoever read our output is gone, as `head` is; what is left is then dropped."""
    gone = [stream for stream in (sys.stdout, sys.stderr) if _is_broken(stream)]
    for stream in gone:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
    return bool(gone)


def _is_broken(stream: TextIO) -> bool:
    try:
        poll = select.poll()
        poll.register(stream.fileno(), select.POLLOUT)
        return any(state & select.POLLERR for _, state in poll.poll(0))
    except (OSError, ValueError):  # closed, or no file
        return False


def _failure(error: BaseException) -> Failure:
    """Decide what a failure means: the one place where exit codes come from."""
    if isinstance(error, click.UsageError):
        return _wrong_usage(error)
    if isinstance(error, CloisterError):
        return Failure(2 if error.wrong_usage else 1, error.message, error.remedy)
    if isinstance(error, MemoryError):
        remedy = "ask for less at a time, or use a machine with more memory"
        return Failure(1, "there is not enough memory for this", remedy)
    if isinstance(error, OSError):  # the machine's word, not a defect of ours
        return _machine_failure(error)
    what = f"Cloister failed in a way that nobody expected ({type(error).__name__}: {error})"
    remedy = f"this is a defect: run it again with {DEBUG}=1 and report what it prints"
    return Failure(1, what, remedy)


def _machine_failure(error: OSError) -> Failure:
    from cloister.core.file_errors import refused_remedy, wrong_place

    place = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    wrong = wrong_place(error, place) if place else None
    if wrong is not None:
        return _failure(wrong)
    what = error.strerror or str(error) or type(error).__name__
    return Failure(1, f"{place}: {what}" if place else what, refused_remedy(error))


def _wrong_usage(error: click.UsageError) -> Failure:
    command = error.ctx.command_path if error.ctx else "cloister"
    what, meant, guess = error.format_message().strip().partition(" Did you mean ")
    remedy = f"did you mean {guess.rstrip('?')}? see `{command} --help`" if meant else (
        f"see `{command} --help`"
    )  # fmt: skip
    what = what.rstrip(".")
    return Failure(2, what[:1].lower() + what[1:], remedy)


def printable(text: str, *, keep: str = "", most: int = 1500) -> str:
    r"""Escape what a terminal would obey or could not show; leave out the middle of a long text.

    Examples
    --------
    >>> print(printable("a\x1b[31mb\udcff"))
    a\x1b[31mb\udcff
    """
    if len(text) > most:
        text = f"{text[: most // 2]}...{text[-most // 3 :]}"
    return "".join(
        one if one.isprintable() or one in keep else one.encode("unicode_escape").decode("ascii")
        for one in text
    )


def console(*, err: bool = False) -> Console:
    """Return a console for people; imported late, since it costs start-up time."""
    from rich.console import Console

    return Console(stderr=err, highlight=False)


def say(message: str, *, marked: bool = False) -> None:
    """Tell people something on standard error; ``marked`` text has rich's marks, such as [bold]."""
    console(err=True).print(printable(message, keep="\n", most=100_000), markup=marked)


def table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Print a table; the first column names the row, the others are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = Table(
        title=Text(printable(title)) if title else None,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=SIMPLE_HEAD,
        show_header=any(columns),
    )
    for position, name in enumerate(columns):
        shown.add_column(name, justify="right" if position else "left")
    for row in rows:
        shown.add_row(*(Text(printable(number(cell), keep="\n")) for cell in row))
    console().print(shown)


def number(value: Any) -> str:
    """Write a value for people: thousands apart, four digits that matter.

    Examples
    --------
    >>> number(1234567), number(0.123456), number(1234.5678), number("x")
    ('1,234,567', '0.1235', '1,235', 'x')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


@contextmanager
def progress(label: str) -> Iterator[Advance]:
    """Show a bar on standard error, where that is a terminal; yields ``advance(done, total)``."""
    if os.environ.get(PROGRESS_LINES[0]) == PROGRESS_LINES[1]:
        yield _line_writer(label)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    shown = console(err=True)
    with Progress(*columns, console=shown, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(label, total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield advance


def _line_writer(label: str) -> Advance:
    """Return what writes progress for a program, not too often."""
    last = 0.0

    def advance(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _LINE_EVERY_S or done == total:
            last = now
            line = json.dumps({"progress": label, "done": done, "total": total})
            typer.echo(line, err=True)

    return advance
