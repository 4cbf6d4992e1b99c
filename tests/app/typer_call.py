"""A group of commands as a user runs it, in this process, whether or not it is in the main help."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from app.outcome import Outcome


def run_app(app: typer.Typer, *arguments: object, stdin: str = "") -> Outcome:
    done = CliRunner().invoke(app, [str(one) for one in arguments], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Outcome(done.exit_code, done.stdout, done.stderr)
