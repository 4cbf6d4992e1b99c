"""A node hangs (SIGSTOP), or a pod's server does: others are found, and the node still stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.services.federation_folder import FederationFolder
from pods.hostile_server import hostile_server
from services.faults.clinics import made
from services.processes import wait_until

STOPS_S = 15.0  # as docs/service-security.md says
SETTINGS = "[search]\ntimeout_s = 2.0\n"  # all nodes are asked


def add_hanging_pod(folder: FederationFolder, node: str, address: str) -> None:
    secret = folder.folder / "hanging.json"
    fields = {"issuer": address, "client_id": "i", "client_secret": "s", "web_id": f"{address}me"}
    secret.touch(mode=0o600)
    secret.write_text(json.dumps(fields), encoding="utf-8")
    with PodRegistry(folder.home(node)) as registry:
        registry.add(
            RegisteredPod(
                pod_id=f"{address}p/",
                owner=f"{address}me",
                server_id=node,
                kind="solid",
                address=f"{address}p/",
                credentials=str(secret),
            )
        )


def test_a_node_that_hangs_takes_no_other_from_the_first_search_and_a_hanging_pod_no_stop(
    tmp_path: Path,
) -> None:
    clinics = made(tmp_path / "f", settings={"node": SETTINGS})
    released = threading.Event()

    def hang(connection: socket.socket, path: str) -> None:
        released.wait(60.0)

    with hostile_server(hang) as server, clinics.processes as processes:
        add_hanging_pod(clinics.folder, "clinic-a", server.address)
        processes.start("clinic-a", "clinic-b", "clinic-c")
        before = clinics.search("clinic-a:party-100")
        assert not before.missing_nodes
        processes.halt("clinic-c")
        began = time.monotonic()
        first = clinics.search("clinic-a:party-100")
        assert first.missing_nodes == ["clinic-c"]
        assert time.monotonic() - began < 10.0
        healthy = {one.doc_id for one in before.results if one.server != "clinic-c"}
        assert healthy
        assert healthy <= {one.doc_id for one in first.results}
        wait_until(lambda: server.n_requests > 0, what="the node did not sync the pod")
        began = time.monotonic()
        os.kill(processes.pid("clinic-a"), signal.SIGTERM)
        assert processes.wait_dead("clinic-a") == 0
        assert time.monotonic() - began < STOPS_S
        released.set()
