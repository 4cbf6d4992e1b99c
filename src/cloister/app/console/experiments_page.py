"""A page that is being written."""

from __future__ import annotations

from fastapi import APIRouter

from cloister.app.console.scene import Scene

__all__ = ["experiments_router"]


def experiments_router(scene: Scene) -> APIRouter:
    """Return the routes of the page."""
    return APIRouter()
