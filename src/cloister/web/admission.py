"""Who may call which route, and who a caller is.

A route says it with `allowed`; a service with a route that says nothing does not start::

    @router.get("/v1/rounds/{number}")
    def show(number: int, caller: Annotated[Caller, allowed(Role.NODE, Role.OFFICER)]) -> Round: ...

Who somebody is comes from the certificate that the connection showed, else from the token in
``Authorization: Bearer``. A certificate is never set aside for a token: with a node's certificate a
caller is that node, also on a user's route, and is refused there.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from cloister.core.errors import AccessDenied, NotFound, SettingsError
from cloister.web.callers import SERVICES, Caller, Role, caller_of_certificate
from cloister.web.refusals import NotIdentified

__all__ = ["CALLER", "PEER", "Identification", "RouteRule", "allowed", "route_rules"]

PEER: Final = "peer_certificate"  # in a request's state: what the connection showed
CALLER: Final = "caller"  # in a request's state: who was identified
MAX_THREADS: Final = 8  # that identify at a time; routes that take long do not hold them up
_MAX_TOKEN: Final = 16 << 10  # characters


class _Admission:
    """Gives the caller to a route, if the route is for the caller's role."""

    def __init__(self, roles: frozenset[Role]) -> None:
        self.roles = roles

    async def __call__(self, request: Request) -> Caller:
        caller: Caller = request.scope["state"][CALLER]
        if caller.role not in self.roles:
            raise NotFound("not for this role")
        return caller


def allowed(*roles: Role) -> Any:
    """Say which roles may call a route; the route's function can take the `Caller`."""
    if not roles:
        raise SettingsError("a route names the roles that may call it", where="allowed")
    return Depends(_Admission(frozenset(roles)))


class RouteRule(NamedTuple):
    """A route and what holds for it.

    Parameters
    ----------
    route
        Of FastAPI.
    roles
        That may call it; none where everybody may.
    open
        Without identity.
    local
        Without identity from this machine.
    """

    route: APIRoute
    roles: frozenset[Role]
    open: bool = False
    local: bool = False


def route_rules(
    routes: Iterable[BaseRoute], *, open_paths: Iterable[str] = (), local_paths: Iterable[str] = ()
) -> tuple[RouteRule, ...]:
    """Read from each route who may call it.

    Raises
    ------
    SettingsError
        If a route does not say it, or is of a kind that cannot.
    """
    return tuple(_rule(route, set(open_paths), set(local_paths)) for route in routes)


def _rule(route: BaseRoute, open_paths: set[str], local_paths: set[str]) -> RouteRule:
    if not isinstance(route, APIRoute):
        raise SettingsError(
            "not a route of a flat APIRouter",
            where=type(route).__name__,
            remedy="give each APIRouter to the service itself, without mounts and nesting",
        )
    if route.path in open_paths:
        return RouteRule(route, frozenset(), open=True)
    admissions = list(_admissions(route.dependant))
    if not admissions:
        raise SettingsError(
            "the route does not say who may call it", where=route.path, remedy="use allowed(...)"
        )
    roles = frozenset.intersection(*(admission.roles for admission in admissions))
    return RouteRule(route, roles, local=route.path in local_paths)


def _admissions(dependant: Dependant) -> Iterable[_Admission]:
    if isinstance(dependant.call, _Admission):
        yield dependant.call
    for inner in dependant.dependencies:
        yield from _admissions(inner)


class Identification:
    """Finds out who a request comes from.

    Parameters
    ----------
    federation
        That certificates must name.
    identify
        Turns a token into a caller or raises AccessDenied; it may take its time. Where there is
        none, tokens are refused.
    known
        Says of a caller with a certificate whether the service knows them; everybody whom the
        authority named, unless given.
    """

    def __init__(
        self,
        federation: str,
        identify: Callable[[str], Caller] | None,
        known: Callable[[Caller], bool] = lambda caller: True,
    ) -> None:
        self._federation, self._identify, self._known = federation, identify, known
        self._threads = CapacityLimiter(MAX_THREADS)

    def by_certificate(self, certificate: Mapping[str, Any]) -> Caller:
        """Return whom the connection's certificate names."""
        ends = certificate.get("notAfter")
        if not isinstance(ends, str) or ssl.cert_time_to_seconds(ends) < time.time():
            raise NotIdentified("the certificate has expired")  # while the connection was open
        try:
            caller = caller_of_certificate(certificate, self._federation)
        except AccessDenied:
            raise NotIdentified("the certificate names nobody here") from None
        if not self._known(caller):
            raise NotIdentified("the certificate names nobody here")
        return caller

    async def by_token(self, headers: Iterable[tuple[bytes, bytes]]) -> Caller:
        """Return whom the token in the headers names."""
        token = _bearer([value for name, value in headers if name == b"authorization"])
        if token is None or self._identify is None:
            raise NotIdentified("there is no token")
        try:
            caller = await to_thread.run_sync(self._identify, token, limiter=self._threads)
        except AccessDenied:
            raise NotIdentified("the token is not valid") from None
        if caller.role in SERVICES:
            raise NotIdentified("services come with certificates")
        return caller


def _bearer(values: list[bytes]) -> str | None:
    if len(values) != 1 or len(values[0]) > _MAX_TOKEN:
        return None
    scheme, _, token = values[0].partition(b" ")
    if scheme.lower() != b"bearer" or not token or not token.isascii():
        return None
    return token.decode("ascii")
