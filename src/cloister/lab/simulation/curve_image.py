"""Learning curves as a PNG, drawn by matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import cloister
from cloister.lab.simulation.curves import CurveGrid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["curves_png"]

PANEL_INCHES: Final = (3.6, 2.5)
CHARACTER_INCHES: Final = 0.08  # of the legend's font, about
LEGEND_LINE_INCHES: Final = 0.2
DPI: Final = 150
_DASHES: Final = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}


def curves_png(grid: CurveGrid, title: str = "") -> bytes:
    """Draw a row of panels for each measure; bands show one standard deviation."""
    from matplotlib.figure import Figure  # 0.7 s; no pyplot: it keeps global state

    n_rows, n_columns = len(grid.measures), len(grid.panels)
    width = max(PANEL_INCHES[0] * n_columns + 0.4, 5.0)
    n_lines = math.ceil(len(grid.systems) / _legend_columns(grid.systems, width))
    height = PANEL_INCHES[1] * n_rows + LEGEND_LINE_INCHES * n_lines + 0.6
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey="row", squeeze=False)
    for row, measure in enumerate(grid.measures):
        axes[row, 0].set_ylabel(grid.labels.get(measure, measure))
        for column, panel in enumerate(grid.panels):
            _draw(axes[row, column], grid, measure, panel)
    for column, panel in enumerate(grid.panels):
        axes[0, column].set_title(grid.title(panel), fontsize=10)
        axes[-1, column].set_xlabel(grid.x_label)
    _add_legend(figure, grid, axes)
    if title:
        figure.suptitle(title, fontsize=11)
    stream = io.BytesIO()
    figure.savefig(
        stream, format="png", dpi=DPI, metadata={"Software": f"Cloister {cloister.__version__}"}
    )
    return stream.getvalue()


def _draw(axes: Axes, grid: CurveGrid, measure: str, panel: str) -> None:
    for system in grid.systems:
        line = grid.lines.get((measure, panel, system))
        if line is None:
            continue
        colour, dash = grid.style(system)
        marker = "o" if len(line.x) == 1 else ""  # a line of one point cannot be seen
        axes.plot(
            line.x, line.mean, color=colour, linestyle=_DASHES[dash], linewidth=1.5, marker=marker,
            markersize=4, label=system,
        )  # fmt: skip
        if not np.isnan(line.deviation).all():
            low, high = line.mean - line.deviation, line.mean + line.deviation
            axes.fill_between(line.x, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_formatter(_short_number)


def _short_number(value: float, _position: Any = None) -> str:
    """Write a tick in few characters.

    Examples
    --------
    >>> _short_number(400), _short_number(250_000), _short_number(2_000_000)
    ('400', '250k', '2M')
    """
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * size or (abs(value) >= size and value % (size / 10) == 0):
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _add_legend(figure: Figure, grid: CurveGrid, axes: Any) -> None:
    found: dict[str, Any] = {}
    for each in axes.flat:
        handles, labels = each.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    figure.legend(
        [found[system] for system in grid.systems],
        grid.systems,
        loc="outside lower center",
        ncols=_legend_columns(grid.systems, figure.get_figwidth()),
        frameon=False,
        fontsize=9,
        title=grid.note or None,
        title_fontsize=8,
    )


def _legend_columns(names: Sequence[str], width_inches: float) -> int:
    """Return how many names fit side by side."""
    each = 0.6 + CHARACTER_INCHES * max(map(len, names))
    return max(1, min(len(names), int(width_inches / each)))
