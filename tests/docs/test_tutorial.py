"""The tutorial is true: its commands are run in order, and say what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.console_blocks import DOCS, Step, Terminal, differences, steps_of

PAGE = DOCS / "tutorial.md"


def test_every_command_of_the_tutorial_says_what_the_page_shows(tmp_path: Path) -> None:
    steps = steps_of(PAGE)
    assert len(steps) > 20
    with Terminal(tmp_path) as terminal:
        for step in steps:
            terminal.check(step)


def test_a_page_is_read_by_its_console_blocks_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    typed = "$ cloister a \\\n    --b\n\nsaid  \n\n$ cloister c\n^C\n"
    page.write_text(f"```console\n{typed}```\n```\n$ none\n```\n")
    assert steps_of(page) == [
        Step("cloister a      --b", ("said",)),
        Step("cloister c", ()),
        Step("^C", ()),
    ]


@pytest.mark.parametrize(
    ("shown", "said", "n_wrong"),
    [
        (("a 1", "took … s"), "\na 1  \n\ntook 0.3 s\n", 0),
        (("a 1",), "a 2", 1),
        (("a.1",), "a 1", 1),
        (("a", "b"), "a", 1),
        (("a",), "a\nb", 1),
        (("…",), "a\nb", 1),
        (("loss 0.7304 -0.0003",), "loss 0.7305 -0.0002", 0),
        (("loss 0.7304",), "loss 0.7307", 1),
        (("loss 0.7304 a",), "loss 0.7305 b", 1),
        (("loss 0.73",), "loss 0.74", 1),
        (("score 1.0058443427437",), "score 1.0058443427438", 0),
    ],
)
def test_only_what_is_left_open_may_differ(shown: tuple[str, ...], said: str, n_wrong: int) -> None:
    assert len(differences(shown, said)) == n_wrong
