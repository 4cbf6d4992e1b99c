"""Beyond the thesis: rankers for groups of clients, found from their updates.

The thesis shows that clients who prefer different documents (type 1) spoil one ranker for all, and
that FedProx and FedPer do not help. Here each client is measured on its own intent, on queries
that nobody trained on: FPDGD with one ranker for all, the clustered one, and training for each
intent apart, which knows the intents. How much of the gap between the first and the last is closed?
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from cloister.lab.reproduce.claim import MARGIN, Above, Below, Claim, Estimate
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.evidence import Evidence, Sample, paired
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.foltr.setting import (
    CLICKS,
    TWO_CLICKS,
    Ground,
    clueweb09,
    features_worlds,
    intents_worlds,
    mq2008,
)
from cloister.lab.reproduce.gap import share_of_gap
from cloister.lab.reproduce.quantity import NDCG, Outcome

__all__ = ["no_loss", "personalised"]

INTENTS: Final = (0, 1, 2, 3)
ONE: Final = "FPDGD"
CLUSTERED: Final = "clustered"
MERGED: Final = "FPDGD, merged labels"
HALF: Final = 0.5
# Training for each intent apart: without a federation, and as one of the intent's clients.
APART: Final = {"pdgd": "PDGD for intent", "fpdgd": "FPDGD for intent"}


def _clicks(size: Size) -> tuple[str, ...]:
    return size.of(quick=TWO_CLICKS, full=CLICKS)


def _methods(size: Size) -> tuple[str, ...]:
    return size.of(quick=("pdgd",), full=tuple(APART))


def _systems(size: Size, clients: int) -> list[dict[str, Any]]:
    systems: list[dict[str, Any]] = [
        {"name": ONE},
        {"name": CLUSTERED, "method": "clustered"},
        {"name": MERGED, "partition": "intents-merged"},
    ]
    systems += [
        {
            "name": f"{APART[method]} {intent}",
            "method": method,
            "intents": (intent,),
            "clients": clients // len(INTENTS),
        }
        for method in _methods(size)
        for intent in INTENTS
    ]
    return systems


def _part(
    size: Size, ground: Ground, clients: int, ranker: str, systems: Sequence[dict[str, Any]]
) -> Part:
    rounds = {
        (4, "linear"): size.of(quick=1000, full=10_000),
        (40, "linear"): size.of(quick=200, full=2000),
        (4, "mlp"): 5000,
    }[clients, ranker]
    kind = "" if ranker == "linear" else ", neural"
    return ground.part(
        systems,
        name=f"{ground.collection.name}, {clients} clients{kind}",
        partition="intents",
        ranker=ranker,
        clients=clients,
        queries_per_round=5,
        rounds=rounds,
        seeds=size.of(quick=1, full=2 if ranker == "linear" else 1),
        clicks=_clicks(size),
    )


def personalised(size: Size, data: Collections) -> Figure:
    """How much of the gap clustered FPDGD closes."""
    grounds = (intents_worlds(), clueweb09(data)._replace(paper=""))
    fedper: list[dict[str, Any]] = [{"name": ONE}, {"name": "FedPer", "private_layer": True}]
    parts: list[Part] = []
    claims: list[Claim] = []
    for ground in grounds:
        for clients in (4, 40):
            part = _part(size, ground, clients, "linear", _systems(size, clients))
            parts.append(part)
            for click in _clicks(size):
                claims += _claims(size, part.name, click)
                if ground.collection.name == "ClueWeb09":
                    claims.append(_share(part.name, click, "pdgd", by_query=True))
        if not size.is_quick:
            part = _part(size, ground, 4, "mlp", fedper)
            parts.append(part)
            claims += [_fedper(part.name, click) for click in _clicks(size)]
    return Figure(
        "personalised",
        "Clients who prefer different documents, each measured on its own intent, held out",
        "beyond the thesis; its own comparison is with merged labels",
        tuple(parts),
        tuple(claims),
        "The quick run leaves out FedPer and FPDGD for each intent apart." if size.is_quick else "",
    )


def _claims(size: Size, part: str, click: str) -> list[Claim]:
    claims = [
        _gap(part, click),
        versus(
            "Clustered FPDGD is better than one ranker for all.",
            part=part,
            system=CLUSTERED,
            baseline=ONE,
            click=click,
            beyond=True,
        ),
        versus(
            "The thesis's own comparison: with merged labels FPDGD is better.",
            part=part,
            system=MERGED,
            baseline=ONE,
            click=click,
        ),
    ]
    return claims + [_share(part, click, method) for method in _methods(size)]


def _gap(part: str, click: str) -> Claim:
    def estimate(evidence: Evidence) -> Estimate:
        names = (f"{APART['pdgd']} apart", ONE)
        return paired(
            _apart(evidence, part, click, "pdgd"), evidence.sample(part, ONE, NDCG, click), names
        )

    return Claim(
        "Training for each intent apart is better than one ranker for all.",
        f"PDGD for each intent less {ONE}: {NDCG.label}, {click}",
        (part,),
        Above(),
        estimate,
        beyond=True,
    )


def _share(part: str, click: str, method: str, *, by_query: bool = False) -> Claim:
    read = _by_query if by_query else _by_repeat

    def estimate(evidence: Evidence) -> Estimate:
        names = (ONE, CLUSTERED, f"{method.upper()} for each intent")
        return share_of_gap(
            read(evidence, part, click, ONE),
            read(evidence, part, click, CLUSTERED),
            read(evidence, part, click, method),
            names=names,
            purpose=f"{part} {click} {method}",
        )

    over = "queries" if by_query else "repetitions"
    return Claim(
        "Clustered FPDGD closes at least half of the gap to training for each intent apart.",
        f"share of the gap between {ONE} and {method.upper()} for each intent that is closed, "
        f"interval over {over}: {NDCG.label}, {click}",
        (part,),
        Above(HALF),
        estimate,
        beyond=True,
    )


def _by_repeat(evidence: Evidence, part: str, click: str, system: str) -> Sample:
    if system in APART:
        return _apart(evidence, part, click, system)
    return evidence.sample(part, system, NDCG, click)


def _apart(evidence: Evidence, part: str, click: str, method: str) -> Sample:
    """Return the mean over intents, each trained and measured apart."""
    found = [evidence.sample(part, f"{APART[method]} {intent}", NDCG, click) for intent in INTENTS]
    every = set.intersection(*(set(sample) for sample in found))
    return {repeat: float(np.mean([sample[repeat] for sample in found])) for repeat in every}


def _by_query(evidence: Evidence, part: str, click: str, system: str) -> Sample:
    """Return the mean of each query over seeds, and over intents where they are trained apart."""
    names = [f"{APART[system]} {i}" for i in INTENTS] if system in APART else [system]
    values: dict[tuple[str, int, int], list[float]] = {}
    for name in names:
        for outcome in evidence.runs(part, name, click):
            for query, value in _known(outcome):
                values.setdefault((outcome.run.settings.data, *query), []).append(value)
    return {query: float(np.mean(found)) for query, found in values.items()}


def _known(outcome: Outcome) -> list[tuple[tuple[int, int], float]]:
    """Return the queries of a run that have an answer, by fold and place, with their nDCG."""
    by_query = outcome.run.by_query
    fold = outcome.run.settings.fold
    known = np.flatnonzero(~np.isnan(by_query)).tolist()
    return [((fold, i), float(by_query[i])) for i in known]


def _fedper(part: str, click: str) -> Claim:
    return versus(
        "FedPer brings little over FPDGD, if anything.",
        part=part,
        system="FedPer",
        baseline=ONE,
        click=click,
        expects=Below(MARGIN),
    )


def no_loss(size: Size, data: Collections) -> Figure:
    """Clustered FPDGD where clients are alike."""
    systems = [{"name": ONE}, {"name": CLUSTERED, "method": "clustered"}]
    sizes: dict[str, Any] = {
        "clients": size.of(quick=50, full=100),
        "queries_per_round": 4,
        "rounds": size.of(quick=100, full=1000),
        "clicks": _clicks(size),
    }
    merged: dict[str, Any] = {"partition": "intents-merged"}
    seeds = size.of(quick=1, full=2)
    parts = (
        features_worlds().part(systems, seeds=seeds, **sizes),
        mq2008(data).part(systems, seeds=seeds, paper="", **sizes),
        intents_worlds().part(systems, seeds=seeds, name="intents world, merged", **sizes | merged),
        clueweb09(data).part(
            systems, seeds=seeds, name="ClueWeb09, merged", paper="", **sizes | merged
        ),
    )
    claims = tuple(
        versus(
            "Clustered FPDGD loses nothing where clients are alike.",
            part=part.name,
            system=CLUSTERED,
            baseline=ONE,
            click=click,
            expects=Above(-MARGIN),
            beyond=True,
        )
        for part in parts
        for click in _clicks(size)
    )
    return Figure(
        "no-loss",
        "Clustered FPDGD where clients are alike",
        "beyond the thesis",
        parts,
        claims,
    )
