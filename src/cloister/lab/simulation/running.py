"""Runs the grid of an experiment into a folder; what is there already is not done again."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from cloister.core.contention import WAIT_S, lock_patiently
from cloister.core.errors import SettingsError
from cloister.lab.simulation.experiment import Experiment
from cloister.lab.simulation.grid import PlannedRun, planned_runs
from cloister.lab.simulation.run import Advance
from cloister.lab.simulation.run_files import prepare_folder, read_run, rename_run, write_aside
from cloister.lab.simulation.workers import Event, Job, RunFailure, do_job, in_processes

__all__ = ["GridOutcome", "run_grid"]


class GridOutcome(NamedTuple):
    """How a grid went: runs done now, runs that were there, and runs that failed."""

    n_done: int
    n_skipped: int
    failures: tuple[RunFailure[PlannedRun], ...]

    @property
    def n_runs(self) -> int:
        """Number of runs of the grid."""
        return self.n_done + self.n_skipped + len(self.failures)


def run_grid(
    experiment: Experiment,
    folder: str | Path,
    *,
    workers: int | None = None,
    threads: int | None = None,
    advance: Advance | None = None,
) -> GridOutcome:
    """Run what is missing of a grid.

    Each run is kept when it ends, so a grid that was stopped or killed goes on where it was, and
    a folder can take more seeds later. A run that fails is reported; the others go on.

    Parameters
    ----------
    experiment
        Which runs; it is kept in the folder as ``experiment.json``.
    folder
        Where results go; one process at a time may write there.
    workers
        Processes; as many as there are cores for the threads of each, unless given. One worker
        is this process.
    threads
        Threads of each worker; its share of the cores unless given.
    advance
        Told of rounds done and of their number, over all runs.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> small = {"data": "world:features?queries=20&features=5", "clients": 5, "rounds": 3}
    >>> with TemporaryDirectory() as folder:
    ...     first = run_grid(Experiment(base=small, seeds=2), folder, workers=1)
    ...     again = run_grid(Experiment(base=small, seeds=3), folder, workers=1)
    >>> first.n_done, again.n_done, again.n_skipped
    (2, 1, 2)
    """
    folder = Path(folder)
    runs = planned_runs(experiment)
    prepare_folder(folder)
    with _only_writer(folder):
        write_aside(folder, folder / "experiment.json", _described(experiment))
        jobs = []
        for position, run in enumerate(runs):
            kept = read_run(folder, run.settings)
            if kept is None:
                jobs.append(Job(position, run))
            else:
                rename_run(folder, kept, system=run.system, position=position)
        processes, share = _shares(len(jobs), workers, threads)
        progress = _Progress([run.settings.rounds for run in runs], jobs, advance)
        failures: dict[int, RunFailure[PlannedRun]] = {}
        with closing(_events(jobs, folder, processes, share, progress)) as events:
            for event in events:
                progress.tell(event)
                if event.failure is not None:
                    failures[event.job.position] = event.failure
    failed = tuple(failures[position] for position in sorted(failures))
    return GridOutcome(len(jobs) - len(failed), len(runs) - len(jobs), failed)


def _described(experiment: Experiment) -> bytes:
    return (experiment.model_dump_json(indent=1, exclude_defaults=True) + "\n").encode()


def _shares(n_jobs: int, workers: int | None, threads: int | None) -> tuple[int, int]:
    """Divide the cores: return processes, and threads of each."""
    for name, value in (("workers", workers), ("threads", threads)):
        if value is not None and value < 1:
            raise SettingsError(f"at least 1 (given: {value})", where=name)
    cores = len(os.sched_getaffinity(0))
    workers = min(max(n_jobs, 1), workers or max(1, cores // (threads or 1)))
    return workers, threads or max(1, cores // workers)


class _Progress:
    """Adds up the rounds of all runs."""

    def __init__(
        self, rounds: Sequence[int], jobs: Sequence[Job[PlannedRun]], advance: Advance | None
    ) -> None:
        self._done = dict(enumerate(rounds)) | {job.position: 0 for job in jobs}
        self._total = sum(rounds)
        self._advance = advance
        self._show()

    def tell(self, event: Event[PlannedRun]) -> None:
        settings = event.job.run.settings
        self._done[event.job.position] = settings.rounds if event.ended else event.rounds
        self._show()

    def _show(self) -> None:
        if self._advance is not None:
            self._advance(sum(self._done.values()), self._total)


def _events(
    jobs: Sequence[Job[PlannedRun]], folder: Path, workers: int, threads: int, progress: _Progress
) -> Generator[Event[PlannedRun], None, None]:
    """Do the jobs: in this process, or in several."""
    if workers > 1:
        with closing(in_processes(jobs, folder, workers=workers, threads=threads)) as events:
            yield from events
        return
    for job in jobs:

        def advance(done: int, total: int, job: Job[PlannedRun] = job) -> None:
            progress.tell(Event(job, done))

        failure = do_job(job, folder, threads=threads, advance=advance)
        yield Event(job, job.run.settings.rounds, True, failure)


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Hold a lock that the system lets go when this process ends, however it ends."""
    with (folder / "lock").open("a") as file:
        lock_patiently(file, what="this folder", where=str(folder), timeout_s=WAIT_S)
        yield
