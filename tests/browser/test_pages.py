"""Every page of the console in chromium: errors, other hosts, first paint, access for all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.watched_page import WatchedPage
from cloister.lab.bench.browser import axe_findings, axe_script, first_paint_ms
from cloister.lab.bench.console import PAGES
from cloister.lab.bench.served_demo import ServedDemo

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAINT_MS = 500
N_LOADS = 5  # the quickest counts: other tests run beside this one
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}


@pytest.fixture(scope="module")
def axe() -> str:
    return axe_script()


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_error_asks_no_other_host_and_keeps_nobody_out(
    demo: ServedDemo, browser: Browser, screenshots: Path, axe: str, path: str, look: str
) -> None:
    with WatchedPage.opened(browser, demo.address, **LOOKS[look]) as watched:
        page = watched.goto(path)
        paints_ms = [first_paint_ms(page)]
        while min(paints_ms) >= PAINT_MS and len(paints_ms) < N_LOADS:
            paints_ms.append(first_paint_ms(watched.goto(path)))
        assert min(paints_ms) < PAINT_MS
        watched.charts_drawn()
        findings = axe_findings(page, axe)
        assert [one for one in findings if one["impact"] in ("serious", "critical")] == []
        assert page.locator("h1").count() == 1
        width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert width <= 0, "the page is wider than the screen"
        name = path.strip("/").partition("?")[0] + ("-results" if "?" in path else "")
        page.screenshot(path=screenshots / f"{name}-{look}.png", full_page=True)
        if look == "light":
            page.screenshot(path=screenshots / f"{name}.png")  # as the README shows it


def test_a_page_that_does_not_exist_says_so_and_leads_back(page: WatchedPage) -> None:
    answer = page.page.goto(f"{page.address}/nothing-here")
    assert answer is not None
    assert answer.status == 404
    page.errors.clear()  # chromium itself notes the 404
    page.page.get_by_role("link", name="To the first page").click()
    assert page.page.url.endswith("/start")


def test_the_theme_can_be_chosen_and_is_kept(page: WatchedPage) -> None:
    shown = page.goto("/federation")
    page.charts_drawn()
    button = shown.locator("#theme")
    for theme in ("light", "dark"):
        button.click()
        assert shown.evaluate("document.documentElement.dataset.theme") == theme
    dark = shown.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.goto("/search")
    assert shown.evaluate("document.documentElement.dataset.theme") == "dark"
    button.click()
    assert shown.evaluate("document.documentElement.dataset.theme") is None
    light = shown.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert light != dark


def test_pages_work_without_script(demo: ServedDemo, browser: Browser) -> None:
    settings = {"java_script_enabled": False}
    with WatchedPage.opened(browser, demo.address, **settings) as watched:
        page = watched.goto("/search")
        page.get_by_label("for", exact=True).fill("asthma")
        page.get_by_role("button", name="Search").click()
        assert page.locator(".results > li").count() > 1
        page.locator(".results button").first.click()
        assert page.get_by_text("is noted at the node").is_visible()
        page = watched.goto("/federation")
        assert page.get_by_role("heading", name="Rules in force").is_visible()
