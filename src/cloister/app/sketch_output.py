"""How people are shown what ``cloister sketch`` does, made, released and found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import typer

from cloister.app.output import console, number, table

if TYPE_CHECKING:
    from cloister.app.sketch_release import Say

__all__ = [
    "doing",
    "show_answer",
    "show_built",
    "show_changed",
    "show_key",
    "show_released",
    "show_sketch",
]

Result = dict[str, Any]

AT_HOME: Final = (
    "This file is exact and stays at home: whoever has it and the key reads counts from it. "
    "What may leave is made by `cloister sketch release`."
)
SIMULATED: Final = "Simulated: the noise comes from a seed, and protects nobody."
REBUILD: Final = (
    "Answers may differ from those of a sketch built afresh, for lists do not know whom they "
    "pushed out: build it anew with `cloister sketch build`."
)


@contextmanager
def doing(what: str) -> Iterator[Say]:
    """Show on standard error what is being done, where that is a terminal."""
    with console(err=True).status(what) as status:
        yield status.update


def show_key(result: Result) -> None:
    """Say which key it is."""
    what = "made" if result["made"] else "read"
    typer.echo(f"{result['file']}: {what}; fingerprint {result['key_fingerprint']}")
    if result["made"]:
        typer.echo(
            "Only its owner may read it. Sketches can be compared if they have the same key; "
            "parties agree on one with cloister.sketch.key_agreement, so that their server does "
            "not learn it."
        )


def show_built(result: Result) -> None:
    """Say what was built, in what time and of what size."""
    typer.echo(
        f"{result['file']}: {result['kind']} of {number(result['documents'])} documents "
        f"({result['field']}), {number(result['terms'])} terms, {number(result['tokens'])} tokens"
    )
    typer.echo(_sizes(result))
    if result["kind"] == "rtk-sketch":
        typer.echo(_beside(result))
    typer.echo(f"built in {result['build_seconds']:.2f} s, read in {result['read_seconds']:.2f} s")
    typer.echo(AT_HOME)


def show_released(result: Result) -> None:
    """Say what was released, at what cost."""
    typer.echo(
        f"{result['file']}: noisy release of {number(result['documents'])} documents "
        f"({result['field']})"
    )
    _show_cost(result)
    typer.echo(_sizes(result))
    typer.echo(_beside(result))
    typer.echo(f"made in {result['build_seconds']:.2f} s, read in {result['read_seconds']:.2f} s")
    entry = result["ledger"]
    if entry is None:
        typer.echo("Not recorded on a ledger: keep it at home.")
        return
    typer.echo(
        f"entry {entry['entry']} of {entry['address']}: {entry['party']} to {entry['recipient']}, "
        f"{entry['purpose']}"
    )


def show_sketch(result: Result) -> None:
    """Say what a file is."""
    typer.echo(
        f"{result['file']}: {result['kind']}, {number(result['file_bytes'])} bytes, "
        "all checksums match"
    )
    if "documents" in result:
        typer.echo(f"{number(result['documents'])} documents")
    typer.echo(_sizes(result))
    typer.echo(f"key {result['key_fingerprint']}")
    if result["kind"] == "noisy-release":
        _show_cost(result)
        return
    _show_holes(result)
    typer.echo(AT_HOME)


def show_changed(result: Result) -> None:
    """Say what was added or deleted, and whether a rebuild is due."""
    for what in ("added", "removed"):
        if names := result[what]:
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            typer.echo(f"{what}: {number(len(names))} ({shown})")
    typer.echo(f"{result['file']}: {number(result['documents'])} documents")
    _show_holes(result)
    typer.echo("What was released before stays as it is; a changed corpus is a new release.")


def show_answer(result: Result) -> None:
    """Show the documents found, and what to think of them."""
    typer.echo(_source(result))
    if "counts" in result:
        rows = [[one["term"], one["count"]] for one in result["counts"]]
        table("how often in all documents, by estimate", ["term", "count"], rows)
        return
    if not result["results"]:
        typer.echo(f"No document has {' or '.join(result['terms'])}, by estimate.")
        return
    several = len(result["terms"]) > 1 or result["score"] == "bm25"
    rows = [
        [
            one["document"],
            "" if one["doc_id"] is None else one["doc_id"],
            *([one["score"]] if several else []),
            *one["counts"],
            one["made_up_as_good"],
            "yes" if one["stands_out"] else "no",
        ]
        for one in result["results"]
    ]
    score = ["score"] if several else []
    columns = ["document", "id", *score, *result["terms"], "made up", "stands out"]
    table("estimated counts", columns, rows)
    typer.echo(
        f"made up: how many of {result['made_up_queries']} queries for words that occur nowhere "
        "find a document that scores as high. Where many do, the estimate says nothing."
    )


def _source(result: Result) -> str:
    if result["kind"] != "noisy-release":
        rebuild = f" {REBUILD}" if result.get("needs_rebuild") else ""
        return f"from an exact {result['kind']}, which stays at home.{rebuild}"
    said = (
        f"from a noisy release: epsilon {number(result['epsilon'])} for one token "
        f"(delta {result['delta']:g}), however many queries."
    )
    return f"{said} {SIMULATED}" if result["simulated"] else said


def _show_cost(result: Result) -> None:
    moved = _moved(result)
    typer.echo(
        f"true cost: epsilon {number(result['epsilon'])} at delta {result['delta']:g} for "
        f"{moved} in one document, against whoever gets the file, with the key or without, for "
        "any number of queries"
    )
    whole = result["epsilon_document"]
    if result["max_length"] is None:
        typer.echo("a whole document: no bound; with --max-length it has one")
    elif not math.isfinite(whole):
        typer.echo("a whole document: no bound")
    else:
        typer.echo(
            f"a whole document, cut to {number(result['max_length'])} tokens: epsilon "
            f"{number(whole)}, which protects little where it is large"
        )
    typer.echo("told to all: how many documents there are, and their numbers")
    sigma = ", ".join(f"{name} {number(width)}" for name, width in result["sigma"].items())
    family = {"discrete-laplace": "Laplace", "discrete-gaussian": "normal"}[result["noise"]]
    typer.echo(f"noise: {family} on cells, normal on the rest; standard deviation: {sigma}")
    if result["simulated"]:
        typer.echo(SIMULATED)


def _moved(result: Result) -> str:
    """Say what the stated cost is for."""
    if result["neighbours"] == "add-remove":
        return "one token more or less"
    if "lengths" in result["sigma"]:  # noisy lengths: the documents were cut
        return "one token more, less or changed"
    return "one token changed"


def _show_holes(result: Result) -> None:
    if "needs_rebuild" not in result:
        return
    if result["needs_rebuild"]:
        typer.echo(f"{number(result['holes'])} entries are not known. {REBUILD}")
    else:
        typer.echo("Answers are those of a sketch built afresh.")


def _sizes(result: Result) -> str:
    cell_size = f", {number(result['cell_size'])} a side" if "cell_size" in result else ""
    return (
        f"{result['n_rows']} rows of {number(result['n_columns'])} columns{cell_size}: "
        f"{_megabytes(result['size_bytes'])}"
    )


def _beside(result: Result) -> str:
    dense = result["per_document_sketches_bytes"]
    share = result["size_bytes"] / dense
    return (
        f"beside {_megabytes(dense)} of per-document sketches of the same shape ({share:.2g} of it)"
    )


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB"
