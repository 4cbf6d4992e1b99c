"""Table 4: TF-IDF and Word2Vec, by cosine and by distance, by access and servers asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cloister.lab.espresso.agreement import at
from cloister.lab.reproduce.claim import Claim
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.espresso.paper_tables import printed
from cloister.lab.reproduce.espresso.setting import (
    ACCESS,
    MEASURES,
    PAPER_SETTING,
    SERVERS,
    SPARSE_VECTORS,
    USER_VECTORS,
    agreement_study,
    clinic,
    order_of,
    part_name,
    small_clinic,
    vector_study,
)
from cloister.lab.reproduce.espresso.table_3 import TOLERANCE, numbers
from cloister.lab.reproduce.espresso.values_table import values_csv
from cloister.lab.reproduce.espresso.vector_trial import MENDED
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.study import Study

__all__ = ["table_4", "vector_parts"]

DENSE: Final = ("W2V cosine", "W2V Euclidean")
USER_ACCESS: Final = (5, 10, 25)
ALL: Final = (*SPARSE_VECTORS, *DENSE, MENDED, *USER_VECTORS)


def vector_parts(size: Size) -> tuple[Study, ...]:
    """Return the trials of all vector models with global statistics, by access."""
    ground = clinic(size)
    return tuple(
        vector_study(ground, size, access, agreement_study(ground, size, access, SPARSE_VECTORS))
        for access in ACCESS
    )


def table_4(size: Size, data: Collections) -> Figure:
    """Return the table."""
    small = small_clinic()
    both = (*SPARSE_VECTORS, *USER_VECTORS)
    own = tuple(agreement_study(small, size, access, both) for access in USER_ACCESS)
    parts = (*vector_parts(size), *own)
    claims = [
        *(c for access in ACCESS for c in _claims(part_name(clinic(size), access), access)),
        *(c for access in USER_ACCESS for c in _of_user(part_name(small, access))),
    ]
    return Figure(
        "table-4",
        "TF-IDF and Word2Vec, by access and servers asked",
        PAPER_SETTING,
        parts,
        tuple(claims),
        f"A number agrees if ours is within {TOLERANCE:g} of it. Word vectors begin from a base "
        "trained on records of another clinic world, not from the paper's pre-trained ones, and "
        "are tuned on a sample of what the user may read. IDF is ln(1 + ...).",
        measures=(),
        pictures=lambda evidence: {"values.csv": values_csv(parts, ALL, evidence)},
    )


def _claims(part: str, access: int) -> Iterator[Claim]:
    for model in (*SPARSE_VECTORS, *DENSE):
        yield from numbers(part, model, access)
    for n in SERVERS:
        yield _above(part, "TF-IDF cosine", "TF-IDF Euclidean", access, n)
        yield _above(part, "W2V cosine", "W2V Euclidean", access, n)
    yield versus(
        "vectors backed off to the base agree more with BM25 than the paper's tuning",
        part=part,
        system=at(MENDED, 5),
        baseline=at("W2V cosine", 5),
        quantity=MEASURES["ndcg@5"],
        beyond=True,
    )


def _above(part: str, one: str, other: str, access: int, n_servers: int) -> Claim:
    theirs = [printed(model, access, n_servers, "map") for model in (one, other)]
    return versus(
        f"{one} beside {other}, as the table has it",
        part=part,
        system=at(one, n_servers),
        baseline=at(other, n_servers),
        quantity=MEASURES["map"],
        expects=order_of(theirs[0], theirs[1]),
        paper=round(theirs[0] - theirs[1], 3),
    )


def _of_user(part: str) -> Iterator[Claim]:
    for model, own in zip(SPARSE_VECTORS, USER_VECTORS, strict=True):
        yield versus(
            "TF-IDF with global IDF (equation 13) beside the user's own",
            part=part,
            system=at(model, 5),
            baseline=at(own, 5),
            quantity=MEASURES["map"],
            expects=order_of(0.0, 0.0),
            beyond=True,
        )
