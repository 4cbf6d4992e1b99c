"""Debian's chromium, driven by Playwright, with axe-core to look for what keeps people out."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cloister.core.errors import MissingDependency, StoreError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = [
    "AXE_VERSION",
    "axe_findings",
    "axe_script",
    "first_paint_ms",
    "opened_browser",
    "wait_until",
]

AXE_VERSION: Final = "4.14.0"  # as in tools/install-axe
_FLAGS: Final = (
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """Give a chromium without a window."""
    found = shutil.which("chromium")
    if found is None:
        raise MissingDependency(
            "there is no chromium",
            where="browser",
            remedy="tools/install-system-packages chromium",
        )
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise MissingDependency(
            "playwright is not installed", where="browser", remedy="pip install 'cloister[dev]'"
        ) from None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def axe_script() -> str:
    """Return the source of axe-core, where tools/install-axe put it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    default = cache / "cloister" / f"axe-core-{AXE_VERSION}"
    folder = Path(os.environ.get("CLOISTER_AXE") or default)
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        raise MissingDependency(
            "axe-core is not installed", where="axe", remedy="tools/install-axe"
        )
    return script.read_text(encoding="utf-8")


def axe_findings(page: Page, script: str) -> list[dict[str, Any]]:
    """Return what axe-core finds on a page: its id, how bad it is, and where."""
    page.evaluate(script)
    found = page.evaluate("axe.run().then(found => found.violations)")
    return [
        {
            "id": one["id"],
            "impact": one["impact"],
            "help": one["help"],
            "where": [" ".join(map(str, node["target"])) for node in one["nodes"]],
        }
        for one in found
    ]


def first_paint_ms(page: Page) -> float:
    """Return when the first content of a page was painted, in milliseconds from its request."""
    wait_until(page, f"{_PAINT} !== undefined")
    return float(page.evaluate(_PAINT))


def wait_until(page: Page, condition: str, *, timeout_s: float = 30.0) -> None:
    """Wait until an expression is true on a page.

    Playwright's own way evaluates text inside the page, which the console's policy forbids.
    """
    until = time.monotonic() + timeout_s
    while not page.evaluate(condition):
        if time.monotonic() > until:
            raise StoreError(f"not true within {timeout_s:g} s: {condition}", where=page.url)
        page.wait_for_timeout(20)
