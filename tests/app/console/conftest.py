"""A console over a federation whose services do not run: fast, for pages that need none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.console.browser import Browser
from cloister.app.console.console import make_console
from cloister.app.console.scene import Scene
from cloister.services.federation_folder import FederationFolder, FederationPlan
from services.processes import NODES, clicked_agreement, own_host


@pytest.fixture(scope="session")
def federation_folder(tmp_path_factory: pytest.TempPathFactory) -> FederationFolder:
    """Return a federation that was made, and never started."""
    plan = FederationPlan(
        nodes=NODES, agreement=clicked_agreement(), host=own_host(), consent="test"
    )
    return FederationFolder.make(tmp_path_factory.mktemp("console") / "federation", plan)


@pytest.fixture
def scene(federation_folder: FederationFolder, tmp_path: Path) -> Iterator[Scene]:
    with Scene(federation_folder, tmp_path / "home") as made:
        yield made


@pytest.fixture
def browser(scene: Scene) -> Browser:
    """Return what asks the console of the scene."""
    return Browser(make_console(scene))
