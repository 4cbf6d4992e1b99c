"""Figure 4.9: clients who search more or less often (thesis section 4.5.2)."""

from __future__ import annotations

from typing import Any, Final

from cloister.data.partitions import THESIS_QUANTITIES
from cloister.lab.reproduce.claim import Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.foltr.setting import CLICKS, TWO_CLICKS, Ground, clueweb09, mslr

__all__ = ["figure_4_9"]

ALONE: Final = "MSLR sample, alone"
WITH_TYPE_1: Final = "ClueWeb09, with type 1"
WITH_TYPE_2: Final = "MSLR sample, with type 2"


def figure_4_9(size: Size, data: Collections) -> Figure:
    """Return figure 4.9: queries a round that differ, alone and with types 1 and 2."""
    intents = {"partition": "intents-shuffled", "evaluate_on": "train"}
    parts = (
        _part(size, mslr(data), ALONE, {}),
        _part(size, clueweb09(data), WITH_TYPE_1, intents),
        _part(size, mslr(data), WITH_TYPE_2, {"partition": "labels", "labels_per_client": 1}),
    )
    claims = tuple(
        versus(
            "It makes no difference that clients issue different numbers of queries.",
            part=part.name,
            system="1, 3, 5, 7, 9 queries",
            baseline="5 queries each",
            click=click,
            expects=Near(),
        )
        for part in parts
        for click in size.of(quick=TWO_CLICKS, full=CLICKS)
    )
    return Figure(
        "figure-4.9",
        "Type 4, data quantity: offline nDCG@10",
        "5 clients x 1, 3, 5, 7 and 9 queries x 10,000 rounds, linear ranker",
        parts,
        claims,
        "With types 1 and 2 the comparison is with the same type and 5 queries each. Four intents "
        "are dealt to five clients: the fifth has the first one's.",
    )


def _part(size: Size, ground: Ground, name: str, partition: dict[str, Any]) -> Part:
    return ground.part(
        [
            {"name": "5 queries each"},
            {"name": "1, 3, 5, 7, 9 queries", "quantities": THESIS_QUANTITIES},
        ],
        name=name,
        clients=5,
        queries_per_round=5,
        rounds=size.of(quick=1000, full=10_000),
        seeds=size.of(quick=5, full=10) // len(ground.folds),
        clicks=size.of(quick=TWO_CLICKS, full=CLICKS),
        **partition,
    )
