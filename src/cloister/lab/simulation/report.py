"""Everything that is made from the runs of a folder: tables, comparisons, learning curves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from cloister.lab.simulation.comparison import SystemComparison, compare_systems
from cloister.lab.simulation.curve_image import curves_png
from cloister.lab.simulation.curve_page import curves_html
from cloister.lab.simulation.curves import Axis, curve_grid
from cloister.lab.simulation.run_files import KeptRun, load_runs, write_aside
from cloister.lab.simulation.settings import SimulationSettings
from cloister.lab.simulation.summary import write_summary

__all__ = ["FolderReport", "write_report"]


class FolderReport(NamedTuple):
    """What a folder's runs say, and the files that say it."""

    runs: list[KeptRun]
    comparisons: list[SystemComparison]
    files: list[Path]


def write_report(
    folder: str | Path,
    *,
    title: str = "",
    baseline: str = "",
    panel: str = "click_model",
    x: Axis = "rounds",
    only: Iterable[SimulationSettings] | None = None,
) -> FolderReport:
    """Write ``summary.parquet``, ``summary.json``, ``curves.png`` and ``curves.html``.

    They cover the runs of these settings that are there; every run in the folder unless given.
    """
    folder = Path(folder)
    runs = load_runs(folder)
    if only is not None:
        wanted = {settings.digest() for settings in only}
        runs = [run for run in runs if run.settings.digest() in wanted]
    comparisons = compare_systems(runs, baseline=baseline, panel=panel)
    files = write_summary(folder, runs, comparisons)
    grid = curve_grid(runs, panel=panel, x=x)
    write_aside(folder, folder / "curves.png", curves_png(grid, title))
    write_aside(folder, folder / "curves.html", curves_html(grid, title).encode())
    files += [folder / "curves.png", folder / "curves.html"]
    return FolderReport(runs, comparisons, files)
