"""Options of ``cloister silos``."""

from __future__ import annotations

from typing import Annotated

import click
import typer

from cloister.app.sketch_options import positive

__all__ = [
    "FirstSeed",
    "Labels",
    "NumberOfSeeds",
    "Parties",
    "RankerOption",
    "ReleaseDelta",
    "ReleaseEpsilon",
    "Sharing",
    "SilosCollection",
    "SimulationLedger",
    "TestQueries",
    "TrainingQueries",
    "ValidationQueries",
]


def _probability(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"{value} does not lie between 0 and 1")
    return value


SilosCollection = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTION",
        help="medquad, nfcorpus or msmarco-5k (in $CLOISTER_DATA, or shared/data beside the "
        "checkout), a folder in the BEIR layout, clinic, or 'world:clinic?setting=value&...'.",
    ),
]
Parties = Annotated[
    int | None,
    typer.Option(
        help="How many parties.", min=2, max=26, show_default="the collection's own, or 4"
    ),
]
ReleaseEpsilon = Annotated[
    float | None,
    typer.Option(
        help="What each release of a field costs for one token. Without it counts of other "
        "parties' documents are exact, which no party would give away.",
        callback=positive,
        max=1000,
    ),
]
ReleaseDelta = Annotated[
    float | None,
    typer.Option(
        help="The chance with which that may fail.", callback=_probability, show_default="1e-6"
    ),
]
RankerOption = Annotated[
    str,
    typer.Option(
        help="Which ranker is trained.",
        click_type=click.Choice(["pointwise", "pairwise", "forest"]),
    ),
]
TrainingQueries = Annotated[int, typer.Option(help="Training queries of a party, at most.", min=1)]
ValidationQueries = Annotated[
    int, typer.Option(help="Queries by which a party chooses, at most.", min=1)
]
TestQueries = Annotated[int, typer.Option(help="Test queries of a party, at most.", min=1)]
Labels = Annotated[
    str,
    typer.Option(
        help="From a reference ranking, as in CS-F-LTR, or what people judged alone.",
        click_type=click.Choice(["reference", "judged"]),
    ),
]
Sharing = Annotated[
    str | None,
    typer.Option(
        help="How documents are shared out where they have no parties of their own.",
        click_type=click.Choice(["topics", "random"]),
        show_default="topics",
    ),
]
FirstSeed = Annotated[int, typer.Option(help="The first seed.", min=0)]
NumberOfSeeds = Annotated[
    int, typer.Option(help="How many seeds; with two or more, significance tests.", min=1)
]
SimulationLedger = Annotated[
    str | None,
    typer.Option(
        help="Record what crossed for CS-F-LTR, tuned, in this ledger, marked as simulated. It "
        "must exist: cloister ledger limit --new makes one. For one seed.",
        metavar="ADDRESS",
    ),
]
