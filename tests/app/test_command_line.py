from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cloister
from app.outcome import Outcome, Run
from cloister.app.lazy_commands import COMMANDS, load_command
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit


@pytest.fixture
def run(call: Run) -> Run:
    """Run the command as a user would, in this process."""
    return call


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version") == Outcome(0, f"cloister {cloister.__version__}\n", "")


def test_help_lists_the_commands(run: Run) -> None:
    outcome = run("--help")
    assert outcome.code == 0
    for name in ("data", "demo", "bench"):
        assert name in outcome.out
    assert "--install-completion" in outcome.out


def test_without_a_command_the_help_is_shown(run: Run) -> None:
    outcome = run()
    assert "Usage" in outcome.out + outcome.err
    assert "demo" in outcome.out + outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("data", "inspect"),
        ("data", "inspect", "a", "b"),
        ("data", "make", "features"),
        ("demo", "--seed", "x"),
        ("demo", "--seed", "-1"),
        ("bench",),
        ("--nonsense",),
    ],
)
def test_wrong_usage_has_exit_code_two(run: Run, arguments: tuple[str, ...]) -> None:
    outcome = run(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert "see `cloister" in outcome.err
    as_json = run(*arguments, "--json")
    assert as_json.code == 2
    assert set(as_json.json) == {"error", "remedy"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("data", "inspect", "no/such/file"), "no such file"),
        (("data", "inspect", "world:nowhere"), "no world 'nowhere'"),
        (("data", "inspect", "world:features?query=3"), "unknown setting"),
        (("data", "inspect", "world:features?queries=many"), "integer"),
        (("data", "make", "nowhere", "--to", "x"), "no world 'nowhere'"),
        (("bench", "everything"), "no benchmark 'everything'"),
    ],
)
def test_what_cannot_be_meant_has_exit_code_two_and_says_why(
    run: Run, arguments: tuple[str, ...], said: str
) -> None:
    outcome = run(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err
    assert "Traceback" not in outcome.err
    as_json = run(*arguments, "--json")
    assert as_json.code == 2
    assert said in as_json.json["error"]
    assert "remedy" in as_json.json


def test_a_defect_is_reported_as_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(address: str) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("cloister.data.inspection.inspect", broken)
    outcome = run("data", "inspect", "x", "--json")
    assert outcome.code == 1
    assert "ZeroDivisionError: boom" in outcome.json["error"]
    assert "report" in outcome.json["remedy"]
    assert "Traceback" not in outcome.err
    monkeypatch.setenv("CLOISTER_DEBUG", "0")  # what --debug sets is taken back at the end
    assert "Traceback" in run("--debug", "data", "inspect", "x").err


def test_json_is_one_object_and_nothing_else(run: Run) -> None:
    outcome = run("data", "inspect", "world:features?queries=5&documents=4&features=3", "--json")
    assert outcome.code == 0
    assert outcome.json["queries"] == 5
    assert outcome.json["features"] == 3
    assert sum(outcome.json["labels"].values()) == outcome.json["documents"]


def test_a_letor_file_is_inspected_for_people(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("2 qid:1 1:0.5\n0 qid:1 1:NULL\n")
    outcome = run("data", "inspect", str(path))
    assert outcome.code == 0
    assert "letor" in outcome.out
    assert "missing values" in outcome.out


def test_a_malformed_line_is_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("2 qid:1 1:0.5\n0 qid:1 1:zero\n")
    outcome = run("data", "inspect", str(path), "--json")
    assert outcome.code == 1
    assert f"{path}:2" in outcome.json["error"]
    assert "zero" in outcome.json["error"]


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        ("features?queries=6&documents=5&features=4", {"queries": 18, "features": 4}),
        ("intents?queries=6&documents=30&features=5", {"queries": 18, "features": 5}),
        ("clinic?servers=2&pods=5&staff=4&queries=3", {"documents": 10, "queries": 3}),
    ],
)
def test_a_world_that_was_made_is_read_back(
    run: Run, tmp_path: Path, world: str, expected: dict[str, int]
) -> None:
    folder = tmp_path / "made"
    made = run("data", "make", world, "--to", str(folder), "--json")
    assert made.code == 0
    assert made.json["files"] >= 3
    assert made.json["settings"]["seed"] == 1
    found = run("data", "inspect", str(folder), "--json").json
    assert {name: found[name] for name in expected} == expected
    if world.startswith("intents"):
        assert len(found["intents"]) == 4
    again = run("data", "make", world, "--to", str(folder), "--json")
    assert again.code == 2
    assert "not empty" in again.json["error"]


def test_nothing_heavy_is_imported_for_help() -> None:
    code = (
        "import sys; from cloister.app import command_line; "
        "heavy = {'numpy', 'numba', 'scipy', 'pydantic', 'sqlalchemy'} & set(sys.modules); "
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    code = "import sys; sys.argv = ['cloister', '--help']; " \
           "from cloister.app.command_line import main; main()"  # fmt: skip
    script = f'"{sys.executable}" -c "{code}" | true'
    done = subprocess.run(script, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_command_whose_reader_has_left_ends_quietly(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.set_limit("clinic", Limit(epsilon=3.0, delta=1e-6), purpose="pilot")
    code = "from cloister.app.command_line import main; main()"
    command = ("ledger", "show", "--ledger", str(tmp_path / "ledger.db"), *more)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, *command],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_line_of_a_command_is_the_first_of_its_help(name: str) -> None:
    command = load_command(name)
    assert (command.help or "").strip().splitlines()[0] == COMMANDS[name].line
    assert command.name == name


def test_the_help_loads_no_command() -> None:
    code = (
        "import sys; from cloister.app import command_line; sys.argv = ['cloister', '--help']\n"
        "try: command_line.main()\n"
        "except SystemExit: pass\n"
        "loaded = [m for m in sys.modules if m.startswith('cloister.app.')]\n"
        "print(sorted(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == (
        "['cloister.app.command_line', 'cloister.app.lazy_commands', "
        "'cloister.app.option_types', 'cloister.app.output']"
    )


def test_a_mistyped_command_is_answered_with_the_one_meant(run: Run) -> None:
    told = run("demos").err.splitlines()[0]
    assert told == "error: no such command 'demos'; did you mean 'demo'? see `cloister --help`"


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.parametrize("command", [("ledger", "show"), ("certs", "init", "--help")])
def test_a_reader_that_is_gone_ends_a_command_quietly(
    tmp_path: Path, command: tuple[str, ...], more: tuple[str, ...]
) -> None:
    environment = os.environ | {"CLOISTER_LEDGER": str(tmp_path / "ledger.db")}
    code = "from cloister.app.command_line import main; main()"
    program = [sys.executable, "-c", code]
    limit = [*program, "ledger", "limit", "clinic", "--epsilon", "3", "--new"]
    subprocess.run(limit, env=environment, check=True, capture_output=True)
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [*program, *command, *more], env=environment, stdout=write_end, stderr=subprocess.PIPE
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")
