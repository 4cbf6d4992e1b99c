"""Beyond the report: several queries an update, neural rankers, pages less known to the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cloister.lab.reproduce.claim import Above, Claim
from cloister.lab.reproduce.click_inference.attacking import (
    LEAST_SQUARES,
    PRIOR_AND_UPDATE,
    SPARSE,
)
from cloister.lab.reproduce.click_inference.ground import (
    ACCURACY,
    ADVANTAGE,
    INDIVIDUAL,
    RECALL,
    Ground,
    grounds,
)
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import alone
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.study import Study

__all__ = ["generalised"]

CLICK: Final = "informational"  # so that clients click on several pages in a row
SEVERAL: Final = "queries an update"
NEURAL: Final = {"ranker": "mlp", "train_rounds": 20, "train_clients": 200}
HIDDEN: Final = {"MQ2008": 64, "MSLR sample": 16}
OBSERVED: Final = 40


def generalised(size: Size, data: Collections) -> Figure:
    """Return what harder and easier cases than the report's reveal, without protection."""
    numbers = size.of(quick=(4,), full=(2, 4, 8))
    parts = [
        part
        for ground in grounds(size, data, costly=True)
        for part in _parts(ground, numbers, size.is_quick)
    ]
    return Figure(
        key="generalised",
        title="Guessing clicks beyond the report's setting, without protection",
        paper_setting="not measured",
        parts=tuple(parts),
        claims=tuple(claim for part in parts for claim in _claims(part)),
        note="Informational clicks. Where the order is unknown, pages are drawn as PDGD draws "
        "them. Candidates: the server knows them, but not which ten were shown. A neural ranker "
        "that moved after each of several pages is taken to first order.",
        measures=(),
    )


def _parts(ground: Ground, numbers: tuple[int, ...], quick: bool) -> Iterator[Study]:
    def study(name: str, work: int = 1, **settings: Any) -> Study:
        return ground.study(name, clicks=(CLICK,), work=work, **settings)

    hidden = HIDDEN[ground.collection.name]
    for n in numbers:
        yield study(f"{n} {SEVERAL}", queries_per_update=n, observations=OBSERVED)
    yield study("order unknown", order="unknown")
    yield study("candidates known", 2, order="candidates")
    yield study("neural", 6, hidden=hidden, **NEURAL)
    if not quick:
        yield study(
            f"neural, 4 {SEVERAL}",
            8,
            hidden=hidden,
            queries_per_update=4,
            observations=OBSERVED,
            **NEURAL,
        )
        yield study(
            "neural, sums of 100",
            12,
            hidden=hidden,
            protection="sum",
            clients=100,
            observations=2,
            **NEURAL,
        )


def _claims(part: Study) -> Iterator[Claim]:
    systems = [LEAST_SQUARES, PRIOR_AND_UPDATE]
    if "candidates" in part.name:
        systems.append(SPARSE)
    for system in systems:
        for quantity in (ACCURACY, RECALL):
            yield alone(
                f"What is guessed right: {part.name.partition(', ')[2]}.",
                part=part.name,
                system=system,
                click=CLICK,
                quantity=quantity,
                expects=Above(0.5),
                beyond=True,
            )
        for quantity in (ADVANTAGE, INDIVIDUAL):
            yield alone(
                f"The update tells of clicks: {part.name.partition(', ')[2]}.",
                part=part.name,
                system=system,
                click=CLICK,
                quantity=quantity,
                beyond=True,
            )
