"""Worlds by address: ``world:features?queries=1000&documents=125&features=136``."""

from __future__ import annotations

from typing import Final

from cloister.core.errors import SettingsError
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.data.worlds.features import FeaturesSettings, FeaturesWorld
from cloister.data.worlds.intents import IntentsSettings, IntentsWorld

__all__ = ["WORLD_PREFIX", "World", "is_world", "open_world"]

World = FeaturesWorld | IntentsWorld | ClinicWorld

WORLD_PREFIX: Final = "world:"


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
