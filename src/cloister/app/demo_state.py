"""What the steps of the demo hand to each other, and how a step is run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from cloister.data.letor_folder import FoldData
from cloister.data.source import load_fold
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld

__all__ = ["DemoState", "StepOutcome", "Step", "run_step"]


class StepOutcome(NamedTuple):
    """What a step found: figures for machines, lines for people."""

    figures: dict[str, Any]
    lines: list[str]


class DemoState:
    """What the steps hand to each other; its folder is removed at the end."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clinic = ClinicWorld(ClinicSettings(seed=seed, pods=60, staff=25, queries=12))
        self.fold: FoldData | None = None
        self.figures: dict[str, Any] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="cloister-demo-")

    @property
    def folder(self) -> Path:
        """A folder for what the demo writes."""
        return Path(self._folder.name)

    @property
    def ranking_address(self) -> str:
        """The address of the features world."""
        return f"world:features?queries=400&documents=40&features=46&seed={self.seed}"

    def ranking_data(self) -> FoldData:
        """Return the features world, made at the first use."""
        if self.fold is None:
            self.fold = load_fold(self.ranking_address)
        return self.fold

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
    state.figures[step.name] = outcome.figures
    return {
        "name": step.name,
        "title": step.title,
        "seconds": round(seconds, 3),
        "figures": outcome.figures,
        "lines": outcome.lines,
    }
