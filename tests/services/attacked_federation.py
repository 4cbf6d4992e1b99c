"""One federation of real processes over TLS that several modules of tests attack."""

from __future__ import annotations

import json
import re
import ssl
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from cloister.services.federation_folder import FederationFolder
from cloister.services.sample_clinics import SampleClinics
from services.processes import NODES, Processes, made_clinics

SERVICES = ("clinic-a", "broker", "coordinator")  # one of each kind
NEVER_LOGGED = ("eyJ", "party-", "staff-", "patient-", "record.txt")  # tokens, users, documents
HEAD_S = IDLE_S = 3.0  # short, so that tests of slow clients are
BODY_S = 5.0
_LIMITS = f"""
[limits]
handshake_s = {HEAD_S}
head_s = {HEAD_S}
idle_s = {IDLE_S}
body_s = {BODY_S}
requests_a_minute = 1000000
unidentified_a_minute = 1000000
"""
_NODE = """
[search]
page_length = 100
[clicks]
settle_s = 10.0
[publishing]
form = "threshold"
threshold = 2
[users.operators]
agents = ["clinic-a:olga"]
[users.officers]
agents = ["clinic-a:otto"]
"""
_BROKER = """
[publishing]
form = "threshold"
"""


class Attacked(NamedTuple):
    """The federation, what is in it, its processes, and what must never be logged."""

    folder: FederationFolder
    clinics: SampleClinics
    processes: Processes
    planted: set[str]

    @property
    def authority(self) -> Path:
        return self.folder.folder / "authority" / "authority.pem"

    def context(
        self,
        certificate: Path | None = None,
        key: Path | None = None,
        *,
        believe: Path | None = None,
    ) -> ssl.SSLContext:
        """Return TLS of a client, with a certificate or without."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cafile=believe or self.authority)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
        return context

    def as_holder(self, holder: str) -> ssl.SSLContext:
        """Return TLS with the certificate of a service, an operator or an officer."""
        files = self.folder.tls(holder)
        return self.context(files.certificate, files.key)

    @contextmanager
    def caller(
        self, service: str, holder: str = "", token: str = "", timeout_s: float = 30.0
    ) -> Iterator[httpx.Client]:
        """Give a client of a service, by certificate, by token, or as nobody."""
        context = self.as_holder(holder) if holder else self.context()
        headers = {"authorization": f"Bearer {token}"} if token else {}
        with httpx.Client(
            base_url=self.folder.url(service),
            verify=context,
            headers=headers,
            trust_env=False,
            timeout=timeout_s,
        ) as client:
            yield client

    def log_lines(self, service: str) -> list[dict[str, Any]]:
        """Return the lines of a service's log."""
        return [json.loads(line) for line in self.processes.log(service).splitlines()]

    def logged(self) -> dict[str, list[str]]:
        """Return by service what stands in its log though it never should."""
        logs = {service: self.processes.log(service) for service in self.folder.services}
        return {
            service: found
            for service, log in logs.items()
            if (found := [text for text in self.planted if text in log])
        }

    def refusals(self, service: str) -> dict[str, float]:
        """Return from a service's figures how many refusals of each kind there were."""
        with self.caller(service) as client:
            figures = client.get("/metrics").text
        found = re.findall(r'cloister_refusals_total\{kind="(\w+)"\} (\S+)', figures)
        return {kind: float(n) for kind, n in found}


def tell(text: str) -> None:
    """Say a figure; ``pytest -rP`` shows it."""
    sys.stdout.write(text + "\n")


def started(folder: Path, *, settings: Mapping[str, str] | None = None, pods: int = 8) -> Attacked:
    """Make the federation, start it, and let its nodes publish."""
    usual = {"node": _NODE + _LIMITS, "broker": _BROKER + _LIMITS, "coordinator": _LIMITS}
    made, clinics = made_clinics(folder / "fed", pods=pods, settings=usual | dict(settings or {}))
    processes = Processes(made)
    try:
        processes.start()
        for node in NODES:
            with made.client(node) as operator:
                operator.post_json("/v1/publications")
        _await_tables(made)
    except BaseException:
        processes.close()
        raise
    return Attacked(made, clinics, processes, set(NEVER_LOGGED))


def _await_tables(made: FederationFolder) -> None:
    until = time.monotonic() + 20.0
    with made.client("broker") as operator:
        while len(operator.get_json("/v1/status")["tables"]) < len(NODES):
            assert time.monotonic() < until, "tables did not arrive"
            time.sleep(0.05)
