from __future__ import annotations

import functools

import pytest

from app.outcome import Run
from cloister.adversary.audit import AuditSettings
from cloister.adversary.audits import SUBJECTS
from cloister.app import attack_command
from cloister.core.errors import CloisterError


@pytest.fixture
def run(call: Run) -> Run:
    """Run the attack as a user would, in this process."""
    return functools.partial(call, "attack", "distinguish")


def test_without_a_name_all_mechanisms_are_attacked(run: Run) -> None:
    outcome = run("--trials", "3000", "--json")
    assert outcome.code == 0
    audits = outcome.json["audits"]
    assert [found["mechanism"] for found in audits] == list(SUBJECTS)
    keys = {"claimed_epsilon", "ledger_epsilon", "lower_bound", "ceiling", "n_trials"}
    keys |= {"confidence", "delta", "n_rounds", "verdict", "neighbours", "seconds"}
    assert all(keys <= found.keys() for found in audits)
    assert not any(found["refutes_ledger"] for found in audits)


def test_one_mechanism_is_attacked_as_it_is_set(run: Run) -> None:
    options = ("--mechanism", "paper-laplace", "--epsilon", "1.2", "--rounds", "3")
    outcome = run(*options, "--trials", "5000", "--seed", "4", "--json")
    assert outcome.code == 0
    (found,) = outcome.json["audits"]
    assert (found["claimed_epsilon"], found["n_rounds"], found["n_trials"]) == (1.2, 3, 5000)
    assert found["lower_bound"] > 1.2
    assert found["ledger_epsilon"] == pytest.approx(3 * 1.2 * 46**0.5, rel=1e-3)
    assert found["refutes_claim"] is True
    again = run(*options, "--trials", "5000", "--seed", "4", "--json").json["audits"][0]
    assert again["lower_bound"] == found["lower_bound"]


def test_people_see_a_table(run: Run) -> None:
    names = ("--mechanism", "paper-laplace", "--mechanism", "laplace")
    outcome = run(*names, "--mechanism", "paper-laplace-message", "--trials", "20000")
    assert outcome.code == 0
    rows = [line.split() for line in outcome.out.splitlines() if "laplace" in line]
    assert [row[:2] for row in rows] == [
        ["paper-laplace", "4.5"],
        ["laplace", "-"],
        ["paper-laplace-message", "4.5"],
    ]
    assert rows[0][2] == "30.52"
    assert rows[0][-3:] == ["exceeds", "the", "claim"]
    assert rows[1][-2:] == ["stays", "below"]
    assert rows[2][2] == "none"
    assert "20,000 trials" in outcome.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--mechanism", "hope"),
        ("--trials", "1"),
        ("--rounds", "0"),
        ("--seed", "-1"),
        ("--epsilon", "much"),
    ],
)
def test_wrong_usage_has_exit_code_two(run: Run, arguments: tuple[str, ...]) -> None:
    outcome = run(*arguments, "--json")
    assert outcome.code == 2
    assert set(outcome.json) == {"error", "remedy"}


def test_a_wrong_name_is_answered_with_the_right_ones(run: Run) -> None:
    outcome = run("--mechanism", "hope")
    assert outcome.code == 2
    assert outcome.out == ""
    for name in SUBJECTS:
        assert name in outcome.err


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--epsilon", "0"), "above 0"),
        (("--epsilon", "inf"), "not a finite number"),
        (("--epsilon", "nan"), "not a finite number"),
        (("--delta", "0"), "between 0 and 1"),
        (("--delta", "2"), "between 0 and 1"),
        (("--confidence", "1"), "between 0 and 1"),
        (("--rounds", "10001"), "10000"),
        (("--trials", "100000001"), "100000000"),
    ],
)
def test_values_out_of_range_say_so(run: Run, wrong: tuple[str, str], said: str) -> None:
    outcome = run(*wrong, "--json")
    assert outcome.code == 2
    assert wrong[0] in outcome.json["error"]
    assert said in outcome.json["error"]


@pytest.mark.parametrize("field", ["n_trials", "n_rounds"])
def test_the_command_allows_as_much_as_the_settings(field: str) -> None:
    most = {"n_trials": attack_command.MOST_TRIALS, "n_rounds": attack_command.MOST_ROUNDS}[field]
    AuditSettings(**{field: most})
    with pytest.raises(CloisterError):
        AuditSettings(**{field: most + 1})
