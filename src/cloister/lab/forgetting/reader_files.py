"""The files of a federation's folder that are for readers: its ranker and its certificates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from cloister.core.errors import CloisterError
from cloister.lab.forgetting.state import State
from cloister.lab.simulation.run_files import write_aside
from cloister.lab.simulation.settings import SimulationSettings
from cloister.rank.ranker import Ranker
from cloister.rank.saving import load_ranker, save_ranker

__all__ = ["certificate_path", "ranker_path", "write_reader_files"]


def ranker_path(folder: Path) -> Path:
    """Return where readers find the ranker."""
    return folder / "ranker.safetensors"


def certificate_path(folder: Path, number: int) -> Path:
    """Return where readers find a certificate, by its number from 1."""
    return folder / "certificates" / f"{number:04d}.json"


def write_reader_files(folder: Path, state: State, settings: SimulationSettings) -> None:
    """Write files again, where they are not as the state has them."""
    target = ranker_path(folder)
    if not _holds(target, state.ranker):
        save_ranker(state.ranker, target, extra={"settings": settings.model_dump(mode="json")})
    for number, certificate in enumerate(state.certificates, 1):
        target = certificate_path(folder, number)
        content = (json.dumps(certificate, indent=1) + "\n").encode()
        if not target.is_file() or target.read_bytes() != content:
            write_aside(folder, target, content)


def _holds(path: Path, ranker: Ranker) -> bool:
    """Say whether a file is there, sound, and of this ranker."""
    try:
        return np.array_equal(load_ranker(path).parameters, ranker.parameters)
    except CloisterError:
        return False
