"""What the figures on unlearning share: repetitions, and the systems that claims speak of.

The thesis uses MQ2007, MSLR-WEB10K, Yahoo and Istella-S with one malicious client of ten. Here are
MQ2008, features worlds and the MSLR sample, with one malicious client and with three.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from cloister.lab.forgetting.evaluation_settings import UnlearningSettings
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Size
from cloister.lab.reproduce.foltr.setting import (
    CLICKS,
    TWO_CLICKS,
    Ground,
    features_worlds,
    mq2008,
    mslr,
)
from cloister.lab.reproduce.study import Study, StudyJob

__all__ = ["PAPER_SETTING", "Place", "clicks", "grounds", "places"]

PAPER_SETTING: Final = (
    "10 clients x 5 queries x 10,000 rounds, z = 2; unlearning in 1,000 rounds of n' = 3 "
    "(delta-t 10) unless said; four collections, all folds"
)
FUNCTION: Final = "cloister.lab.forgetting.evaluation:unlearning_figures"
ATTACKERS: Final = (1, 3)
ROUNDS: Final = 10_000
SEEDS: Final = 3  # for each fold of MQ2008
MSLR_SEEDS: Final = 5


class Place(NamedTuple):
    """A study on one collection, with so many malicious clients.

    Parameters
    ----------
    study
        Its jobs.
    like
        Settings that name its systems.
    """

    study: Study
    like: UnlearningSettings

    @property
    def name(self) -> str:
        """By which claims speak of it."""
        return self.study.name


def clicks(size: Size) -> tuple[str, ...]:
    """Return the click models of a size."""
    return size.of(quick=TWO_CLICKS, full=CLICKS)


def grounds(size: Size, data: Collections) -> tuple[tuple[Ground, int], ...]:
    """Return collections, each with its number of seeds a fold or world."""
    if size.is_quick:
        return ((mq2008(data), 1),)
    return ((mq2008(data), SEEDS), (features_worlds(), 1), (mslr(data), MSLR_SEEDS))


def repetitions(ground: Ground, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield data, fold and seed of each repetition; no two share a seed."""
    number = 0
    for address in ground.worlds or (ground.collection.address,):
        for fold in ground.folds:
            for _ in range(seeds):
                number += 1
                yield {"data": address, "fold": fold, "seed": number}


def places(size: Size, data: Collections) -> list[Place]:
    """Return what all figures on the poisoned client are measured on."""
    return [
        _place(ground, seeds, n_attackers, size)
        for ground, seeds in grounds(size, data)
        for n_attackers in ATTACKERS
    ]


def _place(ground: Ground, seeds: int, n_attackers: int, size: Size) -> Place:
    shared: dict[str, Any] = {
        "normalise": ground.base.get("normalise", "query_minmax"),
        "n_attackers": n_attackers,
        "rounds": ROUNDS,
        "local_steps": size.of(quick=(1, 3, 4), full=(1, 2, 3, 4)),
        "intervals": size.of(quick=(10, 20), full=(5, 10, 20)),
    }
    jobs = tuple(
        StudyJob(
            FUNCTION, UnlearningSettings(**shared, **repeat, click_model=click), rounds=5 * ROUNDS
        )
        for repeat in repetitions(ground, seeds)
        for click in clicks(size)
    )
    like = UnlearningSettings(**shared, data="", click_model="")
    study = Study(
        f"{ground.collection.name}, {like.poisoned}",
        ground.collection,
        jobs,
        f"10 clients, {n_attackers} malicious, x 5 queries x {ROUNDS:,} rounds",
        ground.paper,
    )
    return Place(study, like)
