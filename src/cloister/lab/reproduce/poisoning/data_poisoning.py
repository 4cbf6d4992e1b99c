"""Figures 5.2 and 5.5 to 5.7: poisoned clicks, and four defences (thesis section 5.5)."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from cloister.lab.reproduce.claim import MARGIN, Above, Below, Claim, Expectation, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.foltr.setting import Ground, features_worlds, mq2008, mslr
from cloister.lab.reproduce.poisoning.contrast import (
    Cell,
    averaged,
    difference,
    falling,
    more_lost,
)
from cloister.lab.reproduce.poisoning.setting import (
    BROKEN,
    CLICKS,
    DEFENCES,
    PAPER_SETTING,
    SHARES,
    attacked,
    honest,
    part_of,
    rounds_of,
    system,
)

__all__ = ["figure_5_2", "figure_5_5"]

ATTACK: Final = "poison-clicks"
NEURAL: Final = "MSLR sample, neural"
NO_GAIN: Final = Below(MARGIN)
NOISY: Final = ("navigational", "informational")


def figure_5_2(size: Size, data: Collections) -> Figure:
    """Return poisoned clicks on the MSLR sample, linear and neural."""
    ground = mslr(data)
    neural = _neural(ground, size)
    claims = _attack_claims(ground.collection.name) + _on_mslr(ground.collection.name)
    claims += [
        difference(
            "With a neural ranker findings are as with a linear one: attackers do harm.",
            Cell(NEURAL, honest("fedavg"), click),
            Cell(NEURAL, attacked("fedavg", ATTACK, 4), click),
        )
        for click in CLICKS
    ]
    claims += [_most_affected(NEURAL, 4, click) for click in ("perfect", "navigational")]
    return Figure(
        "figure-5.2",
        "Data poisoning and defences, MSLR",
        PAPER_SETTING,
        (*_parts(ground, size), neural),
        tuple(claims),
        "The neural ranker has 64 hidden units and a fifth of the rounds; of it only FedAvg is "
        "trained.",
    )


def figure_5_5(size: Size, data: Collections) -> Figure:
    """Return poisoned clicks on MQ2008 and on features worlds (figures 5.5 to 5.7)."""
    grounds = (mq2008(data), features_worlds()._replace(paper="Yahoo, Istella-S"))
    claims: list[Claim] = []
    for ground in grounds:
        claims += _attack_claims(ground.collection.name)
    mq = grounds[0].collection.name
    claims += [
        _helps(
            "On MQ2007 Krum brings nothing under informational clicks.",
            (mq, "krum", m, "informational"),
            NO_GAIN,
        )
        for m in SHARES
    ]
    claims.append(_summary(mq, best=("trimmed-mean", "median"), rest=("krum", "multi-krum")))
    claims += _on_worlds(grounds[1].collection.name)
    return Figure(
        "figure-5.5",
        "Data poisoning and defences, MQ2008 and features worlds",
        PAPER_SETTING,
        tuple(part for ground in grounds for part in _parts(ground, size)),
        tuple(claims),
        "Figures 5.5 to 5.7 are on MQ2007, Yahoo and Istella-S. Here: MQ2008, and worlds in the "
        "place of the last two.",
    )


def _parts(ground: Ground, size: Size) -> list[Part]:
    """Return a part for each defence, beside FedAvg: a row of the thesis's figure."""
    plain = [system("fedavg"), *(system("fedavg", ATTACK, m) for m in SHARES)]
    return [
        part_of(
            ground,
            [*plain, *(system(rule, ATTACK, m) for m in SHARES)],
            rounds=rounds_of(size),
            name=_name(ground.collection.name, rule),
        )
        for rule in DEFENCES
    ]


def _neural(ground: Ground, size: Size) -> Part:
    return part_of(
        ground,
        [system("fedavg"), *(system("fedavg", ATTACK, m) for m in SHARES)],
        rounds=rounds_of(size) // 5,
        name=NEURAL,
        ranker="mlp",
    )


def _name(collection: str, rule: str) -> str:
    return f"{collection}, {rule}"


def _cell(collection: str, rule: str, m: int, click: str) -> Cell:
    """Return a defence's cell, or FedAvg's, which stands beside every defence."""
    part = _name(collection, DEFENCES[0] if rule == "fedavg" else rule)
    return Cell(part, attacked(rule, ATTACK, m) if m else honest(rule), click)


def _helps(statement: str, cell: tuple[str, str, int, str], expects: Expectation | None) -> Claim:
    """Return a claim on a defence less FedAvg, both attacked."""
    collection, _, m, click = cell
    return difference(
        statement, _cell(*cell), _cell(collection, "fedavg", m, click), expects=expects
    )


def _between(
    statement: str,
    collection: str,
    rules: tuple[str, str],
    cells: Any,
    expects: Expectation | None = None,
) -> list[Claim]:
    """Return claims on one defence less another, both attacked."""
    return [
        difference(
            statement,
            _cell(collection, rules[0], m, click),
            _cell(collection, rules[1], m, click),
            expects=expects,
        )
        for m, click in cells
    ]


def _most_affected(part: str, m: int, other: str) -> Claim:
    return more_lost("Informational clicks are affected most.", part, m, ("informational", other))


def _attack_claims(collection: str) -> list[Claim]:
    """Return what section 5.5.1 says of attacks on FedAvg."""
    part = _name(collection, DEFENCES[0])
    names = [honest("fedavg"), *(attacked("fedavg", ATTACK, m) for m in SHARES)]
    claims = falling(part, names, "The more attackers, the worse the ranker.")

    def lost(statement: str, m: int, click: str, expects: Expectation) -> Claim:
        cells = (_cell(collection, "fedavg", k, click) for k in (0, m))
        return difference(statement, *cells, expects=expects)

    claims += [
        lost("With noisy clicks as little as 20 % of attackers do harm.", 2, click, Above())
        for click in NOISY
    ]
    few = "With perfect clicks it takes many attackers: few cost little."
    claims += [lost(few, m, "perfect", Below(BROKEN)) for m in (1, 2)]
    claims.append(lost("With perfect clicks many attackers do harm.", 4, "perfect", Above()))
    claims += [
        _most_affected(part, m, other) for m in (2, 3, 4) for other in ("perfect", "navigational")
    ]
    return claims


def _on_mslr(collection: str) -> list[Claim]:
    """Return what section 5.5.2 says of defences on MSLR-WEB10K."""
    krum = "Krum helps against 20 % of attackers and more."
    works = [
        (m, click) for m, click in product((2, 3, 4), CLICKS) if (m, click) != (4, "informational")
    ]
    claims = [_helps(krum, (collection, "krum", m, click), None) for m, click in works]
    claims.append(
        _helps(
            "On MSLR-WEB10K Krum brings nothing against 40 % under informational clicks.",
            (collection, "krum", 4, "informational"),
            NO_GAIN,
        )
    )
    for rule in ("krum", "median"):
        claims += [
            _helps(
                f"{rule.capitalize()} brings nothing against 10 %.",
                (collection, rule, 1, click),
                NO_GAIN,
            )
            for click in CLICKS
        ]
    claims.append(
        _helps(
            "On MSLR-WEB10K Median is worse than FedAvg against 10 % under navigational clicks.",
            (collection, "median", 1, "navigational"),
            Below(),
        )
    )
    claims += _informational(collection) + _rules_compared(collection)
    claims.append(_summary(collection, best=("krum", "multi-krum"), rest=DEFENCES[2:]))
    return claims


def _informational(collection: str) -> list[Claim]:
    hard = (("trimmed-mean", 4), ("median", 3), ("median", 4))
    return [
        _helps(
            "Trimmed Mean (over 30 %) and Median (from 30 % on) bring nothing under "
            "informational clicks.",
            (collection, rule, m, "informational"),
            NO_GAIN,
        )
        for rule, m in hard
    ]


def _rules_compared(collection: str) -> list[Claim]:
    both = ("multi-krum", "krum")
    few = (1, 2, 3)
    claims = _between(
        "Under perfect clicks Multi-Krum is as good as Krum.",
        collection, both, product(SHARES, ("perfect",)), Near(),
    )  # fmt: skip
    claims += _between(
        "Under navigational clicks Multi-Krum is better than Krum, up to 30 %.",
        collection, both, product(few, ("navigational",)),
    )  # fmt: skip
    claims += _between(
        "Under informational clicks Multi-Krum is worse than Krum.",
        collection, both, product(SHARES, ("informational",)), Below(),
    )  # fmt: skip
    claims += _between(
        "Trimmed Mean gains less than Krum against 20 and 30 %.",
        collection, ("trimmed-mean", "krum"), product((2, 3), CLICKS), Below(),
    )  # fmt: skip
    claims += _between(
        "Trimmed Mean is as good as Krum against 10 %.",
        collection, ("trimmed-mean", "krum"), product((1,), CLICKS), Near(),
    )  # fmt: skip
    claims += _between(
        "Median is as good as Trimmed Mean against 20 and 30 %.",
        collection, ("median", "trimmed-mean"), product((2, 3), CLICKS), Near(),
    )  # fmt: skip
    return claims


def _on_worlds(collection: str) -> list[Claim]:
    claims = [
        _helps("Krum helps against 20 % of attackers and more.", (collection, "krum", m, c), None)
        for m, c in product((2, 3, 4), CLICKS)
    ]
    claims.append(_summary(collection, best=("krum", "multi-krum"), rest=DEFENCES[2:]))
    return claims


def _summary(collection: str, *, best: tuple[str, ...], rest: tuple[str, ...]) -> Claim:
    """Return the claim that some defences are better than others, over everything."""
    pairs = [
        (_cell(collection, one, m, click), _cell(collection, other, m, click))
        for (one, other), m, click in product(product(best, rest), SHARES, CLICKS)
    ]
    names = (" and ".join(best), " and ".join(rest))
    return averaged(
        "Krum and Multi-Krum are better than Trimmed Mean and Median against poisoned clicks, "
        "other than on MQ2007, where it is the other way round.",
        f"{names[0]} less {names[1]}, mean over attackers and click models",
        pairs,
        names=names,
    )
