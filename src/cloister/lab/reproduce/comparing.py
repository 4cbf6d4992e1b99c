"""Claims of the kinds that papers make most: one system against another, or one alone."""

from __future__ import annotations

from cloister.lab.reproduce.claim import Above, Claim, Estimate, Expectation
from cloister.lab.reproduce.evidence import Evidence, gap_difference, paired
from cloister.lab.reproduce.quantity import NDCG, Quantity

__all__ = ["alone", "between_clicks", "larger_gap", "versus"]


def versus(
    statement: str,
    *,
    part: str,
    system: str,
    baseline: str,
    click: str | None = None,
    quantity: Quantity = NDCG,
    expects: Expectation | None = None,
    paper: float | None = None,
    beyond: bool = False,
) -> Claim:
    """Return the claim that a system is above a baseline, or as ``expects`` says."""

    def estimate(evidence: Evidence) -> Estimate:
        samples = [evidence.sample(part, name, quantity, click) for name in (system, baseline)]
        return paired(samples[0], samples[1], (system, baseline))

    return Claim(
        statement,
        f"{system} less {baseline}: {quantity.label}{_under(click)}",
        (part,),
        expects or Above(),
        estimate,
        paper,
        beyond,
    )


def alone(
    statement: str,
    *,
    part: str,
    system: str,
    quantity: Quantity,
    click: str | None = None,
    expects: Expectation | None = None,
    paper: float | None = None,
    beyond: bool = False,
) -> Claim:
    """Return the claim that a system's number is above 0, or as ``expects`` says."""

    def estimate(evidence: Evidence) -> Estimate:
        return paired(evidence.sample(part, system, quantity, click), None, (system, ""))

    return Claim(
        statement,
        f"{system}: {quantity.label}{_under(click)}",
        (part,),
        expects or Above(),
        estimate,
        paper,
        beyond,
    )


def between_clicks(
    statement: str,
    *,
    part: str,
    system: str,
    clicks: tuple[str, str],
    quantity: Quantity = NDCG,
    expects: Expectation | None = None,
) -> Claim:
    """Return the claim that a system does better under one click model than under another."""

    def estimate(evidence: Evidence) -> Estimate:
        samples = [evidence.sample(part, system, quantity, click) for click in clicks]
        return paired(samples[0], samples[1], clicks)

    return Claim(
        statement,
        f"{system}, {clicks[0]} less {clicks[1]}: {quantity.label}",
        (part,),
        expects or Above(),
        estimate,
    )


def larger_gap(
    statement: str,
    *,
    parts: tuple[str, str],
    system: str,
    baseline: str,
    click: str | None = None,
    quantity: Quantity = NDCG,
) -> Claim:
    """Return the claim that a system is further above a baseline in one part than in another."""

    def estimate(evidence: Evidence) -> Estimate:
        gaps = [
            (
                evidence.sample(part, system, quantity, click),
                evidence.sample(part, baseline, quantity, click),
            )
            for part in parts
        ]
        return gap_difference(gaps[0], gaps[1], parts)

    return Claim(
        statement,
        f"{system} less {baseline}, on {parts[0]} less on {parts[1]}: "
        f"{quantity.label}{_under(click)}",
        parts,
        Above(),
        estimate,
    )


def _under(click: str | None) -> str:
    return f", {click}" if click else ""
