"""What published statistics cost as a table of means with intervals, and as pictures."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from cloister.lab.espresso.statistics_cost import StatisticsCostSettings
from cloister.lab.reproduce.espresso.level_lines_image import LinesPanel, lines_png
from cloister.lab.reproduce.espresso.statistics_trial import (
    EXACT,
    FOUND,
    LISTED,
    NOTHING,
    OWN,
    at_access,
    noisy_name,
    threshold_name,
)
from cloister.lab.reproduce.evidence import Evidence, student_interval
from cloister.lab.reproduce.quantity import figure
from cloister.lab.reproduce.study import Study

__all__ = ["statistics_csv", "statistics_png", "table_names"]

COLUMNS: Final = ("agreement@5", "agreement@10", "judged@10", "listed")
SHOWN: Final = (("agreement@10", "agreement, nDCG@10"), ("judged@10", "judged nDCG@10"))
Values = list[float]


def statistics_csv(
    parts: Sequence[Study], cost: StatisticsCostSettings, evidence: Evidence
) -> bytes:
    """Return means over repetitions with Student's intervals: a line for each part and form."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    bounds = [f"{name} {which}" for name in COLUMNS for which in ("mean", "low", "high")]
    writer.writerow(["data", "tables", "access", "repetitions", *bounds])
    for part in parts:
        for name in table_names(cost):
            for access in cost.access:
                found = [_values(evidence, part.name, name, access, column) for column in COLUMNS]
                if any(found):
                    cells = [cell for values in found for cell in _cells(values)]
                    writer.writerow([part.name, name, access, max(map(len, found)), *cells])
    return text.getvalue().encode()


def statistics_png(
    part: str, cost: StatisticsCostSettings, evidence: Evidence, title: str
) -> bytes:
    """Draw what thresholds (left) and noise (right) cost at the least and the most access."""
    levels = list(dict.fromkeys((min(cost.access), max(cost.access))))
    rows = []
    for measure, label in SHOWN:
        for access in levels:
            if not _values(evidence, part, EXACT, access, measure):
                continue  # nobody judged
            named = f"{label}, {access} % access"
            rows.append(_row(evidence, part, cost, access, measure, named))
    return lines_png(rows, title)


def _row(
    evidence: Evidence,
    part: str,
    cost: StatisticsCostSettings,
    access: int,
    measure: str,
    label: str,
) -> list[LinesPanel]:
    def line(names: Sequence[str]) -> list[Values]:
        return [_values(evidence, part, name, access, measure) for name in names]

    references = {name: line([name])[0] for name in (EXACT, NOTHING)}
    thresholds = {
        _kind("threshold", each): line([threshold_name(t, each=each) for t in cost.thresholds])
        for each in (False, True)
    }
    noisy = {
        _kind(f"noisy, {terms}", each): line(
            [noisy_name(epsilon, terms, each=each) for epsilon in cost.epsilons]
        )
        for terms in (LISTED, FOUND)
        for each in (False, True)
    }
    return [
        LinesPanel(
            "tables with a threshold",
            label,
            "threshold",
            [f"{t}" for t in cost.thresholds],
            thresholds,
            references,
        ),
        LinesPanel(
            "noisy tables",
            label,
            "epsilon",
            [f"{epsilon:g}" for epsilon in cost.epsilons],
            {name: one for name, one in noisy.items() if any(one)},
            references,
        ),
    ]


def table_names(cost: StatisticsCostSettings) -> Iterator[str]:
    """Give the names of all tables that are tried, where there is a word list."""
    yield from (OWN, EXACT, NOTHING)
    for each in (False, True):
        yield from (threshold_name(t, each=each) for t in cost.thresholds)
        for terms in (LISTED, FOUND):
            yield from (noisy_name(epsilon, terms, each=each) for epsilon in cost.epsilons)


def _kind(name: str, each: bool) -> str:
    return f"{name}, each server" if each else name


def _values(evidence: Evidence, part: str, name: str, access: int, measure: str) -> Values:
    sample = evidence.sample(part, at_access(name, access), figure(measure))
    return [value for value in sample.values() if np.isfinite(value)]


def _cells(values: Values) -> Iterator[str]:
    low, high = student_interval(values)
    mean = float(np.mean(values)) if values else None
    for number in (mean, low, high):
        yield "" if number is None else f"{number:.4f}"
