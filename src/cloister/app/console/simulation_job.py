"""A small simulation that is begun from a page: its settings, and the run that it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, Field

from cloister.app.console.jobs import Job
from cloister.app.console.lab_world import lab_world
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

__all__ = ["METHODS", "SimulationForm", "run_simulation", "simulation_settings"]

POINTS: Final = 50  # offline measurements, at most about so many
FEWEST_CLIENTS, MOST_CLIENTS = 2, 1000
FEWEST_ROUNDS, MOST_ROUNDS = 5, 1000
MOST_EPSILON: Final = 1000
MOST_ATTACKERS: Final = 500
METHODS: Final[dict[Method, str]] = {
    "fpdgd": "FPDGD, federated",
    "pdgd": "PDGD, not federated",
    "batch-pdgd": "PDGD in batches, not federated",
    "es": "FOLtR-ES",
    "clustered": "clustered FPDGD",
}


class SimulationForm(BaseModel, extra="forbid"):
    """What the page lets one choose of a simulation."""

    method: Method = "fpdgd"
    ranker: Annotated[str, Field(pattern="^(linear|mlp)$")] = "linear"
    click_model: Annotated[
        str,
        Field(pattern=f"^({'|'.join(name.replace('.', '[.]') for name in CLICK_MODEL_NAMES)})$"),
    ] = "informational"
    clients: Annotated[int, Field(ge=FEWEST_CLIENTS, le=MOST_CLIENTS)] = 100
    rounds: Annotated[int, Field(ge=FEWEST_ROUNDS, le=MOST_ROUNDS)] = 100
    epsilon: Annotated[
        float | None, Field(gt=0, le=MOST_EPSILON), BeforeValidator(lambda given: given or None)
    ] = None
    rule: RuleName = "fedavg"
    attack: AttackName = "none"
    attackers: Annotated[int, Field(ge=0, le=MOST_ATTACKERS)] = 0
    seed: Annotated[int, Field(ge=0, le=2**31)] = 1


def simulation_settings(form: SimulationForm, world_seed: int) -> SimulationSettings:
    """Return the settings; what does not fit together is refused."""
    chosen = form.model_dump()
    return SimulationSettings(
        data=lab_world(world_seed),
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
