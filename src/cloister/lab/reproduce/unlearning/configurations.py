"""Thesis figure 6.2: one malicious client spoils the ranker, one honest client fewer does not."""

from __future__ import annotations

from collections.abc import Iterator

from cloister.lab.reproduce.claim import Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.unlearning.setting import PAPER_SETTING, Place, clicks, places

__all__ = ["figure_6_2"]


def figure_6_2(size: Size, collections: Collections) -> Figure:
    """Return the figure."""
    found = places(size, collections)
    return Figure(
        "figure-6.2",
        "Three configurations: with a malicious client, all honest, and without that client",
        PAPER_SETTING,
        tuple(place.study for place in found),
        tuple(
            claim for place in found for click in clicks(size) for claim in _claims(place, click)
        ),
        note="Configurations with three malicious clients are ours.",
        measures=(),
    )


def _claims(place: Place, click: str) -> Iterator[Claim]:
    like = place.like
    beyond = like.n_attackers > 1
    yield versus(
        "the malicious client makes the ranker worse",
        part=place.name,
        system=like.all_honest,
        baseline=like.poisoned,
        click=click,
        beyond=beyond,
    )
    yield versus(
        "with and without one honest client rankers cannot be told apart",
        part=place.name,
        system=like.all_honest,
        baseline=like.without,
        click=click,
        expects=Near(),
        beyond=beyond,
    )
