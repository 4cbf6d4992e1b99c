"""What ``cloister simulate`` says: results for machines, tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from cloister.app.output import number, table

if TYPE_CHECKING:
    from cloister.lab.simulation.experiment import Experiment
    from cloister.lab.simulation.grid import PlannedRun
    from cloister.lab.simulation.report import FolderReport
    from cloister.lab.simulation.running import GridOutcome
    from cloister.lab.simulation.settings import SimulationSettings
    from cloister.lab.simulation.workers import RunFailure

__all__ = ["grid_result", "run_result", "show", "tell_how_to_resume"]

Result = dict[str, Any]

FIGURES: Final = ("offline_ndcg@10", "online_ndcg@10")


def run_result(settings: SimulationSettings, summary: Result, files: Sequence[Path]) -> Result:
    """Return what one run gave."""
    kept = {"files": [str(file) for file in files]} if files else {}
    return summary | {"settings": settings.model_dump(mode="json")} | kept


def grid_result(
    experiment: Experiment,
    folder: Path,
    outcome: GridOutcome,
    report: FolderReport | None,
    seconds: float,
) -> Result:
    """Return what a grid gave, and what failed of it."""
    result: Result = {
        "folder": str(folder),
        "runs": outcome.n_runs,
        "done": outcome.n_done,
        "skipped": outcome.n_skipped,
        "failed": [_failed(failure) for failure in outcome.failures],
        "seconds": seconds,
        "panel": experiment.panel,
    }
    if report is not None:
        result |= _reported(experiment, report)
    if outcome.failures:
        _tell_failures(outcome.failures)
        first = outcome.failures[0]
        count = f"{len(outcome.failures)} of {outcome.n_runs} runs failed"
        result |= {"error": f"{count}: {first.error}", "remedy": first.remedy}
    return result


def _failed(failure: RunFailure[PlannedRun]) -> Result:
    return {
        "run": failure.run.settings.digest(),
        "system": failure.run.system,
        "error": failure.error,
        "remedy": failure.remedy,
        "settings": failure.run.settings.model_dump(mode="json"),
    }


def _reported(experiment: Experiment, report: FolderReport) -> Result:
    from cloister.lab.simulation.summary import run_rows, system_summaries

    systems = system_summaries(report.runs, panel=experiment.panel, figures=FIGURES)
    return {
        "systems": [system._asdict() for system in systems],
        "comparisons": [comparison._asdict() for comparison in report.comparisons],
        "results": run_rows(report.runs),
        "files": [str(file) for file in report.files],
    }


def _tell_failures(failures: Sequence[RunFailure[PlannedRun]]) -> None:
    """Name every failed run on standard error, those with one cause together."""
    from cloister.lab.simulation.systems import varying_settings

    varying = varying_settings([failure.run for failure in failures])
    by_cause: dict[tuple[str, str], list[RunFailure[PlannedRun]]] = {}
    for failure in failures:
        by_cause.setdefault((failure.error, failure.remedy), []).append(failure)
    for (error, remedy), group in by_cause.items():
        typer.echo(f"{group[0].trace}failed: {error}; {remedy}", err=True)
        for failure in group:
            settings = failure.run.settings
            names = dict.fromkeys([*varying, "data", "method", "click_model", "fold", "seed"])
            told = ", ".join(f"{name} {getattr(settings, name)}" for name in names)
            typer.echo(f"  {failure.run.system or settings.digest()[:8]}: {told}", err=True)


def tell_how_to_resume(experiment: Experiment, folder: Path) -> None:
    """Say what is kept of a grid that was stopped."""
    from cloister.lab.simulation.grid import expand
    from cloister.lab.simulation.run_files import read_run

    runs = expand(experiment)
    n_kept = sum(read_run(folder, settings) is not None for settings in runs)
    typer.echo(
        f"{n_kept} of {len(runs)} runs are kept in {folder}; "
        "the same command goes on with the others",
        err=True,
    )


def show(result: Result) -> None:
    """Show a result to people."""
    if "systems" in result:
        _show_systems(result)
        _show_comparisons(result)
    elif "runs" not in result:
        apart = ("settings", "files", "weights_sha256")
        told = {name: value for name, value in result.items() if name not in apart}
        rows = [[_words(name), _value(value)] for name, value in told.items() if value != {}]
        table("", ["", ""], rows)
        typer.echo(f"  weights sha256 {result['weights_sha256']}")
    if "runs" in result:
        typer.echo(
            f"{result['runs']} runs: {result['done']} done, {result['skipped']} there before, "
            f"{len(result['failed'])} failed; {number(result['seconds'])} s"
        )
    for file in result.get("files", []):
        typer.echo(file)


def _value(value: Any) -> str:
    """Write lists and tables as people do."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {number(inner)}" for name, inner in value.items())
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "nobody"
    return number(value)


def _show_systems(result: Result) -> None:
    headings = ["system", _words(result["panel"]), "runs", *map(_words, FIGURES)]
    rows = [
        [system["system"], system["panel"], system["n_runs"]]
        + [_with_deviation(system, figure) for figure in FIGURES]
        for system in result["systems"]
    ]
    table("mean ± standard deviation over runs", headings, rows)


def _with_deviation(system: Result, figure: str) -> str:
    mean, deviation = system["means"][figure], system["deviations"][figure]
    band = f" ± {deviation:.4f}" if deviation == deviation else ""
    return f"{mean:.4f}{band}"


def _show_comparisons(result: Result) -> None:
    comparisons = result["comparisons"]
    for figure in dict.fromkeys(one["figure"] for one in comparisons):
        chosen = [one for one in comparisons if one["figure"] == figure]
        title = (
            f"{_words(figure)} against {chosen[0]['baseline']}\n"
            "from, to: 95 % interval of five pairs or more; p corrected, * below 0.05"
        )
        names = ["system", _words(result["panel"]), "pairs", "by", "from", "to", "p"]
        table(title, names, [_comparison_row(one) for one in chosen])


def _comparison_row(one: Result) -> list[Any]:
    differences = [_signed(one[name]) for name in ("difference", "low", "high")]
    return [one["system"], one["panel"], one["n_pairs"], *differences, _p_value(one)]


def _signed(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:+.4f}" if abs(value) < 1 else f"{value:+.2f}"


def _p_value(one: Result) -> str:
    if one["p_corrected"] is None:
        return "-"
    return f"{one['p_corrected']:.2g}{' *' if one['significant'] else '  '}"


def _words(name: str) -> str:
    return name.replace("_", " ")
