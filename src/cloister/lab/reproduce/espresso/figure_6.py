"""Figure 6: BM25 less Word2Vec by length of the query, averaged over access levels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cloister.lab.espresso.agreement import at
from cloister.lab.espresso.topic_queries import LENGTHS
from cloister.lab.reproduce.claim import Above, Claim, Estimate
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.espresso.setting import (
    ACCESS,
    KEYWORD,
    MEASURES,
    PAPER_SETTING,
    SERVERS,
    agreement_study,
    clinic,
    part_name,
    vector_study,
)
from cloister.lab.reproduce.evidence import Evidence, Sample, paired
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.quantity import figure

__all__ = ["averaged", "figure_6"]

COLUMNS: Final = ("ndcg@5", "ndcg@10", "ndcg@20", "p@5", "p@10", "map")
ONE, OTHER = "BM25 global", "W2V cosine"


def figure_6(size: Size, data: Collections) -> Figure:
    """Return the figure."""
    ground = clinic(size)
    parts = tuple(
        vector_study(ground, size, access, agreement_study(ground, size, access, KEYWORD))
        for access in ACCESS
    )
    names = tuple(part_name(ground, access) for access in ACCESS)
    return Figure(
        "figure-6",
        "BM25 less Word2Vec by length of the query",
        PAPER_SETTING,
        parts,
        tuple(_claims(names)),
        "The figure's numbers are not in the paper's text: held against runs are its statements.",
        measures=(),
    )


def _claims(parts: tuple[str, ...]) -> Iterator[Claim]:
    for group in LENGTHS:
        for column in COLUMNS:
            for n in SERVERS:
                yield _gap(
                    "the gap is strictly positive under all conditions", parts, group, column, (n,)
                )
            yield _gap("the gap widens with more servers", parts, group, column, (5, 1))


def _gap(
    statement: str, parts: tuple[str, ...], group: str, column: str, servers: tuple[int, ...]
) -> Claim:
    """Return the claim that a gap is above 0, or above that with another number of servers."""
    label = MEASURES[column].label

    def estimate(evidence: Evidence) -> Estimate:
        gaps = [_difference(evidence, parts, f"{column} {group}", n) for n in servers]
        names = tuple(f"S={n}" for n in (*servers, 0))[:2]
        return paired(gaps[0], gaps[1] if len(gaps) > 1 else None, (names[0], names[1]))

    told = " less with ".join(f"S={n}" for n in servers)
    return Claim(
        statement,
        f"{ONE} less {OTHER}, {group} queries, mean over access, {told}: {label}",
        parts,
        Above(),
        estimate,
    )


def _difference(evidence: Evidence, parts: tuple[str, ...], name: str, n_servers: int) -> Sample:
    one, other = (averaged(evidence, parts, at(model, n_servers), name) for model in (ONE, OTHER))
    return {repeat: one[repeat] - other[repeat] for repeat in one.keys() & other.keys()}


def averaged(evidence: Evidence, parts: tuple[str, ...], system: str, name: str) -> Sample:
    """Return the mean over parts for each repetition that all of them have."""
    samples = [evidence.sample(part, system, figure(name)) for part in parts]
    shared = set.intersection(*(set(sample) for sample in samples))
    return {repeat: float(np.mean([sample[repeat] for sample in samples])) for repeat in shared}
