"""What rankers reveal of the clients who trained them, before and after forgetting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cloister.lab.reproduce.claim import Above, Claim, Expectation, Near
from cloister.lab.reproduce.collection import Collection
from cloister.lab.reproduce.comparing import alone, versus
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.membership.ranker_trial import (
    PARAMETERS,
    RETRAINED,
    TRAINED,
    UNLEARNED,
    UNLEARNED_SHADOWS,
)
from cloister.lab.reproduce.membership.setting import RankerMembershipSettings
from cloister.lab.reproduce.quantity import Quantity
from cloister.lab.reproduce.study import Study, StudyJob

__all__ = ["rankers"]

FUNCTION: Final = "cloister.lab.reproduce.membership.ranker_trial:measure_rankers"
CLICK: Final = "informational"
SHORT: Final = "short retraining"
CLOSE: Final = 0.05  # of AUC: less is called no difference
AUC: Final = Quantity("AUC", lambda run: run.at_end("auc"))
OVER_CHANCE: Final = Quantity("AUC less 0.5", lambda run: run.at_end("auc") - 0.5)
DEPARTURE: Final = Quantity("who left, share named", lambda run: run.at_end("departure"))

# By name: settings, and whether the trained ranker tells its clients.
KINDS: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "10 clients, shared queries": ({"own_queries": 0}, False),
    "10 clients, own queries": ({}, True),
    "3 clients, own queries": ({"clients": 3}, True),
    "3 clients, own queries and tastes": ({"clients": 3, "own_taste": 1.0}, True),
}


def rankers(size: Size) -> Figure:
    """Return the figure."""
    worlds = Collection("features world", "world:features?queries=400&documents=20")
    parts = tuple(_study(worlds, name, size) for name in KINDS)
    return Figure(
        "membership-rankers",
        "Whether a client was among those who trained a ranker, before and after forgetting",
        "not measured; the thesis judges unlearning by the ranking quality that comes back",
        parts,
        tuple(claim for part in parts for claim in _claims(part.name)),
        note="The adversary knows everybody's queries and grades, and not who took part. An AUC "
        "of 0.5 is chance on every ranker by itself.",
        measures=(),
    )


def _study(worlds: Collection, name: str, size: Size) -> Study:
    shared: dict[str, Any] = {
        "rounds": size.of(quick=200, full=1000),
        "n_shadows": size.of(quick=80, full=200),
        "n_attacked": size.of(quick=30, full=100),
    }
    jobs = tuple(
        StudyJob(
            FUNCTION,
            RankerMembershipSettings(
                data=f"{worlds.address}&seed={seed}",
                seed=seed,
                click_model=CLICK,
                **(shared | KINDS[name][0]),
            ),
            rounds=size.of(quick=4, full=60),
        )
        for seed in range(1, size.of(quick=5, full=10) + 1)
    )
    told = f"{shared['rounds']:,} rounds, {shared['n_shadows']} shadows, {CLICK} clicks"
    return Study(name, worlds, jobs, f"{told}, {shared['n_attacked']} federations attacked")


def _claims(part: str) -> Iterator[Claim]:
    settings, tells = KINDS[part]
    yield _one(
        part,
        "a trained ranker tells its clients" if tells else "a trained ranker tells nobody",
        f"{TRAINED}: {PARAMETERS}",
        OVER_CHANCE,
        Above() if tells else Near(CLOSE),
    )
    for ranker in (UNLEARNED, SHORT, RETRAINED):
        yield _one(
            part,
            "a ranker that never saw the client tells nothing"
            if ranker == RETRAINED
            else "a ranker that has forgotten the client tells nothing",
            f"{ranker}: {PARAMETERS}",
            OVER_CHANCE,
            Near(CLOSE),
        )
    for attack in UNLEARNED_SHADOWS:
        yield _one(
            part,
            "nor does it tell anything to who has unlearned rankers of its own",
            f"{UNLEARNED}: {attack}",
            OVER_CHANCE,
            Near(CLOSE),
        )
    yield versus(
        "the unlearned ranker is like one that was retrained",
        part=part,
        system=f"{UNLEARNED}: {PARAMETERS}",
        baseline=f"{RETRAINED}: {PARAMETERS}",
        quantity=AUC,
        expects=Near(CLOSE),
        beyond=True,
    )
    if tells:
        chance = 1.0 / settings.get("clients", 10)
        for ranker in (UNLEARNED, RETRAINED):
            yield _one(
                part,
                "the rankers before and after tell who left",
                ranker,
                DEPARTURE,
                Above(chance),
            )


def _one(part: str, statement: str, system: str, quantity: Quantity, expects: Expectation) -> Claim:
    return alone(
        statement, part=part, system=system, quantity=quantity, expects=expects, beyond=True
    )
