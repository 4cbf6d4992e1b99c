"""The demo's step on pods."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from cloister.app.demo import pods as demo_pods
from cloister.app.demo.pods import N_SERVERS, PODS_A_SERVER, search_pods
from cloister.app.demo.state import DemoState, StepOutcome
from cloister.app.demo.story import STEPS


@pytest.fixture(scope="module", params=[1, 7])
def outcome(request: pytest.FixtureRequest) -> StepOutcome:
    with DemoState(request.param) as state:
        return search_pods(state)


def test_a_doctor_finds_just_what_the_rights_say_and_a_stranger_nothing(
    outcome: StepOutcome,
) -> None:
    figures = outcome.figures
    assert figures["pods"] == N_SERVERS * PODS_A_SERVER
    assert 0 < figures["found_by_doctor"] < figures["matching"] <= figures["pods"]
    assert figures["found_as_rights_say"]
    assert figures["found_by_stranger"] == 0
    assert figures["refusal"] == "not allowed, or no such resource"


def test_what_is_granted_is_found_by_the_next_search_and_gone_after_it_was_revoked(
    outcome: StepOutcome,
) -> None:
    (record,) = outcome.figures["found_after_grant"]
    assert record.endswith("/record.txt")
    assert outcome.figures["found_after_revocation"] == []


def test_people_are_told_the_same(outcome: StepOutcome) -> None:
    said, n = " ".join(outcome.lines), outcome.figures["found_by_doctor"]
    assert f"finds {n}, all that they may read of these; a stranger finds 0" in said
    assert f"grants: the next search finds {n + 1}; and revokes: {n}" in said


def test_a_revocation_that_does_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    change = demo_pods.change_rights

    def only_grant(*arguments: Any, give: bool, **options: Any) -> Any:
        return change(*arguments, give=give, **options) if give else {}

    monkeypatch.setattr(demo_pods, "change_rights", only_grant)
    with DemoState(1) as state:
        figures = search_pods(state).figures
    assert figures["found_after_revocation"] == figures["found_after_grant"] != []


def test_the_step_needs_nothing_beyond_the_base_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for extra in ("httpx", "joserfc", "nats", "nkeys", "gensim", "lightgbm"):
        monkeypatch.setitem(sys.modules, extra, None)
    with DemoState(2) as state:
        assert search_pods(state).figures["found_as_rights_say"]


def test_the_step_is_part_of_the_demo() -> None:
    assert "pods" in [step.name for step in STEPS]
