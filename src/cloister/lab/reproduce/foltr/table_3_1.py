"""Table 3.1: online performance of FPDGD and FOLtR-ES (thesis section 3.2.3)."""

from __future__ import annotations

from typing import Final

from cloister.lab.reproduce.claim import MARGIN, Above, Below, Claim, Expectation, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.foltr.fpdgd import NOISE, SETTING, levels, parts_of_figure_3_6
from cloister.lab.reproduce.foltr.setting import CLICKS, discounts
from cloister.lab.reproduce.quantity import ONLINE

__all__ = ["table_3_1"]

# FPDGD and FOLtR-ES for epsilon 1.2, 2.3, 4.5 and 10, and which of the two is marked as higher.
PRINTED: Final = {
    ("MQ2008", "perfect"): (
        (296.03, 316.66, "ES"), (296.09, 317.93, "ES"), (313.28, 313.80, ""), (313.26, 312.29, ""),
    ),
    ("MQ2008", "navigational"): (
        (293.29, 319.90, "ES"), (293.42, 325.04, "ES"),
        (303.80, 324.33, "ES"), (303.82, 323.05, "ES"),
    ),
    ("MQ2008", "informational"): (
        (291.84, 292.58, ""), (292.02, 294.78, ""),
        (301.45, 288.57, "FPDGD"), (301.30, 285.96, "FPDGD"),
    ),
    ("MSLR sample", "perfect"): (
        (54.62, 39.35, "FPDGD"), (54.61, 40.50, "FPDGD"),
        (54.64, 40.87, "FPDGD"), (54.61, 41.14, "FPDGD"),
    ),
    ("MSLR sample", "navigational"): (
        (52.33, 38.55, "FPDGD"), (52.30, 39.59, "FPDGD"),
        (52.30, 40.32, "FPDGD"), (52.29, 40.47, "FPDGD"),
    ),
    ("MSLR sample", "informational"): (
        (51.11, 37.26, "FPDGD"), (51.16, 37.18, "FPDGD"),
        (51.14, 37.21, "FPDGD"), (51.18, 37.53, "FPDGD"),
    ),
}  # fmt: skip


def table_3_1(size: Size, data: Collections) -> Figure:
    """Online nDCG of the runs of figure 3.6."""
    parts = [part for part in parts_of_figure_3_6(size, data) if part.name in _NAMES]
    rounds = {part.name: int(part.experiment.base["rounds"]) for part in parts}
    claims = [
        _claim(part, click, position, rounds[part])
        for part in rounds
        for click in CLICKS
        for position, level in enumerate(NOISE)
        if level in levels(size)
    ]
    return Figure(
        "table-3.1",
        "FPDGD and FOLtR-ES, discounted online nDCG@10",
        SETTING,
        tuple(parts),
        tuple(claims),
        "The thesis's numbers are of other collections: only who is higher can be compared. No "
        f"difference: less than {MARGIN:g} of nDCG a round.",
        measures=("online_ndcg",),
    )


_NAMES: Final = ("MQ2008", "MSLR sample")


def _claim(part: str, click: str, position: int, rounds: int) -> Claim:
    level = NOISE[position]
    fpdgd, es, higher = PRINTED[part, click][position]
    expects: dict[str, Expectation] = {
        "FPDGD": Above(),
        "ES": Below(),
        "": Near(round(MARGIN * discounts(rounds), 2)),
    }
    return versus(
        "Online, FPDGD is above FOLtR-ES on MSLR-WEB10K; on MQ2007 it is below it under "
        "navigational clicks and under perfect ones with little budget, above it under "
        "informational ones with a large budget, and elsewhere they are alike.",
        part=part,
        system=level.fpdgd,
        baseline=level.es,
        click=click,
        quantity=ONLINE,
        expects=expects[higher],
        paper=round(fpdgd - es, 2),
    )
