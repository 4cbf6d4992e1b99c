"""Accounts on a Community Solid Server: make one with a pod, and client credentials for programs.

Solid does not say how accounts are made; this is that server's own way (``/.account/``). Other
servers have theirs, and give client credentials on their pages.
"""

from __future__ import annotations

import json
from typing import Any, Self
from urllib.parse import urljoin

from cloister.core.errors import AccessDenied, StoreError
from cloister.core.ids import AgentId
from cloister.pods.solid_client import SolidCredentials
from cloister.pods.solid_http import SolidHttp, checked_address, origin

__all__ = ["SolidAccount"]


class SolidAccount:
    """Somebody's account on a Community Solid Server.

    Parameters
    ----------
    server
        Address of the server.
    timeout_s
        For a whole exchange.
    """

    def __init__(self, server: str, *, timeout_s: float = 30.0) -> None:
        self._server = checked_address(server.rstrip("/") + "/")
        self._http = SolidHttp(timeout_s=timeout_s)
        self._authorization = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def register(self, email: str, password: str) -> None:
        """Make a new account, and log in."""
        answer = self._ask("POST", self._control("account", "create"))
        self._authorization = str(answer["authorization"])
        fields = {"email": email, "password": password}
        self._ask("POST", self._control("password", "create"), fields)

    def login(self, email: str, password: str) -> None:
        """Log in to an account that there is."""
        fields = {"email": email, "password": password}
        answer = self._ask("POST", self._control("password", "login"), fields)
        self._authorization = str(answer["authorization"])

    def create_pod(self, name: str) -> tuple[str, AgentId]:
        """Make a pod; return its address and the WebID of its owner."""
        answer = self._ask("POST", self._control("account", "pod"), {"name": name})
        return str(answer["pod"]), AgentId(str(answer["webId"]))

    def create_credentials(self, web_id: AgentId, name: str = "cloister") -> SolidCredentials:
        """Make credentials with which a program acts for a WebID of this account."""
        fields = {"name": name, "webId": web_id}
        answer = self._ask("POST", self._control("account", "clientCredentials"), fields)
        return SolidCredentials(self._server, str(answer["id"]), str(answer["secret"]), web_id)

    def _control(self, group: str, name: str) -> str:
        controls = self._ask("GET", urljoin(self._server, ".account/")).get("controls", {})
        try:
            address = checked_address(str(controls[group][name]))
        except (KeyError, TypeError):
            address = ""
        if origin(address) != origin(self._server):
            raise StoreError(
                f"the server does not offer {group}.{name}",
                where=self._server,
                remedy="log in, or use a Community Solid Server",
            )
        return address

    def _ask(self, method: str, url: str, fields: dict[str, str] | None = None) -> dict[str, Any]:
        headers = {"accept": "application/json"}
        if self._authorization:
            headers["authorization"] = f"CSS-Account-Token {self._authorization}"
        content = None
        if fields is not None:
            headers["content-type"] = "application/json"
            content = json.dumps(fields).encode()
        response = self._http.send(method, url, content=content, headers=headers)
        if response.status >= 500:
            raise StoreError("the server failed", where=self._server)
        if response.status >= 300:
            raise AccessDenied(
                "the server refused", where=self._server, remedy="check the e-mail and password"
            )
        return response.fields(url)
