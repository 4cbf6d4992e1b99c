"""Results of a folder as tables: one row a run, and one a system."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cloister.lab.simulation.comparison import SystemComparison
from cloister.lab.simulation.run_files import KeptRun, parquet_bytes, versions, write_aside
from cloister.lab.simulation.systems import by_panel_and_system, varying_settings

__all__ = ["SystemSummary", "run_rows", "system_summaries", "write_summary"]

Row = dict[str, Any]


class SystemSummary(NamedTuple):
    """One system in one panel: means over its runs with standard deviations (NaN of one run)."""

    panel: str
    system: str
    n_runs: int
    means: dict[str, float]
    deviations: dict[str, float]


def run_rows(runs: Sequence[KeptRun]) -> list[Row]:
    """Return one row a run: its name, the settings that vary, and its figures."""
    fields = varying_settings(runs)
    figures = list(dict.fromkeys(name for run in runs for name in run.summary))
    return [
        {"run": run.path.stem, "system": run.system}
        | {field: _plain(getattr(run.settings, field)) for field in fields}
        | {name: run.summary.get(name) for name in figures}
        for run in runs
    ]


def system_summaries(
    runs: Sequence[KeptRun], *, panel: str = "click_model", figures: Sequence[str]
) -> list[SystemSummary]:
    """Return the mean and the deviation of some figures, for each system in each panel."""
    return [
        SystemSummary(
            value,
            system,
            len(group),
            {name: float(np.mean(_values(group, name))) for name in figures},
            {name: _deviation(_values(group, name)) for name in figures},
        )
        for value, systems in by_panel_and_system(runs, panel).items()
        for system, group in systems.items()
    ]


def write_summary(
    folder: Path, runs: Sequence[KeptRun], comparisons: Sequence[SystemComparison] = ()
) -> list[Path]:
    """Write ``summary.parquet`` and ``summary.json``: one row a run, and what they share."""
    rows = run_rows(runs)
    varying = varying_settings(runs)
    settings = runs[0].settings.model_dump(mode="json")
    about = {
        "versions": versions(),
        "settings_in_common": {name: settings[name] for name in settings if name not in varying},
    }
    columns = {name: [_cell(row[name]) for row in rows] for name in rows[0]}
    write_aside(folder, folder / "summary.parquet", parquet_bytes(columns, about))
    compared = [comparison._asdict() for comparison in comparisons]
    text = json.dumps(about | {"comparisons": compared, "runs": rows}, indent=1, allow_nan=False)
    write_aside(folder, folder / "summary.json", f"{text}\n".encode())
    return [folder / "summary.parquet", folder / "summary.json"]


def _cell(value: Any) -> Any:
    """Return what a column can hold: lists and tables as JSON."""
    return json.dumps(value) if isinstance(value, dict | list) else value


def _plain(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


def _values(runs: Sequence[KeptRun], figure: str) -> list[float]:
    values = (run.summary.get(figure) for run in runs)
    return [float("nan") if value is None else float(value) for value in values]


def _deviation(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
