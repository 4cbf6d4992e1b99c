"""Runs of ``cloister simulate`` that lie in folders of results, and what tells them apart."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cloister.core.errors import DataError
from cloister.lab.simulation.curves import mean_curve
from cloister.lab.simulation.run_files import KeptRun, load_runs
from cloister.lab.simulation.settings import SimulationSettings
from cloister.lab.simulation.systems import shown, varying_settings

__all__ = ["FoundRun", "RunFinder", "SettingRow", "labels", "points", "setting_rows", "told_apart"]

DEEPEST: Final = 3  # folders below a place in which results are looked for
LONGEST_LABEL: Final = 48  # characters in a legend
NOT_TOLD: Final = ("method", "evaluate_every")  # in a label: said before, or of no weight


class FoundRun(NamedTuple):
    """A run that was found.

    Parameters
    ----------
    run_id
        By which pages ask for it.
    run
        What was kept of it.
    folder
        The folder of results that it lies in, from the last name of the place on: pages show no
        more of a path.
    modified
        When it was written, in seconds since 1970.
    """

    run_id: str
    run: KeptRun
    folder: Path
    modified: float

    @property
    def settings(self) -> SimulationSettings:
        """What decided it."""
        return self.run.settings

    @property
    def system(self) -> str:
        """The name of its variant, if it has one."""
        return self.run.system

    @property
    def file(self) -> str:
        """Its file, as pages show it."""
        return f"{self.folder.as_posix()}/runs/{self.run.path.name}"


class SettingRow(NamedTuple):
    """One setting, or figure, of several runs side by side."""

    name: str
    values: list[str]


class RunFinder:
    """Finds runs below some places; what did not change is not read again. Threads may share it.

    Parameters
    ----------
    places
        Where to look; what is not there is passed over.
    """

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = tuple(places)
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[object, list[FoundRun]]] = {}

    def find(self) -> list[FoundRun]:
        """Return all runs, the newest first."""
        with self._lock:
            folders = {folder: place for place in self.places for folder in _folders(place)}
            found = [run for one, place in folders.items() for run in self._in_folder(one, place)]
        return sorted(found, key=lambda one: -one.modified)

    def _in_folder(self, folder: Path, place: Path) -> list[FoundRun]:
        state = tuple(sorted((path.name, _modified(path)) for path in _files(folder)))
        known, runs = self._known.get(folder, (None, []))
        if known != state:
            runs = _read(folder, place)
            self._known[folder] = (state, runs)
        return runs


def told_apart(runs: Sequence[FoundRun], *, beside: Sequence[str] = ()) -> dict[str, str]:
    """Return, by id of a run, the settings that differ among all and are not as usual."""
    fields = [field for field in varying_settings(runs) if field not in (*NOT_TOLD, *beside)]
    return {
        one.run_id: ", ".join(
            f"{_words(field)} {shown(field, getattr(one.settings, field))}"
            for field in fields
            if getattr(one.settings, field) != SimulationSettings.model_fields[field].default
        )
        for one in runs
    }


def labels(runs: Sequence[FoundRun]) -> list[str]:
    """Name runs by a number, the variant or method, and what else tells them apart."""
    told = told_apart(runs)
    names = []
    for number, one in enumerate(runs, 1):
        parts = [one.system or one.settings.method, told[one.run_id]]
        whole = f"{number}. {', '.join(filter(None, parts))}"
        names.append(whole if len(whole) <= LONGEST_LABEL else f"{whole[: LONGEST_LABEL - 1]}…")
    return names


def setting_rows(runs: Sequence[FoundRun]) -> tuple[list[SettingRow], list[SettingRow]]:
    """Return the settings that differ among runs, and those that do not."""
    differing = set(varying_settings(runs))
    rows = {
        field: SettingRow(
            _words(field), [shown(field, getattr(one.settings, field)) for one in runs]
        )
        for field in SimulationSettings.model_fields
    }
    differ = [row for field, row in rows.items() if field in differing]
    return differ, [row for field, row in rows.items() if field not in differing]


def points(one: FoundRun, measure: str) -> tuple[list[float], list[float]]:
    """Return rounds and values of a learning curve, not more than a screen can show."""
    curve = mean_curve([one.run.curves()], measure)
    return curve.x.tolist(), curve.mean.tolist()


def _words(field: str) -> str:
    return field.replace("_", " ")


def _folders(place: Path) -> Iterator[Path]:
    """Yield folders of results: the place itself, and those below it that have runs."""
    for root, folders, _ in os.walk(place):
        here = Path(root)
        if "runs" in folders:
            yield here
        depth = len(here.relative_to(place).parts)
        folders[:] = [] if depth >= DEEPEST else sorted(set(folders) - {"runs", "incoming"})


def _files(folder: Path) -> list[Path]:
    return list((folder / "runs").glob("*.json"))


def _read(folder: Path, place: Path) -> list[FoundRun]:
    try:
        runs = load_runs(folder)
    except DataError:  # nothing whole is there yet
        return []
    named = place.name / folder.relative_to(place)
    return [FoundRun(_run_id(run.path), run, named, _modified(run.path)) for run in runs]


def _run_id(path: Path) -> str:
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0
