"""Thesis table 6.2: local steps n' of 1 to 4, intervals delta-t of 5, 10 and 20."""

from __future__ import annotations

from collections.abc import Iterator

from cloister.lab.reproduce.claim import Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.unlearning.setting import PAPER_SETTING, Place, clicks, places

__all__ = ["table_6_2"]


def table_6_2(size: Size, collections: Collections) -> Figure:
    """Return the table."""
    found = places(size, collections)
    return Figure(
        "table-6.2",
        "Unlearning by local steps n' and interval delta-t",
        "n' of 1 to 4, delta-t of 5, 10 and 20",
        tuple(place.study for place in found),
        tuple(
            claim for place in found for click in clicks(size) for claim in _claims(place, click)
        ),
        note=f"The table's numbers are not in the text. {PAPER_SETTING}",
        measures=(),
    )


def _claims(place: Place, click: str) -> Iterator[Claim]:
    like = place.like
    beyond = like.n_attackers > 1
    most, least = max(like.local_steps), min(like.local_steps)
    often, seldom = min(like.intervals), max(like.intervals)
    for interval in like.intervals:
        yield versus(
            "more local steps give a better ranker",
            part=place.name,
            system=like.unlearned(most, interval),
            baseline=like.unlearned(least, interval),
            click=click,
            beyond=beyond,
        )
    for steps in like.local_steps:
        yield versus(
            "a shorter interval gives a better ranker, in most cases",
            part=place.name,
            system=like.unlearned(steps, often),
            baseline=like.unlearned(steps, seldom),
            click=click,
            beyond=beyond,
        )
    for interval in like.intervals:
        for steps in like.local_steps:
            yield versus(
                "unlearning ends where retraining from scratch does",
                part=place.name,
                system=like.unlearned(steps, interval),
                baseline=like.without,
                click=click,
                expects=Near(),
                beyond=True,
            )
