"""Runs side by side: learning curves over each other, settings, figures, and chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cloister.app.console.charts import Chart, Series
from cloister.app.console.found_runs import (
    FoundRun,
    SettingRow,
    labels,
    points,
    setting_rows,
)
from cloister.app.output import number
from cloister.core.errors import CloisterError
from cloister.lab.simulation.comparison import SystemComparison, compare_systems

__all__ = ["compared", "job_chart"]

NOTHING: Final = "-"
DASHES: Final = ("solid", "dash", "dot")  # the next for each round of the six colours
N_COLOURS: Final = 6
MEASURES: Final = {
    "offline_ndcg": "nDCG@10 on held-out queries",
    "online_ndcg": "nDCG@10 of the pages that users saw",
}
FIGURES: Final = {
    "offline_ndcg@10": "offline nDCG@10, at the end",
    "offline_max_rr": "offline MaxRR, at the end",
    "online_ndcg@10_mean": "online nDCG@10, mean of rounds",
    "online_ndcg@10": "online nDCG@10, discounted sum",
    "interactions": "interactions",
    "epsilon": "epsilon of a client over the training",
    "delta": "delta",
    "seconds": "seconds",
    "weights_sha256": "SHA-256 of the ranker",
}


def compared(runs: Sequence[FoundRun]) -> dict[str, Any]:
    """Return all that a page says of some runs side by side."""
    names = labels(runs)
    differ, common = setting_rows(runs)
    return {
        "labels": names,
        "differ": differ,
        "common": common,
        "figures": _figures(runs),
        "charts": [_chart(measure, runs, names) for measure in MEASURES],
        "tests": _tests(runs),
    }


def job_chart(offline: Sequence[tuple[int, float]]) -> Chart:
    """Draw the curve of a run at work."""
    rounds, values = zip(*offline, strict=True)
    series = Series("nDCG@10", rounds, values, style="lines+markers")
    return Chart("run-at-work", MEASURES["offline_ndcg"], "round", "nDCG@10", [series])


def _chart(measure: str, runs: Sequence[FoundRun], names: Sequence[str]) -> Chart:
    series = []
    for place, (one, name) in enumerate(zip(runs, names, strict=True)):
        x, y = points(one, measure)
        series.append(Series(name, x, y, dash=DASHES[place // N_COLOURS % len(DASHES)]))
    title = f"{MEASURES[measure]}, by round"
    return Chart(measure.replace("_", "-"), title, "round", "nDCG@10", series)


def _figures(runs: Sequence[FoundRun]) -> list[SettingRow]:
    rows = [
        SettingRow(words, [_told(one.run.summary.get(name)) for one in runs])
        for name, words in FIGURES.items()
    ]
    return [row for row in rows if any(value != NOTHING for value in row.values)]


def _told(value: Any) -> str:
    if value is None:
        return NOTHING
    return value[:12] if isinstance(value, str) else number(value)


def _tests(runs: Sequence[FoundRun]) -> list[SystemComparison]:
    """Compare systems over the seeds and folds that they share; nothing where none has two."""
    try:
        tests = compare_systems([one.run for one in runs])
    except CloisterError:
        return []
    return [test for test in tests if test.n_pairs > 1]
