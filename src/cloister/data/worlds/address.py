"""Worlds by address: ``world:features?queries=1000&documents=125&features=136``."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import cloister
from cloister.core.errors import SettingsError
from cloister.core.settings import Settings
from cloister.data.letor import write_letor
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld, write_clinic
from cloister.data.worlds.features import FeaturesSettings, FeaturesWorld
from cloister.data.worlds.intents import IntentData, IntentsSettings, IntentsWorld

__all__ = ["WORLD_PREFIX", "World", "is_world", "open_world", "write_world"]

World = FeaturesWorld | IntentsWorld | ClinicWorld
Progress = Callable[[int, int], None]

WORLD_PREFIX: Final = "world:"
_PARTS: Final = ("train", "vali", "test")


def is_world(address: str) -> bool:
    """Say whether an address names a built-in world rather than a path."""
    return address.startswith(WORLD_PREFIX)


def open_world(address: str) -> World:
    """Make the world that an address names; the prefix may be left out.

    Examples
    --------
    >>> open_world("world:features?queries=10&seed=4").settings.queries
    10
    """
    name, _, fields = address.removeprefix(WORLD_PREFIX).partition("?")
    match name:
        case "features":
            return FeaturesWorld(FeaturesSettings.from_text(fields))
        case "intents":
            return IntentsWorld(IntentsSettings.from_text(fields))
        case "clinic":
            return ClinicWorld(ClinicSettings.from_text(fields))
    raise SettingsError(
        f"no world {name!r}", where=address, remedy="there are: features, intents, clinic"
    )


def write_world(world: World, folder: str | Path, progress: Progress | None = None) -> Path:
    """Write a world to a folder that does not exist yet or is empty; return the folder.

    Features and intents become LETOR files (``train``, ``vali``, ``test``), intents with an
    ``intents.tsv`` beside them; a clinic becomes a BEIR folder with the rights of each pod.
    ``world.json`` holds the settings. The folder appears when it is complete; what a killed
    process leaves beside it begins with a dot and can be deleted.
    """
    folder = Path(folder).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(
            "exists already and is not empty", where=str(folder), remedy="name a new folder"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        partial.chmod(0o755)
        if isinstance(world, ClinicWorld):
            write_clinic(world, partial, progress=progress)
        else:
            _write_letor_world(world, partial, progress)
        partial.replace(folder)
    except OSError as error:
        raise _unwritable(folder, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _unwritable(folder: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"cannot be written: {error.strerror or error}", where=str(folder),
        remedy="name a new folder where you may write and there is room",
    )  # fmt: skip


def _write_letor_world(
    world: FeaturesWorld | IntentsWorld, folder: Path, progress: Progress | None
) -> None:
    drawn: list[IntentData] = []
    for done, part in enumerate(_PARTS, 1):
        data = world.data(part)
        if isinstance(data, IntentData):
            drawn.append(_named(data, part))
            data = drawn[-1].data
        write_letor(data, folder / f"{part}.txt")
        if progress:
            progress(done, len(_PARTS))
    if drawn:
        _write_intents(drawn, folder / "intents.tsv")
    _write_settings(world.settings, folder)


def _named(data: IntentData, part: str) -> IntentData:
    """Name the rows, so that the table of intents can refer to them."""
    names = [f"{part}-d{row}" for row in range(data.data.n_rows)]
    return replace(data, data=replace(data.data, doc_ids=names))


def _write_intents(parts: list[IntentData], path: Path) -> None:
    header = [f"intent{i}" for i in range(parts[0].n_intents)]
    with path.open("w") as file:
        file.write("\t".join(["qid", "docid", "graded", *header]) + "\n")
        for part in parts:
            for query in range(part.data.n_queries):
                rows = part.data.rows(query)
                for row in range(rows.start, rows.stop):
                    cells = [part.data.labels[row], *part.intent_labels[row]]
                    names = f"{part.data.query_ids[query]}\t{part.data.doc_ids[row]}\t"
                    file.write(names + "\t".join(map(str, cells)) + "\n")


def _write_settings(settings: Settings, folder: Path) -> None:
    record = {
        "world": type(settings).__name__.removesuffix("Settings").lower(),
        "settings": settings.model_dump(mode="json"),
        "cloister": cloister.__version__,
    }
    (folder / "world.json").write_text(json.dumps(record, indent=2) + "\n")
