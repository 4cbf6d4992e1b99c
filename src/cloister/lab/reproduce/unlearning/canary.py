"""Beyond the thesis: a mark by which a client tests for itself whether it was forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cloister.lab.forgetting.canary_study import CanarySettings
from cloister.lab.reproduce.claim import Above, Below, Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import alone, versus
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.foltr.setting import Ground, features_worlds, mq2008
from cloister.lab.reproduce.quantity import figure
from cloister.lab.reproduce.study import Study, StudyJob
from cloister.lab.reproduce.unlearning.setting import repetitions

__all__ = ["canary"]

FUNCTION: Final = "cloister.lab.forgetting.canary_study:canary_figures"
CLICK: Final = "informational"  # the noisiest clicks
SIZES: Final = CanarySettings(data="").sizes
DETECTED: Final = figure("detected", "share of tests with p at most 0.05")
P_VALUE: Final = figure("p_value", "mean p-value")
COSTLESS: Final = 0.005  # of nDCG@10
POWER: Final = 0.9
CHANCE: Final = 0.15  # a share of 0.05, or less where signed ranks tie, is expected
CENTRE: Final = 0.4  # a mean of 0.5, or more where they tie


def canary(size: Size, collections: Collections) -> Figure:
    """Return the study of the canary."""
    found = [
        _study(mq2008(collections), size.of(quick=3, full=20), size),
        _study(features_worlds(), size.of(quick=2, full=20), size),
    ]
    return Figure(
        "unlearning-canary",
        "A mark tells whether a client was forgotten, and costs the others nothing",
        "the thesis asks for a test that does not harm other users, and has none",
        tuple(found),
        tuple(claim for study in found for claim in _claims(study.name)),
        measures=(),
    )


def _study(ground: Ground, seeds: int, size: Size) -> Study:
    rounds = size.of(quick=1_000, full=2_000)
    shared: dict[str, Any] = {
        "normalise": ground.base.get("normalise", "query_minmax"),
        "rounds": rounds,
        "click_model": CLICK,
    }
    jobs = tuple(
        StudyJob(FUNCTION, CanarySettings(**shared, **repeat), rounds=8 * rounds)
        for repeat in repetitions(ground, seeds)
    )
    setting = f"10 clients x 5 queries x {rounds:,} rounds, {CLICK} clicks, 16 signs"
    return Study(ground.collection.name, ground.collection, jobs, setting)


def _claims(part: str) -> Iterator[Claim]:
    for size in SIZES:
        yield alone(
            "a ranker that the client's updates went into shows its mark",
            part=part,
            system=f"marked {size:g}",
            quantity=DETECTED,
            expects=Above(POWER),
            beyond=True,
        )
        yield versus(
            "the mark costs the others nothing",
            part=part,
            system=f"marked {size:g}",
            baseline="unmarked",
            expects=Near(COSTLESS),
            beyond=True,
        )
        yield alone(
            "after unlearning the mark looks like chance",
            part=part,
            system=f"forgotten {size:g}",
            quantity=DETECTED,
            expects=Below(CHANCE),
            beyond=True,
        )
    for system in ("unmarked", "retrained", *(f"forgotten {size:g}" for size in SIZES)):
        yield alone(
            "without the mark p-values are as large as chance makes them",
            part=part,
            system=system,
            quantity=P_VALUE,
            expects=Above(CENTRE),
            beyond=True,
        )
    for system in ("unmarked", "retrained"):
        yield alone(
            "where the mark never was it looks like chance",
            part=part,
            system=system,
            quantity=DETECTED,
            expects=Below(CHANCE),
            beyond=True,
        )
