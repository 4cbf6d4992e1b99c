"""The federation that several modules attack is started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.attacked_federation import Attacked, started


@pytest.fixture(scope="session")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """Give a federation of five processes over TLS."""
    found = started(tmp_path_factory.mktemp("attacked"))
    with found.processes:
        yield found
        assert found.logged() == {}  # over the whole run, whatever was sent
