"""``cloister data inspect`` and ``cloister data make``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cloister.app.output import JsonFlag, command_result, console, number, progress, table

__all__ = ["app"]

app = typer.Typer(help="Look at collections, and make the built-in worlds.", no_args_is_help=True)

Address = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        help="A LETOR file, a folder (LETOR folds or parts, BEIR, question answering, Synthea), "
        "irds:NAME, or world:NAME?setting=value&...",
    ),
]


def _show_summary(summary: dict[str, Any]) -> None:
    plain = {name: value for name, value in summary.items() if not isinstance(value, dict)}
    table("", ["", ""], [[_words(name), number(value)] for name, value in plain.items()])
    for name, inner in summary.items():
        if not isinstance(inner, dict) or not inner:
            continue
        if all(isinstance(value, dict) for value in inner.values()):
            _show_parts(name, {part: _flat(value) for part, value in inner.items()})
        else:
            rows = [[_words(str(key)), number(value)] for key, value in inner.items()]
            table(_words(name), ["", ""], rows)


def _show_parts(name: str, parts: dict[str, dict[str, Any]]) -> None:
    # Parts side by side: they are few, and what is counted of each is much.
    keys = list(dict.fromkeys(key for part in parts.values() for key in part))
    rows = [[_words(key), *(part.get(key, 0) for part in parts.values())] for key in keys]
    table(_words(name), ["", *map(_words, parts)], rows)


def _flat(part: dict[str, Any]) -> dict[str, Any]:
    """Give each grade of a part its own row."""
    grades = {f"grade {grade}": count for grade, count in part.get("labels", {}).items()}
    return {key: value for key, value in part.items() if key != "labels"} | grades


def _words(name: str) -> str:
    return name.replace("_", " ")


@app.command("inspect")
@command_result(_show_summary)
def inspect_data(address: Address, as_json: JsonFlag = False) -> dict[str, Any]:
    """Say what is at PATH: its kind, queries, documents, features and labels."""
    from cloister.data.inspection import inspect

    if as_json:
        return inspect(address)
    with console(err=True).status("reading"):
        return inspect(address)


def _show_made(result: dict[str, Any]) -> None:
    typer.echo(f"{result['world']}: {number(result['files'])} files, "
               f"{number(result['bytes'])} bytes in {result['folder']}")  # fmt: skip


@app.command("make")
@command_result(_show_made)
def make_world(
    world: Annotated[
        str,
        typer.Argument(
            metavar="WORLD",
            help="features, intents or clinic, with settings: 'clinic?servers=5&pods=200'.",
        ),
    ],
    to: Annotated[Path, typer.Option("--to", help="A new folder to write into.")],
    as_json: JsonFlag = False,
) -> dict[str, Any]:
    """Write a built-in world to a folder: LETOR files, or a BEIR folder with rights.

    Stopped in the middle, the same command goes on where it was.
    """
    from cloister.data.worlds.address import open_world
    from cloister.data.worlds.writing import write_world

    made = open_world(world)
    with progress(f"making {world.split('?')[0]}") as advance:
        folder = write_world(made, to, advance)
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {
        "world": world,
        "settings": made.settings.model_dump(mode="json"),
        "folder": str(folder),
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
    }
