"""Figures 2 and 3: BM25 with the user's and with global statistics, at 5 % and 10 % access."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cloister.lab.espresso.agreement import at
from cloister.lab.reproduce.claim import Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.espresso.paper_tables import printed
from cloister.lab.reproduce.espresso.setting import (
    KEYWORD,
    MEASURES,
    NO_DIFFERENCE,
    PAPER_SETTING,
    SERVERS,
    SPARSE_VECTORS,
    agreement_study,
    clinic,
    part_name,
    vector_study,
)
from cloister.lab.reproduce.figure import Figure, Size

__all__ = ["figure_2", "figure_3"]

COLUMNS: Final = ("ndcg@5", "ndcg@10", "ndcg@20", "p@5", "p@10", "map")


def figure_2(size: Size, data: Collections) -> Figure:
    """Return the figure of 5 % access."""
    return _figure("figure-2", size, 5)


def figure_3(size: Size, data: Collections) -> Figure:
    """Return the figure of 10 % access."""
    return _figure("figure-3", size, 10)


def _figure(key: str, size: Size, access: int) -> Figure:
    ground = clinic(size)
    keyword = agreement_study(ground, size, access, KEYWORD)
    sparse = agreement_study(ground, size, access, SPARSE_VECTORS)
    both = keyword._replace(jobs=(*keyword.jobs, *sparse.jobs))
    return Figure(
        key,
        f"User and global statistics, and vectors, at {access} % access",
        PAPER_SETTING,
        (vector_study(ground, size, access, both),),
        tuple(_claims(part_name(ground, access), access)),
        "The figure's curves are not in the paper's text: held against runs are its statements.",
        measures=(),
    )


def _claims(part: str, access: int) -> Iterator[Claim]:
    for column in COLUMNS:
        for n in SERVERS[1:]:
            yield versus(
                "global statistics generally above the user's",
                part=part,
                system=at("BM25 global", n),
                baseline=at("BM25 user", n),
                quantity=MEASURES[column],
            )
        yield versus(
            "with one server the user's statistics come very close to global ones",
            part=part,
            system=at("BM25 global", 1),
            baseline=at("BM25 user", 1),
            quantity=MEASURES[column],
            expects=Near(NO_DIFFERENCE),
        )
        theirs = [printed(model, access, 5, column) for model in ("TF-IDF cosine", "W2V cosine")]
        yield versus(
            "W2V performs poorly beside TF-IDF at low access",
            part=part,
            system=at("TF-IDF cosine", 5),
            baseline=at("W2V cosine", 5),
            quantity=MEASURES[column],
            paper=round(theirs[0] - theirs[1], 3),
        )
