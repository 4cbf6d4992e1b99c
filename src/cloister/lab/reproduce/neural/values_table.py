"""All means of a table as a file: ours, and the slides' numbers beside them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Final

import numpy as np

from cloister.lab.neural.map_cost import MapCost
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.neural.paper_tables import (
    COLUMNS,
    PAPER_COLLECTIONS,
    PRINTED,
    printed,
)
from cloister.lab.reproduce.quantity import figure
from cloister.lab.reproduce.study import Study

__all__ = ["COST_NAMES", "SOFT_SHARE", "values_csv"]

COST_NAMES: Final = MapCost._fields
SOFT_SHARE: Final = "soft_share_of_order"  # of the scores, see `cloister.lab.neural.layers`


def values_csv(
    parts: Sequence[Study],
    systems: Sequence[str],
    evidence: Evidence,
    *,
    more: Sequence[str] = (),
) -> bytes:
    """Return a line for each collection and system, the slides' two collections first.

    Parameters
    ----------
    more
        Further figures than nDCG.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [f"ndcg@{k}" for k in COLUMNS]
    writer.writerow(["data", "system", *names, *more])
    for collection in PAPER_COLLECTIONS:
        for system in systems:
            if system in PRINTED:
                numbers = [f"{printed(system, collection, k):.4f}" for k in COLUMNS]
                writer.writerow([f"{collection} (slides)", system, *numbers])
    for part in parts:
        for system in systems:
            means = [_mean(evidence, part.name, system, name) for name in (*names, *more)]
            if not np.isnan(means).all():
                writer.writerow([part.name, system, *map(_said, means)])
    return text.getvalue().encode()


def _mean(evidence: Evidence, part: str, system: str, name: str) -> float:
    values = list(evidence.sample(part, system, figure(name)).values())
    return float(np.mean(values)) if values else float("nan")


def _said(value: float) -> str:
    if np.isnan(value):
        return ""
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.0f}"
