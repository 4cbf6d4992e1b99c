"""The guide to joining is true: its commands are run, its files used, its programs too."""

from __future__ import annotations

import re
from pathlib import Path

from docs.console_blocks import DOCS, Step, Terminal, ran, steps_in

PAGE = DOCS / "how-to" / "join-a-federation.md"
SEARCH = "cloister federation search clinics asthma --as clinic-a:staff-000 --json"
BLOCK = re.compile(r"(?:^`(\S+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_a_clinic_joins_as_the_guide_says(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "visit.txt").write_text("Asthma since childhood; a cough at night.")
    said = list[str]()
    with Terminal(tmp_path) as terminal:
        made = "cloister federation init clinics --world --pods 2 --min-nodes 3 --json"
        terminal.check(Step(made, ("{…}",)))
        for file, kind, content in BLOCK.findall(PAGE.read_text("utf-8")):
            if kind == "toml":
                (tmp_path / file).write_text(terminal.here(content))
            elif kind == "python":
                said.append(ran(terminal.here(content), tmp_path))
            else:
                for step in steps_in(content):
                    terminal.check(step)
                    if " federation status " in step.command:
                        terminal.check(Step(SEARCH, ('{…"missing_nodes": []…}',)))
    assert re.fullmatch(r"[0-9a-f]+", said[1])  # the roster's digest
    assert said[2] == "notes/visit.txt []"
    assert f"`{said[2]}`" in PAGE.read_text("utf-8")
