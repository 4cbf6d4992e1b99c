"""Claims about cells: weighted sums of what several systems reach, over paired repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from cloister.lab.reproduce.claim import Above, Claim, Estimate, Expectation
from cloister.lab.reproduce.evidence import Evidence, Sample, paired
from cloister.lab.reproduce.gap import share_of_gap
from cloister.lab.reproduce.poisoning.setting import BROKEN, CLICKS, attacked, honest
from cloister.lab.reproduce.quantity import NDCG, Quantity

__all__ = [
    "Cell",
    "averaged",
    "contrast",
    "difference",
    "falling",
    "more_lost",
    "recovered",
    "summed",
]


class Cell(NamedTuple):
    """One system of a part, under one click model."""

    part: str
    system: str
    click: str

    def sample(self, evidence: Evidence, quantity: Quantity = NDCG) -> Sample:
        """Return one number for each repetition."""
        return evidence.sample(self.part, self.system, quantity, self.click)


Weighted = tuple[float, Cell]


def summed(samples: Sequence[tuple[float, Sample]]) -> Sample:
    """Return a weighted sum for each repetition that all samples have.

    Examples
    --------
    >>> one, other = {("", 1, 1): 0.75, ("", 1, 2): 0.5}, {("", 1, 1): 0.5}
    >>> summed([(1.0, one), (-1.0, other)])
    {('', 1, 1): 0.25}
    """
    common = set.intersection(*(set(sample) for _, sample in samples))
    return {
        repeat: sum(weight * sample[repeat] for weight, sample in samples)
        for repeat in sorted(common)
    }


def contrast(
    statement: str,
    compared: str,
    weighted: Sequence[Weighted],
    *,
    names: tuple[str, str],
    expects: Expectation | None = None,
    quantity: Quantity = NDCG,
    beyond: bool = False,
) -> Claim:
    """Return the claim that a weighted sum of cells is above 0, or as ``expects`` says.

    The means that are told are of the cells with weights above 0 and below it.
    """

    def estimate(evidence: Evidence) -> Estimate:
        samples = [(weight, cell.sample(evidence, quantity)) for weight, cell in weighted]
        more = summed([(w, sample) for w, sample in samples if w > 0])
        less = summed([(-w, sample) for w, sample in samples if w < 0])
        return paired(more, less, names)

    parts = tuple(dict.fromkeys(cell.part for _, cell in weighted))
    whole = f"{compared}: {quantity.label}"
    return Claim(statement, whole, parts, expects or Above(), estimate, beyond=beyond)


def difference(
    statement: str,
    one: Cell,
    other: Cell,
    *,
    expects: Expectation | None = None,
    quantity: Quantity = NDCG,
    beyond: bool = False,
) -> Claim:
    """Return the claim that one cell is above another, or as ``expects`` says."""
    under = one.click if one.click == other.click else f"{one.click} less {other.click}"
    return contrast(
        statement,
        f"{one.system} less {other.system}, {under}",
        [(1.0, one), (-1.0, other)],
        names=(one.system, other.system),
        expects=expects,
        quantity=quantity,
        beyond=beyond,
    )


def more_lost(statement: str, part: str, attackers: int, clicks: tuple[str, str]) -> Claim:
    """Return the claim that poisoned clicks cost FedAvg more under one click model than another."""
    weighted = [
        (sign * weight, Cell(part, name, click))
        for sign, click in zip((1.0, -1.0), clicks, strict=True)
        for weight, name in (
            (1.0, honest("fedavg")),
            (-1.0, attacked("fedavg", "poison-clicks", attackers)),
        )
    ]
    compared = f"lost to {attackers} of 10, {clicks[0]} less {clicks[1]}"
    names = (
        f"honest {clicks[0]} and attacked {clicks[1]}",
        f"honest {clicks[1]} and attacked {clicks[0]}",
    )
    return contrast(statement, compared, weighted, names=names)


def averaged(
    statement: str,
    compared: str,
    pairs: Sequence[tuple[Cell, Cell]],
    *,
    names: tuple[str, str],
    expects: Expectation | None = None,
    beyond: bool = False,
) -> Claim:
    """Return the claim that the first of pairs are above the second on average."""
    n = len(pairs)
    weighted = [
        (sign / n, cell) for pair in pairs for sign, cell in zip((1, -1), pair, strict=True)
    ]
    return contrast(statement, compared, weighted, names=names, expects=expects, beyond=beyond)


def recovered(part: str, defended: str, lost: str, click: str, *, least: float) -> Claim:
    """Return the claim that a system recovers a share of what FedAvg loses, where that matters.

    The share is of means over repetitions; its interval is a bootstrap's over paired repetitions.
    """
    whole = honest("fedavg")

    def estimate(evidence: Evidence) -> Estimate:
        floor, found, ceiling = (
            Cell(part, name, click).sample(evidence) for name in (lost, defended, whole)
        )
        loss = paired(ceiling, floor, (whole, lost))
        if loss.value is None or loss.value < BROKEN:
            told = f"FedAvg loses {loss.value:.4f}, less than {BROKEN}" if loss.value else loss.note
            return Estimate(None, n=loss.n, means=loss.means, note=told)
        purpose = f"{part} {defended} {click}"
        return share_of_gap(floor, found, ceiling, names=(lost, defended, whole), purpose=purpose)

    return Claim(
        f"at least {least:.0%} of what FedAvg loses is recovered, where that is {BROKEN} or more",
        f"{defended}, {click}: share of the loss recovered",
        (part,),
        Above(least),
        estimate,
        beyond=True,
    )


def falling(part: str, names: Sequence[str], statement: str) -> list[Claim]:
    """Return the claims that each system of a row is above the next one, by click model."""
    return [
        difference(statement, Cell(part, one, click), Cell(part, other, click))
        for click in CLICKS
        for one, other in pairwise(names)
    ]
