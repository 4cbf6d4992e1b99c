"""The pages that do something: ledgers exported, a lab run, a client forgotten, a simulation."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

from browser.watched_page import WatchedPage
from cloister.lab.bench.browser import axe_findings, axe_script
from cloister.privacy.ledger.entry import Entry, entry_hash

WAIT_MS = 60_000


def serious(page: WatchedPage) -> list[str]:
    found = axe_findings(page.page, axe_script())
    return [one["id"] for one in found if one["impact"] in ("serious", "critical")]


def entries_in(value: object) -> list[dict[str, object]]:
    """Find all entries in an export, wherever they stand."""
    if isinstance(value, dict):
        if "hash" in value and "previous" in value:
            return [value]
        return [one for inner in value.values() for one in entries_in(inner)]
    if isinstance(value, list):
        return [one for inner in value for one in entries_in(inner)]
    return []


def test_the_ledgers_can_be_taken_away_and_checked_elsewhere(page: WatchedPage) -> None:
    shown = page.goto("/ledger")
    with shown.expect_download() as began:
        shown.get_by_role("link", name="Export as JSON").click()
    entries = entries_in(json.loads(Path(began.value.path()).read_text()))
    assert len(entries) > 40
    renamed = [{**one, "party_id": one.get("party_id", one.get("party"))} for one in entries]
    for one in renamed:
        entry = Entry(*(one[name] for name in Entry._fields))  # type: ignore[arg-type]
        assert entry_hash(entry) == entry.hash
    with shown.expect_download() as began:
        shown.get_by_role("link", name="Export as CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(began.value.path()).read_text())))
    assert len(rows) == len(entries)
    told = shown.locator(".tile", has_text="Releases").locator("dd").inner_text()
    assert int(told.split()[0]) == len([one for one in entries if one["kind"] == "release"])


def test_the_ledger_can_be_looked_at_service_by_service(page: WatchedPage) -> None:
    shown = page.goto("/ledger")
    shown.get_by_label("Ledger of").select_option("northgate")
    shown.get_by_role("button", name="Show").click()
    ledgers = shown.locator("table").last.locator("tbody tr td:nth-child(3)")
    assert set(ledgers.all_inner_texts()) == {"northgate"}


def test_an_attack_is_run_live_with_and_without_a_defence(
    page: WatchedPage, screenshots: Path
) -> None:
    shown = page.goto("/attack-lab")
    shown.get_by_role("spinbutton", name="Rounds (").fill("100")
    shown.get_by_role("button", name="Run it").click()
    shown.get_by_text("done", exact=True).first.wait_for(timeout=WAIT_MS)
    page.charts_drawn()
    assert shown.get_by_text("running", exact=True).count() == 0  # nor in the list below
    assert len(shown.evaluate("document.querySelector('.plot').data")) == 4
    assert serious(page) == []
    shown.screenshot(path=screenshots / "attack-lab-done.png", full_page=True)
    shown.get_by_role("heading", name="What came out").scroll_into_view_if_needed()
    shown.evaluate("document.querySelector('[data-announce]').scrollIntoView()")
    shown.screenshot(path=screenshots / "attack.png")


def test_wrong_choices_in_the_lab_are_refused_with_a_word(page: WatchedPage) -> None:
    page.goto("/attack-lab")
    answer = page.page.request.post(
        f"{page.address}/attack-lab",
        form={"attack": "lie", "rule": "krum", "share": "90", "click_model": "perfect",
              "clients": "30", "rounds": "100", "seed": "1"},
    )  # fmt: skip
    assert answer.status == 422
    assert "share" in answer.text()


def test_a_client_is_forgotten_and_its_certificate_is_read_by_keyboard(page: WatchedPage) -> None:
    shown = page.goto("/forget")
    shown.get_by_label("Client", exact=True).select_option("client-8")
    button = shown.get_by_role("button", name="Forget this client")
    button.focus()
    shown.keyboard.press("Enter")
    heading = shown.get_by_role("heading", name=re.compile("client-8 forgotten"))
    heading.wait_for(timeout=WAIT_MS)
    assert shown.get_by_text("signature verified now").count() >= 2
    assert serious(page) == []
    with shown.expect_download() as began:
        shown.get_by_role("link", name="Download certificate 2").click()
    certificate = json.loads(Path(began.value.path()).read_text())
    assert "client-8" in json.dumps(certificate)


def test_a_simulation_is_run_and_stands_beside_the_others(page: WatchedPage) -> None:
    shown = page.goto("/experiments")
    before = shown.locator("input[name=run]").count()
    assert before >= 4  # the demo's own
    shown.get_by_role("spinbutton", name="Rounds (").fill("30")
    shown.get_by_label("Seed").fill("5")
    shown.get_by_role("button", name="Simulate").click()
    shown.get_by_text("done", exact=True).first.wait_for(timeout=WAIT_MS)
    page.goto("/experiments")
    assert shown.locator("input[name=run]").count() == before + 1
    assert serious(page) == []


def test_every_page_can_be_reached_by_the_keyboard_and_says_where_one_is(page: WatchedPage) -> None:
    shown = page.goto("/start")
    names = shown.locator("nav a").all_inner_texts()
    for name in names:
        link = shown.get_by_role("navigation").get_by_role("link", name=name)
        link.focus()
        shown.keyboard.press("Enter")
        shown.wait_for_load_state()
        assert shown.locator("nav a[aria-current=page]").inner_text() == name
    assert len(names) == 7
