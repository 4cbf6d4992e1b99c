"""A reproduction as files: ``report.md`` for people, ``report.json`` for programs, and curves."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.rows import Row, counted
from cloister.lab.simulation.curve_image import curves_png
from cloister.lab.simulation.curve_page import curves_html
from cloister.lab.simulation.curves import curve_grid
from cloister.lab.simulation.grid import planned_runs
from cloister.lab.simulation.run_files import KeptRun, versions, write_aside

__all__ = ["interval_text", "number_text", "write_curves", "write_report"]

SCRIPT: Final = "plotly.min.js"  # one file for all pages, beside them


def write_report(
    folder: Path,
    figures: Sequence[Figure],
    rows: Sequence[Row],
    *,
    size: Size,
    curves: Sequence[Path],
) -> list[Path]:
    """Write ``report.md`` and ``report.json`` into a prepared folder."""
    about = {"size": size.name, "versions": versions(), "verdicts": counted(rows)}
    text = json.dumps(about | {"rows": list(rows)}, indent=1, allow_nan=False)
    write_aside(folder, folder / "report.json", f"{text}\n".encode())
    page = _heading(about) + "".join(
        _section(figure, [row for row in rows if row["figure"] == figure.key], curves)
        for figure in figures
    )
    write_aside(folder, folder / "report.md", page.encode())
    return [folder / "report.md", folder / "report.json"]


def write_curves(folder: Path, figure: Figure, evidence: Evidence) -> list[Path]:
    """Draw a figure's learning curves, one PNG and one page for each part that was run."""
    written = []
    (folder / "curves").mkdir(exist_ok=True)
    pictures = figure.pictures(evidence) if figure.pictures is not None else {}
    for name, content in pictures.items():
        written.append(folder / "curves" / f"{figure.key}-{name}")
        write_aside(folder, written[-1], content)
    for part in figure.parts if figure.measures else ():
        runs = _drawn(part, evidence) if isinstance(part, Part) else []
        if not runs:
            continue
        grid = curve_grid(runs, x=figure.x, measures=figure.measures)
        title = f"{figure.key.replace('-', ' ')}: {part.name}"
        path = folder / "curves" / f"{figure.key}-{_file_name(part.name)}.png"
        write_aside(folder, path, curves_png(grid, title))
        page = path.with_suffix(".html")
        write_aside(folder, page, _with_script_beside(folder, curves_html(grid, title)).encode())
        written += [path, page]
    return written


def _drawn(part: Part, evidence: Evidence) -> list[KeptRun]:
    """Return a part's runs; those on several worlds of a kind are drawn as one."""
    systems = dict.fromkeys(run.system for run in planned_runs(part.experiment))
    return [
        outcome.run._replace(settings=outcome.run.settings.model_copy(update={"data": "data"}))
        for system in systems
        for outcome in evidence.runs(part.name, system)
    ]


def _with_script_beside(folder: Path, page: str) -> str:
    """Let all pages share one copy of plotly's script, which is 5 MB."""
    from plotly.offline import get_plotlyjs

    script = get_plotlyjs()
    if not (folder / "curves" / SCRIPT).exists():
        write_aside(folder, folder / "curves" / SCRIPT, script.encode())
    return page.replace(f"<script>{script}</script>", f'<script src="{SCRIPT}"></script>')


def _file_name(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def _heading(about: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in about["verdicts"].items())
    return (
        f"# The paper's statements beside what came out ({about['size']} run)\n\n"
        f"{counts}. Cloister {about['versions']['cloister']}.\n\n"
        "Each row compares what stands before *less* with what stands behind it. Intervals are at "
        "95 % over n repetitions (folds, seeds, worlds). *agrees*: the whole interval is as the "
        "paper says; *differs*: none of it is; *undecided*: it reaches to both sides.\n"
    )


def _section(figure: Figure, rows: Sequence[Row], curves: Sequence[Path]) -> str:
    lines = [f"\n## {figure.key}: {figure.title}\n", f"The paper: {figure.paper_setting}."]
    settings = dict.fromkeys(f"{row['data']}: {row['setting']}" for row in rows)
    lines.append(f"Here: {'. '.join(settings)}.")
    lines += [figure.note] if figure.note else []
    for statement in dict.fromkeys(row["statement"] for row in rows):
        chosen = [row for row in rows if row["statement"] == statement]
        whose = "beyond the paper" if chosen[0]["beyond"] else chosen[0]["paper_data"]
        lines.append(f"\n**{statement}** ({whose})\n")
        lines.append("| here | means | paper | ours | interval | n | verdict |")
        lines.append("|---|---|---|---|---|---|---|")
        lines += [_line(row) for row in chosen]
    own = [path for path in curves if path.name.startswith(f"{figure.key}-")]
    lines += ["", *(f"[{path.name}](curves/{path.name})" for path in own)]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    note = f" ({row['note']})" if row["note"] else ""
    cells = [
        f"{row['data']}: {row['compared']}{note}",
        ", ".join(number_text(value) for value in row["means"].values()),
        number_text(row["paper"]),
        number_text(row["ours"]),
        interval_text(row),
        str(row["n"]),
        row["verdict"],
    ]
    return f"| {' | '.join(cells)} |"


def number_text(value: float | str | None) -> str:
    """Write a number with as many digits as matter.

    Examples
    --------
    >>> number_text(0.71234), number_text(-3.123), number_text(1589.231), number_text("higher")
    ('0.7123', '-3.12', '1589.23', 'higher')
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.4f}"


def interval_text(row: Row) -> str:
    """Write a row's interval."""
    if row["low"] is None:
        return "-"
    return f"{number_text(row['low'])} to {number_text(row['high'])}"
