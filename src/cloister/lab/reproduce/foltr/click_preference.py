"""Figure 4.8: clients who click in different ways (thesis section 4.5.1)."""

from __future__ import annotations

from typing import Final

from cloister.lab.reproduce.claim import Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.foltr.setting import CLICKS, mslr

__all__ = ["figure_4_8"]

HABITS: Final = {
    "cascade": CLICKS,
    "position-based": ("pbm-0", "pbm-0.5", "pbm-1", "pbm-1.5", "pbm-2"),
}


def figure_4_8(size: Size, data: Collections) -> Figure:
    """Return figure 4.8: a click model for each client, or all of them for all."""
    parts = tuple(
        mslr(data).part(
            [
                {"name": "IID", "partition": "clicks-mixed"},
                {"name": "non-IID", "partition": "clicks"},
            ],
            name=f"MSLR sample, {kind}",
            click_models=models,
            clients=len(models),
            queries_per_round=5,
            rounds=size.of(quick=1000, full=10_000),
            seeds=10,
            clicks=("perfect",),
        )
        for kind, models in HABITS.items()
    )
    claims = tuple(
        versus(
            "It makes no significant difference whether each client clicks in its own way.",
            part=part.name,
            system="non-IID",
            baseline="IID",
            expects=Near(),
        )
        for part in parts
    )
    return Figure(
        "figure-4.8",
        "Type 3, click preferences: offline nDCG@10",
        "3 clients (cascade) or 5 (position-based) x 5 queries x 10,000 rounds, linear ranker",
        parts,
        claims,
    )
