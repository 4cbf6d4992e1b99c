"""Figures 3.8 to 3.10: FPDGD by number of clients and by queries a round (thesis 3.2.3)."""

from __future__ import annotations

from typing import Any, Final

from cloister.lab.reproduce.claim import Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.foltr.setting import CLICKS, TWO_CLICKS, mslr
from cloister.lab.reproduce.quantity import until

__all__ = ["figure_3_8", "figure_3_9", "figure_3_10"]

NOISE: Final[dict[str, Any]] = {"paper_epsilon": 4.5, "paper_sensitivity": 5.0}
PART: Final = "MSLR sample"
BATCHES: Final = (2, 4, 8)


def _clicks(size: Size) -> tuple[str, ...]:
    return size.of(quick=TWO_CLICKS, full=CLICKS)


def figure_3_8(size: Size, data: Collections) -> Figure:
    """FPDGD with 10, 100 and 1,000 clients, with and without noise."""
    systems: list[dict[str, Any]] = []
    for clients in (10, 100, 1000):
        systems.append({"name": f"{clients:,} clients, noise", "clients": clients} | NOISE)
        systems.append({"name": f"{clients:,} clients", "clients": clients})
    part = mslr(data).part(
        systems,
        queries_per_round=2,
        rounds=size.of(quick=100, full=200),
        seeds=size.of(quick=5, full=10),
        clicks=_clicks(size),
    )
    claims: list[Claim] = []
    for click in _clicks(size):
        claims += _claims_3_8(click)
    return Figure(
        "figure-3.8",
        "FPDGD by number of clients",
        "10, 100 and 1,000 clients x 2 queries x 200 rounds; noise: sensitivity 5, epsilon 4.5",
        (part,),
        tuple(claims),
    )


def _claims_3_8(click: str) -> list[Claim]:
    claims = [
        versus(
            "Without noise more clients make a minor difference, not a significant one.",
            part=PART,
            system="1,000 clients",
            baseline="10 clients",
            click=click,
            expects=Near(),
        ),
        versus(
            "With noise FPDGD performs poorly where only few clients take part.",
            part=PART,
            system="1,000 clients, noise",
            baseline="10 clients, noise",
            click=click,
        ),
    ]
    claims += [
        versus(
            "Noise has little or no impact where numerous clients take part.",
            part=PART,
            system=f"{clients} clients, noise",
            baseline=f"{clients} clients",
            click=click,
            expects=Near(),
        )
        for clients in ("100", "1,000")
    ]
    claims.append(
        versus(
            "Past a certain point more clients make little difference.",
            part=PART,
            system="1,000 clients, noise",
            baseline="100 clients, noise",
            click=click,
            expects=Near(),
        )
    )
    return claims


def figure_3_9(size: Size, data: Collections) -> Figure:
    """FPDGD with 2, 4 and 8 queries a round, for as many rounds."""
    systems = [{"name": f"B={b}", "queries_per_round": b} for b in BATCHES]
    part = mslr(data).part(
        systems,
        clients=size.of(quick=100, full=1000),
        rounds=200,
        evaluate_every=4,
        seeds=size.of(quick=5, full=10),
        clicks=_clicks(size),
        **NOISE,
    )
    claims: list[Claim] = []
    for click in _clicks(size):
        compared: dict[str, Any] = {
            "part": PART,
            "system": "B=8",
            "baseline": "B=2",
            "click": click,
        }
        claims += [
            versus("More queries a round give a better ranker.", **compared),
            versus(
                "More queries a round give a better ranker early in training.",
                quantity=until(0.25, "offline_ndcg"),
                **compared,
            ),
        ]
    return Figure(
        "figure-3.9",
        "FPDGD by queries a round, for as many rounds",
        "1,000 clients x 2, 4 and 8 queries x 200 rounds; noise: sensitivity 5, epsilon 4.5",
        (part,),
        tuple(claims),
    )


def figure_3_10(size: Size, data: Collections) -> Figure:
    """FPDGD with 2, 4 and 8 queries a round, for as many interactions."""
    systems = [
        {
            "name": f"B={b}",
            "queries_per_round": b,
            "rounds": 400 // b,
            "evaluate_every": 8 // b,  # at the same interactions for all
        }
        for b in BATCHES
    ]
    part = mslr(data).part(
        systems,
        clients=size.of(quick=100, full=1000),
        rounds=200,
        seeds=size.of(quick=5, full=10),
        clicks=_clicks(size),
        **NOISE,
    )
    claims: list[Claim] = []
    for click in _clicks(size):
        compared: dict[str, Any] = {
            "part": PART,
            "system": "B=2",
            "baseline": "B=8",
            "click": click,
        }
        claims += [
            versus(
                "At equal budget the number of queries a round makes no significant difference.",
                expects=Near(),
                **compared,
            ),
            versus(
                "At equal budget few queries a round give a stronger start.",
                quantity=until(0.2, "offline_ndcg"),
                **compared,
            ),
        ]
    return Figure(
        "figure-3.10",
        "FPDGD by queries a round, for as many interactions",
        "1,000 clients x 2, 4 and 8 queries x 200, 100 and 50 rounds; noise as in figure 3.9",
        (part,),
        tuple(claims),
        x="interactions",
    )
