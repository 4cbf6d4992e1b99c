"""The guides that add to the package are true: what they add works as they say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from docs.console_blocks import COLUMNS, DOCS, Step, differences, steps_of

ROOT = DOCS.parent
PROGRAM = Path(__file__).with_name("edited_program.py")
NEW_FILE = re.compile(r"^`(src/\S+\.py)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Guide(NamedTuple):
    """A page, and a folder with the files that it changes."""

    page: Path
    folder: Path

    def follow(self) -> None:
        """Do to copies of the files what the page says."""
        text = self.page.read_text("utf-8")
        for name, source in NEW_FILE.findall(text):
            self.place(name).write_text(source, "utf-8")
        diffs = "".join(DIFF.findall(text))
        for name in set(re.findall(r"^--- a/(\S+)$", diffs, re.MULTILINE)):
            shutil.copy(ROOT / name, self.place(name))
        (self.folder / "page.diff").write_text(diffs, "utf-8")
        apply = ["git", "apply", "-C1", "page.diff"]
        environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(self.folder.parent)}
        subprocess.run(apply, cwd=self.folder, env=environment, check=True)

    def place(self, name: str) -> Path:
        """Return where a file of the repository goes."""
        place = self.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def run(self, step: Step) -> None:
        """Run a command in the repository, with the changed files."""
        done = subprocess.run(
            [sys.executable, str(PROGRAM), str(self.folder), *shlex.split(step.command)],
            cwd=ROOT,
            env=os.environ | {"COLUMNS": str(COLUMNS), "TERM": "dumb", "PYTEST_ADDOPTS": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout
        wrong = "\n".join(differences(step.shown, done.stdout))
        assert not wrong, f"$ {step.command}\n{wrong}\nall that it said:\n{done.stdout}"


@pytest.mark.parametrize("name", ["write-an-aggregation-rule", "write-an-attack"])
def test_what_a_guide_adds_passes_the_contract_and_runs(name: str, tmp_path: Path) -> None:
    guide = Guide(DOCS / "how-to" / f"{name}.md", tmp_path / "edited")
    guide.folder.mkdir()
    guide.follow()
    steps = steps_of(guide.page)
    assert {step.command.partition(" ")[0] for step in steps} == {"pytest", "cloister"}
    for step in steps:
        guide.run(step)


@pytest.mark.parametrize("name", ["write-an-aggregation-rule", "write-an-attack"])
def test_what_a_guide_adds_is_in_the_style_of_the_package(name: str) -> None:
    page = (DOCS / "how-to" / f"{name}.md").read_text("utf-8")
    for place, source in NEW_FILE.findall(page):
        for check in (["check", "--quiet"], ["format", "--check", "--quiet"]):
            command = [sys.executable, "-m", "ruff", *check, "--stdin-filename", place, "-"]
            done = subprocess.run(command, input=source, cwd=ROOT, text=True, capture_output=True)
            assert done.returncode == 0, done.stdout + done.stderr
