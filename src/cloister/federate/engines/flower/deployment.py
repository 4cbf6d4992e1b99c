"""Start, look at and stop what a folder is for: a SuperLink, or a SuperNode and its site."""

from __future__ import annotations

import socket
import ssl
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any, Final

import httpx

from cloister.core.errors import SettingsError, StoreError
from cloister.federate.engines.coordinator_file import opened_federation
from cloister.federate.engines.flower.flower_folder import FlowerFolder
from cloister.federate.engines.flower.processes import (
    Program,
    end_program,
    find_program,
    start_program,
)
from cloister.federate.engines.flower.site_process import ADDRESS
from cloister.federate.engines.flower.superlink_control import SuperLinkControl
from cloister.federate.engines.in_process import InProcessEngine

__all__ = ["register_supernodes", "start", "status", "stop"]

START_S: Final = 60.0
LOOPBACK: Final = "127.0.0.1"
_POLL_S: Final = 0.1
_PROGRAMS: Final = {"coordinator": ("superlink",), "site": ("site", "supernode")}
_MODULE: Final = "cloister.federate.engines.flower.site_process"


def start(folder: FlowerFolder) -> list[Program]:
    """Start what the folder is for, unless it runs; at the coordinator, make new nodes known."""
    if folder.settings.role == "site":
        return _start_site(folder)
    program = _start_superlink(folder)
    register_supernodes(folder)
    return [program]


def stop(folder: FlowerFolder) -> list[str]:
    """Stop what runs; return what did."""
    names = _PROGRAMS[folder.settings.role]
    return [name for name in names if end_program(folder.running, name)]


def status(folder: FlowerFolder) -> dict[str, Any]:
    """Say what runs; at the coordinator also who is there, and how many rounds are done."""
    settings = folder.settings
    found = {name: find_program(folder.running, name) for name in _PROGRAMS[settings.role]}
    programs = {name: None if one is None else one.pid for name, one in found.items()}
    shown: dict[str, Any] = {"role": settings.role, "programs": programs}
    if settings.role == "coordinator":
        with opened_federation(folder.party_file, InProcessEngine({})) as federation:
            shown["n_rounds"] = federation.n_rounds
        if found["superlink"] is not None:
            with SuperLinkControl(settings.address, folder.ca) as control:
                shown["supernodes"] = {node.name: node.status for node in control.nodes()}
    return shown


def register_supernodes(folder: FlowerFolder) -> list[str]:
    """Make the SuperNodes known whose public keys lie in the folder; return the new ones."""
    new = []
    with SuperLinkControl(folder.settings.address, folder.ca) as control:
        for path in sorted(folder.supernodes.glob("*.pub")):
            if control.register(path.stem, path.read_bytes()):
                new.append(path.stem)
    return new


def _start_superlink(folder: FlowerFolder) -> Program:
    host, _, port = folder.settings.address.rpartition(":")
    command = [
        _script("flower-superlink"),
        *("--host", host.strip("[]"), "--port", port),
        *("--ssl-certfile", str(folder.certificate), "--ssl-keyfile", str(folder.certificate_key)),
        *("--ssl-ca-certfile", str(folder.ca), "--database", str(folder.state)),
        *("--enable-supernode-auth", "--disable-runtime-dependency-installation"),
        *("--isolation", "process", "--superexec-auth-secret-file", str(folder.secret)),
    ]
    program = start_program(folder.running, "superlink", command, _environment(folder))
    _wait_for(folder, program, f"https://{folder.settings.address}/health")
    return program


def _start_site(folder: FlowerFolder) -> list[Program]:
    """Start the SuperNode, and the site's process beside it, on a port that nobody else uses."""
    running = [find_program(folder.running, name) for name in _PROGRAMS["site"]]
    if all(running):
        return [one for one in running if one is not None]
    stop(folder)  # one without the other: they share a port
    address = f"{LOOPBACK}:{_free_port()}"
    command = [
        _script("flower-supernode"),
        *("--superlink", folder.settings.address, "--root-certificates", str(folder.ca)),
        *("--auth-supernode-private-key", str(folder.node_key)),
        *("--host", LOOPBACK, "--port", address.rpartition(":")[2]),
        *("--isolation", "process", "--superexec-auth-secret-file", str(folder.secret)),
    ]
    environment = _environment(folder)
    node = start_program(folder.running, "supernode", command, environment)
    _wait_for(folder, node, f"http://{address}/health")
    beside = [sys.executable, "-m", _MODULE, str(folder.path)]
    site = start_program(folder.running, "site", beside, {**environment, ADDRESS: address})
    return [site, node]


def _environment(folder: FlowerFolder) -> dict[str, str]:
    """Keep Flower at home: no telemetry, no question about updates, its files in the folder."""
    home = folder.path / "flower"
    home.mkdir(mode=0o700, exist_ok=True)
    return {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_HOME": str(home.resolve()),
    }


def _script(name: str) -> str:
    path = Path(sysconfig.get_path("scripts"), name)
    if not path.exists():
        raise SettingsError("Flower's program is not beside Python", where=str(path))
    return str(path)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        return int(listening.getsockname()[1])


def _wait_for(folder: FlowerFolder, program: Program, url: str) -> None:
    """Wait until a program answers; say where its words are if it does not."""
    verify = ssl.create_default_context(cafile=str(folder.ca))
    deadline = time.monotonic() + START_S
    while find_program(folder.running, program.name) and time.monotonic() < deadline:
        try:
            if httpx.get(url, verify=verify, trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(_POLL_S)
    raise StoreError(
        f"{program.name} did not start",
        where=url,
        remedy=f"see {folder.running / program.name}.log",
    )
