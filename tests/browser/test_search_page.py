"""Searching in the console: what each person sees, why, and what becomes of a click."""

from __future__ import annotations

import re
from pathlib import Path

from browser.watched_page import WatchedPage
from cloister.app.demo.clinic_federation import ACCESS, NODES, PATIENTS, PODS, STAFF
from cloister.services.sample_clinics import SampleClinics

QUERY = "blood pressure"
CLINICS = SampleClinics(list(NODES), pods=PODS, staff=STAFF, access=ACCESS, parties_everywhere=True)
POD = re.compile(r"pod-\d{7}")


def searched(page: WatchedPage, agent: str, query: str = QUERY) -> str:
    shown = page.goto("/search")
    shown.get_by_label("Search as").select_option(agent)
    shown.get_by_label("for", exact=True).fill(query)
    shown.get_by_role("button", name="Search").click()
    shown.get_by_role("heading", name=re.compile(f"for “{query}”")).wait_for()
    return shown.content()


def test_each_person_sees_what_that_person_may_read_and_no_hint_of_more(
    page: WatchedPage,
) -> None:
    world = CLINICS.world
    rights = {pod.pod_id: CLINICS.rights(pod) for pod in world.pods()}
    owners = {pod.pod_id: pod.patient.name for pod in world.pods()}
    staff = CLINICS.users(NODES[0])[0]
    patient = CLINICS.patient(PATIENTS - 1)
    seen = {}
    for who in (patient, staff):
        content = searched(page, who.agent_id)
        found = set(POD.findall(content))
        allowed = {
            pod for pod, one in rights.items()
            if who.agent_id == one.owner or who.agent_id in one.agents or who.groups & one.groups
        }  # fmt: skip
        assert found <= allowed
        seen[who.role] = len(found)
        others = [name for pod, name in owners.items() if pod not in allowed]
        results = page.page.locator(".results").inner_text() if found else ""
        assert not any(name in results for name in others if name not in owners[min(found)])
    assert seen["patient"] == 1 < seen["doctor"]


def test_why_adds_up_and_a_click_is_noted_and_can_be_forgotten(
    page: WatchedPage, screenshots: Path
) -> None:
    agent = CLINICS.users(NODES[1])[-1].agent_id
    searched(page, agent)
    shown = page.page
    first = shown.locator(".results > li").first
    first.get_by_text("Why this server").click()
    shown.screenshot(path=screenshots / "why.png")
    for name in ("The server", "The pod", "The record", "Its place"):
        assert first.get_by_role("heading", name=name).is_visible()
    for section in first.locator("section").all()[:3]:
        score = float(re.search(r"Score ([\d.,-]+)", section.inner_text())[1].replace(",", ""))  # type: ignore[index]
        cells = section.locator("tbody td:last-child").all_inner_texts()
        assert abs(sum(float(one.replace(",", "")) for one in cells) - score) < 0.01 * abs(score)
    kept = shown.get_by_role("heading", name="What the node keeps").locator("xpath=..")
    before = int(re.search(r"(\d+) result page", kept.inner_text())[1])  # type: ignore[index]
    assert before >= 1
    assert POD.search(first.locator("h3").inner_text())  # the record's name, beside its first line
    first.locator("h3 button").click()
    shown.get_by_text("The click on result 1 is noted").wait_for()
    assert "The console shows no documents" in shown.content()
    shown.get_by_role("link", name="Search again").click()
    shown.get_by_role("button", name="Delete them now").click()
    shown.get_by_text("0 result pages with features").wait_for()


def test_the_keyboard_alone_is_enough_to_search_to_look_why_and_to_open(page: WatchedPage) -> None:
    shown = page.goto("/search")
    keys = shown.keyboard

    def focused() -> str:
        return str(shown.evaluate("document.activeElement.innerText || document.activeElement.id"))

    keys.press("Tab")
    assert focused() == "Skip to the content"
    keys.press("Enter")
    for _ in range(3):
        keys.press("Tab")
        if focused() == "q":
            break
    keys.type(QUERY)
    keys.press("Enter")
    shown.get_by_role("heading", name=re.compile("for “")).wait_for()
    for _ in range(60):
        keys.press("Tab")
        if focused().startswith("Why this server"):
            break
    outline = shown.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "the focus can be seen"
    keys.press("Enter")
    assert shown.get_by_role("heading", name="Its place").first.is_visible()
    title = shown.locator(".results > li h3 button").first.inner_text()
    keys.press("Shift+Tab")
    assert focused() == title
    keys.press("Enter")
    shown.get_by_text("is noted at the node").wait_for()


def test_the_heading_says_how_many_results_there_are_and_the_titles_differ(
    page: WatchedPage,
) -> None:
    agent = CLINICS.users(NODES[1])[-1].agent_id
    searched(page, agent)
    heading = page.page.locator("#results-title").inner_text()
    n_shown = page.page.locator(".results > li").count()
    assert n_shown == 10
    assert re.match(r"The first 10 of (1[1-9]|[2-5]\d) results( or more)? for", heading), heading
    titles = page.page.locator(".results > li h3").all_inner_texts()
    assert len({title.partition(". ")[2] for title in titles}) == n_shown
    searched(page, agent, "zzyzx")
    assert page.page.locator("#results-title").inner_text() == "No results for “zzyzx”"
    assert "somebody who may read more" not in page.page.content()


def test_nobody_can_search_as_somebody_who_has_no_account(page: WatchedPage) -> None:
    shown = page.goto("/search?as=st-agnes:nobody&q=asthma")
    assert not shown.locator(".results > li").count()
    assert "What the node keeps" not in shown.content()


def test_markup_in_a_query_is_shown_as_text(page: WatchedPage) -> None:
    shown = page.goto("/search?q=<img src=x onerror=alert(1)> asthma")
    assert shown.locator("main img").count() == 0
    assert "<img src=x" in shown.locator("h2").first.inner_text()
