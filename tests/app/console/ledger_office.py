"""Ledgers in this process, read through the routes that services have."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from cloister.privacy.ledger.ledger import Ledger
from cloister.services.ledger_routes import ledger_router
from cloister.web.admission import CALLER
from cloister.web.callers import Caller, Role
from cloister.web.refusals import PeerUnreachable


class _AsOfficer:
    """Lets everybody pass as an officer: who may read is tested where services are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})[CALLER] = Caller(Role.OFFICER, "officer")
        await self._app(scope, receive, send)


class LedgerOffice:
    """Reads ledgers by the names of their services; others do not answer."""

    def __init__(self, ledgers: Mapping[str, Ledger]) -> None:
        self._apps: dict[str, FastAPI] = {}
        for service, ledger in ledgers.items():
            app = FastAPI()
            app.include_router(ledger_router(ledger))
            app.add_middleware(_AsOfficer)
            self._apps[service] = app
        self.spoilt: dict[str, dict[str, Any]] = {}  # by service: what its first entry says instead

    def get(self, service: str, path: str, *, timeout_s: float = 1.0) -> Any:
        """Ask a service."""
        if service not in self._apps:
            raise PeerUnreachable("no connection", where=service)

        async def ask() -> Any:
            transport = httpx.ASGITransport(self._apps[service])
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as way:
                return (await way.get(path)).raise_for_status().json()

        page = asyncio.run(ask())
        if page["entries"]:
            page["entries"][0] |= self.spoilt.get(service, {})
        return page

    def close(self) -> None:
        """Hold nothing."""
