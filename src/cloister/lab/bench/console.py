"""The demo and its console: seconds, first paints, requests to other hosts, errors, axe-core."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from cloister.lab.bench import Advance, Figures
from cloister.lab.bench.browser import axe_findings, axe_script, first_paint_ms, opened_browser
from cloister.lab.bench.served_demo import served_demo

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["PAGES", "run"]

PAGES: Final = (
    "/start",
    "/search",
    "/search?q=asthma&explain=true",
    "/federation",
    "/ledger",
    "/attack-lab",
    "/forget",
    "/experiments",
)
N_LOADS: Final = 5
_SERIOUS: Final = ("serious", "critical")


class _Seen(NamedTuple):
    paints_ms: list[float]
    others: list[str]
    errors: list[str]
    findings: list[str]


def run(advance: Advance) -> Figures:
    """Measure; times are of the clock."""
    figures: Figures = {}
    with served_demo() as demo:
        advance(1, len(PAGES) + 2)
        with opened_browser() as browser:
            script = axe_script()
            seen = []
            for done, path in enumerate(PAGES, 2):
                one = _looked_at(browser, demo.address, path, script)
                name = path.strip("/").replace("-", "_").partition("?")[0]
                name += "_results" if "?" in path else ""
                figures[f"{name}_first_contentful_paint_ms"] = statistics.median(one.paints_ms)
                seen.append(one)
                advance(done, len(PAGES) + 2)
        figures["first_contentful_paint_most_ms"] = max(max(one.paints_ms) for one in seen)
        figures["requests_to_other_hosts"] = sum(len(one.others) for one in seen)
        figures["console_errors"] = sum(len(one.errors) for one in seen)
        figures["axe_serious_or_critical"] = sum(len(one.findings) for one in seen)
        told = demo.end()
        figures["demo_until_console_wall_s"] = demo.start_s
    figures["demo_steps_wall_s"] = told["seconds"]
    figures |= {f"demo_{step['name']}_wall_s": step["seconds"] for step in told["steps"]}
    steps = {step["name"]: step["figures"] for step in told["steps"]}
    for name in ("ndcg@10_before", "ndcg@10_after"):
        figures[f"newest_ranker_{name}"] = steps["learning"][name]
    figures["trial_outcome"] = steps["trial"]["outcome"]
    figures["epsilon_of_rounds"] = steps["ledger"]["epsilon"]
    return figures


def _looked_at(browser: Browser, address: str, path: str, script: str) -> _Seen:
    """Load a page some times, each time as somebody new."""
    seen = _Seen([], [], [], [])
    host = urlsplit(address).netloc
    for number in range(N_LOADS):
        context = browser.new_context()
        page = context.new_page()
        page.on("request", lambda one: seen.others.append(one.url)
                if urlsplit(one.url).netloc not in (host, "") else None)  # fmt: skip
        page.on(
            "console", lambda one: seen.errors.append(one.text) if one.type == "error" else None
        )
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.goto(address + path)
        seen.paints_ms.append(first_paint_ms(page))
        if number == 0:
            page.wait_for_load_state("networkidle")
            found = axe_findings(page, script)
            seen.findings.extend(one["id"] for one in found if one["impact"] in _SERIOUS)
        context.close()
    return seen
