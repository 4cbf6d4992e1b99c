"""A small simulation that is begun from a page: its settings, and the run that it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, Field

from cloister.app.console.jobs import Job
from cloister.data.clicks import CLICK_MODEL_NAMES
from cloister.federate.evaluation import Offline
from cloister.lab.simulation.run import simulate
from cloister.lab.simulation.run_files import prepare_folder, write_run
from cloister.lab.simulation.settings import (
    AttackName,
    Method,
    RuleName,
    SimulationSettings,
)

__all__ = ["SimulationForm", "run_simulation", "simulation_settings"]

WORLD: Final = "world:features?queries=400&documents=40&features=46"
POINTS: Final = 50  # offline measurements, at most about so many


class SimulationForm(BaseModel, extra="forbid"):
    """What the page lets one choose of a simulation."""

    method: Method = "fpdgd"
    ranker: Annotated[str, Field(pattern="^(linear|mlp)$")] = "linear"
    click_model: Annotated[
        str,
        Field(pattern=f"^({'|'.join(name.replace('.', '[.]') for name in CLICK_MODEL_NAMES)})$"),
    ] = "informational"
    clients: Annotated[int, Field(ge=2, le=1000)] = 100
    rounds: Annotated[int, Field(ge=5, le=1000)] = 100
    epsilon: Annotated[
        float | None, Field(gt=0, le=1000), BeforeValidator(lambda given: given or None)
    ] = None
    rule: RuleName = "fedavg"
    attack: AttackName = "none"
    attackers: Annotated[int, Field(ge=0, le=500)] = 0
    seed: Annotated[int, Field(ge=0, le=2**31)] = 1


def simulation_settings(form: SimulationForm, world_seed: int) -> SimulationSettings:
    """Return the settings; what does not fit together is refused."""
    chosen = form.model_dump()
    return SimulationSettings(
        data=f"{WORLD}&seed={world_seed}",
        evaluate_every=max(1, form.rounds // POINTS),
        **chosen,
    )


def run_simulation(job: Job, folder: Path, settings: SimulationSettings) -> Path:
    """Run it, tell of the ranker on the way, and keep it as ``cloister simulate --out`` does."""
    prepare_folder(folder)  # before the work: it may not be possible

    def measured(n_rounds: int, offline: Offline) -> None:
        job.add("offline", (n_rounds, offline.ndcg))

    result = simulate(settings, advance=job.advance, measured=measured)
    path = write_run(folder, result).path
    job.put("file", str(path))
    return path
