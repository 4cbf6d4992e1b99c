"""Asks a console in this process, as a browser would."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from starlette.types import ASGIApp


class Browser:
    """A console's visitor: forms are sent, and redirections followed where asked for."""

    def __init__(self, console: ASGIApp) -> None:
        self._console = console

    def get(self, path: str, **more: Any) -> httpx.Response:
        """Ask for a page."""
        return self._asked("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        """Send a form."""
        return self._asked("POST", path, **more)

    def _asked(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._console)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as way:
                return await way.request(method, path, **more)

        return asyncio.run(ask())
