"""What updates reveal of the queries and clients behind them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cloister.lab.reproduce.claim import Above, Claim, Near
from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.comparing import alone
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.membership.setting import UpdateMembershipSettings
from cloister.lab.reproduce.membership.update_trial import LENGTH, LIKELIHOOD
from cloister.lab.reproduce.quantity import Quantity
from cloister.lab.reproduce.study import Study, StudyJob

__all__ = ["updates"]

FUNCTION: Final = "cloister.lab.reproduce.membership.update_trial:measure_updates"
CLICK: Final = "informational"
LITTLE: Final = 0.02  # of AUC
OVER_CHANCE: Final = Quantity("AUC less 0.5", lambda run: run.at_end("auc") - 0.5)
CAUGHT: Final = Quantity(
    "true positives at 1 % false positives", lambda run: run.at_end("true_positive_rate")
)

# By name: settings, and whether what is seen reveals anything.
PROTECTIONS: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "one update": ({}, True),
    "sum of 10": ({"clients": 10}, True),
    "sum of 100": ({"clients": 100}, True),
    "sum of 100 with noise": ({"clients": 100, "noise": True}, False),
    "client in a sum of 10": (
        {"clients": 10, "queries_per_update": 4, "target": "client"},
        True,
    ),
}


def updates(size: Size, data: Collections) -> Figure:
    """Return the figure."""
    worlds = Collection("features world", "world:features?queries=500")
    seeds = size.of(quick=5, full=10)
    repeats = [(f"{worlds.address}&seed={seed}", 1, seed) for seed in range(1, seeds + 1)]
    parts = [_study(worlds, name, repeats, size) for name in PROTECTIONS]
    if not size.is_quick:
        found = data["MQ2008"]
        folds = [(found.address, fold, fold) for fold in range(1, 6)]
        parts += [_study(found, name, folds, size) for name in PROTECTIONS]
    return Figure(
        "membership-updates",
        "Whether a query, or a client, is behind an update",
        "not measured",
        tuple(parts),
        tuple(claim for part in parts for claim in _claims(part)),
        note="Each target is tried in a sum with it and in one with another in its place. The "
        "noise is that of epsilon 4.5 over 200 rounds of 100 of 1,000 clients.",
        measures=(),
    )


def _study(
    collection: Collection, name: str, repeats: list[tuple[str, int, int]], size: Size
) -> Study:
    settings = PROTECTIONS[name][0] | {"observations": size.of(quick=200, full=400)}
    jobs = tuple(
        StudyJob(
            FUNCTION,
            UpdateMembershipSettings(
                data=address, fold=fold, seed=seed, click_model=CLICK, **settings
            ),
        )
        for address, fold, seed in repeats
    )
    told = f"{settings['observations']} targets, {CLICK} clicks"
    return Study(f"{collection.name}, {name}", collection, jobs, told)


def _claims(part: Study) -> Iterator[Claim]:
    reveals = PROTECTIONS[part.name.split(", ", 1)[1]][1]
    yield alone(
        "the likelihood ratio tells members"
        if reveals
        else "the likelihood ratio does not tell members",
        part=part.name,
        system=LIKELIHOOD,
        quantity=OVER_CHANCE,
        expects=Above() if reveals else Near(LITTLE),
        beyond=True,
    )
    yield alone(
        "some members are named almost surely" if reveals else "no member is named almost surely",
        part=part.name,
        system=LIKELIHOOD,
        quantity=CAUGHT,
        expects=Above(0.01) if reveals else Near(0.03),
        beyond=True,
    )
    yield alone(
        "the length of an update tells nothing",
        part=part.name,
        system=LENGTH,
        quantity=OVER_CHANCE,
        expects=Near(LITTLE),
        beyond=True,
    )
