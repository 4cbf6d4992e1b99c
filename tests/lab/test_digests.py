"""Trainings give the same bits as ever: twenty kinds of them, each with a digest on record.

``pytest tests/lab/test_digests.py``. After a change of the mathematics that is meant,
``DIGESTS=write pytest tests/lab/test_digests.py`` writes them anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from llvmlite import binding as llvm

from cloister.lab.simulation.run import simulate
from cloister.lab.simulation.settings import SimulationSettings

ON_RECORD: Final = Path(__file__).with_name("digests.json")
SIZE: Final[dict[str, Any]] = {
    "data": "world:features?queries=40&documents=15&features=12",
    "click_model": "informational",
    "clients": 12,
    "rounds": 6,
    "seed": 3,
}
MLP: Final = {"ranker": "mlp", "hidden": 8}
PRIVATE: Final = {"epsilon": 4.5, "delta": 1e-4, "participants": 6}
SIMULATIONS: Final[dict[str, dict[str, Any]]] = {
    "fpdgd, linear": {},
    "fpdgd, mlp": MLP,
    "fpdgd, participants": {"participants": 5},
    "fpdgd, proximal": {"proximal": 0.1},
    "fpdgd, private layer": MLP | {"private_layer": True},
    "fpdgd, the thesis's noise": {"paper_epsilon": 4.5},
    "pdgd": {"method": "pdgd"},
    "batch-pdgd": {"method": "batch-pdgd"},
    "es": {"method": "es"},
    "es, mlp, randomised response": MLP | {"method": "es", "keep_probability": 0.9},
    "clustered": {
        "data": "world:intents?queries=20&documents=15&features=6&intents=3",
        "partition": "intents",
        "click_model": "navigational",
        "method": "clustered",
        "queries_per_round": 6,
        "rounds": 60,
    },
    "gaussian noise": PRIVATE,
    "gaussian noise, mlp": MLP | PRIVATE,
    "tree": PRIVATE | {"mechanism": "tree", "average_last": 3, "server_rate": 2.0},
    "noise in shares": PRIVATE | {"participants": 12, "dropouts": 1, "colluders": 1},
    "krum, lie": {"rule": "krum", "attack": "lie", "attackers": 2},
    "trimmed mean, min-max": {
        "rule": "trimmed-mean",
        "attack": "min-max",
        "attackers": 3,
        "knowledge": "full",
    },
    "median, on and off": {
        "rule": "median",
        "attack": "fang-trim",
        "attackers": 2,
        "on_rounds": 2,
        "off_rounds": 2,
    },
    "bulyan, mlp": MLP | {"rule": "bulyan", "attack": "min-sum", "attackers": 2},
    "fldetector, poisoned clicks": {
        "rule": "fldetector",
        "attack": "poison-clicks",
        "attackers": 3,
    },
}


def digest(parameters: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(parameters, "<f4").tobytes()).hexdigest()[:16]


def processor() -> str:
    """Return what code is made for here; on others last bits may differ."""
    able = [name for name, has in sorted(llvm.get_host_cpu_features().items()) if has]
    features = hashlib.sha256(" ".join(able).encode()).hexdigest()[:8]
    return f"{llvm.get_host_cpu_name()} {features}"


@pytest.fixture(scope="module")
def on_record() -> Any:
    known = json.loads(ON_RECORD.read_text(encoding="utf-8")) if ON_RECORD.exists() else {}
    yield known
    if os.environ.get("DIGESTS") == "write":
        ON_RECORD.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


@pytest.mark.parametrize("name", SIMULATIONS)
def test_a_training_gives_the_parameters_on_record(name: str, on_record: dict[str, Any]) -> None:
    found = simulate(SimulationSettings(**SIZE | SIMULATIONS[name]), threads=1)
    rankers = found.learner.client_rankers().rankers
    assert (len(rankers) > 1) == (name in ("clustered", "fpdgd, private layer"))
    parameters = np.concatenate([one.parameters for one in rankers])
    rough = [float(parameters[0]), float(np.abs(parameters).sum())]
    if os.environ.get("DIGESTS") == "write":
        if on_record.get(name, {}).get("rough") != pytest.approx(rough, rel=1e-3):
            on_record[name] = {"rough": [float(f"{one:.6g}") for one in rough], "sha256": {}}
        on_record[name]["sha256"][processor()] = digest(parameters)
        return
    known = on_record[name]
    assert rough == pytest.approx(known["rough"], rel=1e-3)
    if processor() in known["sha256"]:
        assert digest(parameters) == known["sha256"][processor()]
