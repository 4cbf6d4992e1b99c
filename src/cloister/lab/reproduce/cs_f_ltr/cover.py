"""Beyond the paper: cover rates of the one-shot noisy release at true epsilons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cloister.lab.reproduce.claim import Above, Claim
from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.comparing import alone, versus
from cloister.lab.reproduce.cs_f_ltr.cover_trial import (
    PAPER,
    PLANNED,
    SHAPES,
    CoverSettings,
    system_of,
)
from cloister.lab.reproduce.cs_f_ltr.figure_4 import Searched, corpora
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.quantity import figure
from cloister.lab.reproduce.study import Study, StudyJob

__all__ = ["AIMS", "cover"]

FUNCTION: Final = "cloister.lab.reproduce.cs_f_ltr.cover_trial:measure"
COVER: Final = figure("cover_rate", "cover rate")
# What is aimed at, on 36,400 documents: epsilon of one token at delta 1e-6, and cover rate.
AIMS: Final[dict[float | None, float]] = {None: 0.99, 8.0: 0.98, 4.0: 0.95, 2.0: 0.88, 1.0: 0.75}
# And on all 17,896 answers of MedQuAD, in 54 million bytes.
TEXT_AIMS: Final[dict[float | None, float]] = {8.0: 0.95, 4.0: 0.79, 2.0: 0.59, 1.0: 0.40}


def cover(size: Size, data: Collections) -> Figure:
    """Return the cover rates."""
    searched = corpora(size, data)
    bursty = searched[0].collection
    text_like = Collection(f"{bursty.name}, bursty as text", f"{bursty.address}&burst_share=0.3")
    parts = tuple(
        _study(one, size) for one in (*searched, searched[0]._replace(collection=text_like))
    )
    return Figure(
        "cover-rate",
        "Share of the true top 150 that a noisy release finds",
        "not measured: the paper's noise is not in its selection",
        parts,
        tuple(claim for part in parts for claim in _claims(part.name, _aims(part, data))),
        "Epsilon is for one token, delta 1e-6, and of the whole release with lengths and "
        "frequencies. Terms are drawn by how often they occur; where fewer documents hold a "
        "term than are asked for, any fills the places; of equal counts any is right. "
        "The aims are for full sizes: 36,400 documents of the Zipf corpora, 17,896 of MedQuAD.",
        measures=(),
    )


def _study(searched: Searched, size: Size) -> Study:
    n_terms = size.of(quick=300, full=1000)
    jobs = tuple(
        StudyJob(
            FUNCTION,
            CoverSettings(
                data=searched.collection.address,
                seed=seed,
                n_documents=searched.drawn,
                n_terms=n_terms,
                mean_length=searched.mean_length,
            ),
            rounds=20,
        )
        for seed in range(1, size.of(quick=3, full=5) + 1)
    )
    told = f"{searched.told}, {n_terms} terms drawn by frequency"
    return Study(searched.collection.name, searched.collection, jobs, told)


def _aims(part: Study, data: Collections) -> dict[float | None, float]:
    return TEXT_AIMS if part.collection == data["MedQuAD"] else AIMS


def _claims(part: str, aims: dict[float | None, float]) -> Iterator[Claim]:
    for name in SHAPES:
        for epsilon, aim in aims.items():
            yield alone(
                "without noise nearly all of the true top is found"
                if epsilon is None
                else f"at epsilon {epsilon:g} at least {aim:g} of the true top is found",
                part=part,
                system=system_of(name, epsilon),
                quantity=COVER,
                expects=Above(aim),
                beyond=True,
            )
    for epsilon in AIMS:
        if epsilon is not None:
            yield versus(
                "few wide rows find more than the paper's shape under the same epsilon",
                part=part,
                system=system_of(PLANNED, epsilon),
                baseline=system_of(PAPER, epsilon),
                quantity=COVER,
                beyond=True,
            )
