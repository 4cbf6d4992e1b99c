"""The command ``cloister``.

Only what the command at hand needs is imported: :mod:`cloister.app.lazy_commands` lists all of them
and loads the module of the one that is called, so that ``cloister --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated

import click
import typer

import cloister
from cloister.app.lazy_commands import LazyGroup
from cloister.app.output import DEBUG, report

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
    debug: Annotated[
        bool,
        typer.Option("--debug", help=f"Show the traceback of a failure; as {DEBUG}=1 does."),
    ] = False,
) -> None:
    if debug:
        os.environ[DEBUG] = "1"


def main() -> None:
    """Run the command line and leave with its exit code."""
    warnings.formatwarning = lambda message, *_: f"warning: {message}\n"  # not our source
    try:
        code = app(standalone_mode=False, prog_name="cloister")
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:  # nothing is wrong: show the help
        typer.echo(error.format_message(), nl=False)
        code = 0
    except (Exception, KeyboardInterrupt) as error:
        code = report(error, as_json="--json" in sys.argv[1:])
    sys.exit(code if isinstance(code, int) else 0)
