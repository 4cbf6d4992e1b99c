"""What docs/identity.md shows is true: its commands are run, and its settings read."""

from __future__ import annotations

import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from app.typer_call import run_app
from cloister.app import certs_commands, token_commands
from cloister.services.user_tokens import UserTokenSettings

PAGE = Path(__file__).parents[2] / "docs" / "identity.md"
GROUPS = {"certs": certs_commands.app, "token": token_commands.app}


def test_the_recipes_of_the_documentation_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("$ ")]
    assert len(lines) >= 12
    for line in lines:
        program, *arguments = shlex.split(line.removeprefix("$ "))
        if program == "cloister":
            done = run_app(GROUPS[arguments[0]], *arguments[1:])
            assert done.code == 0, f"{line}\n{done.err}"
        else:
            subprocess.run([program, *arguments], check=True, capture_output=True, timeout=60)
    assert (tmp_path / "ann.token").exists()


def test_the_settings_of_the_documentation_are_read() -> None:
    block = PAGE.read_text().partition("```toml\n")[2].partition("```")[0]
    settings = UserTokenSettings(**tomllib.loads(block)["users"])
    assert [one.audience for one in settings.providers] == ["cloister"]
    assert settings.operators.groups == {"clinic-a:it"}
    placed = settings.below(Path("/etc/cloister")).providers[0].ca_file
    assert placed == Path("/etc/cloister/provider-ca.pem")
