"""The demo's step on sketches."""

from __future__ import annotations

import pytest

from cloister.app.demo.sketches import DELTA, EPSILON, K, search_by_sketch
from cloister.app.demo.state import DemoState, StepOutcome
from cloister.privacy.ledger.ledger import Ledger


@pytest.fixture(scope="module")
def outcome() -> tuple[StepOutcome, list[str]]:
    with DemoState(1) as state:
        found = search_by_sketch(state)
        with Ledger.open(state.folder / "ledger.db", create=False) as ledger:
            kinds = [entry.kind for entry in ledger.entries()]
    return found, kinds


def test_most_of_the_records_found_are_the_best(outcome: tuple[StepOutcome, list[str]]) -> None:
    figures = outcome[0].figures
    assert len(figures["found"]) == K
    assert figures["right"] >= K - 2
    assert set(figures["found"]) <= set(range(figures["documents"]))


def test_the_release_is_on_the_ledger_within_its_limit(
    outcome: tuple[StepOutcome, list[str]],
) -> None:
    found, kinds = outcome
    assert kinds == ["limit", "release"]
    assert 0.9 * EPSILON < found.figures["epsilon"] <= EPSILON
    assert found.figures["delta"] == DELTA


def test_the_printed_noise_is_broken_and_ours_is_not(
    outcome: tuple[StepOutcome, list[str]],
) -> None:
    figures = outcome[0].figures
    assert figures["guessed_right_paper"] >= 0.99
    assert figures["guessed_right_ours"] <= figures["guessed_right_allowed"]


def test_people_are_told_the_same(outcome: tuple[StepOutcome, list[str]]) -> None:
    said, epsilon = " ".join(outcome[0].lines), outcome[0].figures["epsilon"]
    for words in (
        f"epsilon {epsilon:.3f} for one token",
        "noise of a simulation",
        "nobody learns of it",
    ):
        assert words in said
