"""The command ``cloister``.

Only what the command at hand needs is imported: :mod:`cloister.app.lazy_commands` lists all of them
and loads the module of the one that is called, so that ``cloister --help`` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import click
import typer

import cloister
from cloister.app.lazy_commands import LazyGroup
from cloister.app.output import print_json

__all__ = ["app", "main"]

app = typer.Typer(
    name="cloister",
    cls=LazyGroup,
    help="Search and learning to rank over data that may not leave home.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cloister {cloister.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and leave.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        code = app(standalone_mode=False)
    except click.UsageError as error:
        code = _wrong_usage(error)
    except (click.Abort, KeyboardInterrupt):
        typer.echo("stopped", err=True)
        code = 130
    except OSError as error:  # standard output cannot be written
        typer.echo(f"error: {error.strerror or error}", err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _wrong_usage(error: click.UsageError) -> int:
    message = error.format_message()
    context = error.ctx
    hint = f"see `{context.command_path} --help`" if context else "see `cloister --help`"
    if not message:  # no arguments: the help was shown, and nothing is wrong
        return 0
    if "--json" in sys.argv[1:]:
        print_json({"error": message, "remedy": hint})
    typer.echo(f"wrong usage: {message}\n{hint}", err=True)
    return 2
