"""Federations of three sites, closed when a test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cloister.federate.engines.agreement import FederationAgreement
from federate.engines.made_federation import MakeScene, Scene


@pytest.fixture
def make_scene(tmp_path: Path) -> Iterator[MakeScene]:
    scenes: list[Scene] = []

    def make(agreement: FederationAgreement) -> Scene:
        folder = tmp_path / str(len(scenes))
        folder.mkdir()
        scenes.append(Scene(folder, agreement))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.close()
