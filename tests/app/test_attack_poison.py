from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from cloister.app.attack_poison import poison
from cloister.lab.simulation.run import simulate
from cloister.lab.simulation.settings import SimulationSettings

WORLD = "world:features?queries=60&documents=20&features=10"
SMALL = ("--data", WORLD, "--rounds", "150", "--click-model", "informational")
RULES = ("fedavg", "krum", "bulyan", "adaptive")

app = typer.Typer()
app.callback()(lambda: None)
app.command("poison")(poison)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["poison", *arguments])


def found(*arguments: str) -> dict[str, dict[str, Any]]:
    outcome = run(*SMALL, *arguments, "--json")
    assert outcome.exit_code == 0, outcome.output
    return {row["rule"]: row for row in json.loads(outcome.stdout)["rules"]}


def chosen(*rules: str) -> list[str]:
    return [part for rule in rules for part in ("--rule", rule)]


def test_each_rule_is_measured_with_and_without_the_attack() -> None:
    rows = found("--attack", "poison-clicks", "--attackers", "3", *chosen(*RULES))
    assert list(rows) == list(RULES)
    assert rows["fedavg"]["lost"] > 0.1
    assert abs(rows["adaptive"]["lost"]) < 0.05
    assert rows["adaptive"]["unused_attackers"] > 0.5 > rows["adaptive"]["unused_honest"]
    assert rows["krum"]["lost"] == rows["krum"]["honest"] - rows["krum"]["attacked"]


def test_the_figures_are_those_of_the_simulation() -> None:
    row = found("--attack", "fang-krum", "--attackers", "2", "--knowledge", "full", *chosen("krum"))
    settings = SimulationSettings(
        data=WORLD, rounds=150, click_model="informational", clients=10, queries_per_round=5,
        attack="fang-krum", attackers=2, knowledge="full", rule="krum", evaluate_every=150,
    )  # fmt: skip
    result = simulate(settings)
    assert row["krum"]["attacked"] == result.final.ndcg
    assert row["krum"]["unused_honest"] == result.summary()["unused_honest"]


def test_what_is_beyond_a_bound_is_marked_and_what_has_no_outcome_is_not_run() -> None:
    rows = found("--attack", "poison-clicks", "--attackers", "4", *chosen(*RULES))
    assert [rows[rule]["tolerates"] for rule in RULES] == [0, 3, 1, 4]
    assert [rows[rule]["beyond_bound"] for rule in RULES] == [True, True, True, False]
    assert rows["bulyan"]["attacked"] is None
    assert rows["krum"]["attacked"] is not None


def test_promotion_tells_how_often_the_target_is_shown() -> None:
    rows = found(
        "--attack", "promote-clicks", "--attackers", "3", "--target-feature", "3", *chosen("fedavg")
    )
    assert rows["fedavg"]["target_attacked"] > rows["fedavg"]["target_honest"]
    plain = found("--attack", "poison-clicks", "--attackers", "3", *chosen("fedavg"))
    assert "target_honest" not in plain["fedavg"]


def test_people_see_a_table_of_the_rules() -> None:
    outcome = run(*SMALL, "--attack", "poison-clicks", "--attackers", "3", *chosen(*RULES[:3]))
    lines = {line.split()[0]: line.split() for line in outcome.stdout.splitlines() if line.split()}
    assert outcome.exit_code == 0
    assert lines["krum"][-1] == "3"
    assert lines["fedavg"][-1] == "0!"
    assert "no outcome" in outcome.stdout
    promoted = run(*SMALL, "--attack", "promote-clicks", "--attackers", "1", *chosen("krum"))
    assert " > " in promoted.stdout


@pytest.mark.parametrize(
    "wrong",
    [
        ("--attack", "hope", "--attackers", "1"),
        ("--attack", "none", "--attackers", "1"),
        ("--attack", "lie", "--attackers", "0"),
        ("--attack", "lie"),
        ("--attack", "lie", "--attackers", "1", "--rule", "trust"),
        ("--attack", "lie", "--attackers", "1", "--knowledge", "some"),
    ],
)
def test_wrong_usage_has_exit_code_two(wrong: tuple[str, ...]) -> None:
    assert run(*SMALL, *wrong).exit_code == 2


def test_a_federation_of_attackers_is_refused_with_a_reason() -> None:
    outcome = run(*SMALL, "--attack", "lie", "--attackers", "10", "--json")
    assert outcome.exit_code == 2
    assert "at least one must be honest" in json.loads(outcome.stdout)["error"]
