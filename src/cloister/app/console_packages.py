"""What the console and the demo need beyond the base installation."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from cloister.core.errors import MissingDependency

__all__ = ["require_console_packages"]

PACKAGES: Final = (
    "fastapi",
    "httpx",
    "jinja2",
    "joserfc",
    "prometheus_client",
    "python_multipart",
    "uvicorn",
)


def require_console_packages(where: str) -> None:
    """Raise `MissingDependency`, with what to install, where something is missing."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingDependency(
            f"not installed: {', '.join(missing)}",
            where=where,
            remedy="pip install 'cloister[console]'",
        )
