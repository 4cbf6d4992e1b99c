"""Learning curves as one HTML file, drawn by plotly's own script, which the file holds."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cloister.lab.simulation.curves import CurveGrid, MeanCurve

__all__ = ["curves_html"]

PANEL_PIXELS: Final = (360, 260)
MARGIN_PIXELS: Final = 190
# The bar has no button that would send the figures to somebody's server.
_CONFIG: Final = {"displaylogo": False, "showSendToCloud": False, "plotlyServerURL": ""}


def curves_html(grid: CurveGrid, title: str = "") -> str:
    """Draw a row of panels for each measure; nothing is fetched when the page is opened."""
    from plotly import graph_objects
    from plotly.subplots import make_subplots

    n_rows, n_columns = len(grid.measures), len(grid.panels)
    figure = make_subplots(
        n_rows, n_columns, shared_xaxes=True, shared_yaxes=True,
        column_titles=[grid.title(panel) for panel in grid.panels],
        horizontal_spacing=0.03, vertical_spacing=0.05,
    )  # fmt: skip
    for (measure, panel, system), line in grid.lines.items():
        place = {"row": grid.measures.index(measure) + 1, "col": grid.panels.index(panel) + 1}
        first = place == {"row": 1, "col": _first_column(grid, system)}
        for trace in _traces(grid, system, line, in_legend=first):
            figure.add_trace(graph_objects.Scatter(trace), **place)
    for row, measure in enumerate(grid.measures, 1):
        figure.update_yaxes(title_text=grid.labels.get(measure, measure), row=row, col=1)
    figure.update_xaxes(rangemode="tozero", showline=True, linecolor="#888888")
    figure.update_yaxes(showline=True, linecolor="#888888", nticks=8)
    figure.update_xaxes(title_text=grid.x_label, row=n_rows)
    figure.update_layout(
        title={"text": title or "Learning curves", "subtitle": {"text": grid.note}},
        template="plotly_white",
        width=max(PANEL_PIXELS[0] * n_columns + 120, 700),
        height=PANEL_PIXELS[1] * n_rows + MARGIN_PIXELS,
        legend={"orientation": "h", "yanchor": "top", "y": -0.1},
        hovermode="x unified",
        margin={"t": 120},
    )
    page: str = figure.to_html(include_plotlyjs=True, full_html=True, config=_CONFIG)
    return page


def _first_column(grid: CurveGrid, system: str) -> int:
    measure = grid.measures[0]
    columns = [(measure, panel, system) in grid.lines for panel in grid.panels]
    return columns.index(True) + 1


def _traces(
    grid: CurveGrid, system: str, line: MeanCurve, *, in_legend: bool
) -> list[dict[str, Any]]:
    """Return the line, and the band behind it where there are several runs."""
    colour, dash = grid.style(system)
    shared: dict[str, Any] = {"legendgroup": system, "name": system}
    drawn = shared | {
        "x": line.x.tolist(),
        "y": line.mean.tolist(),
        "mode": "lines" if len(line.x) > 1 else "markers",
        "line": {"color": colour, "dash": dash, "width": 2},
        "showlegend": in_legend,
        "hovertemplate": "%{y:.4f}",
    }
    if np.isnan(line.deviation).all():
        return [drawn]
    drawn["customdata"] = line.deviation.tolist()
    drawn["hovertemplate"] = f"%{{y:.4f}} ± %{{customdata:.4f}} ({line.n_runs} runs)"
    band = shared | {
        "x": [*line.x.tolist(), *line.x[::-1].tolist()],
        "y": [*(line.mean + line.deviation).tolist(), *(line.mean - line.deviation)[::-1].tolist()],
        "fill": "toself",
        "fillcolor": _faint(colour),
        "line": {"width": 0},
        "mode": "lines",
        "hoverinfo": "skip",
        "showlegend": False,
    }
    return [band, drawn]


def _faint(colour: str) -> str:
    """Return a colour that others shine through.

    Examples
    --------
    >>> _faint("#0072B2")
    'rgba(0,114,178,0.2)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"
