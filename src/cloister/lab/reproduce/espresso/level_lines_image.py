"""Means over repetitions as lines with intervals: a picture of several panels."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

import cloister
from cloister.lab.reproduce.evidence import student_interval
from cloister.lab.simulation.curves import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["LinesPanel", "lines_png"]

PANEL_INCHES: Final = (4.0, 3.0)
DPI: Final = 150
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
DASHES: Final = ("--", ":", "-.")  # of references
CHARACTER_INCHES: Final = 0.08  # of the legend's font, about


class LinesPanel(NamedTuple):
    """One panel.

    Parameters
    ----------
    title, label, x_label
        What it is about; what its numbers are, in one row the same; and what its places.
    ticks
        What stands below each place of the lines.
    lines
        By name: for each place the numbers of all repetitions; none where nothing was measured.
    references
        By name: what does not depend on the place, as numbers of all repetitions.
    """

    title: str
    label: str
    x_label: str
    ticks: Sequence[str]
    lines: Mapping[str, Sequence[Sequence[float]]]
    references: Mapping[str, Sequence[float]] = {}


def lines_png(panels: Sequence[Sequence[LinesPanel]], title: str) -> bytes:
    """Draw rows of panels, each row with one scale; bars are Student's intervals at 95 %.

    Examples
    --------
    >>> lines = {"base": [[0.2, 0.3], [0.4]]}
    >>> panel = LinesPanel("NFCorpus", "nDCG@10", "may be read", ["5 %", "100 %"], lines)
    >>> lines_png([[panel]], "access")[1:4]
    b'PNG'
    """
    from matplotlib.figure import Figure  # 0.7 s; no pyplot: it keeps global state

    n_rows, n_columns = len(panels), max(map(len, panels))
    size = PANEL_INCHES[0] * n_columns + 0.6, PANEL_INCHES[1] * n_rows + 0.9
    drawn = Figure(figsize=size, layout="constrained")
    axes = drawn.subplots(n_rows, n_columns, sharey="row", squeeze=False)
    shown = [one for row in panels for one in row]
    names = list(dict.fromkeys(name for one in shown for name in one.lines))
    references = list(dict.fromkeys(name for one in shown for name in one.references))
    for row, of_row in enumerate(panels):
        for column, panel in enumerate(of_row):
            _draw(axes[row, column], panel, names, references)
        axes[row, 0].set_ylabel(of_row[0].label)
    _add_legend(drawn, axes, [*names, *references])
    drawn.suptitle(title, fontsize=11)
    stream = io.BytesIO()
    about = {"Software": f"Cloister {cloister.__version__}"}
    drawn.savefig(stream, format="png", dpi=DPI, metadata=about)
    return stream.getvalue()


def _draw(axes: Axes, panel: LinesPanel, names: Sequence[str], references: Sequence[str]) -> None:
    for name, values in panel.lines.items():
        style = names.index(name)
        places = [place for place, one in enumerate(values) if len(one)]
        means = [float(np.mean(values[place])) for place in places]
        lows = [student_interval(values[place])[0] for place in places]
        reach = [0.0 if low is None else m - low for m, low in zip(means, lows, strict=True)]
        axes.errorbar(
            places, means, yerr=reach, color=COLOURS[style % len(COLOURS)], linewidth=1.4,
            capsize=2, marker=MARKERS[style % len(MARKERS)], markersize=4, label=name,
        )  # fmt: skip
    for name, found in panel.references.items():
        if len(found):
            dash = DASHES[references.index(name) % len(DASHES)]
            axes.axhline(
                float(np.mean(found)), color="black", linestyle=dash, linewidth=1.0, label=name
            )
    axes.set_xticks(range(len(panel.ticks)), panel.ticks)
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.x_label)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _add_legend(drawn: Figure, axes: Any, names: Sequence[str]) -> None:
    found: dict[str, Any] = {}
    for each in axes.flat:
        handles, labels = each.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    kept = [name for name in names if name in found]
    widest = 0.7 + CHARACTER_INCHES * max(map(len, kept))
    columns = max(1, min(len(kept), int(drawn.get_figwidth() / widest)))
    drawn.legend(
        [found[name] for name in kept], kept, loc="outside lower center", ncols=columns,
        frameon=False, fontsize=9,
    )  # fmt: skip
