from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cloister.core.contention import Busy
from cloister.core.errors import SettingsError
from cloister.lab.simulation import running
from cloister.lab.simulation.experiment import Experiment, read_experiment
from cloister.lab.simulation.grid import PlannedRun
from cloister.lab.simulation.run import simulate
from cloister.lab.simulation.run_files import load_runs
from cloister.lab.simulation.running import run_grid
from cloister.lab.simulation.settings import SimulationSettings
from cloister.lab.simulation.workers import Job, in_processes

SMALL = {
    "data": "world:features?queries=20&documents=10&features=5",
    "clients": 5,
    "rounds": 4,
}


def grid(**changes: Any) -> Experiment:
    fields = {"base": SMALL, "vary": {"click_model": ["perfect", "informational"]}, "seeds": 2}
    return Experiment(**(fields | changes))


def digests(folder: Path) -> list[str]:
    return [run.summary["weights_sha256"] for run in load_runs(folder)]


def test_a_grid_gives_what_its_runs_give_alone(tmp_path: Path) -> None:
    outcome = run_grid(grid(), tmp_path, workers=1, threads=1)
    assert (outcome.n_done, outcome.n_skipped, outcome.failures) == (4, 0, ())
    runs = load_runs(tmp_path)
    names = [(run.settings.click_model, run.settings.seed) for run in runs]
    assert names == [("perfect", 1), ("perfect", 2), ("informational", 1), ("informational", 2)]
    for run in runs:
        assert run.summary["weights_sha256"] == simulate(run.settings).weights_sha256
    assert read_experiment(tmp_path / "experiment.json") == grid()


def test_worker_processes_give_the_same_bits(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    run_grid(grid(), tmp_path / "one", workers=1, threads=1)
    outcome = run_grid(
        grid(),
        tmp_path / "two",
        workers=2,
        threads=1,
        advance=lambda done, total: told.append((done, total)),
    )
    assert outcome.n_done == 4
    assert digests(tmp_path / "two") == digests(tmp_path / "one")
    for path in (tmp_path / "one" / "runs").glob("*.parquet"):
        assert path.read_bytes() == (tmp_path / "two" / "runs" / path.name).read_bytes()
    assert told[0] == (0, 16)
    assert told[-1] == (16, 16)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_what_is_there_is_not_done_again(tmp_path: Path) -> None:
    run_grid(grid(), tmp_path, workers=1, threads=1)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    told: list[tuple[int, int]] = []
    outcome = run_grid(
        grid(seeds=3), tmp_path, workers=1, threads=1, advance=lambda *rounds: told.append(rounds)
    )
    assert (outcome.n_done, outcome.n_skipped) == (2, 4)
    assert told[0] == (16, 24)
    curves = [path for path in before if path.suffix == ".parquet"]
    assert all(path.stat().st_mtime_ns == before[path] for path in curves)
    assert [run.settings.seed for run in load_runs(tmp_path)] == [1, 2, 3, 1, 2, 3]


def test_a_half_written_run_is_done_again(tmp_path: Path) -> None:
    run_grid(grid(), tmp_path, workers=1, threads=1)
    wanted = digests(tmp_path)
    one, two, *_ = sorted((tmp_path / "runs").glob("*.json"))
    one.unlink()
    two.with_suffix(".parquet").write_bytes(b"PAR1")
    outcome = run_grid(grid(), tmp_path, workers=1, threads=1)
    assert (outcome.n_done, outcome.n_skipped) == (2, 2)
    assert digests(tmp_path) == wanted


def test_a_variant_that_is_renamed_keeps_its_runs(tmp_path: Path) -> None:
    run_grid(grid(variant=[{"name": "a"}]), tmp_path, workers=1, threads=1)
    outcome = run_grid(grid(variant=[{"name": "b"}]), tmp_path, workers=1, threads=1)
    assert outcome.n_skipped == 4
    assert {run.system for run in load_runs(tmp_path)} == {"b"}


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_run_that_fails_stops_no_other(tmp_path: Path, n_workers: int) -> None:
    experiment = grid(vary={"data": [SMALL["data"], "no/such/data"]})
    outcome = run_grid(experiment, tmp_path, workers=n_workers)
    assert (outcome.n_done, outcome.n_runs) == (2, 4)
    assert [failure.run.settings.seed for failure in outcome.failures] == [1, 2]
    for failure in outcome.failures:
        assert failure.run.settings.data == "no/such/data"
        assert "no/such/data" in failure.error
        assert failure.remedy
        assert failure.trace == ""
    assert len(load_runs(tmp_path)) == 2


def test_a_defect_of_ours_is_reported_with_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object, **_kwargs: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("cloister.lab.simulation.grid.simulate", broken)
    outcome = run_grid(grid(seeds=[1], vary={}), tmp_path, workers=1, threads=1)
    (failure,) = outcome.failures
    assert failure.error == "ZeroDivisionError: boom"
    assert "Traceback" in failure.trace
    assert "report" in failure.remedy


def test_a_process_that_dies_fails_its_run_only(tmp_path: Path) -> None:
    slow = SMALL | {"rounds": 2_000_000}
    jobs = [
        Job(0, PlannedRun(SimulationSettings(**slow))),
        Job(1, PlannedRun(SimulationSettings(**SMALL))),
        Job(2, PlannedRun(SimulationSettings(**SMALL, seed=2))),
    ]
    (tmp_path / "runs").mkdir()
    (tmp_path / "incoming").mkdir()
    ended = {}
    events = in_processes(jobs, tmp_path, workers=1, threads=1)
    for event in events:
        if event.job.position == 0 and not event.ended:
            (child,) = _children(os.getpid())
            os.kill(child, signal.SIGKILL)
        if event.ended:
            ended[event.job.position] = event.failure
    first = ended[0]
    assert first is not None
    assert "SIGKILL" in first.error
    assert ended[1] is None
    assert ended[2] is None
    assert len(load_runs(tmp_path)) == 2


def test_two_grids_do_not_share_a_folder_at_one_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "WAIT_S", 0.1)
    run_grid(grid(seeds=[1]), tmp_path, workers=1, threads=1)
    with (tmp_path / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Busy, match="another process"):
            run_grid(grid(), tmp_path, workers=1, threads=1)
    assert run_grid(grid(), tmp_path, workers=1, threads=1).n_done == 2


@pytest.mark.parametrize(
    ("n_jobs", "n_workers", "threads", "shares"),
    [
        (10, None, None, (4, 1)),
        (1, None, None, (1, 4)),
        (3, None, None, (3, 1)),
        (10, None, 2, (2, 2)),
        (10, 2, None, (2, 2)),
        (10, 8, None, (8, 1)),
        (10, 2, 4, (2, 4)),
        (0, None, None, (1, 4)),
    ],
)
def test_cores_are_shared_among_workers(
    monkeypatch: pytest.MonkeyPatch,
    n_jobs: int,
    n_workers: int | None,
    threads: int | None,
    shares: tuple[int, int],
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    assert running._shares(n_jobs, n_workers, threads) == shares


def test_no_workers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="workers"):
        run_grid(grid(), tmp_path, workers=0)
    with pytest.raises(SettingsError, match="threads"):
        run_grid(grid(), tmp_path, threads=-1)


def _start(folder: Path) -> subprocess.Popen[str]:
    arguments = ["simulate", "--data", "world:features?queries=100&documents=30&features=20",
                 "--clients", "200", "--rounds", "60", "--seeds", "8", "--workers", "2",
                 "--threads", "1", "--out", str(folder)]  # fmt: skip
    # A test run in the background has SIGINT ignored, and children would inherit that.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from cloister.app.command_line import main; main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait_for_runs(process: subprocess.Popen[str], folder: Path, n_runs: int) -> None:
    while len(list((folder / "runs").glob("*.json"))) < n_runs:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def _children(parent: int) -> list[int]:
    told = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    workers = []
    for child in map(int, told.split()):
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
            workers.append(child)
    return workers


def _gone(process_id: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{process_id}/status").read_text()
    except FileNotFoundError:
        return True


def test_a_killed_grid_leaves_no_process_and_goes_on_where_it_was(tmp_path: Path) -> None:
    process = _start(tmp_path / "killed")
    _wait_for_runs(process, tmp_path / "killed", 2)
    children = _children(process.pid)
    assert len(children) == 2
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while not all(map(_gone, children)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "killed/runs").glob("*.parquet")}
    experiment = read_experiment(tmp_path / "killed" / "experiment.json")
    outcome = run_grid(experiment, tmp_path / "killed", workers=1, threads=1)
    assert 2 <= outcome.n_skipped < 8
    assert outcome.n_done == 8 - outcome.n_skipped
    assert sum(path.stat().st_mtime_ns == written for path, written in kept.items()) >= 2
    run_grid(experiment, tmp_path / "whole", workers=1, threads=1)
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")


def test_a_grid_that_is_stopped_at_its_beginning_ends_quietly(tmp_path: Path) -> None:
    process = _start(tmp_path)
    while not _children(process.pid):
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "0 of 8 runs are kept" in err
    assert "Traceback" not in err


def test_a_grid_that_is_stopped_keeps_its_runs_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = _start(tmp_path)
    _wait_for_runs(process, tmp_path, 1)
    children = _children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out == ""
    assert f"of 8 runs are kept in {tmp_path}" in err
    assert "the same command" in err
    assert "Traceback" not in err
    assert all(map(_gone, children))
    assert len(load_runs(tmp_path)) >= 1
