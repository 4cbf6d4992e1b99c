"""Figures 5.3 and 5.8 to 5.10: LIE and Fang's attacks (thesis section 5.6)."""

from __future__ import annotations

from typing import Final

from cloister.lab.reproduce.claim import Claim
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.foltr.setting import Ground, mq2008, mslr
from cloister.lab.reproduce.poisoning.contrast import Cell, contrast, difference
from cloister.lab.reproduce.poisoning.setting import (
    CLICKS,
    PAPER_SETTING,
    SHARES,
    attacked,
    part_of,
    rounds_of,
    system,
)

__all__ = ["figure_5_3"]

POISON: Final = "poison-clicks"
TAILORED: Final = {
    "krum": "fang-krum",
    "multi-krum": "fang-krum",
    "trimmed-mean": "fang-trim",
    "median": "fang-trim",
}


def figure_5_3(size: Size, data: Collections) -> Figure:
    """Return LIE against FedAvg, and Fang's attacks against the rules that they are made for."""
    grounds = (mslr(data), mq2008(data))
    parts = [part for ground in grounds for part in _parts(ground, size)]
    claims = [claim for ground in grounds for claim in _claims(ground.collection.name)]
    return Figure(
        "figure-5.3",
        "Model poisoning: LIE and Fang's attacks",
        PAPER_SETTING,
        tuple(parts),
        tuple(claims),
        "LIE has full knowledge: the mean and spread are those of all clients.",
    )


def _parts(ground: Ground, size: Size) -> list[Part]:
    """Return a part for LIE, and one for each rule that Fang's attacks are made for."""
    name = ground.collection.name
    rounds = rounds_of(size)
    lie = [system("fedavg"), *(system("fedavg", a, m) for a in (POISON, "lie") for m in SHARES)]
    parts = [part_of(ground, lie, rounds=rounds, name=_name(name, "fedavg"))]
    for rule, attack in TAILORED.items():
        systems = [system(rule, one, m) for one in (POISON, attack) for m in SHARES]
        if rule == "krum":
            systems += [system(rule, attack, m, "partial", knowledge="partial") for m in SHARES]
        parts.append(part_of(ground, systems, rounds=rounds, name=_name(name, rule)))
    return parts


def _name(collection: str, rule: str) -> str:
    return f"{collection}, {rule}"


def _claims(collection: str) -> list[Claim]:
    plain = _name(collection, "fedavg")
    claims = [
        difference(
            "LIE does less harm than poisoned clicks.",
            Cell(plain, attacked("fedavg", "lie", m), click),
            Cell(plain, attacked("fedavg", POISON, m), click),
        )
        for click in CLICKS
        for m in SHARES
    ]
    for rule, attack in TAILORED.items():
        part = _name(collection, rule)
        claims += [
            difference(
                "Fang's attack with full knowledge does more harm than poisoned clicks, under the "
                "rule that it is made for.",
                Cell(part, attacked(rule, POISON, m), c),
                Cell(part, attacked(rule, attack, m), c),
            )
            for c in CLICKS
            for m in SHARES
        ]
    claims += [claim for click in CLICKS for claim in _knowledge(_name(collection, "krum"), click)]
    return claims


def _knowledge(part: str, click: str) -> list[Claim]:
    """Return what is said of full and partial knowledge under Krum."""

    def cells(m: int) -> tuple[Cell, Cell]:
        names = attacked("krum", "fang-krum", m, "partial"), attacked("krum", "fang-krum", m)
        return Cell(part, names[0], click), Cell(part, names[1], click)

    claims = [
        difference("With few attackers full knowledge does more harm than partial.", *cells(m))
        for m in (1, 2)
    ]
    weighted = [
        (sign * side / 2, cell)
        for few, side in ((1, 1.0), (2, 1.0), (3, -1.0), (4, -1.0))
        for sign, cell in zip((1.0, -1.0), cells(few), strict=True)
    ]
    claims.append(
        contrast(
            "What full knowledge adds becomes smaller with more attackers.",
            f"krum, partial less full knowledge, 10 and 20 % less 30 and 40 %, {click}",
            weighted,
            names=("partial by few and full by many", "full by few and partial by many"),
        )
    )
    return claims
