"""Runs what figures need and is not there yet; figures that share runs share their results."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from cloister.core.errors import SettingsError
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure
from cloister.lab.reproduce.quantity import Outcome
from cloister.lab.simulation.grid import PlannedRun, planned_runs
from cloister.lab.simulation.run import Advance
from cloister.lab.simulation.run_files import prepare_folder, read_run
from cloister.lab.simulation.settings import SimulationSettings
from cloister.lab.simulation.workers import Event, Job, RunFailure, do_job, in_processes

__all__ = ["RunsOutcome", "evidence_of", "run_missing"]


class RunsOutcome(NamedTuple):
    """Runs done now, runs that were there, and runs that failed."""

    n_done: int
    n_skipped: int
    failures: tuple[RunFailure, ...]


def run_missing(
    figures: Sequence[Figure],
    folder: Path,
    *,
    workers: int | None = None,
    advance: Advance | None = None,
) -> RunsOutcome:
    """Do the runs of all figures that a folder does not hold, the longest first.

    Each run is kept when it ends, so that work which was stopped goes on where it was. Two
    processes may share the folder: files are written whole, at worst some runs are done twice.

    Parameters
    ----------
    figures
        What is asked for; parts whose collection is missing are left out.
    folder
        Where runs are kept.
    workers
        Processes; one a core unless given. One worker is this process.
    advance
        Told of interactions done and of their number, over all runs.
    """
    prepare_folder(folder)
    runs = _distinct(run for figure in figures for run in _runs_of(figure))
    missing = [run for run in runs if read_run(folder, run.settings) is None]
    missing.sort(key=lambda run: _work(run.settings), reverse=True)
    jobs = [Job(position, run) for position, run in enumerate(missing)]
    total = sum(_interactions(run.settings) for run in runs)
    done = {job.position: 0 for job in jobs}
    before = total - sum(_interactions(run.settings) for run in missing)
    failures: list[RunFailure] = []
    with closing(_events(jobs, folder, workers)) as events:
        for event in events:
            settings = event.job.run.settings
            share = 1.0 if event.ended else event.rounds / settings.rounds
            done[event.job.position] = int(share * _interactions(settings))
            if advance is not None:
                advance(before + sum(done.values()), total)
            if event.failure is not None:
                failures.append(event.failure)
    return RunsOutcome(len(jobs) - len(failures), len(runs) - len(jobs), tuple(failures))


def evidence_of(figure: Figure, folder: Path) -> Evidence:
    """Return what a folder holds of a figure's runs."""
    outcomes: dict[tuple[str, str], list[Outcome]] = {}
    for part in figure.parts:
        for run in planned_runs(part.experiment) if part.collection.is_here else ():
            kept = read_run(folder, run.settings)
            if kept is not None:
                outcome = Outcome(kept._replace(system=run.system))
                outcomes.setdefault((part.name, run.system), []).append(outcome)
    return Evidence(outcomes)


def _runs_of(figure: Figure) -> list[PlannedRun]:
    here = [part for part in figure.parts if part.collection.is_here]
    return [run for part in here for run in planned_runs(part.experiment)]


def _distinct(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    return list({run.settings.digest(): run for run in runs}.values())


def _interactions(settings: SimulationSettings) -> int:
    queries = settings.queries_per_round * (settings.participants or settings.clients)
    return settings.rounds * (sum(settings.quantities) or queries)


def _work(settings: SimulationSettings) -> float:
    """Return about how long a run takes, beside others: rounds cost something of themselves."""
    each = 1.0 if settings.ranker == "linear" else 0.15 * settings.n_hidden
    return each * _interactions(settings) + 50.0 * settings.rounds


def _events(jobs: Sequence[Job], folder: Path, workers: int | None) -> Generator[Event, None, None]:
    """Do the jobs: in this process, or in several."""
    if workers is not None and workers < 1:
        raise SettingsError(f"at least 1 (given: {workers})", where="workers")
    cores = len(os.sched_getaffinity(0))
    processes = min(workers or cores, max(len(jobs), 1))
    threads = max(1, cores // processes)
    if processes > 1:
        with closing(in_processes(jobs, folder, workers=processes, threads=threads)) as events:
            yield from events
        return
    for job in jobs:
        failure = do_job(job, folder, threads=threads)
        yield Event(job, job.run.settings.rounds, True, failure)
