"""Start, look at and stop what a folder is for: a SuperLink, or a SuperNode and its site."""

from __future__ import annotations

import ssl
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import httpx

from cloister.core.errors import StoreError
from cloister.federate.engines.coordinator_file import opened_federation
from cloister.federate.engines.flower.flower_folder import FlowerFolder
from cloister.federate.engines.flower.processes import (
    Program,
    end_program,
    find_program,
    start_program,
)
from cloister.federate.engines.flower.superlink_control import SuperLinkControl
from cloister.federate.engines.flower.supernode import (
    SUPERNODE,
    flower_environment,
    flower_script,
)
from cloister.federate.engines.in_process import InProcessEngine

__all__ = ["register_supernodes", "start", "status", "stop"]

START_S: Final = 60.0
_POLL_S: Final = 0.1
_PROGRAMS: Final = {"coordinator": ("superlink",), "site": ("site", SUPERNODE)}
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
        flower_script("flower-superlink"),
        *("--host", host.strip("[]"), "--port", port),
        *("--ssl-certfile", str(folder.certificate), "--ssl-keyfile", str(folder.certificate_key)),
        *("--ssl-ca-certfile", str(folder.ca), "--database", str(folder.state)),
        *("--enable-supernode-auth", "--disable-runtime-dependency-installation"),
        *("--isolation", "process", "--superexec-auth-secret-file", str(folder.secret)),
    ]
    program = start_program(folder.running, "superlink", command, flower_environment(folder))
    _wait_for(folder, program, lambda: _healthy(folder))
    return program


def _start_site(folder: FlowerFolder) -> list[Program]:
    """Start the site's process; it starts its SuperNode, and starts it again where it ends."""
    command = [sys.executable, "-m", _MODULE, str(folder.path)]
    site = start_program(folder.running, "site", command, {})
    _wait_for(folder, site, lambda: find_program(folder.running, SUPERNODE) is not None)
    node = find_program(folder.running, SUPERNODE)
    return [site] if node is None else [site, node]


def _healthy(folder: FlowerFolder) -> bool:
    verify = ssl.create_default_context(cafile=str(folder.ca))
    url = f"https://{folder.settings.address}/health"
    try:
        return httpx.get(url, verify=verify, trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def _wait_for(folder: FlowerFolder, program: Program, ready: Callable[[], bool]) -> None:
    """Wait until a program is ready; say where its words are if it ends before."""
    deadline = time.monotonic() + START_S
    while find_program(folder.running, program.name) and time.monotonic() < deadline:
        if ready():
            return
        time.sleep(_POLL_S)
    raise StoreError(
        f"{program.name} did not start",
        where=str(folder.path),
        remedy=f"see {folder.running / program.name}.log",
    )
