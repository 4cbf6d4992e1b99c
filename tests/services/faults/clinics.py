"""A federation of clinics with documents and searching users, for faults that users would see."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cloister.core.errors import CloisterError
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.entry import Entry
from cloister.privacy.ledger.ledger import Ledger
from cloister.services.federation_folder import FederationFolder
from cloister.services.processes import Processes
from cloister.services.sample_clinics import SampleClinics
from cloister.store.database import Database
from services.processes import NODES, made_clinics, user_client

NODE = """
[clicks]
settle_s = 0.2
[search]
n_servers = 1
timeout_s = 3.0
[publishing]
form = "threshold"
threshold = 2
"""
BROKER = """
[publishing]
form = "threshold"
"""


class Clinics(NamedTuple):
    """Services that are started one by one."""

    folder: FederationFolder
    world: SampleClinics
    processes: Processes

    def asked(self, service: str, path: str, *, post: bool = False) -> dict[str, Any]:
        with self.folder.client(service, timeout_s=20) as client:
            return dict(client.post_json(path) if post else client.get_json(path))

    def answers(self, service: str, path: str) -> bool:
        try:
            self.asked(service, path)
        except CloisterError:
            return False
        return True

    def search(self, agent: str, number: int = 0) -> Any:
        with user_client(self.folder, agent) as client:
            return client.search(self.world.world.queries[number].text)

    def ledger(self, service: str) -> list[Entry]:
        """Return a ledger's entries, once it is found to be whole."""
        with Database.open(self.folder.folder / service / "state.db") as database:
            ledger = Ledger(database)
            check_ledger(ledger)
            return ledger.entries()


def made(folder: Path, *, settings: Mapping[str, str] | None = None) -> Clinics:
    """Make three clinics; nodes look every half second what there is to do."""
    usual = {"node": NODE, "broker": BROKER}
    made_folder, world = made_clinics(folder, pods=4, settings=usual | dict(settings or {}))
    for node in NODES:
        put_first(made_folder, node, "refresh_s = 0.5\n")
    return Clinics(made_folder, world, Processes(made_folder, program=[str(FAULTY)]))


def put_first(folder: FederationFolder, service: str, text: str) -> None:
    """Put settings before all tables of a service's file."""
    file = folder.file(service)
    file.write_text(text + file.read_text(encoding="utf-8"), encoding="utf-8")


FAULTY = Path(__file__).parent.parent / "faulty_service.py"
