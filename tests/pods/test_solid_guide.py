"""The guide to Solid servers is true: its commands are run against a real one."""

from __future__ import annotations

import re
from pathlib import Path

from docs.console_blocks import DOCS, Terminal, ran, steps_in

PAGE = DOCS / "how-to" / "add-a-solid-server.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_a_solid_server_is_added_as_the_guide_says(
    solid_servers: list[str], tmp_path: Path
) -> None:
    with Terminal(tmp_path, {"http://localhost:3000/": solid_servers[0]}) as terminal:
        for kind, content in BLOCK.findall(PAGE.read_text("utf-8")):
            if kind == "python":
                ran(terminal.here(content), tmp_path)
                continue
            for step in steps_in(content):
                terminal.check(step)
