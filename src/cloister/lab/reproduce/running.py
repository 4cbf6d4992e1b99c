"""Runs what figures need and is not there yet; figures that share runs share their results."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from cloister.core.errors import SettingsError
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure
from cloister.lab.reproduce.quantity import Outcome
from cloister.lab.reproduce.study import Study, StudyJob, StudyOutcome, read_study
from cloister.lab.simulation.grid import PlannedRun, planned_runs
from cloister.lab.simulation.run import Advance
from cloister.lab.simulation.run_files import prepare_folder, read_run
from cloister.lab.simulation.workers import Event, Job, RunFailure, do_job, in_processes

__all__ = ["RunsOutcome", "evidence_of", "run_missing"]


Planned = PlannedRun | StudyJob


class RunsOutcome(NamedTuple):
    """Runs done now, runs that were there, and runs that failed."""

    n_done: int
    n_skipped: int
    failures: tuple[RunFailure[Planned], ...]


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
    missing = [run for run in runs if not _is_kept(run, folder)]
    missing.sort(key=_work, reverse=True)
    jobs = [Job(position, run) for position, run in enumerate(missing)]
    total = sum(map(_interactions, runs))
    done = {job.position: 0 for job in jobs}
    before = total - sum(map(_interactions, missing))
    failures: list[RunFailure[Planned]] = []
    with closing(_events(jobs, folder, workers)) as events:
        for event in events:
            run = event.job.run
            share = 1.0 if event.ended else event.rounds / run.rounds
            done[event.job.position] = int(share * _interactions(run))
            if advance is not None:
                advance(before + sum(done.values()), total)
            if event.failure is not None:
                failures.append(event.failure)
    return RunsOutcome(len(jobs) - len(failures), len(runs) - len(jobs), tuple(failures))


def evidence_of(figure: Figure, folder: Path) -> Evidence:
    """Return what a folder holds of a figure's runs."""
    outcomes: dict[tuple[str, str], list[Outcome | StudyOutcome]] = {}
    for part in figure.parts:
        if isinstance(part, Study):
            for job in part.jobs if part.collection.is_here else ():
                for system, found in (read_study(job, folder) or {}).items():
                    outcomes.setdefault((part.name, system), []).append(found)
            continue
        for run in planned_runs(part.experiment) if part.collection.is_here else ():
            kept = read_run(folder, run.settings)
            if kept is not None:
                outcome = Outcome(kept._replace(system=run.system))
                outcomes.setdefault((part.name, run.system), []).append(outcome)
    return Evidence(outcomes)


def _is_kept(run: Planned, folder: Path) -> bool:
    if isinstance(run, StudyJob):
        return read_study(run, folder) is not None
    return read_run(folder, run.settings) is not None


def _runs_of(figure: Figure) -> Iterator[Planned]:
    for part in figure.parts:
        if part.collection.is_here:
            yield from part.jobs if isinstance(part, Study) else planned_runs(part.experiment)


def _distinct(runs: Iterable[Planned]) -> list[Planned]:
    return list({_key(run): run for run in runs}.values())


def _key(run: Planned) -> tuple[str, str]:
    function = run.function if isinstance(run, StudyJob) else ""
    return function, run.settings.digest()


def _interactions(run: Planned) -> int:
    if isinstance(run, StudyJob):
        return run.rounds
    settings = run.settings
    queries = settings.queries_per_round * (settings.participants or settings.clients)
    return settings.rounds * (sum(settings.quantities) or queries)


def _work(run: Planned) -> float:
    """Return about how long a run takes, beside others: rounds cost something of themselves."""
    if isinstance(run, StudyJob):
        return float(run.rounds)
    settings = run.settings
    each = 1.0 if settings.ranker == "linear" else 0.15 * settings.n_hidden
    return each * _interactions(run) + 50.0 * settings.rounds


def _events(
    jobs: Sequence[Job[Planned]], folder: Path, workers: int | None
) -> Generator[Event[Planned], None, None]:
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
        yield Event(job, job.run.rounds, True, failure)
