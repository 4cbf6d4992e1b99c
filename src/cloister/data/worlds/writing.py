"""Writes a world to a folder, so that it can be stopped at any time and resumed.

What is being written lies beside the folder under a name that begins with a dot and holds the
settings' digest; it is renamed when it is complete. A second call with the same world and folder
goes on where the first one was stopped or killed; a lock keeps two writers apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import cloister
from cloister.core.contention import WAIT_S, lock_patiently
from cloister.core.errors import SettingsError, StoreError
from cloister.core.file_errors import refused_remedy, wrong_place
from cloister.core.settings import Settings
from cloister.data.letor_writer import write_letor
from cloister.data.worlds.address import World
from cloister.data.worlds.clinic import ClinicWorld, write_clinic
from cloister.data.worlds.features import FeaturesWorld
from cloister.data.worlds.intents import IntentData, IntentsWorld

__all__ = ["write_world"]

Progress = Callable[[int, int], None]
_PARTS: Final = ("train", "vali", "test")


def write_world(world: World, folder: str | Path, progress: Progress | None = None) -> Path:
    """Write a world to a folder that does not exist yet or is empty; return the folder.

    Features and intents become LETOR files (``train``, ``vali``, ``test``), intents with an
    ``intents.tsv`` beside them; a clinic becomes a BEIR folder with the rights of each pod.
    ``world.json`` holds the settings.
    """
    folder = Path(folder).absolute()
    partial = folder.with_name(f".{folder.name}.{world.settings.digest()[:12]}.partial")
    try:
        _require_free(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _only_writer(partial.with_suffix(".lock"), folder):
            _require_free(folder)  # another writer may have finished in the meantime
            partial.mkdir(exist_ok=True)
            if isinstance(world, ClinicWorld):
                write_clinic(world, partial, progress=progress)
            else:
                _write_letor_world(world, partial, progress)
            partial.replace(folder)
    except OSError as error:
        raise wrong_place(error, folder) or StoreError(
            f"cannot be written: {error.strerror or error}",
            where=str(folder),
            remedy=refused_remedy(error),
        ) from None
    return folder


def _require_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(
            "exists already and is not empty", where=str(folder), remedy="name a new folder"
        )


@contextmanager
def _only_writer(lock: Path, folder: Path) -> Iterator[None]:
    """Hold a lock that the system lets go when this process ends, however it ends."""
    with lock.open("w") as file:
        lock_patiently(file, what="this folder", where=str(folder), timeout_s=WAIT_S)
        yield
        lock.unlink(missing_ok=True)


def _write_letor_world(
    world: FeaturesWorld | IntentsWorld, folder: Path, progress: Progress | None
) -> None:
    drawn: list[IntentData] = []
    for done, part in enumerate(_PARTS, 1):
        data = world.data(part)
        if isinstance(data, IntentData):
            drawn.append(_named(data, part))
            data = drawn[-1].data
        path = folder / f"{part}.txt"
        if not path.exists():  # else an earlier writer completed it
            incomplete = path.with_suffix(".incomplete")
            write_letor(data, incomplete)
            incomplete.replace(path)
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
