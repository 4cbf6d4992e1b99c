"""Flower on loopback: a real SuperLink and SuperNodes over the files of a federation."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.flower import deployment
from cloister.federate.engines.flower.flower_folder import FlowerFolder
from cloister.federate.engines.flower.provisioning import provision_coordinator, provision_site
from cloister.federate.engines.site_call import SiteId
from federate.engines.made_files import write_federation

COORDINATOR = SiteId("coordinator")


def free_address() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listening.getsockname()[1]}"


def provisioned(
    folder: Path, agreed: FederationAgreement | None = None, *, n_rounds: int = 1
) -> dict[SiteId, FlowerFolder]:
    """Make the folders of all parties, and hand the public keys of SuperNodes over."""
    files = write_federation(folder, agreed, n_rounds=n_rounds)
    coordinator = FlowerFolder(folder / "flower" / "coordinator")
    provision_coordinator(coordinator, folder / "coordinator.toml", free_address())
    parties = {COORDINATOR: coordinator}
    for name, file in files.items():
        parties[name] = FlowerFolder(folder / "flower" / name)
        public = provision_site(parties[name], file, coordinator.invitation)
        shutil.copy(public, coordinator.supernodes)
    return parties


@contextmanager
def running(parties: dict[SiteId, FlowerFolder]) -> Iterator[FlowerFolder]:
    """Start all parties, and stop them whatever happens; give the coordinator's folder."""
    coordinator = parties[COORDINATOR]
    sites = [party for party in parties.values() if party != coordinator]
    with ThreadPoolExecutor(len(sites)) as at_once:
        try:
            deployment.start(coordinator)
            list(at_once.map(deployment.start, sites))
            yield coordinator
        finally:
            list(at_once.map(deployment.stop, sites))
            deployment.stop(coordinator)
