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


def test_wrong_numbers_and_actions_are_refused_with_a_word(page: WatchedPage) -> None:
    shown = page.goto("/federation")
    answer = shown.request.post(f"{page.address}/federation/days", form={"n_rounds": "1000"})
    assert answer.status == 422
    assert "less than or equal to 20" in answer.text()
    answer = shown.request.post(f"{page.address}/federation/do/explode")
    assert answer.status == 404
    rest = 25 - rounds_done(page)  # one more than the agreement allows
    for n in (rest, 20):
        answer = shown.request.post(f"{page.address}/federation/days", form={"n_rounds": str(n)})
        if n > 20:
            assert answer.status == 422
        else:
            assert answer.status == 400
            assert "are left" in answer.text()


def test_a_click_in_the_console_is_learnt_from_in_the_next_round(page: WatchedPage) -> None:
    shown = page.goto("/search?as=hillcrest:party-100&q=asthma")
    who = shown.get_by_label("Search as").input_value()
    shown.locator(".results button").first.click()
    shown.get_by_text("is noted at the node").wait_for()
    page.goto("/federation")
    before = rounds_done(page)
    shown.get_by_role("button", name="Run a round now").click()
    shown.wait_for_load_state()
    assert rounds_done(page) == before + 1
    shown.get_by_role("button", name="Run a round now").click()  # in which the node hears of it
    page.goto(f"/search?as={who}")
    assert "0 result pages" in shown.content()


def test_the_page_stays_alive_after_a_job_and_what_is_typed_stays(page: WatchedPage) -> None:
    shown = page.goto("/federation")
    let_live(page, 1)
    shown.locator(".job", has_text="done").wait_for(timeout=WAIT_MS)
    shown.get_by_role("spinbutton", name="Rounds").fill("7")
    answer = shown.request.post(f"{page.address}/federation/nodes/hillcrest/kill")
    assert answer.ok
    shown.get_by_role("row", name=re.compile("^hillcrest no answer")).wait_for(timeout=WAIT_MS)
    assert shown.get_by_role("spinbutton", name="Rounds").input_value() == "7"
    starts = [
        shown.request.post(f"{page.address}/federation/nodes/hillcrest/start") for _ in range(2)
    ]
    assert [one.status for one in starts] == [200, 409]  # it runs already
    shown.get_by_role("row", name=re.compile("^hillcrest answers")).wait_for(timeout=WAIT_MS)


def test_a_coordinator_that_is_gone_is_said_and_can_be_started_again(page: WatchedPage) -> None:
    shown = page.goto("/federation")
    shown.request.post(f"{page.address}/federation/nodes/coordinator/kill")
    shown.get_by_text("The coordinator does not answer").wait_for(timeout=WAIT_MS)
    for path in ("/search?q=asthma", "/ledger", "/federation"):
        assert page.page.request.get(page.address + path).status == 200
    shown.get_by_role("button", name="Start the coordinator").click()
    shown.locator(".tile", has_text="Rounds done").wait_for(timeout=WAIT_MS)
