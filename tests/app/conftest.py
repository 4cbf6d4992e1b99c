"""The command as a user runs it, in this process."""

from __future__ import annotations

import sys

import pytest

from app.outcome import Outcome, Run
from cloister.app import command_line


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``cloister`` with these arguments; return its exit code and what it said."""

    def with_arguments(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["cloister", *arguments])
        with pytest.raises(SystemExit) as caught:
            command_line.main()
        captured = capsys.readouterr()
        return Outcome(int(caught.value.code or 0), captured.out, captured.err)

    return with_arguments
