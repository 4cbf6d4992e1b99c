"""Figures 3.3 and 3.5: FOLtR-ES beside PDGD without a federation (thesis 3.1.3)."""

from __future__ import annotations

from typing import Any

from cloister.lab.reproduce.claim import Below, Claim
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import larger_gap, versus
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.foltr.evolution_strategies import (
    RANKERS,
    es_system,
    parts_of_figure_3_1,
)
from cloister.lab.reproduce.foltr.setting import CLICKS
from cloister.lab.reproduce.quantity import NDCG, gain, late, until

__all__ = ["figure_3_3", "figure_3_5"]


def _parts(size: Size, data: Collections) -> tuple[Part, ...]:
    """Return the runs of figure 3.1 with p = 1, and PDGD with as many interactions a round."""
    systems = [es_system(ranker, 1.0) for ranker in RANKERS]
    systems += [_pdgd(ranker, "batch-pdgd") for ranker in RANKERS]
    systems.append(_pdgd("linear", "pdgd"))
    parts = parts_of_figure_3_1(size, data)
    return tuple(
        part._replace(experiment=part.experiment.model_copy(update={"variant": tuple(systems)}))
        for part in parts
    )


def _pdgd(ranker: str, method: str) -> dict[str, Any]:
    name = f"PDGD {ranker}" + ("" if method == "batch-pdgd" else ", no batches")
    return {"name": name, "method": method, "ranker": RANKERS[ranker], "hidden": 10}


def figure_3_3(size: Size, data: Collections) -> Figure:
    """FOLtR-ES and PDGD, measured by the MaxRR of clicks."""
    claims: list[Claim] = []
    for ranker in RANKERS:
        for click in CLICKS:
            claims += _for_ranker(ranker, click)
    for click in CLICKS:
        claims.append(
            larger_gap(
                "The gap is greater on MSLR-WEB10K than on MQ2007.",
                parts=("MSLR sample", "MQ2008"),
                system="PDGD linear",
                baseline="ES linear p=1",
                click=click,
                quantity=late("online_max_rr"),
            )
        )
        claims += [
            versus(
                "The gap is greater still, in the beginning above all, if PDGD is updated after "
                "each interaction.",
                part=part,
                system="PDGD linear, no batches",
                baseline="PDGD linear",
                click=click,
                quantity=until(0.1, "online_max_rr"),
            )
            for part in ("MQ2008", "MSLR sample")
        ]
    return Figure(
        "figure-3.3",
        "FOLtR-ES and PDGD, MaxRR of clicks",
        "2,000 clients x 4 queries x 250 rounds, p 1; PDGD in batches of 8,000",
        _parts(size, data),
        tuple(claims),
        measures=("online_max_rr",),
        x="interactions",
    )


def _for_ranker(ranker: str, click: str) -> list[Claim]:
    compared: dict[str, Any] = {
        "system": f"PDGD {ranker}",
        "baseline": f"ES {ranker} p=1",
        "click": click,
    }
    return [
        versus(
            "On MQ2008 PDGD is ahead in the beginning.",
            part="MQ2008",
            quantity=until(0.1, "online_max_rr"),
            **compared,
        ),
        versus(
            "On MQ2008 the gap narrows with more interactions.",
            part="MQ2008",
            quantity=gain("online_max_rr", 0.1),
            expects=Below(),
            **compared,
        ),
        versus(
            "On MSLR-WEB10K FOLtR-ES is less effective than PDGD, with either ranker.",
            part="MSLR sample",
            quantity=late("online_max_rr"),
            **compared,
        ),
    ]


def figure_3_5(size: Size, data: Collections) -> Figure:
    """FOLtR-ES and PDGD, measured on held-out queries."""
    claims: list[Claim] = []
    for ranker in RANKERS:
        for click in CLICKS:
            compared: dict[str, Any] = {
                "system": f"PDGD {ranker}",
                "baseline": f"ES {ranker} p=1",
                "click": click,
                "quantity": NDCG,
            }
            claims.append(
                versus("PDGD is above FOLtR-ES on MSLR-WEB10K.", part="MSLR sample", **compared)
            )
            if click == "informational":
                claims.append(
                    versus(
                        "Under informational clicks PDGD is above FOLtR-ES on every collection.",
                        part="MQ2008",
                        **compared,
                    )
                )
    return Figure(
        "figure-3.5",
        "FOLtR-ES and PDGD, offline nDCG@10",
        "2,000 clients x 4 queries x 250 rounds, p 1; PDGD in batches of 8,000",
        _parts(size, data),
        tuple(claims),
        measures=("offline_ndcg",),
        x="interactions",
    )
