"""The first page: what Cloister does, in the words and figures of the run that is being shown."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from cloister.app.console.page import render
from cloister.app.console.scene import Scene

__all__ = ["start_router"]


def start_router(scene: Scene) -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()

    @router.get("/start")
    def show(request: Request) -> Response:
        return render(
            request,
            "start.html",
            title="Search and learn together, and keep the data at home",
            story=scene.story,
            seconds=sum(step["seconds"] for step in scene.story),
            nodes=scene.nodes,
            agreement=scene.folder.roster.agreement,
        )

    return router
