"""The guard in front of a service's routes: identity, roles, limits, refusals, logs.

It stands before routing, so that nothing about a route shows to somebody who may not call it: not
its existence, not its methods, not what it would say to a body that cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from cloister.core.errors import DataError, NotFound
from cloister.web.addresses import client_network, is_loopback
from cloister.web.admission import CALLER, PEER, Identification, RouteRule
from cloister.web.at_once import AtOnce
from cloister.web.bodies import Disconnected, Headers, UnsoundHead, checked_body, takes_bytes
from cloister.web.callers import SERVICES, Caller, Role
from cloister.web.exchange import Exchange
from cloister.web.limits import ServiceLimits
from cloister.web.logs import SeldomLog, failure
from cloister.web.metrics import ServiceMetrics
from cloister.web.rate_limits import TokenBuckets
from cloister.web.refusals import (
    FAILED,
    INVALID,
    NOTHING_HERE,
    NotIdentified,
    Refusal,
    TooMany,
    UnknownMethod,
    refusal_of,
)

__all__ = ["Guard", "GuardSettings"]

_VERSIONS: Final = frozenset({"1.0", "1.1"})
LOCAL: Final = Caller(Role.OPERATOR, "local")  # on the few routes that are for this machine


class GuardSettings(NamedTuple):
    """What a guard knows of its service."""

    rules: tuple[RouteRule, ...]
    identification: Identification
    limits: ServiceLimits
    metrics: ServiceMetrics


class Guard:
    """ASGI middleware around a service.

    Parameters
    ----------
    app
        What it guards.
    settings
        What it knows of the service.
    """

    def __init__(self, app: ASGIApp, settings: GuardSettings) -> None:
        self._app = app
        self._rules, self._identification, self._limits, self._metrics = settings
        self._persons = TokenBuckets(self._limits.requests_a_minute)
        self._services = TokenBuckets(self._limits.service_requests_a_minute)
        self._strangers = TokenBuckets(self._limits.unidentified_a_minute)
        self._seldom = SeldomLog()
        self._at_once = AtOnce(self._limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._exchange(scope, receive, Exchange(scope, send))

    async def _exchange(self, scope: Scope, receive: Receive, exchange: Exchange) -> None:
        try:
            await self._pass(scope, receive, exchange)
        except (Disconnected, ClientDisconnect):
            pass
        except Exception as error:
            refusal = _refusal(error)
            if refusal.status >= 500:
                exchange.failure = failure(type(error), error.__traceback__)
            if exchange.begun:  # too late to say so: the server cuts the connection
                raise
            await exchange.refuse(refusal)
        finally:
            exchange.note(self._metrics, self._seldom)

    async def _pass(self, scope: Scope, receive: Receive, exchange: Exchange) -> None:
        if len(scope["headers"]) > self._limits.max_headers:
            raise UnsoundHead(f"at most {self._limits.max_headers} headers are taken")
        if scope["http_version"] not in _VERSIONS:
            raise UnsoundHead("this version of HTTP is not known")
        headers = Headers(scope["headers"])
        rule = await self._admitted(scope, exchange)
        if b"\x00" in scope["path"].encode() or b"%00" in scope["query_string"]:
            raise DataError("the address has NUL", remedy="leave it out")
        with self._at_once.work(exchange.caller, binary=takes_bytes(rule.route)):
            body = await checked_body(rule.route, headers, receive, self._limits)
            await self._app(scope, body, exchange.send)

    async def _admitted(self, scope: Scope, exchange: Exchange) -> RouteRule:
        """Return the rule of the request's route, if the caller may call it."""
        rule, others = self._matching(scope)
        exchange.route = rule.route.path if rule else exchange.route
        state, host = scope.setdefault("state", {}), _host(scope)
        if rule is not None and (rule.open or (rule.local and is_loopback(host))):
            self._charge(self._strangers, client_network(host))
            state[CALLER] = LOCAL
            return rule
        exchange.caller = state[CALLER] = await self._identified(scope, client_network(host))
        services = exchange.caller.role in SERVICES
        self._charge(self._services if services else self._persons, exchange.caller[:2])
        if rule is not None and exchange.caller.role in rule.roles:
            return rule
        raise _hidden(exchange.caller, others if rule is None else ())

    async def _identified(self, scope: Scope, address: str) -> Caller:
        certificate = scope["state"].get(PEER)
        if certificate is not None:
            return self._identification.by_certificate(certificate)
        if wait_s := self._strangers.wait_s(address):
            raise TooMany("too many requests without identity", wait_s=wait_s)
        try:
            return await self._identification.by_token(scope["headers"])
        except NotIdentified:
            self._strangers.take(address)
            raise

    def _matching(self, scope: Scope) -> tuple[RouteRule | None, list[RouteRule]]:
        """Return the rule of the route that will be taken, and those with other methods."""
        others = []
        for rule in self._rules:
            match, _ = rule.route.matches(scope)
            if match is Match.FULL:
                return rule, []
            if match is Match.PARTIAL:
                others.append(rule)
        return None, others

    def _charge(self, buckets: TokenBuckets, key: object) -> None:
        if wait_s := buckets.take(key):
            raise TooMany("too many requests", wait_s=wait_s)


def _host(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _hidden(caller: Caller, others: Sequence[RouteRule]) -> Exception:
    """Return the same for what does not exist and for what is there for others only."""
    methods = {
        method
        for rule in others
        if rule.open or caller.role in rule.roles
        for method in rule.route.methods or ()
    }
    return UnknownMethod(", ".join(sorted(methods))) if methods else NotFound("nothing here")


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, UnsoundHead):
        return refusal_of(error)._replace(headers=(("connection", "close"),))
    if isinstance(error, HTTPException):
        known = NOTHING_HERE if error.status_code in (404, 405) else INVALID
        return known if error.status_code < 500 else FAILED
    return refusal_of(error)


def _invalid(error: RequestValidationError) -> Refusal:
    """Say which field is wrong and how, without the value."""
    first = error.errors()[0]
    name = ".".join(str(part)[:80] for part in first["loc"][:8])
    return INVALID._replace(
        error=f"{name}: {first['msg']}"[:300], remedy="see the service's description"
    )
