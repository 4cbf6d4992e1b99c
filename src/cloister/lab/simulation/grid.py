"""From an experiment to its runs: settings x folds x seeds, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from cloister.core.errors import SettingsError
from cloister.data.clicks import GRADE_COUNTS, click_model
from cloister.data.source import n_folds
from cloister.lab.simulation.experiment import Experiment
from cloister.lab.simulation.run import Advance, simulate
from cloister.lab.simulation.run_files import write_run
from cloister.lab.simulation.settings import SimulationSettings

__all__ = ["PlannedRun", "expand", "planned_runs"]

MOST_RUNS: Final = 10_000  # all are planned in memory, and each gets a folder


class PlannedRun(NamedTuple):
    """One run of a grid, and the name of the variant that it belongs to, if there is one."""

    settings: SimulationSettings
    system: str = ""

    @property
    def rounds(self) -> int:
        """Rounds of training."""
        return self.settings.rounds

    def carry_out(self, folder: Path, *, position: int, threads: int, advance: Advance) -> None:
        """Train, and keep the run in a prepared folder."""
        result = simulate(self.settings, threads=threads, advance=advance)
        write_run(folder, result, system=self.system, position=position)


def expand(experiment: Experiment) -> list[SimulationSettings]:
    """Return the settings of every run.

    Variants come first, then what varies in the order of the file, then folds, then seeds.

    Examples
    --------
    >>> runs = expand(Experiment(base={"data": "world:features"}, seeds=2,
    ...                          vary={"click_model": ["perfect", "informational"]}))
    >>> [(run.click_model, run.seed) for run in runs]
    [('perfect', 1), ('perfect', 2), ('informational', 1), ('informational', 2)]
    """
    return [run.settings for run in planned_runs(experiment)]


def planned_runs(experiment: Experiment) -> list[PlannedRun]:
    """Return every run with the name of its system."""
    found: dict[str, PlannedRun] = {}
    for run in _combinations(experiment):
        _require_click_models(run.settings)
        other = found.setdefault(run.settings.digest(), run)
        _require_few(len(found))
        if other is not run:
            raise SettingsError(
                "one run is described twice"
                + (f", by the variants {other.system!r} and {run.system!r}" if run.system else ""),
                where="experiment",
                remedy="leave out values that are listed twice, or let the variants differ",
            )
    return list(found.values())


def _combinations(experiment: Experiment) -> Iterator[PlannedRun]:
    for variant in experiment.variant or ({},):
        own = {field: value for field, value in variant.items() if field != "name"}
        varied = {field: vals for field, vals in experiment.vary.items() if field not in own}
        for values in product(*varied.values()):
            fields = experiment.base | own | dict(zip(varied, values, strict=True))
            for fold, seed in _folds_and_seeds(experiment, fields):
                settings = SimulationSettings(**(fields | {"fold": fold, "seed": seed}))
                yield PlannedRun(settings, str(variant.get("name", "")))


def _folds_and_seeds(experiment: Experiment, fields: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield the folds and seeds of one combination, checked once before they are counted out."""
    if "data" not in fields:
        raise SettingsError(
            "missing", where="data", remedy="say where the data is: a path, or world:features"
        )
    base = SimulationSettings(**fields)
    folds = experiment.folds or (base.fold,)
    if folds == "all":
        folds = tuple(range(1, n_folds(base.data) + 1))
    seeds = (base.seed,) if experiment.seeds == () else experiment.seeds
    if isinstance(seeds, int):
        _require_few(seeds)
        seeds = tuple(range(base.seed, base.seed + seeds))
    yield from product(folds, seeds)


def _require_few(n_runs: int) -> None:
    if n_runs > MOST_RUNS:
        raise SettingsError(
            f"a grid has at most {MOST_RUNS:,} runs",
            where="experiment",
            remedy="leave out seeds, folds or values",
        )


def _require_click_models(settings: SimulationSettings) -> None:
    """Refuse an unknown click model now, and not when every run fails by it."""
    mixed = settings.click_models if settings.partition.startswith("clicks") else ()
    for name in (settings.click_model, *mixed):
        click_model(name, GRADE_COUNTS[-1], stop=settings.stop)
