"""How every command speaks: one JSON object, or text for people; errors with their remedy.

Results go to standard output. Progress and messages go to standard error. Exit code 0 means done,
1 that the work failed, 2 wrong usage.

A program that starts a command and wants to know how far it is sets ``CLOISTER_PROGRESS=lines``:
then standard error has one JSON object a line, ``{"progress": LABEL, "done": N, "total": N}``.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, ParamSpec

import typer

from cloister.core.errors import CloisterError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "PROGRESS_LINES",
    "JsonFlag",
    "checked_usage",
    "command_result",
    "progress",
    "say",
    "table",
]

P = ParamSpec("P")
Result = dict[str, Any]
Render = Callable[[Result], None]
Advance = Callable[[int, int], None]

PROGRESS_LINES: Final = ("CLOISTER_PROGRESS", "lines")
_LINE_EVERY_S: Final = 0.2  # whoever reads them draws a bar

JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")
]


def command_result(render: Render) -> Callable[[Callable[P, Result]], Callable[P, None]]:
    """Make a command from a function that returns its result.

    With ``--json`` the result is printed as one JSON object, else ``render`` shows it. An error of
    Cloister's becomes its text and remedy and exit code 1; any other one is a defect of ours.
    """

    def decorate(function: Callable[P, Result]) -> Callable[P, None]:
        @functools.wraps(function)
        def command(*args: P.args, **kwargs: P.kwargs) -> None:
            as_json = bool(kwargs.get("as_json"))
            try:
                result = function(*args, **kwargs)
            except CloisterError as error:
                fail(error.message, error.remedy, as_json)
            except OSError as error:  # the machine's word, not a defect of ours
                place = f"{error.filename}: " if error.filename else ""
                remedy = "see that the place exists, may be used and has room"
                fail(f"{place}{error.strerror or error}", remedy, as_json)
            except Exception as error:
                traceback.print_exc()
                remedy = "this is a defect in Cloister: please report it with the lines above"
                fail(f"{type(error).__name__}: {error}", remedy, as_json)
            else:
                if as_json:
                    print_json(result)
                else:
                    render(result)

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


def fail(error: str, remedy: str, as_json: bool) -> None:
    """Report a failure and leave with exit code 1."""
    if as_json:
        print_json({"error": error, "remedy": remedy})
    typer.echo(f"error: {error}; {remedy}", err=True)
    raise typer.Exit(1)


def console(*, err: bool = False) -> Console:
    """Return a console for people; imported late, since it costs start-up time."""
    from rich.console import Console

    return Console(stderr=err, highlight=False)


def say(message: str) -> None:
    """Tell people something on standard error."""
    console(err=True).print(message)


def table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Print a table; the first column names the row, the others are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    shown = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=SIMPLE_HEAD,
        show_header=any(columns),
    )
    for position, name in enumerate(columns):
        shown.add_column(name, justify="right" if position else "left")
    for row in rows:
        shown.add_row(*(number(cell) for cell in row))
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
