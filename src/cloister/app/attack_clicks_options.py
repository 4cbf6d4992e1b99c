"""Options of ``cloister attack clicks``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

__all__ = [
    "SUM_OF",
    "ClickModelName",
    "ClientsInSum",
    "DataAddress",
    "FoldNumber",
    "KnownOrder",
    "Negatives",
    "NegativesOption",
    "Observations",
    "OrderOption",
    "PopulationSize",
    "Protection",
    "ProtectionOption",
    "QueriesPerUpdate",
    "RankerKind",
    "RankerOption",
    "Scaling",
    "ScalingOption",
    "TrainClients",
    "TrainRounds",
]

SUM_OF: Final = 100  # clients, where a sum is asked for and no number is given


class Protection(StrEnum):
    """What stands between a client's update and the server."""

    NONE = "none"
    PAPER = "paper"
    SUM = "sum"
    SUM_AND_NOISE = "sum+noise"


class RankerKind(StrEnum):
    """What is trained."""

    LINEAR = "linear"
    MLP = "mlp"


class KnownOrder(StrEnum):
    """What the server knows of a page."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CANDIDATES = "candidates"


class Scaling(StrEnum):
    """How features are read."""

    NONE = "none"
    QUERY_MINMAX = "query_minmax"
    GLOBAL_MINMAX = "global_minmax"
    GLOBAL_ZSCORE = "global_zscore"


class Negatives(StrEnum):
    """Which unclicked documents PDGD learns from."""

    WHOLE_PAGE = "whole_page"
    TO_LAST_CLICK = "to_last_click"


DataAddress = Annotated[str, typer.Option(help="A LETOR file or folder, or a world's address.")]
FoldNumber = Annotated[int, typer.Option(help="Which fold.", min=1)]
ClickModelName = Annotated[
    str, typer.Option(help="How the attacked clients click; the ranker learns from perfect.")
]
ProtectionOption = Annotated[
    Protection, typer.Option(help="What stands between an update and the server.")
]
ClientsInSum = Annotated[
    int | None,
    typer.Option(help=f"Clients in a sum; {SUM_OF} unless given, 1 without a sum.", min=1),
]
PopulationSize = Annotated[
    int | None,
    typer.Option(
        help="With sum+noise: of how many those in a sum are drawn; no others unless given.",
        min=1,
    ),
]
QueriesPerUpdate = Annotated[
    int, typer.Option(help="Pages behind each client's update.", min=1, max=32)
]
RankerOption = Annotated[RankerKind, typer.Option(help="What is trained.")]
OrderOption = Annotated[
    KnownOrder,
    typer.Option(help="Whether the server knows a page in order, as a set, or not at all."),
]
ScalingOption = Annotated[Scaling, typer.Option(help="How features are read.")]
NegativesOption = Annotated[
    Negatives, typer.Option(help="Which unclicked documents PDGD learns from.")
]
Observations = Annotated[
    int,
    typer.Option(help="Updates or sums that are seen; one of each query if 0, 20 sums.", min=0),
]
TrainRounds = Annotated[int, typer.Option(help="Rounds of training the global ranker.", min=1)]
TrainClients = Annotated[int, typer.Option(help="Clients of that training.", min=1)]
