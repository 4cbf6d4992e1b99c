"""Options that the commands of ``cloister sketch`` share, and what they refuse as wrong usage."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer

__all__ = [
    "Collection",
    "FieldName",
    "FieldOption",
    "Force",
    "KeyFile",
    "Kind",
    "Out",
    "ScoreName",
    "SketchFile",
    "checked_usage",
    "positive",
    "probability",
    "refuse_nothing",
    "refuse_unrecorded",
]

P = ParamSpec("P")


class FieldName(StrEnum):
    """Which part of a document."""

    BODY = "body"
    TITLE = "title"


class Kind(StrEnum):
    """Which sketch."""

    RTK = "rtk"
    COUNT_SKETCH = "count-sketch"
    COUNT_MIN = "count-min"


class ScoreName(StrEnum):
    """How several terms are put together."""

    COUNTS = "counts"
    BM25 = "bm25"


def probability(value: float) -> float:
    """Refuse what is no chance between 0 and 1."""
    if not 0 < value < 1:
        raise typer.BadParameter(f"{value} does not lie between 0 and 1")
    return value


def positive(value: float | None) -> float | None:
    """Refuse what is not a finite number above 0."""
    if value is not None and not 0 < value < float("inf"):
        raise typer.BadParameter(f"{value} is no finite number above 0")
    return value


def checked_usage(check: Callable[[Mapping[str, Any]], None]) -> Callable[..., Callable[P, None]]:
    """Let ``check`` see a command's options together before it runs: wrong usage is exit code 2."""

    def decorate(command: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(command)
        def checked(*args: P.args, **kwargs: P.kwargs) -> None:
            check(kwargs)
            command(*args, **kwargs)

        return checked

    return decorate


def refuse_unrecorded(given: Mapping[str, Any]) -> None:
    """Have releases recorded, unless they are simulated or stay at home by their owner's word."""
    names = ("ledger", "party", "to")
    if given["unrecorded"]:
        if given["party"] or given["to"]:
            raise typer.BadParameter("--unrecorded goes without --party and --to")
    elif given["seed"] is not None and not (given["party"] or given["to"]):
        return
    elif missing := [f"--{name}" for name in names if not given[name]]:
        raise typer.BadParameter(
            f"what leaves a party is recorded: {' and '.join(missing)} missing; or give "
            "--unrecorded, and keep the file at home"
        )
    else:
        _accepted_label(given)


def _accepted_label(given: Mapping[str, Any]) -> None:
    from cloister.core.errors import SettingsError
    from cloister.privacy.ledger.entry import checked_label

    try:
        checked_label(given["party"], given["to"], given["purpose"] or "")
    except SettingsError as error:
        raise typer.BadParameter(error.message) from None


def refuse_nothing(given: Mapping[str, Any]) -> None:
    """Let nobody delete nothing."""
    if not (given["doc_ids"] or given["number"]):
        raise typer.BadParameter("name a document by its id, or with --number")


Collection = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTION",
        help="A folder (BEIR, question answering, Synthea), irds:NAME, or "
        "'world:clinic?setting=value&...'.",
    ),
]
KeyFile = Annotated[
    Path, typer.Option("--key", metavar="FILE", help="The hash key: `cloister sketch key FILE`.")
]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")]
FieldOption = Annotated[FieldName, typer.Option("--field", help="Which part of the documents.")]
SketchFile = Annotated[Path, typer.Argument(metavar="FILE", help="A sketch file.")]
