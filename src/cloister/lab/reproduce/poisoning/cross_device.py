"""Beyond the thesis: a thousand clients, a hundred a round, 1 to 10 % attackers."""

from __future__ import annotations

from typing import Any, Final

from cloister.lab.reproduce.claim import Above, Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.foltr.setting import TWO_CLICKS, Ground, features_worlds, mq2008
from cloister.lab.reproduce.poisoning.contrast import Cell, difference
from cloister.lab.reproduce.poisoning.setting import attacked, honest, part_of, system
from cloister.lab.simulation.learners import expected_in_a_round

__all__ = ["cross_device"]

N_CLIENTS: Final = 1_000
PARTICIPANTS: Final = 100
ATTACKERS: Final = (10, 50, 100)
ATTACKS: Final = ("poison-clicks", "min-max")
RULES: Final = (
    "fedavg",
    "krum",
    "multi-krum",
    "trimmed-mean",
    "median",
    "norm-bounding",
    "adaptive",
)
MARGIN: Final = 0.01  # of nDCG@10


def cross_device(size: Size, data: Collections) -> Figure:
    """Return rules under attack where few of many clients take part in a round."""
    grounds = (mq2008(data), features_worlds())
    parts = tuple(_part(ground, size) for ground in grounds)
    claims = [
        claim
        for part in parts
        for click in _clicks(size)
        for rule in RULES
        for claim in _claims(part.name, rule, click)
    ]
    return Figure(
        "cross-device",
        "1,000 clients, of which 100 take part in a round, 1 to 10 % attackers",
        "left open",
        parts,
        tuple(claims),
        "Rules expect as many attackers in a round as come on average, and three standard "
        "deviations more. Model attacks have full knowledge of the round.",
        measures=(),
    )


def _system(rule: str, attack: str = "none", attackers: int = 0) -> dict[str, Any]:
    expected = expected_in_a_round(attackers or ATTACKERS[1], N_CLIENTS, PARTICIPANTS)
    own: dict[str, Any] = {} if rule == "fedavg" else {"expected_attackers": expected}
    return system(rule, attack, attackers, **own)


def _clicks(size: Size) -> tuple[str, ...]:
    return size.of(quick=TWO_CLICKS[1:], full=TWO_CLICKS)


def _part(ground: Ground, size: Size) -> Part:
    systems = [_system(rule) for rule in RULES]
    systems += [_system(rule, a, m) for rule in RULES for a in ATTACKS for m in ATTACKERS]
    return part_of(
        ground,
        systems,
        rounds=size.of(quick=500, full=1_500),
        repeats=size.of(quick=2, full=3),
        clients=N_CLIENTS,
        participants=PARTICIPANTS,
        clicks=_clicks(size),
    )


def _claims(part: str, rule: str, click: str) -> list[Claim]:
    whole = Cell(part, honest("fedavg"), click)
    claims = []
    if rule != "fedavg":
        claims.append(
            difference(
                f"within {MARGIN} of FedAvg when nobody attacks",
                Cell(part, honest(rule), click),
                whole,
                expects=Near(MARGIN),
                beyond=True,
            )
        )
    claims += [
        difference(
            f"attackers cost less than {MARGIN}, beside honest FedAvg",
            Cell(part, attacked(rule, attack, m), click),
            whole,
            expects=Above(-MARGIN),
            beyond=True,
        )
        for attack in ATTACKS
        for m in ATTACKERS
    ]
    return claims
