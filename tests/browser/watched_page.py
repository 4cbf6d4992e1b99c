"""A page of the console that notes what it asks and which errors it meets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cloister.lab.bench.browser import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@dataclass(frozen=True)
class WatchedPage:
    page: Page
    address: str
    others: list[str]  # requests to other hosts
    errors: list[str]

    @classmethod
    @contextmanager
    def opened(cls, browser: Browser, address: str, **settings: Any) -> Iterator[WatchedPage]:
        context = browser.new_context(**settings)
        page = context.new_page()
        watched = cls(page, address, [], [])
        page.on("request", lambda one: watched._requested(one))
        page.on("console", lambda one: watched.errors.append(one.text)
                if one.type == "error" else None)  # fmt: skip
        page.on("pageerror", lambda error: watched.errors.append(str(error)))
        try:
            yield watched
            assert watched.others == []
            assert not watched.errors, watched.errors
        finally:
            context.close()

    def _requested(self, request: Any) -> None:
        if urlsplit(request.url).netloc not in (urlsplit(self.address).netloc, ""):
            self.others.append(request.url)

    def goto(self, path: str) -> Page:
        answer = self.page.goto(self.address + path)
        assert answer is not None
        assert answer.status == 200, path
        return self.page

    def charts_drawn(self) -> None:
        """Wait until every chart of the page has been drawn."""
        wait_until(
            self.page,
            "[...document.querySelectorAll('.plot')].every(one => one.querySelector('svg'))",
        )
