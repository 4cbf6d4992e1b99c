"""Measurements that are no simulated training: what jobs find out, kept and read like runs.

A study has one job for each repetition (collection, fold, seed, click model); a job calls one
function with its settings and gets figures by system. Jobs are done in processes of their own and
kept as JSON by the digest of their settings: what is there is not done again.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.settings import Settings
from cloister.lab.reproduce.collection import Collection
from cloister.lab.simulation.run import Advance, threads_limited
from cloister.lab.simulation.run_files import finite_or_none, versions, write_aside

__all__ = ["Figures", "Study", "StudyJob", "StudyOutcome", "StudySettings", "read_study"]

Figures = dict[str, dict[str, float | list[float]]]  # by system, then by name; lists are curves

FORMAT: Final = 1  # change it when the layout of a file changes


class StudySettings(Settings):
    """What every job of a study has: which repetition it is.

    Parameters
    ----------
    data, fold, seed
        The repetition.
    click_model
        Whose clicks.
    """

    data: str
    fold: int = 1
    seed: int = 1
    click_model: str = ""


class StudyJob(NamedTuple):
    """One job.

    Parameters
    ----------
    function
        What is called with the settings and an `Advance`, as ``module:name``; it returns `Figures`.
    settings
        What decides its figures.
    rounds
        About how long it takes, beside other jobs.
    """

    function: str
    settings: StudySettings
    rounds: int = 1

    def path(self, folder: Path) -> Path:
        """Return where its figures are kept."""
        about = f"{self.function} {type(self.settings).__name__} {self.settings.digest()}"
        return folder / "studies" / f"{hashlib.sha256(about.encode()).hexdigest()[:32]}.json"

    def carry_out(self, folder: Path, *, position: int, threads: int, advance: Advance) -> None:
        """Measure, and keep the figures in a prepared folder."""
        module, _, name = self.function.partition(":")
        measure = getattr(importlib.import_module(module), name)

        def told(done: int, total: int) -> None:
            advance(round(self.rounds * done / max(total, 1)), self.rounds)

        with threads_limited(threads):
            figures: Figures = measure(self.settings, told)
        record = {
            "format": FORMAT,
            "versions": versions(),
            "function": self.function,
            "settings": self.settings.model_dump(mode="json"),
            "figures": _sayable(figures),
        }
        path = self.path(folder)
        path.parent.mkdir(exist_ok=True)
        write_aside(folder, path, (json.dumps(record, indent=1) + "\n").encode())


def _sayable(value: Any) -> Any:
    """Return what JSON can say: nothing in the place of NaN and infinity."""
    if isinstance(value, dict):
        return {str(name): _sayable(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_sayable(inner) for inner in value]
    return finite_or_none(float(value))


@dataclass(frozen=True)
class StudyOutcome:
    """What one job found of one system.

    Parameters
    ----------
    settings
        Of the job.
    figures
        By name.
    """

    settings: StudySettings
    figures: dict[str, Any]

    @property
    def repeat(self) -> tuple[str, int, int]:
        """Which of the repetitions it is: collection, fold and seed."""
        return self.settings.data, self.settings.fold, self.settings.seed

    @property
    def click_model(self) -> str:
        """Whose clicks it is about."""
        return self.settings.click_model

    def at_end(self, figure: str) -> float:
        """Return a figure; NaN where there is none."""
        value = self.figures.get(figure)
        return float("nan") if value is None else float(value)

    def curve(self, name: str) -> NDArray[np.float64]:
        """Return a curve."""
        return np.array([np.nan if v is None else v for v in self.figures[name]], np.float64)


class Study(NamedTuple):
    """The jobs of a figure on one collection; it stands where a `Part` of runs would.

    Parameters
    ----------
    name
        By which claims speak of it; unique within the figure.
    collection
        What the jobs are on.
    jobs
        One a repetition and click model.
    setting
        What was done, in words.
    paper_collection
        What the paper's measurements are on, where that is another collection.
    """

    name: str
    collection: Collection
    jobs: tuple[StudyJob, ...]
    setting: str
    paper_collection: str = ""


def read_study(job: StudyJob, folder: Path) -> dict[str, StudyOutcome] | None:
    """Return what was kept of a job, by system; None where it was not done."""
    path = job.path(folder)
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(
            f"cannot be read: {error}", where=str(path), remedy="remove the file"
        ) from None
    if record.get("format") != FORMAT:
        return None
    return {
        system: StudyOutcome(job.settings, figures) for system, figures in record["figures"].items()
    }
