"""What the steps of the demo hand to each other, and how a step is run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cloister.core.closing import Closing
from cloister.core.errors import SettingsError
from cloister.data.letor_folder import FoldData
from cloister.data.source import load_fold
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld

if TYPE_CHECKING:
    from cloister.app.demo.clinic_life import ClinicLife

__all__ = ["DemoState", "StepOutcome", "Step", "run_step"]


class StepOutcome(NamedTuple):
    """What a step found: figures for machines, lines for people."""

    figures: dict[str, Any]
    lines: list[str]


class DemoState(Closing):
    """What the steps hand to each other; its folder is removed at the end."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clinic = ClinicWorld(ClinicSettings(seed=seed, pods=60, staff=25, queries=12))
        self.fold: FoldData | None = None
        self._life: ClinicLife | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="cloister-demo-")

    @property
    def folder(self) -> Path:
        """A folder for what the demo writes."""
        return Path(self._folder.name)

    @property
    def console_home(self) -> Path:
        """A folder for what the console shows besides the services: trainings and results."""
        return self.folder / "console"

    @property
    def ranking_address(self) -> str:
        """The address of the features world."""
        return f"world:features?queries=400&documents=40&features=46&seed={self.seed}"

    @property
    def life(self) -> ClinicLife:
        """The clinics at work, once the step ``index`` has made them."""
        if self._life is None:
            raise SettingsError("the clinics are not made yet", where="demo")
        return self._life

    def make_life(self) -> ClinicLife:
        """Make the clinics; their services end with the demo."""
        from cloister.app.demo.clinic_life import ClinicLife  # needs what services need

        self._life = ClinicLife(self.folder / "clinics", seed=self.seed)
        return self._life

    def ranking_data(self) -> FoldData:
        """Return the features world, made at the first use."""
        if self.fold is None:
            self.fold = load_fold(self.ranking_address)
        return self.fold

    def close(self) -> None:
        """End the clinics' services, and remove the folder."""
        if self._life is not None:
            self._life.close()
        self._folder.cleanup()


class Step(NamedTuple):
    """One step of the demo."""

    name: str
    title: str
    run: Callable[[DemoState], StepOutcome]


def run_step(step: Step, state: DemoState) -> dict[str, Any]:
    """Run a step; return its name, time, figures and lines."""
    start = time.perf_counter()
    outcome = step.run(state)
    seconds = time.perf_counter() - start
    return {
        "name": step.name,
        "title": step.title,
        "seconds": round(seconds, 3),
        "figures": outcome.figures,
        "lines": outcome.lines,
    }
