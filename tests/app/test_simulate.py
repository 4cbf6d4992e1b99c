from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.outcome import Run
from cloister.app.settings_options import documented_fields, option_name
from cloister.lab.simulation.run import simulate
from cloister.lab.simulation.settings import SimulationSettings
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.rank.saving import load_ranker

WORLD = "world:features?queries=20&documents=10&features=5"
SMALL = ("--data", WORLD, "--clients", "5", "--rounds", "4", "--threads", "1")


@pytest.fixture
def run(call: Run) -> Run:
    """Run the command as a user would, in this process."""
    return functools.partial(call, "simulate")


def test_one_run_prints_the_figures_of_the_contract(run: Run) -> None:
    outcome = run(*SMALL, "--seed", "3", "--json")
    assert outcome.code == 0
    found = outcome.json
    wanted = simulate(SimulationSettings(data=WORLD, clients=5, rounds=4, seed=3))
    for name in ("offline_ndcg@10", "online_ndcg@10", "interactions", "weights_sha256"):
        assert found[name] == wanted.summary()[name]
    assert found["seconds"] > 0
    assert found["settings"] == wanted.settings.model_dump(mode="json")
    assert "files" not in found


def test_one_run_is_shown_to_people(run: Run) -> None:
    outcome = run(*SMALL)
    assert outcome.code == 0
    assert "offline ndcg@10" in outcome.out
    assert "weights sha256" in outcome.out


def test_every_setting_is_an_option_with_help(run: Run) -> None:
    text = run("--help").out
    for field in SimulationSettings.model_fields:
        assert option_name(field) in text
    for option in ("--config", "--out", "--seeds", "--folds", "--workers", "--threads", "--json"):
        assert option in text
    assert "[default: 1000]" in " ".join(text.split())
    assert "`" not in text


def test_every_setting_can_be_given(run: Run) -> None:
    """Give each setting its own default back: the same run must come out."""
    plain = run(*SMALL, "--json").json
    given: list[str] = []
    for field, value in plain["settings"].items():
        option = option_name(field)
        if value in (None, "", []):
            continue
        if isinstance(value, bool):
            given.append(option if value else f"--no-{option[2:]}")
        else:
            given += [option, ",".join(value) if isinstance(value, list) else str(value)]
    assert len(given) > 40
    again = run(*given, "--threads", "1", "--json").json
    assert again["settings"] == plain["settings"]
    assert again["weights_sha256"] == plain["weights_sha256"]


def test_a_file_gives_settings_and_options_override_it(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f'data = "{WORLD}"\nclients = 5\nrounds = 9\nquantities = [1, 2]\n')
    found = run("--config", str(path), "--rounds", "3", "--json").json
    assert found["rounds"] == 3
    assert found["settings"]["clients"] == 5
    assert found["settings"]["quantities"] == [1, 2]


def test_results_of_one_run_are_written(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    found = run(*SMALL, "--out", str(folder), "--json").json
    paths = [Path(file) for file in found["files"]]
    assert sorted(path.suffix for path in paths) == [
        ".html", ".json", ".json", ".parquet", ".parquet", ".png", ".safetensors",
    ]  # fmt: skip
    assert all(path.stat().st_size for path in paths)
    ranker = next(path for path in paths if path.suffix == ".safetensors")
    assert load_ranker(ranker).settings.n_features == 5
    record = next(path for path in paths if path.parent.name == "runs" and path.suffix == ".json")
    again = run("--config", str(record), "--threads", "1", "--json").json
    assert again["weights_sha256"] == found["weights_sha256"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--data: missing"),
        (("--data", WORLD, "--clients", "many"), "--clients"),
        (("--data", WORLD, "--clients", "0"), "--clients: Input should be greater"),
        (("--data", WORLD, "--method", "magic"), "--method"),
        (("--data", WORLD, "--click-model", "careless"), "--click-model: unknown click model"),
        (("--data", WORLD, "--epsilon", "0"), "--epsilon: Input should be greater"),
        (("--data", WORLD, "--epsilon", "3", "--method", "es"), "epsilon needs the method fpdgd"),
        (("--data", WORLD, "--attack", "lie"), "an attack needs attackers"),
        (("--data", WORLD, "--attack", "magic", "--attackers", "1"), "--attack"),
        (("--data", WORLD, "--attackers", "1"), "attackers an attack"),
        (("--data", WORLD, "--rule", "magic"), "--rule"),
        (("--data", WORLD, "--rule", "krum", "--epsilon", "3"), "the server must see updates"),
        (("--data", WORLD, "--clients", "3", "--participants", "5"), "fewer than participants"),
        (("--data", WORLD, "--threads", "0"), "--threads"),
        (("--data", WORLD, "--threads", "9999"), "threads"),
        (("--data", WORLD, "--workers", "0"), "--workers"),
        (("--data", WORLD, "--seeds", "2"), "--out: a grid needs a folder"),
        (("--data", WORLD, "--seeds", "x", "--out", "o"), "--seeds: cannot read 'x'"),
        (("--data", WORLD, "--seeds", "0", "--out", "o"), "seeds"),
        (("--data", WORLD, "--folds", "every", "--out", "o"), "--folds: cannot read 'every'"),
        (("--data", WORLD, "--vary", "clients", "--out", "o"), "--vary: cannot read 'clients'"),
        (("--data", WORLD, "--vary", "client=1,2", "--out", "o"), "vary.client: unknown setting"),
        (("--data", WORLD, "--vary", "clients=1,x", "--out", "o"), "clients"),
        (("--data", WORLD, "--seeds", "2", "--panel", "x", "--out", "o"), "panel"),
        (("--data", WORLD, "--seeds", "2", "--baseline", "x", "--out", "o"), "no system 'x'"),
        (("--config", "no/such/file.toml"), "no such file"),
        (("--data", WORLD, "--x", "hours"), "--x"),
        (("stray",), "stray"),
    ],
)
def test_wrong_usage_has_exit_code_two(run: Run, arguments: tuple[str, ...], said: str) -> None:
    outcome = run(*arguments, "--json")
    assert outcome.code == 2
    assert set(outcome.json) == {"error", "remedy"}
    assert said in outcome.json["error"]
    assert "Traceback" not in outcome.err
    plain = run(*arguments)
    assert (plain.code, plain.out) == (2, "")
    assert said in plain.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--data", "no/such/data"),
        ("--data", "no/such/data", "--folds", "all", "--out", "o"),
        ("--data", "world:nowhere"),
        ("--data", WORLD, "--rounds", "1", "--out", "/proc/nothing"),
    ],
)
def test_failed_work_has_exit_code_one(run: Run, arguments: tuple[str, ...]) -> None:
    outcome = run(*arguments, "--json")
    assert outcome.code == 2
    assert outcome.json["error"]
    assert outcome.json["remedy"]
    assert "Traceback" not in outcome.err


def test_a_grid_writes_tables_comparisons_and_curves(run: Run, tmp_path: Path) -> None:
    arguments = (*SMALL, "--vary", "ranker=linear,mlp", "--vary", "click-model=perfect,pbm-1",
                 "--seeds", "2", "--workers", "1", "--out", str(tmp_path))  # fmt: skip
    found = run(*arguments, "--json").json
    assert (found["runs"], found["done"], found["skipped"], found["failed"]) == (8, 8, 0, [])
    assert [(one["panel"], one["system"], one["n_runs"]) for one in found["systems"]] == [
        ("perfect", "ranker linear", 2), ("perfect", "ranker mlp", 2),
        ("pbm-1", "ranker linear", 2), ("pbm-1", "ranker mlp", 2),
    ]  # fmt: skip
    assert len(found["comparisons"]) == 4
    assert len(found["results"]) == 8
    assert all(Path(file).exists() for file in found["files"])
    again = run(*arguments, "--baseline", "ranker mlp", "--x", "interactions")
    assert again.code == 0
    assert "against ranker mlp" in again.out
    assert "8 runs: 0 done, 8 there before, 0 failed" in again.out


def test_an_experiment_is_run_from_its_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        f'seeds = 5\nbaseline = "b"\n[base]\ndata = "{WORLD}"\nclients = 5\nrounds = 4\n'
        '[[variant]]\nname = "a"\n[[variant]]\nname = "b"\nmethod = "pdgd"\n'
    )
    arguments = ("--config", str(path), "--out", str(tmp_path / "o"), "--workers", "1")
    found = run(*arguments, "--seeds", "2,4", "--threads", "1", "--json").json
    assert [one["system"] for one in found["systems"]] == ["a", "b"]
    assert sorted({row["seed"] for row in found["results"]}) == [2, 4]
    assert {one["baseline"] for one in found["comparisons"]} == {"b"}
    wrong = run(*arguments, "--method", "es")
    assert wrong.code == 2
    assert "--method: the variant 'b' has its own value" in wrong.err


def test_a_grid_with_a_failed_run_ends_with_exit_code_one(run: Run, tmp_path: Path) -> None:
    arguments = (*SMALL, "--vary", f"data={WORLD},no/such/data", "--seeds", "2",
                 "--workers", "1", "--out", str(tmp_path))  # fmt: skip
    outcome = run(*arguments, "--json")
    assert outcome.code == 2
    assert "--data: given with --vary as well" in outcome.json["error"]
    outcome = run(*arguments[2:], "--json")
    assert outcome.code == 1
    found = outcome.json
    assert (found["done"], len(found["failed"])) == (2, 2)
    assert found["failed"][0]["settings"]["data"] == "no/such/data"
    assert "2 of 4 runs failed: no/such/data" in found["error"]
    assert found["remedy"]
    assert "no/such/data" in outcome.err
    assert len(found["results"]) == 2
    plain = run(*arguments[2:])
    assert plain.code == 1
    assert "2 there before, 2 failed" in plain.out


def test_the_thesis_data_can_be_a_grid(run: Run, real_data: Any, tmp_path: Path) -> None:
    found = run(
        "--data", str(real_data("ltr/mq2008")), "--folds", "1,2", "--seeds", "1", "--clients", "20",
        "--rounds", "10", "--workers", "1", "--threads", "1", "--out", str(tmp_path), "--json",
    ).json  # fmt: skip
    assert [row["fold"] for row in found["results"]] == [1, 2]
    assert all(row["offline_ndcg@10"] > 0.5 for row in found["results"])


def test_help_of_other_commands_needs_no_settings() -> None:
    code = (
        "import sys; from cloister.app import command_line; "
        "sys.argv = ['cloister', '--help']\n"
        "try: command_line.main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'pydantic', 'pyarrow', 'matplotlib', 'plotly'}; "
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "simulate" in done.stdout


def test_a_docstring_without_parameters_documents_nothing() -> None:
    class Bare:
        """Nothing here."""

    assert documented_fields(Bare) == {}


# --- with a ledger


def test_every_round_of_a_run_is_on_the_ledger(run: Run, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger.db")
    with Ledger.open(ledger) as made:
        made.set_limit("simulated-client", None, purpose="none wanted")
    sizes = ("--data", WORLD, "--clients", "200", "--participants", "20", "--rounds", "5")
    done = run(*sizes, "--epsilon", "2", "--delta", "1e-4", "--ledger", ledger, "--json").json
    with Ledger.open(ledger, create=False) as kept:
        _, *entries = kept.entries()
        cost = kept.cost("simulated-client", delta=1e-4, simulated=True).epsilon
    assert len(entries) == 5
    assert cost == pytest.approx(done["epsilon_report"])
    assert cost < 1.99 < done["epsilon"] <= 2  # by the filter, for which noise was planned


def test_a_run_stops_at_the_limit_of_its_party(run: Run, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger.db")
    with Ledger.open(ledger) as made:
        made.set_limit("us", Limit(epsilon=1.0, delta=1e-4), purpose="test")
    sizes = ("--data", WORLD, "--clients", "200", "--rounds", "5", "--party", "us")
    outcome = run(*sizes, "--epsilon", "2", "--delta", "1e-4", "--ledger", ledger, "--json")
    assert outcome.code == 1
    assert 'party "us"' in outcome.json["error"]
    with Ledger.open(ledger, create=False) as kept:
        assert kept.cost("us", delta=1e-4, simulated=True).epsilon <= 1


def test_a_limit_at_another_order_than_the_plans_is_refused_before_the_work(
    run: Run, tmp_path: Path
) -> None:
    ledger = str(tmp_path / "ledger.db")
    limit = Limit(epsilon=1.0, delta=1e-6)
    with Ledger.open(ledger) as made:
        made.set_limit("us", limit, purpose="test")
    sizes = ("--data", WORLD, "--clients", "2000", "--participants", "2", "--rounds", "100")
    options = ("--epsilon", "1", "--delta", "1e-6", "--ledger", ledger, "--party", "us")
    outcome = run(*sizes, *options, "--json")
    assert outcome.code == 1
    assert 'the 100 planned releases of party "us" do not fit' in outcome.json["error"]
    remedy = outcome.json["remedy"]
    order = float(remedy[remedy.index("order = ") + 8 :].split()[0])
    with Ledger.open(ledger, create=False) as kept:
        assert len(kept.entries()) == 1
        kept.set_limit("us", limit.model_copy(update={"order": order}), purpose="the plan's")
    assert run(*sizes, *options, "--json").code == 0
    with Ledger.open(ledger, create=False) as kept:
        assert len(kept.entries()) == 2 + 100


@pytest.mark.parametrize("more", [("--method", "pdgd"), ("--seeds", "2", "--out", "o")])
def test_a_ledger_is_refused_where_nothing_is_released_or_runs_are_many(
    run: Run, tmp_path: Path, more: tuple[str, ...]
) -> None:
    outcome = run("--data", WORLD, *more, "--ledger", str(tmp_path / "l.db"), "--json")
    assert outcome.code == 2
    assert "a ledger goes with one run of a federation" in outcome.json["error"]
    assert not (tmp_path / "l.db").exists()


def test_a_ledger_that_is_missing_is_an_error_and_is_not_made(run: Run, tmp_path: Path) -> None:
    ledger = tmp_path / "typo.db"
    outcome = run(*SMALL, "--epsilon", "2", "--delta", "1e-4", "--ledger", str(ledger), "--json")
    assert outcome.code == 2
    assert "there is no ledger here" in outcome.json["error"]
    assert "cloister ledger limit PARTY --epsilon E --new" in outcome.json["remedy"]
    assert not ledger.exists()


def test_a_party_that_no_ledger_could_name_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    at = ("--ledger", str(tmp_path / "ledger.db"), "--party", "two words", "--json")
    outcome = run(*SMALL, "--epsilon", "2", "--delta", "1e-4", *at)
    assert outcome.code == 2
    assert "--party 'two words'" in outcome.json["error"]


def test_a_party_for_which_nobody_has_set_a_limit_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger.db")
    with Ledger.open(ledger) as made:
        made.set_limit("other", Limit(epsilon=1.0, delta=1e-4), purpose="test")
    for _ in range(2):  # the first one does not make it known
        outcome = run(*SMALL, "--ledger", ledger, "--json")
        assert outcome.code == 2
        assert 'nobody has set a limit for party "simulated-client"' in outcome.json["error"]
        assert "limits for: other" in outcome.json["error"]
    with Ledger.open(ledger, create=False) as kept:
        assert kept.parties() == ["other"]
