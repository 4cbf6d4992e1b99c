from __future__ import annotations

import functools
import json

import pytest
import typer
from typer.testing import CliRunner

from cloister.app.attack_membership import membership

WORLD = "world:features?queries=80&documents=15&features=12"


@pytest.fixture
def run():
    app = typer.Typer()
    app.command("membership")(membership)
    return functools.partial(CliRunner().invoke, app)


def test_updates_are_attacked_alone_in_sums_and_with_noise(run) -> None:
    options = ["--data", WORLD, "--clients", "10", "--observations", "60", "--shadows", "200"]
    outcome = run([*options, "--json"])
    assert outcome.exit_code == 0
    found = json.loads(outcome.stdout)
    assert found["on"] == "update"
    auc = {
        row["seen"]: row["auc"] for row in found["attacks"] if row["attack"] == "likelihood ratio"
    }
    assert list(auc) == ["one update", "sum of 10", "sum of 10, noise"]
    assert auc["one update"]["value"] > auc["sum of 10"]["value"]
    assert auc["sum of 10, noise"]["low"] < 0.5
    keys = {"seen", "attack", "auc", "true_positive_rate", "advantage"}
    assert all(keys <= row.keys() for row in found["attacks"])
    assert [one["noise"] for one in found["settings"]] == [False, False, True]
    assert found["n_queries"] < found["n_targets"] == 60


def test_models_are_attacked_before_and_after_forgetting(run) -> None:
    options = ["--on", "model", "--data", WORLD, "--clients", "3", "--own-queries", "10"]
    options += ["--rounds", "20", "--shadows", "20", "--federations", "8", "--epsilon", "2"]
    outcome = run([*options, "--json"])
    assert outcome.exit_code == 0
    found = json.loads(outcome.stdout)
    names = ["trained", "unlearned", "short retraining", "retrained", "trained, epsilon 2"]
    assert [row["ranker"] for row in found["rankers"]] == names
    assert {row["seen"] for row in found["attacks"]} == set(names)
    assert all(0 < row["ndcg"] < 1 for row in found["rankers"])
    shown = run(options)
    assert shown.exit_code == 0
    assert "who left" in shown.stdout
    assert "short retraining" in shown.stdout
    unlearned = {row["attack"] for row in found["attacks"] if row["seen"] == "unlearned"}
    assert "length, unlearned shadows" in unlearned


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--own-taste", "0"), "--own-taste"),
        (("--own-queries", "5"), "--own-queries"),
        (("--rounds", "9"), "--rounds"),
        (("--federations", "9"), "--federations"),
        (("--on", "model", "--target", "query"), "--target"),
        (("--on", "model", "--queries-per-update", "1"), "--queries-per-update"),
        (("--on", "model", "--observations", "40"), "--observations"),
        (("--on", "model", "--own-queries", "0", "--own-taste", "1"), "--own-taste"),
        (("--on", "model", "--clients", "10", "--shadows", "30"), "--shadows"),
        (("--shadows", "20"), "--shadows"),
        (("--epsilon", "0"), "--epsilon"),
        (("--on", "model", "--epsilon", "-1"), "--epsilon"),
    ],
)
def test_options_that_would_be_ignored_or_do_not_fit_are_refused_by_name(
    run, options: tuple[str, ...], named: str
) -> None:
    outcome = run([*options, "--data", WORLD, "--json"])
    assert outcome.exit_code == 2
    said = json.loads(outcome.stdout)
    assert said["error"].startswith(f"{named}: ")
    assert "Settings" not in said["error"] + said["remedy"]


def test_too_few_queries_end_with_a_remedy(run) -> None:
    outcome = run(["--on", "model", "--data", WORLD, "--clients", "10", "--json"])
    assert outcome.exit_code == 1
    assert "fewer clients" in json.loads(outcome.stdout)["remedy"]
