"""Figures 3.1, 3.2 and 3.4: what FOLtR-ES learns, and what that depends on (thesis 3.1.3)."""

from __future__ import annotations

from typing import Any, Final

from cloister.lab.reproduce.claim import MARGIN, Above, Below, Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import alone, between_clicks, versus
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.foltr.setting import CLICKS, TWO_CLICKS, mq2008, mslr
from cloister.lab.reproduce.quantity import gain, late, trend, unsteadiness

__all__ = ["RANKERS", "es_system", "figure_3_1", "figure_3_2", "figure_3_4", "parts_of_figure_3_1"]

RANKERS: Final = {"linear": "linear", "neural": "mlp"}
MAX_RR: Final = late("online_max_rr")
INTERACTIONS: Final = 2_000_000  # thesis: of all clients together
QUERIES: Final = 4


def es_system(ranker: str, p: float, **own: Any) -> dict[str, Any]:
    """Return FOLtR-ES with a ranker and a chance p that a reward is sent as it is."""
    settings = {"method": "es", "ranker": RANKERS[ranker], "keep_probability": p}
    return {"name": f"ES {ranker} p={p:g}"} | settings | own


def parts_of_figure_3_1(size: Size, data: Collections) -> tuple[Part, Part]:
    """Return FOLtR-ES with both rankers and some p, on MQ2008 and on the MSLR sample."""
    kept = size.of(quick=(0.5, 1.0), full=(0.5, 0.9, 1.0))
    systems = [es_system(ranker, p) for ranker in RANKERS for p in kept]
    return (
        mq2008(data).part(
            systems,
            clients=size.of(quick=200, full=2000),
            queries_per_round=QUERIES,
            rounds=size.of(quick=100, full=250),
            seeds=size.of(quick=1, full=2),
            paper="MQ2008 (and MQ2007)",
        ),
        mslr(data).part(
            systems,
            clients=size.of(quick=100, full=2000),
            queries_per_round=QUERIES,
            rounds=size.of(quick=50, full=250),
            seeds=5,
        ),
    )


def figure_3_1(size: Size, data: Collections) -> Figure:
    """FOLtR-ES with more or less privacy, measured by the MaxRR of clicks."""
    claims: list[Claim] = []
    for click in CLICKS:
        claims += _on_mq2008(click)
        claims.append(
            versus(
                "On MSLR-WEB10K the neural ranker is less effective than the linear one.",
                part="MSLR sample",
                system="ES neural p=1",
                baseline="ES linear p=1",
                click=click,
                quantity=MAX_RR,
                expects=Below(),
            )
        )
    claims.append(
        between_clicks(
            "On MSLR-WEB10K results with informational clicks are very unstable.",
            part="MSLR sample",
            system="ES linear p=1",
            clicks=("informational", "perfect"),
            quantity=unsteadiness("online_max_rr"),
        )
    )
    return Figure(
        "figure-3.1",
        "FOLtR-ES across collections, MaxRR of clicks",
        "2,000 clients x 4 queries x 250 rounds, p 0.5, 0.9, 1",
        parts_of_figure_3_1(size, data),
        tuple(claims),
        measures=("online_max_rr",),
        x="interactions",
    )


def _on_mq2008(click: str) -> list[Claim]:
    claims = []
    for ranker in RANKERS:
        claims.append(
            alone(
                "FOLtR-ES learns effective rankers step by step.",
                part="MQ2008",
                system=f"ES {ranker} p=1",
                click=click,
                quantity=gain("online_max_rr"),
            )
        )
        claims.append(
            versus(
                "Less privacy (a higher p) gives better rankers.",
                part="MQ2008",
                system=f"ES {ranker} p=1",
                baseline=f"ES {ranker} p=0.5",
                click=click,
                quantity=MAX_RR,
            )
        )
    for p, expects, statement in (
        (1, Above(), "With p near 1 the neural ranker is more effective than the linear one."),
        (
            0.5,
            Below() if click == "informational" else Below(MARGIN),
            "With p = 0.5 the linear ranker is as good, with informational clicks better.",
        ),
    ):
        claims.append(
            versus(
                statement,
                part="MQ2008",
                system=f"ES neural p={p:g}",
                baseline=f"ES linear p={p:g}",
                click=click,
                quantity=MAX_RR,
                expects=expects,
            )
        )
    return claims


def figure_3_2(size: Size, data: Collections) -> Figure:
    """FOLtR-ES with few or many clients, the interactions in all being the same."""
    few, many = "50 clients", "2,000 clients"
    rankers = size.of(quick=("linear",), full=tuple(RANKERS))
    clicks = size.of(quick=TWO_CLICKS, full=CLICKS)
    parts = _by_clients(size, data, rankers, clicks)
    claims: list[Claim] = []
    for ranker in rankers:
        for click in clicks:
            claims.append(
                versus(
                    "On MQ2008 the ranker gains by more clients.",
                    part="MQ2008",
                    system=f"{ranker}, {many}",
                    baseline=f"{ranker}, {few}",
                    click=click,
                    quantity=MAX_RR,
                )
            )
            worse = ranker == "neural" and click == "navigational"
            claims.append(
                versus(
                    "On MSLR-WEB10K a small number of clients is better, but for the neural "
                    "ranker under navigational clicks.",
                    part="MSLR sample",
                    system=f"{ranker}, {few}",
                    baseline=f"{ranker}, {many}",
                    click=click,
                    quantity=MAX_RR,
                    expects=Below() if worse else Above(),
                )
            )
    claims += [
        alone(
            "On MQ2008 the linear ranker gets worse with time where there are 50 clients.",
            part="MQ2008",
            system=f"linear, {few}",
            click=click,
            quantity=trend("online_max_rr"),
            expects=Below(),
        )
        for click in clicks
    ]
    return Figure(
        "figure-3.2",
        "FOLtR-ES by number of clients",
        "50, 1,000 and 2,000 clients x 4 queries, 2,000,000 interactions in all, p 0.9",
        parts,
        tuple(claims),
        "" if not size.is_quick else "The quick run leaves out the neural ranker.",
        measures=("online_max_rr",),
        x="interactions",
    )


def _by_clients(
    size: Size, data: Collections, rankers: tuple[str, ...], clicks: tuple[str, ...]
) -> tuple[Part, ...]:
    interactions = size.of(quick=INTERACTIONS // 5, full=INTERACTIONS)
    numbers = size.of(quick=(50, 2000), full=(50, 1000, 2000))
    systems = [
        es_system(ranker, 0.9)
        | {
            "name": f"{ranker}, {clients:,} clients",
            "clients": clients,
            "rounds": interactions // (clients * QUERIES),
            "evaluate_every": max(1, interactions // (clients * QUERIES) // 10),
        }
        for ranker in rankers
        for clients in numbers
    ]
    sizes: dict[str, Any] = {"queries_per_round": QUERIES, "rounds": 1, "clicks": clicks}
    seeds = size.of(quick=1, full=2)
    return (
        mq2008(data).part(systems, seeds=seeds, paper="MQ2008 (and MQ2007)", **sizes),
        mslr(data).part(systems, seeds=5, **sizes),
    )


def figure_3_4(size: Size, data: Collections) -> Figure:
    """FOLtR-ES measured as is usual: by the nDCG of the pages that users saw."""
    learnt = gain("online_ndcg")
    claims: list[Claim] = []
    for ranker in RANKERS:
        for click in CLICKS:
            noisy = click == "informational" and ranker == "neural"
            claims.append(
                alone(
                    "On MQ2007 and MQ2008 FOLtR-ES learns, but for the neural ranker under "
                    "informational clicks.",
                    part="MQ2008",
                    system=f"ES {ranker} p=1",
                    click=click,
                    quantity=learnt,
                    expects=Near() if noisy else Above(),
                )
            )
        claims.append(
            alone(
                "On MSLR-WEB10K under informational clicks neither ranker learns.",
                part="MSLR sample",
                system=f"ES {ranker} p=1",
                click="informational",
                quantity=learnt,
                expects=Near(),
            )
        )
        claims.append(
            alone(
                "On MSLR-WEB10K under informational clicks online performance even falls.",
                part="MSLR sample",
                system=f"ES {ranker} p=1",
                click="informational",
                quantity=trend("online_ndcg"),
                expects=Below(),
            )
        )
    return Figure(
        "figure-3.4",
        "FOLtR-ES, online nDCG@10",
        "2,000 clients x 4 queries x 250 rounds, p 0.5, 0.9, 1",
        parts_of_figure_3_1(size, data),
        tuple(claims),
        "The reward here is the MaxRR of clicks, as in figure 3.1; the public code of this "
        "experiment takes the DCG of clicks.",
        measures=("online_ndcg",),
        x="interactions",
    )
