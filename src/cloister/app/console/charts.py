"""Charts as values: what plotly draws in the browser, and the same numbers as a table beside it.

Colours are names (``series-1`` to ``series-6``, ``limit``, ``bad``, ``good``) that the script looks
up in the style sheet, so that a chart follows the theme.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["Chart", "Series", "chart_json"]


class Series(NamedTuple):
    """One line, or one set of bars or points.

    Parameters
    ----------
    name
        In the legend.
    x, y
        Values; what is not finite leaves a gap.
    colour
        A name of the style sheet; by turns where empty.
    style
        ``lines``, ``markers``, ``lines+markers``, ``bars`` or ``steps``.
    dash
        ``solid``, ``dash`` or ``dot``.
    """

    name: str
    x: Sequence[Any]
    y: Sequence[float | None]
    colour: str = ""
    style: str = "lines"
    dash: str = "solid"


class Chart(NamedTuple):
    """A chart.

    Parameters
    ----------
    name
        Of the element on the page: letters and hyphens.
    title
        What it shows; it is read out to who cannot see it.
    x_label, y_label
        Of the axes.
    series
        What is drawn.
    y_range
        From and to; by the values where None.
    x_kind
        ``number``, ``date`` or ``category``.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    y_range: tuple[float, float] | None = None
    x_kind: str = "number"

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return all(_finite(value) is None for one in self.series for value in one.y)

    @property
    def columns(self) -> list[str]:
        """The heads of the table."""
        return [self.x_label, *(one.name for one in self.series)]

    @property
    def rows(self) -> list[list[Any]]:
        """The rows of the table: each x that occurs, with the value of each series or None."""
        known = [dict(zip(one.x, one.y, strict=True)) for one in self.series]
        places = dict.fromkeys(x for one in self.series for x in one.x)
        ordered = sorted(places) if self.x_kind != "category" else list(places)
        return [[x, *(_finite(values.get(x)) for values in known)] for x in ordered]


def chart_json(chart: Chart) -> dict[str, Any]:
    """Return what the script draws a chart from.

    Examples
    --------
    >>> chart = Chart("gain", "Gain", "round", "nDCG@10", [Series("now", [0, 1], [0.5, None])])
    >>> chart_json(chart)["series"][0]["y"], chart.rows
    ([0.5, None], [[0, 0.5], [1, None]])
    """
    return {
        "name": chart.name,
        "title": chart.title,
        "x_label": chart.x_label,
        "y_label": chart.y_label,
        "y_range": list(chart.y_range) if chart.y_range else None,
        "x_kind": chart.x_kind,
        "series": [
            {
                "name": one.name,
                "x": list(one.x),
                "y": [_finite(value) for value in one.y],
                "colour": one.colour or f"series-{number % 6 + 1}",
                "style": one.style,
                "dash": one.dash,
            }
            for number, one in enumerate(chart.series)
        ],
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
