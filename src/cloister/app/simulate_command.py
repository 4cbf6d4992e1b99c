"""``cloister simulate``: train rankers in a simulated federation, one run or a grid of runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import typer

from cloister.app.output import JsonFlag, command_result, progress, say
from cloister.app.recording import recorder
from cloister.app.settings_options import SettingsCommand, option_name, option_values
from cloister.app.simulate_options import (
    Baseline,
    ConfigFile,
    CurvesOver,
    Folds,
    KeepEvery,
    KeepUpdates,
    KeptOfUpdates,
    OutFolder,
    Panel,
    Seeds,
    SimulatedParty,
    SimulationLedger,
    Threads,
    Vary,
    Workers,
)
from cloister.app.simulate_output import grid_result, run_result, show, tell_how_to_resume
from cloister.core.errors import NotFound, SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloister.federate.learner import Recorder
    from cloister.federate.update_store import Keep
    from cloister.lab.forgetting.federation import StoredFederation
    from cloister.lab.simulation.experiment import Experiment
    from cloister.lab.simulation.grid import PlannedRun
    from cloister.lab.simulation.settings import SimulationSettings

__all__ = ["SimulateCommand", "simulate"]

_EXPERIMENT = "cloister.simulate.experiment"
_FAILED = "cloister.simulate.failed"


class SimulateCommand(SettingsCommand):
    """``cloister simulate``, with an option for every setting of a run."""

    panel = "Settings of a run"

    @staticmethod
    def settings_class() -> type[SimulationSettings]:
        """Return the class whose fields are options."""
        from cloister.lab.simulation.settings import SimulationSettings

        return SimulationSettings

    def prepare(self, ctx: click.Context) -> None:
        """Put together what is asked for, before any work begins."""
        try:
            experiment = _asked_for(ctx.params, option_values(ctx))
            _check(experiment, ctx.params)
        except SettingsError as error:
            raise _in_options(error, ctx) from None
        ctx.meta[_EXPERIMENT] = experiment

    def invoke(self, ctx: click.Context) -> Any:
        """Do the work; leave with exit code 1 where a run failed."""
        super().invoke(ctx)
        if ctx.meta.get(_FAILED):
            ctx.exit(1)


def _asked_for(params: dict[str, Any], given: dict[str, Any]) -> Experiment:
    """Read the file, then let the command line change it."""
    from cloister.lab.simulation.experiment import Experiment, overridden, read_experiment

    try:
        experiment = read_experiment(params["config"]) if params["config"] else Experiment()
    except NotFound as error:
        raise SettingsError(error.what, where=f"--config {error.where}") from None
    experiment = overridden(experiment, given)
    changes: dict[str, Any] = {
        name: params[name] for name in ("baseline", "panel") if params[name] is not None
    }
    if params["vary"]:
        varied = dict(map(_varied, params["vary"]))
        if twice := sorted(varied.keys() & given.keys()):
            raise SettingsError("given with --vary as well", where=twice[0], remedy="give one")
        changes["vary"] = experiment.vary | varied
    if params["seeds"]:
        changes["seeds"] = _numbers("--seeds", params["seeds"], count=True)
    if params["folds"]:
        every = params["folds"] == "all"
        changes["folds"] = "all" if every else _numbers("--folds", params["folds"])
    return Experiment(**(experiment.model_dump() | changes))


def _varied(text: str) -> tuple[str, list[str]]:
    """Read ``FIELD=VALUE,VALUE``."""
    field, equals, values = text.partition("=")
    if not equals:
        raise SettingsError(
            f"cannot read {text!r}", where="--vary", remedy="write FIELD=VALUE,VALUE,..."
        )
    return field.strip().replace("-", "_"), [value.strip() for value in values.split(",")]


def _numbers(option: str, text: str, *, count: bool = False) -> list[int] | int:
    """Read numbers with commas between them; one alone may be a count."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise SettingsError(
            f"cannot read {text!r}", where=option, remedy="write whole numbers: 1,2,3"
        ) from None
    return numbers[0] if count and "," not in text and numbers else numbers


def _check(experiment: Experiment, params: dict[str, Any]) -> None:
    """Find now what would else come to light when the work is done."""
    from cloister.lab.simulation.clients import require_memory_for
    from cloister.lab.simulation.grid import planned_runs
    from cloister.lab.simulation.run import threads_limited
    from cloister.lab.simulation.systems import by_panel_and_system, find_baseline

    runs = planned_runs(experiment)
    for run in runs:
        require_memory_for(run.settings)
    find_baseline(by_panel_and_system(runs, experiment.panel), experiment.baseline)
    with threads_limited(params["threads"]):
        pass
    if params["keep_updates"] is not None:
        _check_kept(runs, single=experiment.is_single)
    if params["ledger"] is not None:
        _check_recorded(runs, params["party"], single=experiment.is_single)
    if not experiment.is_single and params["out"] is None:
        raise SettingsError(
            f"a grid needs a folder for its results ({len(runs)} runs)", where="--out",
            remedy="add --out FOLDER; a grid that was stopped goes on from there",
        )  # fmt: skip


def _check_kept(runs: Sequence[PlannedRun], *, single: bool) -> None:
    from cloister.lab.forgetting.federation import refuse_unless_forgettable

    if not single:
        raise SettingsError("keeps the updates of one run", where="--keep-updates")
    refuse_unless_forgettable(runs[0].settings)


def _check_recorded(runs: Sequence[PlannedRun], party: str, *, single: bool) -> None:
    from cloister.privacy.ledger.entry import checked_name

    if not single or runs[0].settings.method in ("pdgd", "batch-pdgd"):
        raise SettingsError(
            "a ledger goes with one run of a federation", where="--ledger",
            remedy="leave out --ledger, or what makes it a grid; pdgd has no clients",
        )  # fmt: skip
    try:
        checked_name(party)
    except SettingsError as error:
        raise SettingsError(error.what, where=f"--party {error.where}") from None


def _in_options(error: SettingsError, ctx: click.Context) -> SettingsError:
    """Speak of options where the error speaks of fields."""
    if error.where in option_values(ctx) or error.where == "data":
        where = option_name(error.where)
        return SettingsError(error.what, where=where, remedy=error.remedy)
    return error


@command_result(show)
def simulate(
    ctx: typer.Context,
    config: ConfigFile = None,
    out: OutFolder = None,
    seeds: Seeds = None,
    folds: Folds = None,
    vary: Vary = None,
    baseline: Baseline = None,
    panel: Panel = None,
    x: CurvesOver = "rounds",
    ledger: SimulationLedger = None,
    party: SimulatedParty = "simulated-client",
    keep_updates: KeepUpdates = None,
    keep_every: KeepEvery = 10,
    keep: KeptOfUpdates = "lengths",
    threads: Threads = None,
    workers: Workers = None,
    as_json: JsonFlag = False,
) -> dict[str, Any]:
    """Train rankers in a simulated federation from simulated clicks, and measure them.

    One run prints its figures. A grid (--seeds, --folds, --vary, or an experiment in --config) runs
    every combination, and writes tables, significance tests and learning curves to --out.
    """  # fmt: skip
    experiment = cast("Experiment", ctx.meta[_EXPERIMENT])
    if experiment.is_single:
        with (
            recorder(ledger, party) as record,
            _kept(experiment, keep_updates, keep_every, keep) as federation,
        ):
            return _one_run(experiment, out, threads, x, record, federation)
    if out is None:
        raise SettingsError("a grid needs a folder for its results", where="--out")
    result = _grid(experiment, out, threads, workers, x)
    ctx.meta[_FAILED] = "error" in result
    return result


@contextmanager
def _kept(
    experiment: Experiment, folder: Path | None, keep_every: int, keep: str
) -> Iterator[StoredFederation | None]:
    """Give the federation that keeps a run's updates, if there is to be one."""
    if folder is None:
        yield None
        return
    from cloister.lab.forgetting.federation import StoredFederation
    from cloister.lab.simulation.grid import expand

    (settings,) = expand(experiment)
    kind = cast("Keep", keep)
    with StoredFederation.create(folder, settings, keep_every=keep_every, keep=kind) as federation:
        yield federation


def _one_run(
    experiment: Experiment,
    out: Path | None,
    threads: int | None,
    x: Any,
    record: Recorder | None,
    federation: StoredFederation | None,
) -> dict[str, Any]:
    from cloister.lab.simulation import run
    from cloister.lab.simulation.clients import tests_on_training_data
    from cloister.lab.simulation.grid import expand
    from cloister.lab.simulation.report import write_report
    from cloister.lab.simulation.run_files import prepare_folder, write_run

    (settings,) = expand(experiment)
    if tests_on_training_data(settings):
        say("note: the figures are of the queries that the rankers train on")
    if out is not None:
        prepare_folder(out)  # before the work: it may not be possible
    observers = [] if federation is None else [federation.store]
    with progress("rounds") as advance:
        result = run.simulate(
            settings, threads=threads, advance=advance, record=record, observers=observers
        )
    files: list[Path] = []
    if federation is not None:
        federation.finish(result.learner.ranker)
        files.append(federation.ranker_file)
    if out is not None:
        kept = write_run(out, result).path
        files += [kept.with_suffix(end) for end in (".parquet", ".json", ".safetensors", ".npz")]
        files += write_report(out, panel=experiment.panel, x=x, only=[settings]).files
    return run_result(settings, result.summary(), [file for file in files if file.exists()])


def _grid(
    experiment: Experiment, out: Path, threads: int | None, workers: int | None, x: Any
) -> dict[str, Any]:
    from cloister.lab.simulation.grid import expand
    from cloister.lab.simulation.report import write_report
    from cloister.lab.simulation.running import run_grid

    start = time.perf_counter()
    try:
        with progress("rounds of all runs") as advance:
            outcome = run_grid(experiment, out, workers=workers, threads=threads, advance=advance)
    except KeyboardInterrupt:
        tell_how_to_resume(experiment, out)
        raise
    report = None
    if outcome.n_done + outcome.n_skipped:
        report = write_report(
            out,
            title=experiment.name,
            baseline=experiment.baseline,
            panel=experiment.panel,
            x=x,
            only=expand(experiment),
        )
    return grid_result(experiment, out, outcome, report, time.perf_counter() - start)
