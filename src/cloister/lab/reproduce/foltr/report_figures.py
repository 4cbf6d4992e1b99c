"""Figures 1 and 2 of the click-inference report: FPDGD programmed anew (its section 3)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from cloister.lab.reproduce.claim import Above, Below, Claim, Estimate, Near, Within
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import alone, between_clicks
from cloister.lab.reproduce.evidence import Evidence, paired
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.foltr.setting import CLICKS, Ground, mq2008, mslr
from cloister.lab.reproduce.quantity import NDCG, ONLINE_LESS_OFFLINE, late, unsteadiness

__all__ = ["report_figure_1", "report_figure_2"]

# Table 2 of the report; its public code clips to the whole sensitivity, after every query, takes
# all unclicked documents of the page as negatives, and divides queries with nothing relevant in.
CONVENTIONS: Final = {
    "normalise": "global_zscore",
    "negatives": "whole_page",
    "nothing_relevant": "zero",
    "paper_epsilon": 1.2,
    "paper_sensitivity": 3.0,
    "paper_clip": "whole",
}
SYSTEM: Final = "FPDGD"
ALIKE: Final = 0.02  # what "about the same" is taken to mean
OTHER_DATA: Final = 0.05  # how near a number of another collection may be expected


def report_figure_1(size: Size, data: Collections) -> Figure:
    """On MSLR-WEB10K."""
    part = "MSLR sample"
    claims = [
        alone(
            "Online nDCG is below offline nDCG under every click model.",
            part=part,
            system=SYSTEM,
            click=click,
            quantity=ONLINE_LESS_OFFLINE,
            expects=Below(),
        )
        for click in CLICKS
    ]
    claims.append(
        between_clicks(
            "The offline curve varies more under noisy clicks.",
            part=part,
            system=SYSTEM,
            clicks=("informational", "perfect"),
            quantity=unsteadiness("offline_ndcg"),
        )
    )
    return _figure(
        "report-figure-1",
        "1,000 clients x 2 queries x 100 rounds on MSLR-WEB10K",
        mslr(data),
        claims + _shared_claims(part, 0.375),
        clients=size.of(quick=300, full=1000),
        queries_per_round=2,
        rounds=100,
        seeds=size.of(quick=5, full=10),
        evaluate_every=2,
    )


def report_figure_2(size: Size, data: Collections) -> Figure:
    """On MQ2007."""
    part = "MQ2008"
    claims: list[Claim] = [
        alone(
            "Online nDCG is above offline nDCG under perfect and navigational clicks, and below "
            "it under informational ones.",
            part=part,
            system=SYSTEM,
            click=click,
            quantity=ONLINE_LESS_OFFLINE,
            expects=Below() if click == "informational" else Above(),
        )
        for click in CLICKS
    ]
    return _figure(
        "report-figure-2",
        "1,000 clients x 4 queries x 200 rounds on MQ2007",
        mq2008(data),
        claims + _shared_claims(part, 0.44),
        clients=size.of(quick=300, full=1000),
        queries_per_round=4,
        rounds=200,
        seeds=size.of(quick=1, full=2),
        evaluate_every=4,
    )


def _figure(key: str, setting: str, ground: Ground, claims: list[Claim], **sizes: Any) -> Figure:
    ground = ground._replace(base=ground.base | CONVENTIONS)
    return Figure(
        key,
        f"The report's FPDGD on {ground.paper}",
        f"{setting}, sensitivity 3, epsilon 1.2, five folds once",
        (ground.part([{"name": SYSTEM}], **sizes),),
        tuple(claims),
        "Numbers of another collection are taken to agree within 0.05.",
        measures=("offline_ndcg", "online_ndcg"),
    )


def _shared_claims(part: str, number: float) -> list[Claim]:
    online = late("online_ndcg")
    claims = [
        alone(
            f"Offline nDCG@10 reaches about {number:g} under all three click models.",
            part=part,
            system=SYSTEM,
            click=click,
            quantity=NDCG,
            expects=Within(number, OTHER_DATA),
            paper=number,
        )
        for click in CLICKS
    ]
    claims += [
        between_clicks(
            "Offline nDCG@10 is about the same under all three click models.",
            part=part,
            system=SYSTEM,
            clicks=("perfect", click),
            expects=Near(ALIKE),
        )
        for click in CLICKS[1:]
    ]
    claims += [
        between_clicks(
            "The noisier the clicks, the lower online nDCG.",
            part=part,
            system=SYSTEM,
            clicks=pair,
            quantity=online,
        )
        for pair in pairwise(CLICKS)
    ]
    return [*claims, _wider_gap(part)]


def _wider_gap(part: str) -> Claim:
    online = late("online_ndcg")

    def estimate(evidence: Evidence) -> Estimate:
        found = [evidence.sample(part, SYSTEM, online, click) for click in CLICKS]
        both = found[0].keys() & found[1].keys() & found[2].keys()
        gaps = [
            {repeat: one[repeat] - other[repeat] for repeat in both}
            for one, other in pairwise(found)
        ]
        names = ("navigational less informational", "perfect less navigational")
        return paired(gaps[1], gaps[0], names)

    return Claim(
        "Online, informational clicks are further below navigational ones than those below "
        "perfect ones.",
        f"{SYSTEM}, the second gap less the first: {online.label}",
        (part,),
        Above(),
        estimate,
    )
