"""Commands whose modules are loaded when they are called, so that ``cloister --help`` is quick."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

import click
import typer
from typer.core import TyperCommand, TyperGroup

from cloister.app.option_types import checked_type

__all__ = ["COMMANDS", "LazyCommand", "LazyGroup", "load_command"]


class LazyCommand(NamedTuple):
    """Where a command is, and the line that says what it does.

    Parameters
    ----------
    module, attribute
        Of ``cloister.app``: a function, or a group of commands.
    line
        The first line of its help; a test compares the two.
    kind
        The class of the command in that module, where it has one of its own.
    """

    module: str
    attribute: str
    line: str
    kind: str = ""


COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "demo": LazyCommand(
        "demo_command",
        "demo",
        "Five made-up clinics search and learn together, step by step; then comes the console.",
    ),
    "console": LazyCommand(
        "console_command",
        "console",
        "Serve the console of a federation on this machine: pages for its operator and officer.",
    ),
    "search": LazyCommand(
        "search_command", "search", "Search the pods of this machine as somebody."
    ),
    "grant": LazyCommand(
        "grant_commands",
        "grant",
        "Let others read documents: changes the pod's .acl, and holds for the next search.",
    ),
    "revoke": LazyCommand(
        "grant_commands", "revoke", "Take back what was granted; holds for the next search."
    ),
    "simulate": LazyCommand(
        "simulate_command",
        "simulate",
        "Train rankers in a simulated federation from simulated clicks, and measure them.",
        "SimulateCommand",
    ),
    "silos": LazyCommand(
        "silos_command",
        "silos",
        "Train rankers across parties that keep their documents, and measure them at each.",
    ),
    "forget": LazyCommand(
        "forget_command",
        "forget",
        "Make a stored federation forget clients: a new ranker without them, and a certificate.",
    ),
    "reproduce": LazyCommand(
        "reproduce_command",
        "reproduce",
        "Run a paper's experiments, and put its statements beside what comes out.",
    ),
    "bench": LazyCommand(
        "bench_command",
        "bench",
        "Measure: the product, and where there is one its peer in the same run.",
    ),
    "data": LazyCommand(
        "data_commands", "app", "Look at collections, and make the built-in worlds."
    ),
    "ledger": LazyCommand(
        "ledger_commands",
        "app",
        "What was released, to whom, and at what cost; what each party allows.",
    ),
    "attack": LazyCommand(
        "attack_command", "app", "Attack the protections, and say what came out."
    ),
    "sketch": LazyCommand(
        "sketch_commands",
        "app",
        "Sketches of documents: exact ones that stay at home, noisy ones that may leave.",
    ),
    "pods": LazyCommand(
        "pods_commands",
        "app",
        "The pods that can be searched here: folders, and pods on Solid servers.",
    ),
    "cloud": LazyCommand(
        "cloud_commands",
        "app",
        "Neural ranking of an encrypted index on somebody else's server.",
    ),
    "vectors": LazyCommand("vectors_command", "app", "Word vectors, with which a user can search."),
    "federation": LazyCommand(
        "federation_commands",
        "app",
        "Federations of a coordinator, a broker and nodes: make, run, search, look after.",
    ),
    "serve": LazyCommand(
        "serve_command",
        "serve",
        "Run a node, a broker or a coordinator of a federation, until told to end.",
    ),
    "certs": LazyCommand(
        "certs_commands",
        "app",
        "Certificates for the services of a federation: a private authority.",
    ),
    "token": LazyCommand(
        "token_commands",
        "app",
        "Tokens of a node's own issuer, for users where there is no OpenID provider.",
    ),
    "nvflare": LazyCommand(
        "nvflare_commands",
        "app",
        "A federation of sites over NVFlare: startup kits, processes, trainings.",
    ),
    "flower": LazyCommand(
        "flower_commands",
        "app",
        "A federation of sites on Flower: a SuperLink, SuperNodes, rounds.",
    ),
    "backup": LazyCommand(
        "backup_commands",
        "backup",
        "Write all state of one moment to one file, while services go on; or check such a file.",
    ),
    "restore": LazyCommand(
        "backup_commands",
        "restore",
        "Bring a backup back, into an empty database of either kind: all of it, or nothing.",
    ),
}


class LazyGroup(TyperGroup):
    """Lists `COMMANDS` by name and line, and loads the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return what the help needs of a command."""
        found = COMMANDS.get(cmd_name)
        return None if found is None else TyperCommand(cmd_name, help=found.line)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called, loaded, and what is left for it."""
        try:
            name, found, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            like = get_close_matches(args[0], COMMANDS, n=1)
            if not like:
                raise
            meant = f"{error.message} Did you mean '{like[0]}'?"
            raise click.UsageError(meant, ctx=error.ctx) from None
        return name, load_command(name) if name and found else found, rest


def load_command(name: str) -> click.Command:
    """Import a command's module and return the command."""
    about = COMMANDS[name]
    module = importlib.import_module(f"cloister.app.{about.module}")
    found = getattr(module, about.attribute)
    if isinstance(found, typer.Typer):
        command: click.Command = typer.main.get_group(found)
    else:
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        kind = getattr(module, about.kind) if about.kind else None
        alone.command(name, cls=kind)(found)
        command = typer.main.get_command(alone)
    command.name = name
    _refuse_what_cannot_be_meant(command)
    return command


def _refuse_what_cannot_be_meant(command: click.Command) -> None:
    """Have every number of a command checked, and every path: see `cloister.app.option_types`."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _refuse_what_cannot_be_meant(inner)
    for param in command.params:
        param.type = checked_type(param.type)
