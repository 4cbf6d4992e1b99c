"""What a stored federation is about: the settings of its training, and what is kept of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import Conflict, Damaged, NotFound, SettingsError
from cloister.federate.database_update_store import DatabaseUpdateStore
from cloister.federate.update_store import Keep
from cloister.lab.forgetting.state import STATE, read_state
from cloister.lab.simulation.settings import SimulationSettings

__all__ = ["About", "begin_training", "no_federation", "read_about"]

FORMAT: Final = 1  # change it when the layout of the records changes


class About(NamedTuple):
    """The settings of a training; of which rounds something is kept, and what."""

    settings: SimulationSettings
    keep_every: int
    keep: Keep


def read_about(connection: sa.Connection, folder: Path) -> About:
    """Return what a federation is about, inside a caller's transaction."""
    try:
        found = STATE.get(connection, "about")
        if found is None or found.value["format"] != FORMAT:
            raise no_federation(folder)
        settings = SimulationSettings(**found.value["settings"])
        return About(settings, int(found.value["keep_every"]), found.value["keep"])
    except (KeyError, TypeError, ValueError, SettingsError) as error:
        raise Damaged(
            f"what the federation is about cannot be read ({type(error).__name__})",
            where=str(folder),
        ) from None


def begin_training(
    connection: sa.Connection,
    folder: Path,
    settings: SimulationSettings,
    store: DatabaseUpdateStore,
) -> None:
    """Write what the federation is about; clear what a killed training has left."""
    if read_state(connection) is not None:
        raise Conflict(
            "a trained federation is stored here",
            where=str(folder),
            remedy="name another folder, or remove this one",
        )
    about: dict[str, Any] = {
        "format": FORMAT,
        "settings": settings.model_dump(mode="json"),
        "keep_every": store.keep_every,
        "keep": store.keep,
    }
    STATE.put(connection, "about", about)
    store.replace_in(connection, ())


def no_federation(folder: Path) -> NotFound:
    """Return the error of a folder that holds no federation."""
    return NotFound(
        "no federation is stored here",
        where=str(folder),
        remedy="run `cloister simulate ... --keep-updates FOLDER` first",
    )
