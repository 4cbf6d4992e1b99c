"""Three real Solid servers, started once for all tests that need them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pods.solid_people import People, make_person
from pods.solid_server import installed_folder, shared_servers

N_SERVERS = 3


@pytest.fixture(scope="session")
def solid_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    installed = installed_folder()
    if installed is None:
        pytest.skip("no Solid server: run tools/install-solid-server")
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    base = tmp_path_factory.getbasetemp()
    folder = base if alone else base.parent
    with shared_servers(installed, folder, N_SERVERS, alone=alone) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def people(solid_servers: list[str]) -> Iterator[People]:
    first, second, third = solid_servers
    places = [first, second, third, first, second]
    with ThreadPoolExecutor(3) as pool:
        made = People(*pool.map(make_person, places, People._fields))
    yield made
    for person in made:
        person.client.close()
