"""A command as a child process tells how far it is, and is gone when it is not wanted."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from cloister.app.console import child_command
from cloister.app.console.child_command import run_command
from cloister.app.console.jobs import JobStopped
from cloister.core.errors import CloisterError

WORLD = "world:features?queries=30&documents=10&features=6"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    """Return the processes that are started."""
    found: list[subprocess.Popen[str]] = []
    start = subprocess.Popen

    def noted(command: Sequence[str], **more: Any) -> subprocess.Popen[str]:
        found.append(start(command, **more))
        return found[-1]

    monkeypatch.setattr(child_command.subprocess, "Popen", noted)  # type: ignore[attr-defined]
    return found


def test_a_childs_progress_and_result_are_told() -> None:
    told: list[tuple[str, int, int]] = []
    command = ["simulate", "--data", WORLD, "--clients", "3", "--rounds", "7"]
    result = run_command(command, lambda *one: told.append(one))
    assert result["rounds"] == 7
    assert ("rounds", 7, 7) in told


def test_a_child_that_fails_says_why_and_what_to_do() -> None:
    with pytest.raises(CloisterError) as caught:
        run_command(["simulate", "--data", "nowhere/at/all"], lambda *_: None)
    assert "nowhere/at/all" in caught.value.what
    assert caught.value.remedy


def test_who_is_told_can_end_the_child(started: list[subprocess.Popen[str]]) -> None:
    def told(what: str, done: int, total: int) -> None:
        if done:
            raise JobStopped

    command = ["simulate", "--data", WORLD, "--clients", "3", "--rounds", "1000000"]
    with pytest.raises(JobStopped):
        run_command(command, told)
    assert started[0].poll() is not None
