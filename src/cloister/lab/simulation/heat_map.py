"""A matrix as a PNG, drawn by matplotlib: rows, groups of columns, a number in every cell."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import cloister

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["HeatMap", "heat_map_png"]

CELL_INCHES: Final = (0.42, 0.3)
MARGIN_INCHES: Final = (2.4, 1.5)  # for names, titles and the scale
DPI: Final = 150
NOTHING: Final = "#dddddd"  # where there is no number
DARK: Final = 0.55  # of the scale, from which on text is white


class HeatMap(NamedTuple):
    """A matrix with names.

    Parameters
    ----------
    title, label
        What it is about, and what its numbers are.
    rows
        Names of rows.
    groups
        Groups of columns: a name, and the names of its columns.
    values
        Rows x columns; NaN where there is no number.
    marked
        Rows x columns: which cells are hatched.
    top
        The number that has the darkest colour; 0 and less have the lightest.
    note
        What marks mean.
    """

    title: str
    label: str
    rows: tuple[str, ...]
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    values: NDArray[np.float64]
    marked: NDArray[np.bool_]
    top: float
    note: str = ""


def heat_map_png(shown: HeatMap) -> bytes:
    """Draw a matrix.

    Examples
    --------
    >>> cells = np.array([[0.25, np.nan]])
    >>> marks = np.array([[True, False]])
    >>> shown = HeatMap("losses", "lost", ("krum",), (("lie", ("1", "2")),), cells, marks, 0.5)
    >>> heat_map_png(shown)[1:4]
    b'PNG'
    """
    from matplotlib.figure import Figure  # 0.7 s; no pyplot: it keeps global state

    n_rows, n_columns = shown.values.shape
    size = (
        CELL_INCHES[0] * n_columns + MARGIN_INCHES[0],
        CELL_INCHES[1] * n_rows + MARGIN_INCHES[1],
    )
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set_facecolor(NOTHING)
    image = axes.imshow(
        np.ma.masked_invalid(shown.values), cmap="Reds", vmin=0.0, vmax=shown.top, aspect="auto"
    )
    _write_numbers(axes, shown)
    _hatch(axes, shown)
    _name(axes, shown)
    bar = figure.colorbar(image, ax=axes, pad=0.01, fraction=0.03, extend="both")
    bar.set_label(shown.label, fontsize=8)
    bar.ax.tick_params(labelsize=7)
    figure.suptitle(shown.title, fontsize=11)
    if shown.note:
        figure.supxlabel(shown.note, fontsize=8)
    stream = io.BytesIO()
    about = {"Software": f"Cloister {cloister.__version__}"}
    figure.savefig(stream, format="png", dpi=DPI, metadata=about)
    return stream.getvalue()


def _write_numbers(axes: Axes, shown: HeatMap) -> None:
    for row, column in np.argwhere(~np.isnan(shown.values)):
        value = shown.values[row, column]
        colour = "white" if value > DARK * shown.top else "black"
        axes.text(column, row, _short(value), ha="center", va="center", fontsize=7, color=colour)


def _short(value: float) -> str:
    """Write a loss in few characters.

    Examples
    --------
    >>> _short(0.314), _short(-0.004), _short(-0.012)
    ('.31', '0', '-.01')
    """
    text = f"{value:.2f}"
    return "0" if float(text) == 0 else text.replace("0.", ".", 1)


def _hatch(axes: Axes, shown: HeatMap) -> None:
    from matplotlib.patches import Rectangle

    for row, column in np.argwhere(shown.marked):
        corner = (column - 0.5, row - 0.5)
        axes.add_patch(
            Rectangle(corner, 1, 1, fill=False, hatch="///", edgecolor="#999999", linewidth=0)
        )


def _name(axes: Axes, shown: HeatMap) -> None:
    """Name rows and columns; lines divide the groups."""
    columns = [name for _, names in shown.groups for name in names]
    axes.set_yticks(range(len(shown.rows)), shown.rows, fontsize=8)
    axes.set_xticks(range(len(columns)), columns, fontsize=7)
    axes.tick_params(length=0)
    start = 0
    for name, names in shown.groups:
        middle = start + (len(names) - 1) / 2
        axes.text(middle, -0.65, name, ha="center", va="bottom", fontsize=8)
        start += len(names)
        if start < len(columns):
            axes.axvline(start - 0.5, color="black", linewidth=1.0)
    axes.spines[:].set_visible(False)
