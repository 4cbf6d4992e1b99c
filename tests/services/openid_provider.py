"""An OpenID provider's discovery document and keys over real TLS, on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Response

from cloister.privacy.certificates.authority import Authority, CertificateFiles

START_S = 30.0


class Provider:
    """What the provider answers, which tests change while it runs; it counts its visitors."""

    def __init__(self) -> None:
        self.address = ""
        self.keys: list[dict[str, Any]] = []
        self.discovery: dict[str, Any] = {}
        self.answer: Response | None = None  # in the place of everything
        self.wait_s = 0.0
        self.n_visits = 0

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/.well-known/openid-configuration")
        def discover() -> Any:
            self.n_visits += 1
            time.sleep(self.wait_s)
            usual = {"issuer": self.address, "jwks_uri": f"{self.address}/keys"}
            return self.answer or {**usual, **self.discovery}

        @app.get("/keys")
        def keys() -> Any:
            return {"keys": self.keys}

        return app


@contextmanager
def running(provider: Provider, files: CertificateFiles) -> Iterator[Provider]:
    config = uvicorn.Config(
        provider.app(),
        host="127.0.0.1",
        port=0,
        ssl_certfile=str(files.certificate),
        ssl_keyfile=str(files.key),
        log_level="critical",
        ws="none",
        lifespan="off",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    deadline = time.monotonic() + START_S
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        provider.address = f"https://localhost:{port}"
        yield provider
    finally:
        server.should_exit = True
        thread.join(START_S)


def certified(folder: Path) -> tuple[Authority, CertificateFiles]:
    """Make an authority and a certificate for this machine."""
    authority = Authority.create(folder / "ca", "provider")
    return authority, authority.issue("node", "idp", folder=folder, hosts=["localhost"])
