"""Wrong inputs for every command: no traceback, the right exit code, a remedy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cloister.app.lazy_commands import COMMANDS
from cloister.app.wrong_inputs import answer, faults, made_scene, wrong_inputs

N_IN_PROCESSES = 4
# Of the generated ones every so many: the whole list is `cloister bench wrong-inputs`.
EVERY = 20


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scene")


@pytest.fixture
def at_home(scene: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLOISTER_HOME", "CLOISTER_LEDGER"):
        monkeypatch.setenv(name, "")  # what the scene sets is taken back at the end
    monkeypatch.chdir(scene)
    return made_scene(scene)


def test_wrong_inputs_get_the_right_exit_code_a_remedy_and_no_traceback(at_home: Path) -> None:
    inputs = wrong_inputs(at_home)
    assert len(inputs) > 600
    assert {one.arguments[0] for one in inputs} >= set(COMMANDS)
    tried = [one for n, one in enumerate(inputs) if one.kind == "typed" or n % EVERY == 0]
    assert len(tried) > 200
    kept = {path: path.read_bytes() for path in at_home.iterdir() if path.is_file()}
    wrong = {}
    for one in tried:
        found = faults(one, answer(one.arguments), answer((*one.arguments, "--json")))
        if found:
            wrong[" ".join(one.arguments)] = found
    assert wrong == {}
    assert {path: path.read_bytes() for path in kept} == kept
    for one in tried[:: len(tried) // N_IN_PROCESSES]:
        if any(ord(char) > 127 for part in one.arguments for char in part):
            continue
        code = "from cloister.app.command_line import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *one.arguments], capture_output=True, check=False
        )
        assert (done.returncode, done.stdout) == (one.code, b""), one
