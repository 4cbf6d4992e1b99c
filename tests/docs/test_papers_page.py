"""What the page about the papers shows is what the commands say."""

from __future__ import annotations

from pathlib import Path

from docs.console_blocks import DOCS, Terminal, steps_of


def test_every_attack_that_the_page_shows_comes_out_as_shown(tmp_path: Path) -> None:
    steps = steps_of(DOCS / "papers-wrong.md")
    assert len(steps) == 5
    with Terminal(tmp_path) as terminal:
        for step in steps:
            terminal.check(step)
