from __future__ import annotations

import functools

import pytest

from app.outcome import Run
from cloister.app.attack_clicks import SUM_OF

WORLD = "world:features?queries=60&documents=15&features=12"
SMALL = ("--data", WORLD, "--train-rounds", "5", "--train-clients", "20", "--json")


@pytest.fixture
def run(call: Run) -> Run:
    """Run the attack as a user would, in this process."""
    return functools.partial(call, "attack", "clicks", *SMALL)


def test_a_sum_is_one_of_many_clients_unless_another_number_is_given(run: Run) -> None:
    for options, n_clients in (((), SUM_OF), (("--clients", "3"), 3)):
        outcome = run("--protection", "sum", "--observations", "2", *options)
        assert outcome.code == 0
        assert outcome.json["settings"]["clients"] == n_clients
        assert outcome.json["pages"] == 2 * n_clients


def test_without_a_sum_each_update_is_of_one_client(run: Run) -> None:
    outcome = run("--clients", "1")
    assert outcome.code == 0
    assert outcome.json["settings"]["clients"] == 1
    assert outcome.json["pages"] == outcome.json["observations"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--protection", "sum", "--clients", "1"), "--clients"),
        (("--protection", "sum+noise", "--clients", "1"), "--clients"),
        (("--clients", "10"), "--clients"),
        (("--protection", "paper", "--clients", "10"), "--clients"),
        (("--population", "10"), "--population"),
        (("--protection", "sum", "--population", "1000"), "--population"),
        (("--protection", "sum+noise", "--population", "99"), "--population"),
        (("--order", "candidates", "--protection", "sum"), "--order candidates"),
        (("--order", "candidates", "--queries-per-update", "2"), "--order candidates"),
    ],
)
def test_options_that_would_be_ignored_or_do_not_fit_are_refused_by_name(
    run: Run, options: tuple[str, ...], named: str
) -> None:
    outcome = run(*options)
    assert outcome.code == 2
    assert outcome.json["error"].startswith(f"{named}: ")
    assert "Settings" not in outcome.json["error"] + outcome.json["remedy"]
