"""``cloister forget`` as an operator uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from cloister.app.forget_command import forget
from cloister.lab.forgetting.certificate import verify_certificate
from cloister.lab.forgetting.federation import StoredFederation
from cloister.lab.forgetting.forgetting import stored_training
from cloister.lab.simulation.settings import SimulationSettings
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit

SETTINGS = SimulationSettings(
    data="world:features?queries=30&documents=10&features=6",
    clients=4,
    queries_per_round=3,
    rounds=12,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "federation"
    with StoredFederation.create(path, SETTINGS, keep_every=3) as federation:
        stored_training(federation)
    return path


def call(*arguments: str) -> Result:
    app = typer.Typer()
    app.command("forget")(forget)
    return CliRunner().invoke(app, list(arguments))


def called(*arguments: str) -> dict[str, Any]:
    outcome = call(*arguments, "--json")
    assert outcome.exit_code == 0, outcome.output
    found: dict[str, Any] = json.loads(outcome.stdout)
    return found


def test_forget_prints_the_certificate(folder: Path) -> None:
    result = called("client-3", "client-1", "--federation", str(folder), "--local-steps", "2")
    certificate = result["certificate"]
    assert certificate["forgotten"] == ["client-1", "client-3"]
    assert certificate["method"]["local_steps"] == 2
    assert certificate["cost"]["client_steps"] == 2 * 2 * 4
    assert json.loads(Path(result["file"]).read_text()) == certificate
    assert result["kept"] == {"n_updates": 8, "as_updates_bytes": 192, "as_lengths_bytes": 64}
    assert Path(result["ranker"]).is_file()
    with StoredFederation.open(folder) as federation:
        verify_certificate(certificate, federation.identity.public)
        assert federation.state().forgotten == (1, 3)


def test_people_are_told_what_was_done_and_what_remains(folder: Path) -> None:
    outcome = call("client-0", "--federation", str(folder), "--method", "retrain")
    assert outcome.exit_code == 0
    for words in ("client-0", "nDCG@10", "retrain: 12 rounds", "What remains", "no epsilon back"):
        assert words in outcome.stdout


@pytest.mark.parametrize(
    ("client", "words"),
    [("client-4", "no such client"), ("client-x", "client-0 to client-3")],
)
def test_an_unknown_client_is_an_error_with_a_remedy(folder: Path, client: str, words: str) -> None:
    outcome = call(client, "--federation", str(folder), "--json")
    assert outcome.exit_code == 2
    error = json.loads(outcome.stdout)
    assert words in f"{error['error']} {error['remedy']}"


def test_forgotten_twice_and_no_federation_are_errors(folder: Path, tmp_path: Path) -> None:
    called("client-2", "--federation", str(folder))
    again = call("client-2", "--federation", str(folder), "--json")
    nowhere = call("client-2", "--federation", str(tmp_path / "nowhere"), "--json")
    assert (again.exit_code, nowhere.exit_code) == (1, 2)
    assert "forgotten already" in json.loads(again.stdout)["error"]
    assert "no federation" in json.loads(nowhere.stdout)["error"]


@pytest.mark.parametrize("wrong", [("--method", "hope"), ("--local-steps", "0")])
def test_wrong_usage_is_told_as_such(folder: Path, wrong: tuple[str, str]) -> None:
    assert call("client-1", "--federation", str(folder), *wrong).exit_code == 2


def test_the_ledger_holds_new_rounds_and_what_the_pair_reveals(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as made:
        made.set_limit("clinic", None, purpose="none wanted")
    called("client-3", "--federation", str(folder), "--ledger", str(path), "--party", "clinic")
    with Ledger.open(path, create=False) as ledger:
        _, *entries = ledger.entries()
        assert ledger.pending() == []
    parties = [entry.party_id for entry in entries]
    assert parties == ["client-3"] + ["clinic"] * 4
    assert "difference" in entries[0].body


def test_a_party_with_a_limit_refuses_and_nothing_changes(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.set_limit("clinic", Limit(epsilon=3.0, delta=1e-6), purpose="pilot")
    arguments = ("client-3", "--federation", str(folder), "--ledger", str(path))
    outcome = call(*arguments, "--party", "clinic", "--json")
    assert outcome.exit_code == 1
    assert "clinic" in json.loads(outcome.stdout)["error"]
    with StoredFederation.open(folder) as federation:
        assert federation.state().forgotten == ()


@pytest.mark.parametrize("limited", ["client-2", "client-3", "simulated-client"])
def test_a_refused_forgetting_leaves_no_entry(folder: Path, tmp_path: Path, limited: str) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.set_limit("simulated-client", None, purpose="none wanted")
        ledger.set_limit(limited, Limit(epsilon=3.0, delta=1e-6), purpose="pilot")
        head = ledger.head()
    arguments = ("client-2", "client-3", "--federation", str(folder), "--ledger", str(path))
    outcome = call(*arguments, "--json")
    assert outcome.exit_code == 1
    assert limited in json.loads(outcome.stdout)["error"]
    with Ledger.open(path, create=False) as ledger:
        assert ledger.head() == head
        assert ledger.pending() == []
    with StoredFederation.open(folder) as federation:
        assert federation.state().forgotten == ()


def test_a_party_that_is_misspelt_is_wrong_usage(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.set_limit("clinic", None, purpose="none wanted")
    arguments = ("client-3", "--federation", str(folder), "--ledger", str(path))
    outcome = call(*arguments, "--party", "clinc", "--json")
    assert outcome.exit_code == 2
    assert "limits for: clinic" in json.loads(outcome.stdout)["error"]


def test_as_many_steps_as_in_training_are_told_of(folder: Path) -> None:
    many = call("client-3", "--federation", str(folder), "--local-steps", "3", "--json")
    few = call("client-2", "--federation", str(folder), "--local-steps", "2", "--json")
    assert (many.exit_code, few.exit_code) == (0, 0)
    assert "the training took 3 steps" in many.stderr
    assert "the training took" not in few.stderr
    assert json.loads(many.stdout)["certificate"]["method"]["local_steps"] == 3


def test_a_missing_ledger_is_an_error(folder: Path, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.db")
    outcome = call("client-3", "--federation", str(folder), "--ledger", missing, "--json")
    assert outcome.exit_code == 2
    assert not Path(missing).exists()
