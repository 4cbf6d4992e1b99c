"""Beyond the paper: the same four runs with a pairwise ranker and with forests."""

from __future__ import annotations

from collections.abc import Iterator

from cloister.lab.reproduce.claim import Claim
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.cs_f_ltr.fairness import fairness_claims
from cloister.lab.reproduce.cs_f_ltr.setting import (
    EPSILON,
    MEASURES,
    RANKERS,
    grounds,
    silo_study,
    system_name,
)
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.study import Study

__all__ = ["other_rankers"]


def other_rankers(size: Size, data: Collections) -> Figure:
    """Return what CS-F-LTR and the mixture give where rankers are better to begin with."""
    parts = tuple(
        silo_study(ground, size, epsilon=EPSILON, rankers=RANKERS[1:])
        for ground in grounds(data)[: size.of(quick=2, full=4)]
    )
    return Figure(
        "other-rankers",
        "Pairwise rankers and forests across silos",
        "not measured",
        parts,
        tuple(claim for part in parts for ranker in RANKERS[1:] for claim in _claims(part, ranker)),
        "Forests of the parties are added up; parameters and trees have no guarantee.",
        measures=(),
    )


def _claims(part: Study, ranker: str) -> Iterator[Claim]:
    yield versus(
        "CS-F-LTR above the average of Local with another ranker",
        part=part.name,
        system=system_name(ranker, "cs-f-ltr"),
        baseline=system_name(ranker, "local"),
        quantity=MEASURES["nDCG@10"],
        beyond=True,
    )
    yield from fairness_claims(part, ranker)
