"""The console as a service: all pages, the style sheet, the script, and plotly's own file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from cloister import __version__
from cloister.app.console.attack_page import attack_router
from cloister.app.console.experiments_page import experiments_router
from cloister.app.console.federation_page import federation_router
from cloister.app.console.forget_page import forget_router
from cloister.app.console.guard import ConsoleGuard
from cloister.app.console.ledger_page import ledger_router
from cloister.app.console.page import NAVIGATION, render
from cloister.app.console.scene import Scene
from cloister.app.console.search_page import search_router
from cloister.app.console.start_page import start_router
from cloister.core.contention import Busy
from cloister.core.errors import AccessDenied, CloisterError, Conflict, NotFound, kind_in_words
from cloister.web.metrics import ServiceMetrics
from cloister.web.refusals import PeerUnreachable
from cloister.web.serving import serve

__all__ = ["make_console", "serve_console"]

_log: Final = logging.getLogger(__name__)
_STATIC: Final = Path(__file__).parent / "static"
_FILES: Final = {"console.css": "text/css", "console.js": "text/javascript",
                 "icon.svg": "image/svg+xml"}  # fmt: skip
_KEPT: Final = "max-age=3600"
_STATUS: Final[dict[type[CloisterError], int]] = {
    NotFound: 404,
    AccessDenied: 403,
    Busy: 409,
    Conflict: 409,
    PeerUnreachable: 503,
}


def make_console(scene: Scene, *, key: str | None = None) -> FastAPI:
    """Return the console of a scene.

    Parameters
    ----------
    scene
        What it shows.
    key
        What browsers must show once; nothing where everybody on this machine may see it.
    """
    console = FastAPI(
        title="Cloister console",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    console.state.scene = scene
    console.state.metrics = ServiceMetrics()
    console.state.tls_holds = lambda: True
    _add_files(console)
    for make in (
        start_router,
        search_router,
        federation_router,
        ledger_router,
        attack_router,
        forget_router,
        experiments_router,
    ):
        console.include_router(make(scene))
    _add_jobs(console, scene)
    _add_refusals(console)
    console.add_middleware(ConsoleGuard, key=key)
    return console


def serve_console(
    scene: Scene,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    key: str | None = None,
    listening: Callable[[str], None] | None = None,
    stopping: threading.Event | None = None,
) -> None:
    """Serve a console on this machine until the process is told to end."""
    serve(make_console(scene, key=key), host=host, port=port, listening=listening,
          stopping=stopping)  # fmt: skip


def _add_files(console: FastAPI) -> None:
    @console.get("/")
    def front() -> Response:
        return RedirectResponse(NAVIGATION[0].path, 303)

    @console.get("/static/{name}")
    def static(name: str) -> Response:
        if name == "plotly.js":
            found = Path(str(resources.files("plotly") / "package_data" / "plotly.min.js"))
            return FileResponse(found, media_type="text/javascript",
                                headers={"cache-control": _KEPT})  # fmt: skip
        if name not in _FILES:
            raise NotFound("no such file", where=name)
        return FileResponse(_STATIC / name, media_type=_FILES[name],
                            headers={"cache-control": "no-cache"})  # fmt: skip


def _add_jobs(console: FastAPI, scene: Scene) -> None:
    @console.post("/jobs/{job_id}/stop")
    def stop(job_id: str) -> Response:
        job = scene.jobs.get(job_id)
        job.stop()
        return RedirectResponse(f"/{job.kind}?job={job_id}", 303)


def _add_refusals(console: FastAPI) -> None:
    def refused(request: Request, status: int, what: str, remedy: str) -> Response:
        if request.url.path.endswith(".json"):
            return JSONResponse({"error": what, "remedy": remedy}, status)
        return render(
            request, "error.html", title="That did not work", http_status=status, what=what,
            remedy=remedy,
        )  # fmt: skip

    @console.exception_handler(CloisterError)
    def of_ours(request: Request, error: CloisterError) -> Response:
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 400)
        return refused(request, status, error.what, error.remedy)

    @console.exception_handler(HTTPException)
    def of_routes(request: Request, error: HTTPException) -> Response:
        return refused(request, error.status_code, str(error.detail), "go back, or begin anew")

    @console.exception_handler(RequestValidationError)
    def of_forms(request: Request, error: RequestValidationError) -> Response:
        told = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors())
        return refused(request, 422, told, "go back and correct the form")

    @console.exception_handler(Exception)
    def of_defects(request: Request, error: Exception) -> Response:
        _log.error("a page failed", exc_info=error)
        return refused(request, 500, kind_in_words(error), "this is a defect in Cloister")
