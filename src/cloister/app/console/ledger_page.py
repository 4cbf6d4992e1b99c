"""A page that is being written."""

from __future__ import annotations

from fastapi import APIRouter

from cloister.app.console.scene import Scene

__all__ = ["ledger_router"]


def ledger_router(scene: Scene) -> APIRouter:
    """Return the routes of the page."""
    return APIRouter()
