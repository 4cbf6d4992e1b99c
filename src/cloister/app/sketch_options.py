"""Options that the commands of ``cloister sketch`` share, and what they refuse as wrong usage."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer

__all__ = [
    "AnswerK",
    "CellSize",
    "Collection",
    "Columns",
    "Delta",
    "DocIds",
    "DocNumbers",
    "DocumentsFile",
    "Epsilon",
    "FieldName",
    "FieldOption",
    "IdsOf",
    "KeyFile",
    "Kind",
    "KindOption",
    "LedgerAddress",
    "MaxLength",
    "MeanLength",
    "MemoryMb",
    "NoiseSeed",
    "Out",
    "PartyName",
    "PlannedK",
    "Purpose",
    "QueryWords",
    "Recipient",
    "Rows",
    "ScoreName",
    "ScoreOption",
    "SketchFile",
    "SketchedField",
    "Unrecorded",
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
FieldOption = Annotated[FieldName, typer.Option("--field", help="Which part of the documents.")]
SketchFile = Annotated[Path, typer.Argument(metavar="FILE", help="A sketch file.")]

# Of `build`, `release`, `query`, `add` and `delete`, in this order.
KindOption = Annotated[
    Kind,
    typer.Option(help="rtk: which documents have a term; the others: how often it occurs."),
]
Rows = Annotated[int, typer.Option(help="Rows of the sketch.", min=1, max=1000)]
Columns = Annotated[int, typer.Option(help="Columns of the sketch.", min=1, max=1 << 20)]
CellSize = Annotated[
    int | None,
    typer.Option(
        help="Of rtk: documents on each side of a cell.",
        min=1,
        max=1 << 24,
        show_default="so many that the file is an eighth of per-document sketches, 50 or more",
    ),
]
Epsilon = Annotated[
    float,
    typer.Option(help="What all of it may cost for one token.", callback=positive, max=1000),
]
Delta = Annotated[
    float, typer.Option(help="The chance with which that may fail.", callback=probability)
]
MemoryMb = Annotated[
    float | None,
    typer.Option(
        help="What the release may take, in millions of bytes.",
        min=0.001,
        show_default="an eighth of per-document sketches, 16 or more",
    ),
]
PlannedK = Annotated[
    int | None,
    typer.Option(
        "-k",
        help="How many documents a query will ask for.",
        min=1,
        max=1 << 20,
        show_default="150, or a twentieth of the documents where that is less",
    ),
]
MeanLength = Annotated[
    float | None,
    typer.Option(
        help="About how long documents are, in tokens: a guess, not a measured mean.",
        callback=positive,
        show_default="1000 for bodies, 10 for titles",
    ),
]
MaxLength = Annotated[
    int | None,
    typer.Option(
        help="Cut documents to so many tokens: a whole document then has a stated cost, and "
        "noise is twice as wide.",
        min=1,
        max=1 << 30,
    ),
]
LedgerAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        envvar="CLOISTER_LEDGER",
        help="Where it is recorded: a SQLite file, or postgresql://USER@HOST/DATABASE.",
    ),
]
PartyName = Annotated[str | None, typer.Option(help="Whose privacy it costs.")]
Recipient = Annotated[str | None, typer.Option("--to", help="Who gets it.")]
Purpose = Annotated[str | None, typer.Option(help="Why; it is recorded.")]
Unrecorded = Annotated[
    bool, typer.Option("--unrecorded", help="Record nothing: the file must not leave home.")
]
NoiseSeed = Annotated[
    int | None,
    typer.Option(
        help="Noise from a seed, for experiments: it protects nobody.",
        min=0,
        max=(1 << 64) - 1,
    ),
]
QueryWords = Annotated[list[str], typer.Argument(metavar="TERM...", help="What to look for.")]
AnswerK = Annotated[int, typer.Option("-k", help="How many documents.", min=1, max=1 << 20)]
ScoreOption = Annotated[
    ScoreName,
    typer.Option(help="Of several terms: the sum of estimated counts, or BM25 (releases)."),
]
IdsOf = Annotated[
    str | None,
    typer.Option(
        metavar="COLLECTION", help="Show document ids of this collection, which was sketched."
    ),
]
DocumentsFile = Annotated[
    Path,
    typer.Argument(metavar="DOCUMENTS", help="JSON lines with _id, text and perhaps title."),
]
SketchedField = Annotated[
    FieldName, typer.Option("--field", help="Which part; as when the sketch was built.")
]
DocIds = Annotated[list[str] | None, typer.Argument(metavar="[DOC_ID]...", help="Documents by id.")]
DocNumbers = Annotated[
    list[int] | None, typer.Option(help="Documents by number. May be given often.", min=0)
]
