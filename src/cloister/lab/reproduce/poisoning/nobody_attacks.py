"""Figures 5.4 and 5.11: what defences cost when nobody attacks (thesis section 5.7)."""

from __future__ import annotations

from typing import get_args

from cloister.lab.reproduce.claim import Below, Claim
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.foltr.setting import features_worlds, mq2008, mslr
from cloister.lab.reproduce.poisoning.contrast import Cell, difference
from cloister.lab.reproduce.poisoning.setting import (
    CLICKS,
    honest,
    part_of,
    rounds_of,
    system,
)
from cloister.lab.simulation.settings import RuleName

__all__ = ["figure_5_4"]

RULES = get_args(RuleName)


def figure_5_4(size: Size, data: Collections) -> Figure:
    """Return every rule with honest clients only."""
    grounds = (mslr(data), mq2008(data), features_worlds())
    systems = [system(rule) for rule in RULES]
    parts = tuple(part_of(ground, systems, rounds=rounds_of(size)) for ground in grounds)
    claims = [
        _cost(part.name, rule, click)
        for part in parts
        for rule in RULES
        if rule != "fedavg"
        for click in CLICKS
    ]
    return Figure(
        "figure-5.4",
        "Defences when nobody attacks",
        "10 clients x 5 queries x 10,000 rounds, no attackers",
        parts,
        tuple(claims),
        "The thesis does not say how many attackers its rules expect here; ours expect two of ten.",
    )


def _cost(part: str, rule: str, click: str) -> Claim:
    said = rule in ("krum", "median")
    statement = (
        "Krum and Median are worse than FedAvg when nobody attacks."
        if said
        else "Every other rule costs something, too, when nobody attacks."
    )
    return difference(
        statement,
        Cell(part, honest(rule), click),
        Cell(part, honest("fedavg"), click),
        expects=Below(),
        beyond=not said,
    )
