from __future__ import annotations

import functools

import pytest

from app.outcome import Run

SMALL = ("--trials", "200", "--documents", "60")


@pytest.fixture
def run(call: Run) -> Run:
    """Run the attack as a user would, in this process."""
    return functools.partial(call, "attack", "sketch")


def test_shared_noise_fails_and_independent_noise_holds(run: Run) -> None:
    outcome = run(*SMALL, "--subject", "shared-noise", "--json")
    assert outcome.code == 0
    rows = outcome.json["attacks"]
    shared = [row for row in rows if row["protection"].startswith("shared")]
    other = [row for row in rows if row["protection"].startswith("independent")]
    assert len(shared) == 12
    assert len(other) == 3
    assert not any(row["within"] for row in shared if row["epsilon"] < 4)
    assert all(row["within"] and row["as_predicted"] for row in other)
    assert all(row["low"] <= row["accuracy"] <= row["high"] for row in rows)
    errors = outcome.json["errors"]
    assert errors[0]["split"] < errors[0]["printed"]


@pytest.mark.parametrize("subject", ["averaging", "release", "document"])
def test_attacks_on_noise_are_as_good_as_predicted_and_that_is_allowed(
    run: Run, subject: str
) -> None:
    rows = run(*SMALL, "--subject", subject, "--json").json["attacks"]
    predicted = [row for row in rows if row["predicted"] is not None]
    assert len(predicted) >= 4
    for row in predicted:
        assert row["as_predicted"], row
        assert row["predicted"] <= row["allowed"]


def test_the_same_seed_gives_the_same_figures(run: Run) -> None:
    options = (*SMALL, "--subject", "selection", "--json")
    first, again = run(*options).json, run(*options).json
    assert first["attacks"] == again["attacks"]
    assert run(*options, "--seed", "2").json["attacks"] != first["attacks"]


def test_people_see_tables(run: Run) -> None:
    outcome = run(*SMALL, "--subject", "terms", "--subject", "budget")
    assert outcome.code == 0
    assert "true rows" in outcome.out
    assert "2,400" in outcome.out


def test_an_unknown_subject_is_wrong_usage(run: Run) -> None:
    assert run("--subject", "hope").code == 2
