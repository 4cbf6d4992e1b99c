"""One demo with its console, and one chromium, for all tests of the browser.

They run in a process of their own (`make browser`): Playwright keeps an event loop running, and
other tests have theirs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.watched_page import WatchedPage
from cloister.lab.bench.browser import opened_browser
from cloister.lab.bench.served_demo import ServedDemo, served_demo

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ARTEFACTS = Path(__file__).resolve().parents[2] / "artefacts" / "screenshots"


@pytest.fixture(scope="package")
def demo() -> Iterator[ServedDemo]:
    with served_demo() as running:
        yield running


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture
def page(demo: ServedDemo, browser: Browser) -> Iterator[WatchedPage]:
    """Give a page of a new visitor; it must have met no error and asked no other host."""
    with WatchedPage.opened(browser, demo.address) as watched:
        yield watched


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """Where pictures of pages are kept; ``CLOISTER_SCREENSHOTS`` names another place."""
    folder = Path(os.environ.get("CLOISTER_SCREENSHOTS") or ARTEFACTS)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
