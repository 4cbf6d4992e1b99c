"""Every ``cloister`` command that a page names exists, with the options that it is shown with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from cloister.app.lazy_commands import COMMANDS, load_command
from docs.console_blocks import DOCS

ROOT = DOCS.parent
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("how-to/*.md")])
FENCED = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"^ *(?:\$ )?(?:\.venv/bin/)?cloister(?: (.*))?$", re.MULTILINE)
IN_TEXT = re.compile(r"`(?:\.venv/bin/)?cloister ([^`]*)`")
OPTION = re.compile(r"(?<!\S)\[?(--?[A-Za-z][\w-]*)")
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
EVERYWHERE = {"--help", "-h"}
OF_CLOISTER = {"--version", "--install-completion", "--show-completion"}


def commands_of(text: str) -> Iterator[str]:
    """Return what follows ``cloister`` in blocks and in the running text."""
    for block in FENCED.findall(text):
        for typed in TYPED.findall(block.replace("\\\n", " ")):
            yield typed.strip()
    yield from IN_TEXT.findall(FENCED.sub("", text))


@cache
def loaded(name: str) -> click.Command:
    return load_command(name)


def wrong(command: str) -> str:
    """Say what does not exist; nothing where all of it does."""
    words = QUOTED.sub("Q", command.partition(" # ")[0]).split()
    if not words or words[0].startswith(("-", "[")):
        unknown = {word for word in words if word.startswith("-")} - EVERYWHERE - OF_CLOISTER
        return f"no option {unknown}" if unknown else ""
    if words[0] not in COMMANDS:
        return f"no command {words[0]}"
    found, rest = loaded(words[0]), words[1:]
    while isinstance(found, click.Group):
        if not rest or rest[0].startswith(("-", "[", ".")):
            return ""
        names = rest.pop(0).rstrip(",").split("|")
        if missing := [name for name in names if name not in found.commands]:
            return f"no command {words[0]} {', '.join(missing)}"
        if len(names) > 1:  # several are named at once
            return ""
        found = found.commands[names[0]]
    known = {
        option
        for one in found.get_params(click.Context(found))
        for option in (*one.opts, *one.secondary_opts)
    }
    unknown = set(OPTION.findall(" ".join(rest))) - known - EVERYWHERE
    return f"{words[0]} {found.name} has no {', '.join(sorted(unknown))}" if unknown else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    found = {command: wrong(command) for command in commands_of(page.read_text("utf-8"))}
    assert {command: said for command, said in found.items() if said} == {}


def test_pages_name_most_commands() -> None:
    pages = "\n".join(page.read_text("utf-8") for page in PAGES)
    named = {words[0] for command in commands_of(pages) if (words := command.split())}
    assert set(COMMANDS) <= named


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ('search --as ann "a --b"', ""),
        ("search x --nobody y", "search search has no --nobody"),
        ("serach x", "no command serach"),
        ("pods ad x", "no command pods ad"),
        ("pods add|list", ""),
        ("pods add|lost", "no command pods lost"),
        ("pods server-pod a b --remove # --not", ""),
        ("simulate --vary FIELD=VALUE --no-antithetic", ""),
        ("simulate [--sed 3]", "simulate simulate has no --sed"),
        ("--versoin", "no option {'--versoin'}"),
        ("ledger", ""),
    ],
)
def test_what_does_not_exist_is_found(command: str, said: str) -> None:
    assert wrong(command) == said
