"""Learning curves: means over folds and seeds, with their deviation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.lab.simulation.run_files import KeptRun
from cloister.lab.simulation.systems import by_panel_and_system

__all__ = ["MEASURES", "Axis", "CurveGrid", "MeanCurve", "curve_grid", "mean_curve"]

Floats = NDArray[np.float64]
Axis = Literal["rounds", "interactions"]

MEASURES: Final = ("offline_ndcg", "online_ndcg", "offline_max_rr")
MOST_POINTS: Final = 500  # a line of more cannot be told from this one on a screen
LONGEST_TITLE: Final = 44  # characters over a panel

# Okabe and Ito's colours, which the colour-blind can tell apart; black is left for text.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A")
DASHES: Final = ("solid", "dash", "dot", "dashdot")  # the next for each round of colours


class MeanCurve(NamedTuple):
    """One line: mean and standard deviation over runs (NaN of one run) at each point."""

    x: Floats
    mean: Floats
    deviation: Floats
    n_runs: int


class CurveGrid(NamedTuple):
    """What is drawn: for each measure and panel, one line a system.

    Parameters
    ----------
    x
        What the horizontal axis counts.
    panel_name
        The setting that tells panels apart.
    panels, systems, measures
        In the order in which they are drawn.
    lines
        By measure, panel and system; a system need not be in every panel.
    labels
        Of the measures' axes.
    """

    x: Axis
    panel_name: str
    panels: list[str]
    systems: list[str]
    measures: list[str]
    lines: dict[tuple[str, str, str], MeanCurve]
    labels: dict[str, str]

    @property
    def x_label(self) -> str:
        """Of the horizontal axis."""
        return "rounds" if self.x == "rounds" else "interactions (queries issued)"

    def title(self, panel: str) -> str:
        """Return the heading of a panel."""
        whole = f"{self.panel_name.replace('_', ' ')}: {panel}"
        return whole if len(whole) <= LONGEST_TITLE else f"{whole[: LONGEST_TITLE - 3]}..."

    @property
    def note(self) -> str:
        """What lines and bands are; empty where each line is one run."""
        counts = sorted({line.n_runs for line in self.lines.values()})
        if counts[-1] == 1:
            return ""
        runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        return f"mean of {runs} runs a line; bands: one standard deviation"

    def style(self, system: str) -> tuple[str, str]:
        """Return the colour and the dashes of a system's line."""
        position = self.systems.index(system)
        dash = DASHES[position // len(COLOURS) % len(DASHES)]
        return COLOURS[position % len(COLOURS)], dash


def curve_grid(
    runs: Sequence[KeptRun],
    *,
    panel: str = "click_model",
    x: Axis = "rounds",
    measures: Sequence[str] = MEASURES,
) -> CurveGrid:
    """Average the curves of all runs, system by system."""
    panels = by_panel_and_system(runs, panel)
    lines: dict[tuple[str, str, str], MeanCurve] = {}
    for value, systems in panels.items():
        for system, group in systems.items():
            curves = [run.curves() for run in group]
            for measure in measures:
                lines[measure, value, system] = mean_curve(curves, measure, x=x)
    return CurveGrid(
        x,
        panel,
        list(panels),
        list(dict.fromkeys(system for systems in panels.values() for system in systems)),
        list(measures),
        lines,
        _labels(runs),
    )


def mean_curve(
    curves: Sequence[dict[str, Floats]], measure: str, *, x: Axis = "rounds"
) -> MeanCurve:
    """Return the mean over runs of one measure, at the rounds at which it was measured.

    Examples
    --------
    >>> one = {"round": np.array([1.0, 2.0]), "offline_ndcg": np.array([np.nan, 0.5])}
    >>> two = {"round": np.array([1.0, 2.0]), "offline_ndcg": np.array([np.nan, 0.7])}
    >>> curve = mean_curve([one, two], "offline_ndcg")
    >>> curve.x.tolist(), curve.mean.round(3).tolist(), curve.deviation.round(3).tolist()
    ([2.0], [0.6], [0.141])
    """
    column = "round" if x == "rounds" else "interactions"
    if measure not in curves[0]:
        raise SettingsError(
            f"no curve {measure!r}", where="measure", remedy=f"there are: {', '.join(curves[0])}"
        )
    values = np.stack([curve[measure] for curve in curves])
    kept = _thinned(np.flatnonzero(~np.isnan(values).any(axis=0)))
    values = values[:, kept]
    deviation = values.std(axis=0, ddof=1) if len(curves) > 1 else np.full(len(kept), np.nan)
    at = np.stack([curve[column] for curve in curves])[:, kept].mean(axis=0)
    return MeanCurve(at, values.mean(axis=0), deviation, len(curves))


def _thinned(points: NDArray[Any]) -> NDArray[Any]:
    """Keep at most so many points, the first and the last among them."""
    if len(points) <= MOST_POINTS:
        return points
    return points[np.linspace(0, len(points) - 1, MOST_POINTS).round().astype(np.int64)]


def _labels(runs: Sequence[KeptRun]) -> dict[str, str]:
    lengths = {run.settings.page_length for run in runs}
    cut = f"@{lengths.pop()}" if len(lengths) == 1 else ""
    return {
        "offline_ndcg": f"offline nDCG{cut}",
        "online_ndcg": f"online nDCG{cut}",
        "offline_max_rr": "offline MaxRR",
        "online_max_rr": "online MaxRR",
        "clicks": "clicks a page",
    }
