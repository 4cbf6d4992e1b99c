"""Beyond the paper: nDCG@10 by people's judgements, on collections spread over pods."""

from __future__ import annotations

from collections.abc import Iterator

from cloister.lab.reproduce.claim import Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.espresso.judged_trial import CENTRAL, JUDGED
from cloister.lab.reproduce.espresso.setting import (
    ACCESS,
    MEASURES,
    NO_DIFFERENCE,
    PAPER_SETTING,
    judged_study,
    part_name,
    spread,
)
from cloister.lab.reproduce.figure import Figure, Size

__all__ = ["judged"]


def judged(size: Size, data: Collections) -> Figure:
    """Return what people's judgements say."""
    chosen = (spread(data, "nfcorpus"), spread(data, "medquad"))
    levels = size.of(quick=(10, 100), full=ACCESS)
    return Figure(
        "judged",
        "nDCG@10 by people's judgements, five servers asked",
        PAPER_SETTING,
        tuple(judged_study(ground, size, access) for ground in chosen for access in levels),
        tuple(c for g in chosen for access in levels for c in _claims(part_name(g, access))),
        "Relevance, not agreement: queries and grades are the collections' own. Ideal rankings "
        "are of what the user may read.",
        measures=(),
    )


def _claims(part: str) -> Iterator[Claim]:
    for system in JUDGED[1:]:
        yield versus(
            "five servers lose nothing to the user's centralised BM25, as people judge",
            part=part,
            system=system,
            baseline=CENTRAL,
            quantity=MEASURES["ndcg@10"],
            expects=Near(NO_DIFFERENCE),
            beyond=True,
        )
