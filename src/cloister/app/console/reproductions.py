"""Papers that ``cloister reproduce`` does again: what can be run here, and what came out."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from cloister.app.console.child_command import run_command
from cloister.app.console.jobs import Job
from cloister.core.errors import NotFound
from cloister.data.worlds.address import is_world
from cloister.lab import reproduce
from cloister.lab.reproduce.collection import Collection, Collections, data_folder
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.rows import counted
from cloister.store.incoming import replace_file

__all__ = [
    "KeptReproduction",
    "PaperSeen",
    "Reproductions",
    "Wish",
    "known_paper",
    "known_papers",
    "newest_with",
    "run_quickly",
]

TRY_FIRST: Final = ("poisoning", "figure-5.4")  # on worlds alone about ten seconds
FORMAT: Final = 1  # change it when the layout of a kept file changes


class Wish(NamedTuple):
    """What is to be run: a paper, perhaps one figure of it, perhaps on built-in worlds only."""

    name: str
    only: str
    worlds: bool


class FigureSeen(NamedTuple):
    """A figure or table of a paper, and the collections that it needs."""

    key: str
    title: str
    paper_setting: str
    note: str
    n_claims: int
    collections: list[Collection]

    @property
    def missing(self) -> list[Collection]:
        """The collections that are not here."""
        return [one for one in self.collections if not one.is_here]

    @property
    def has_world(self) -> bool:
        """Whether some of it is run on a built-in world."""
        return any(is_world(one.address) for one in self.collections)

    @property
    def can_run(self) -> bool:
        """Whether something of it can be run here."""
        return len(self.missing) < len(self.collections)


class PaperSeen(NamedTuple):
    """A paper: its name on the command line, what it is, its figures."""

    name: str
    title: str
    figures: list[FigureSeen]

    @property
    def missing(self) -> list[str]:
        """The names of collections that some figure needs and that are not here."""
        return sorted({one.name for figure in self.figures for one in figure.missing})

    @property
    def can_run(self) -> bool:
        """Whether something of it can be run here."""
        return any(figure.can_run for figure in self.figures)


class KeptReproduction(NamedTuple):
    """What a quick run of a paper, or of one of its figures, came to.

    Parameters
    ----------
    wish
        What was run.
    at
        When it ended.
    seconds
        How long the command took, from its start to its end.
    result
        What the command printed.
    path
        The file that holds it.
    """

    wish: Wish
    at: str
    seconds: float
    result: dict[str, Any]
    path: Path

    @property
    def file(self) -> str:
        """The file from the console's folder on, as pages show it."""
        return f"{self.path.parent.name}/{self.path.name}"

    def rows(self, figure: str) -> list[dict[str, Any]]:
        """Return the rows of a figure."""
        return [row for row in self.result["rows"] if row["figure"] == figure]

    def skipped_data(self, figure: str) -> list[str]:
        """Return the data for want of which rows of a figure were skipped."""
        skipped = [row for row in self.rows(figure) if row["verdict"] == "skipped"]
        return list(dict.fromkeys(str(row["data"]) for row in skipped))


class Reproductions:
    """Results of quick runs in a folder: one file a paper, or a figure of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, wish: Wish, seconds: float, result: dict[str, Any]) -> Path:
        """Keep a result, in the place of an older one."""
        path = self.folder / (f"{wish.name}.{wish.only}.json" if wish.only else f"{wish.name}.json")
        content = {
            "format": FORMAT,
            **wish._asdict(),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": seconds,
            "result": result,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(content, indent=1) + "\n").encode())
        return path

    def of_paper(self, name: str) -> list[KeptReproduction]:
        """Return what there is of a paper, the newest first; files that cannot be read are not."""
        paths = [self.folder / f"{name}.json", *self.folder.glob(f"{name}.*.json")]
        found = [kept for path in paths if (kept := _read(path)) is not None]
        return sorted(found, key=lambda one: one.at, reverse=True)

    @property
    def no_data_sets(self) -> Path:
        """A folder without data sets, for runs on built-in worlds only."""
        return self.folder / "no-data-sets"

    def runs_folder(self, name: str) -> Path:
        """Return where a paper's single runs are kept: one that was stopped goes on from there."""
        return self.folder / "runs" / name


def known_papers(data: Path | None = None) -> list[PaperSeen]:
    """Return all papers, in the order of the command."""
    return [known_paper(name, data) for name in reproduce.NAMES]


def known_paper(name: str, data: Path | None = None) -> PaperSeen:
    """Return a paper by its name; its data sets are looked for in the usual folder, or in this."""
    if name not in reproduce.NAMES:
        raise NotFound(
            "no such paper", where=name, remedy=f"there are: {', '.join(reproduce.NAMES)}"
        )
    figures = _figures(name, data_folder(data))
    return PaperSeen(name, _title(name), [_figure(one) for one in figures])


def newest_with(kept: Sequence[KeptReproduction], figure: str) -> KeptReproduction | None:
    """Return the newest result that has a figure."""
    return next((one for one in kept if figure in one.result["figures"]), None)


def run_quickly(job: Job, kept: Reproductions, wish: Wish) -> dict[str, int]:
    """Run the quick version as a child process, and keep its result."""
    arguments = ["reproduce", wish.name, "--quick", "--out", str(kept.runs_folder(wish.name))]
    arguments += ["--only", wish.only] if wish.only else []
    arguments += ["--data", str(kept.no_data_sets)] if wish.worlds else []

    def told(what: str, done: int, total: int) -> None:
        job.put("step", what)
        job.advance(done, total)

    result = run_command(arguments, told)
    path = kept.keep(wish, job.seconds, result)
    job.put("file", str(path))
    return counted(result["rows"])


def _figure(figure: Figure) -> FigureSeen:
    collections = {part.collection.name: part.collection for part in figure.parts}
    return FigureSeen(
        figure.key,
        figure.title,
        figure.paper_setting,
        figure.note,
        len(figure.claims),
        [collections[name] for name in sorted(collections)],
    )


@cache
def _figures(name: str, folder: Path) -> tuple[Figure, ...]:
    return tuple(reproduce.figures_of(name, Size("quick"), Collections(folder)))


def _title(name: str) -> str:
    module = importlib.import_module(f"{reproduce.__name__}.{name.replace('-', '_')}")
    return (module.__doc__ or name).partition("\n")[0].rstrip(".")


def _read(path: Path) -> KeptReproduction | None:
    """Read a kept file; None where it is missing, damaged, or of another version."""
    try:
        content = json.loads(path.read_bytes())
        result = content["result"]
        known = content["format"] == FORMAT and isinstance(result["rows"], list)
        if not known or not isinstance(result["figures"], dict):
            return None
        wish = Wish(str(content["name"]), str(content["only"]), bool(content["worlds"]))
        return KeptReproduction(wish, str(content["at"]), float(content["seconds"]), result, path)
    except (OSError, ValueError, KeyError, TypeError):
        return None
