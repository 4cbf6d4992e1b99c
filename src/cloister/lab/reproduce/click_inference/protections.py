"""What click inference gets without protection, and under each: features scaled query by query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cloister.lab.reproduce.claim import Above, Below, Claim, Expectation, Near
from cloister.lab.reproduce.click_inference.attacking import (
    BEST_GUESS,
    CLIPPED_SQUARES,
    LEAST_ABSOLUTE,
    LEAST_SQUARES,
    PRIOR_AND_UPDATE,
)
from cloister.lab.reproduce.click_inference.ground import (
    ACCURACY,
    ADVANTAGE,
    AUC,
    CLICKS,
    INDIVIDUAL,
    RECALL,
    features_world,
    grounds,
)
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import alone
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.study import Study

__all__ = ["noised_sums", "paper_noise", "secure_sums", "unprotected"]

EXACT: Final = 0.95  # what the attack reaches where nothing protects
SEEN_THROUGH: Final = {RECALL: 0.9, ACCURACY: 0.8}  # what the report found under the noise
NO_BETTER: Final = 0.01  # of AUC: less is called no advantage
REPORT: Final = "deterministic ranking, one query an update"


def unprotected(size: Size, data: Collections) -> Figure:
    """Return what single updates reveal."""
    parts = tuple(
        ground.study(name, negatives=negatives)
        for ground in grounds(size, data)
        for name, negatives in (("", "whole_page"), ("to the last click", "to_last_click"))
    )
    claims = tuple(
        alone(
            "Least squares finds the clicks.",
            part=part.name,
            system=LEAST_SQUARES,
            click=click,
            quantity=quantity,
            expects=Above(EXACT),
            beyond=True,
        )
        for part in parts
        for click in CLICKS
        for quantity in (RECALL, ACCURACY)
    )
    return Figure(
        key="unprotected",
        title="Guessing clicks from single updates without protection",
        paper_setting="not measured",
        parts=parts,
        claims=claims,
        note="With all unclicked documents as PDGD's negatives, or those down to one place below "
        "the last click.",
        measures=(),
    )


def paper_noise(size: Size, data: Collections) -> Figure:
    """Return what single updates reveal under the paper's noise."""
    parts = tuple(ground.study(protection="paper") for ground in grounds(size, data))
    claims: list[Claim] = []
    for part in parts:
        for click in CLICKS:
            for quantity, least in SEEN_THROUGH.items():
                claims += [
                    alone(
                        f"Least squares: {quantity.label} of at least {least:g}.",
                        part=part.name,
                        system=LEAST_SQUARES,
                        click=click,
                        quantity=quantity,
                        expects=Above(least),
                    ),
                    alone(
                        f"Least squares that know of the clipping: at least {least:g}.",
                        part=part.name,
                        system=CLIPPED_SQUARES,
                        click=click,
                        quantity=quantity,
                        expects=Above(least),
                        beyond=True,
                    ),
                    alone(
                        "Least absolute deviations find the clicks as if there were no noise.",
                        part=part.name,
                        system=LEAST_ABSOLUTE,
                        click=click,
                        quantity=quantity,
                        expects=Above(EXACT),
                        beyond=True,
                    ),
                ]
    return Figure(
        key="paper-noise",
        title="Guessing clicks from single updates under the paper's noise, min-max features",
        paper_setting=f"{REPORT}, sensitivity 3, epsilon 1.2, 1,000 clients; z-scored features",
        parts=parts,
        claims=tuple(claims),
        measures=(),
    )


def secure_sums(size: Size, data: Collections) -> Figure:
    """Return what sums reveal that have no noise in them."""
    numbers = size.of(quick=(100,), full=(10, 100, 1000))
    observed = {10: 40, 100: size.of(quick=5, full=10), 1000: 3}
    parts = tuple(
        ground.study(
            f"sums of {n:,}",
            protection="sum",
            clients=n,
            observations=observed[n],
            work=1 + n // 100,
        )
        for ground in (*grounds(size, data, costly=True), features_world(size))
        for n in numbers
    )
    claims = [claim for part in parts for claim in _advantages(part, (Above(), Above()))]
    return Figure(
        key="secure-sum",
        title="Guessing clicks from sums of clients that a secure aggregation gives",
        paper_setting="proposed, not measured",
        parts=parts,
        claims=tuple(claims),
        note="A part of what a sum tells is what everybody clicks: which documents of a page are "
        "relevant. What it tells of the one client is measured against others with the same page. "
        "The features world has 2,000 queries, so that few clients share one.",
        measures=(),
    )


def noised_sums(size: Size, data: Collections) -> Figure:
    """Return what sums of clipped updates reveal that have private FPDGD's noise in them."""
    chosen = size.of(
        quick=((100, 100), (1000, 1000)), full=((100, 100), (1000, 1000), (100, 10_000))
    )
    parts = tuple(
        ground.study(
            f"{n:,} of {population:,} clients",
            protection="sum+noise",
            clients=n,
            population=population,
            observations=size.of(quick=5, full=10) if n < 1000 else size.of(quick=2, full=4),
            work=1 + n // 100,
        )
        for ground in (*grounds(size, data, costly=True), features_world(size))
        for n, population in chosen
    )
    expects = (Below(NO_BETTER), Near(NO_BETTER))
    claims = [claim for part in parts for claim in _advantages(part, expects)]
    return Figure(
        key="sum-and-noise",
        title="Guessing clicks from sums with the noise of a user-level guarantee",
        paper_setting="not measured",
        parts=parts,
        claims=tuple(claims),
        note="Epsilon 4.5 for all 200 rounds, delta 1e-6, updates clipped to 0.3. Where fewer "
        "clients are in a sum than there are, the noise counts on nobody knowing who; this server "
        "knows.",
        measures=(),
    )


def _advantages(part: Study, expects: tuple[Expectation, Expectation]) -> Iterator[Claim]:
    """Return what sums add to the best guess, and what they tell of the one client."""
    no_better = isinstance(expects[0], Below)
    over = "no better than" if no_better else "better than"
    alike = "nothing" if no_better else "something"
    for click in CLICKS:
        yield alone(
            "The best guess from rank, score and click model.",
            part=part.name,
            system=BEST_GUESS,
            click=click,
            quantity=AUC,
            expects=Above(0.5),
            beyond=True,
        )
        for system in (LEAST_SQUARES, PRIOR_AND_UPDATE):
            yield alone(
                f"{system.capitalize()} is {over} the best guess.",
                part=part.name,
                system=system,
                click=click,
                quantity=ADVANTAGE,
                expects=expects[0],
                beyond=True,
            )
        yield alone(
            f"A sum tells {alike} of the one client.",
            part=part.name,
            system=PRIOR_AND_UPDATE,
            click=click,
            quantity=INDIVIDUAL,
            expects=expects[1],
            beyond=True,
        )
