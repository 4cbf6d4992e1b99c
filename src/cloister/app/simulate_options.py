"""Options of ``cloister simulate`` beside those made from the settings of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click
import typer

__all__ = [
    "Baseline",
    "ConfigFile",
    "CurvesOver",
    "Folds",
    "KeepEvery",
    "KeepUpdates",
    "KeptOfUpdates",
    "OutFolder",
    "Panel",
    "Seeds",
    "SimulatedParty",
    "SimulationLedger",
    "Threads",
    "Vary",
    "Workers",
]

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        help="TOML: the settings of a run, or an experiment (tables base, vary and variant, "
        "folds, seeds). Options given beside it override it.",
        metavar="FILE",
    ),
]
OutFolder = Annotated[
    Path | None,
    typer.Option(
        help="Where results go: Parquet, JSON, rankers, learning curves. A grid needs it, and "
        "goes on from there if it was stopped.",
        metavar="FOLDER",
        file_okay=False,
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option(help="A grid: how many seeds, or which: 1,2,3.", metavar="N|LIST"),
]
Folds = Annotated[
    str | None, typer.Option(help="A grid: which folds: 1,2 or all.", metavar="LIST|all")
]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        help="A grid: values of a setting, as in ranker=linear,mlp. May be given often.",
        metavar="FIELD=LIST",
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(help="The system that others are compared with.", metavar="SYSTEM"),
]
Panel = Annotated[
    str | None,
    typer.Option(
        help="The setting that divides tables and curves into parts. [default: click_model]",
        metavar="FIELD",
    ),
]
CurvesOver = Annotated[
    str,
    typer.Option(
        "--x",
        help="What learning curves are drawn over.",
        click_type=click.Choice(["rounds", "interactions"]),
    ),
]
SimulationLedger = Annotated[
    str | None,
    typer.Option(
        help="Record every round's release in this ledger, marked as simulated, before the "
        "round; the limit of --party is kept. It must exist: cloister ledger limit --new makes "
        "one. For one run of a federation.",
        metavar="ADDRESS",
    ),
]
SimulatedParty = Annotated[
    str, typer.Option(help="Whose privacy the ledger counts.", metavar="NAME")
]
KeepUpdates = Annotated[
    Path | None,
    typer.Option(
        help="Keep the federation in this folder, so that cloister forget can make it forget "
        "clients. For one run of fpdgd without noise.",
        metavar="FOLDER",
        file_okay=False,
    ),
]
KeepEvery = Annotated[int, typer.Option(help="Rounds from one kept round to the next.", min=1)]
KeptOfUpdates = Annotated[
    str,
    typer.Option(
        help="What is kept of an update: its length, which is all that forgetting needs, or "
        "the whole.",
        click_type=click.Choice(["lengths", "updates"]),
    ),
]
Threads = Annotated[
    int | None, typer.Option(help="Threads of each run; results are the same for any.", min=1)
]
Workers = Annotated[
    int | None, typer.Option(help="Runs of a grid at a time; one a core unless given.", min=1)
]
