"""The collections that ``cloister cloud`` trains on and builds from."""

from __future__ import annotations

from cloister.core.errors import SettingsError
from cloister.data.text_collection import TextCollection
from cloister.data.text_layout import open_text_collection
from cloister.data.worlds.address import is_world, open_world
from cloister.data.worlds.clinic import ClinicWorld
from cloister.data.worlds.clinic_collection import clinic_collection

__all__ = ["open_collection"]


def open_collection(address: str) -> TextCollection:
    """Open a folder of a known layout, an ``irds:`` name, or a clinic world by its address.

    Raises
    ------
    SettingsError
        If the world has no texts.
    """
    if not is_world(address):
        return open_text_collection(address)
    world = open_world(address)
    if not isinstance(world, ClinicWorld):
        raise SettingsError(
            "this world has no texts", where=address, remedy="name world:clinic?setting=value&..."
        )
    return clinic_collection(world, address)
