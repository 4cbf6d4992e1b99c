"""An HTTP service: its routes behind a guard, with health, readiness and metrics beside them.

==================  ==================================================================
``/health``         whether the process answers; for everybody
``/ready``          whether it can do its work, and its certificates hold; for everybody
``/metrics``        Prometheus; for this machine, and for operators
``/openapi.json``   the service's description; for every identified caller
==================  ==================================================================

Whoever is not identified gets the same 401 for every other path, there or not. A proxy on the same
machine makes everybody look local: it must not pass ``/metrics`` on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from cloister import __version__
from cloister.web.admission import Identification, allowed, route_rules
from cloister.web.callers import Caller, Role
from cloister.web.description import describe
from cloister.web.guard import Guard, GuardSettings
from cloister.web.limits import ServiceLimits
from cloister.web.logs import failure, log_event
from cloister.web.metrics import ServiceMetrics

__all__ = ["Ready", "make_service"]

Ready = Callable[[], Mapping[str, bool]]
"""Says of each thing that a service needs whether it is there; names are the program's own."""

_OPEN: Final = ("/health", "/ready")
_LOCAL: Final = ("/metrics",)
_EXPOSITION: Final = "text/plain; version=0.0.4; charset=utf-8"


def make_service(
    title: str,
    *,
    federation: str,
    identify: Callable[[str], Caller] | None = None,
    known: Callable[[Caller], bool] = lambda caller: True,
    limits: ServiceLimits | None = None,
    ready: Ready | None = None,
    metrics: ServiceMetrics | None = None,
    routers: Sequence[APIRouter] = (),
    lifespan: Any = None,
) -> FastAPI:
    """Return a service.

    Parameters
    ----------
    title
        Of its description.
    federation
        That callers' certificates must name.
    identify
        Turns a bearer token into a caller, or raises AccessDenied; called in a thread.
    known
        Says of a caller with a certificate whether the service knows them: others are as if they
        had none. Everybody whom the authority named, unless given.
    limits
        What is taken from callers.
    ready
        What the service needs, and whether it is there; called in a thread.
    metrics
        Where its figures are counted.
    routers
        Flat routers; each route says by `cloister.web.admission.allowed` who may call it.
    lifespan
        Of FastAPI: what is done when the service starts and ends.

    Raises
    ------
    SettingsError
        If a route does not say who may call it.
    """
    metrics = metrics or ServiceMetrics()
    service = FastAPI(
        title=title,
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    service.state.metrics = metrics
    service.state.tls_holds = lambda: True  # `serve` replaces it where there is TLS
    service.add_exception_handler(HTTPException, _passed_on)
    service.add_exception_handler(RequestValidationError, _passed_on)
    own = _own_routes(service, ready, metrics)
    service.router.routes[:] = [route for router in (own, *routers) for route in router.routes]
    rules = route_rules(service.router.routes, open_paths=_OPEN, local_paths=_LOCAL)
    service.openapi = cache(lambda: describe(service, rules))  # type: ignore[method-assign]
    guarded = GuardSettings(
        rules, Identification(federation, identify, known), limits or ServiceLimits(), metrics
    )
    service.add_middleware(Guard, settings=guarded)
    return service


def _own_routes(service: FastAPI, ready: Ready | None, metrics: ServiceMetrics) -> APIRouter:
    router = APIRouter()

    @router.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/ready", responses={503: {"description": "Not ready"}})
    def is_ready() -> Response:
        ok = _is_ready(lambda: {**(ready() if ready else {}), "tls": service.state.tls_holds()})
        return JSONResponse({"ready": ok}, 200 if ok else 503)

    @router.get("/metrics", include_in_schema=False)
    def figures(caller: Annotated[Caller, allowed(Role.OPERATOR)]) -> Response:
        return Response(metrics.exposition(), media_type=_EXPOSITION)

    @router.get("/openapi.json", include_in_schema=False, dependencies=[allowed(*Role)])
    def description() -> dict[str, Any]:
        return service.openapi()

    return router


def _is_ready(ready: Ready) -> bool:
    try:
        missing = [name for name, there in ready().items() if not there]
    except Exception as error:  # whatever it is, the service is not ready
        log_event("not_ready", level=logging.WARNING, **failure(type(error), error.__traceback__))
        return False
    if missing:
        log_event("not_ready", level=logging.WARNING, missing=missing)
    return not missing


async def _passed_on(_: Request, error: Exception) -> Response:
    """Leave all refusals to the guard."""
    raise error
