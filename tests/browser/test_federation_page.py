"""The federation in the console: rounds, a node that is killed, and its return."""

from __future__ import annotations

import re

from browser.watched_page import WatchedPage
from cloister.lab.bench.browser import wait_until

WAIT_MS = 60_000


def rounds_done(page: WatchedPage) -> int:
    return int(
        page.page.locator(".tile", has_text="Rounds done").locator("dd").inner_text().split()[0]
    )


def let_live(page: WatchedPage, n: int) -> None:
    before = rounds_done(page)
    page.page.get_by_role("spinbutton", name="Rounds").fill(str(n))
    page.page.get_by_role("button", name="Let people search").click()
    wait_until(
        page.page,
        "parseInt([...document.querySelectorAll('.tile')].find(one => "
        f"one.innerText.includes('Rounds done')).querySelector('dd').innerText) >= {before + n}",
        timeout_s=WAIT_MS / 1000,
    )


def test_a_killed_node_is_dropped_and_comes_back(page: WatchedPage) -> None:
    shown = page.goto("/federation")
    shown.get_by_role("button", name="Kill harbour").click()
    shown.get_by_role("row", name=re.compile("^harbour no answer")).wait_for(timeout=WAIT_MS)
    let_live(page, 1)
    last = shown.get_by_role("region", name="Rounds").locator("tbody tr").first
    assert last.locator("td").nth(2).inner_text() == "harbour"
    shown.get_by_role("button", name="Start harbour").click(timeout=WAIT_MS)
    shown.get_by_role("row", name=re.compile("^harbour answers")).wait_for(timeout=WAIT_MS)
    let_live(page, 1)
    assert last.locator("td").nth(2).inner_text() == "nobody"


def test_what_the_curve_shows_is_in_the_table_beside_it(page: WatchedPage) -> None:
    shown = page.goto("/federation")
    page.charts_drawn()
    n = rounds_done(page)
    rows = shown.locator("figure[data-chart=learning] tbody tr")
    assert rows.count() == n + 1
    drawn = shown.evaluate("document.getElementById('learning').data[0].y.length")
    assert drawn == n + 1


def test_an_operator_can_pause_and_resume_and_wrong_numbers_are_refused(page: WatchedPage) -> None:
    shown = page.goto("/federation")
    shown.get_by_role("button", name="Pause the schedule").click()
    shown.get_by_role("button", name="Let the schedule go on").click()
    shown.get_by_role("button", name="Pause the schedule").wait_for()
    answer = shown.request.post(f"{page.address}/federation/days", form={"n_rounds": "1000"})
    assert answer.status == 422
    assert "less than or equal to 20" in answer.text()
    answer = shown.request.post(f"{page.address}/federation/do/explode")
    assert answer.status == 404
