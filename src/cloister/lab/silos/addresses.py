"""Collections by address: a name, a folder in the BEIR layout, or a clinic world."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from cloister.core.errors import NotFound, SettingsError
from cloister.data.worlds.address import WORLD_PREFIX, is_world
from cloister.data.worlds.clinic import ClinicSettings
from cloister.lab.reproduce.collection import data_folder
from cloister.lab.silos.settings import CollectionName
from cloister.lab.silos.texts import FOLDERS, MEDQUAD_GROUPS

__all__ = ["collection_fields"]

CLINIC: Final = "clinic"
USUAL_PARTIES: Final = 4  # as in CS-F-LTR


def collection_fields(address: str, n_parties: int | None = None) -> Mapping[str, Any]:
    """Return the fields of `CollectionSettings` that an address stands for.

    Parameters
    ----------
    address
        ``medquad``, ``nfcorpus`` or ``msmarco-5k``, looked for where collections lie; a folder in
        the BEIR layout; ``clinic`` or ``world:clinic?...``.
    n_parties
        How many parties; what the collection has, or else four, where None.

    Raises
    ------
    NotFound
        There is no such collection.
    SettingsError
        It cannot be shared out to so many parties, or the world is none of a clinic.

    Examples
    --------
    >>> collection_fields("clinic", 3)
    {'collection': 'clinic', 'data': 'world:clinic', 'n_parties': 3}
    >>> collection_fields("world:clinic?organisations=2&servers=2")["n_parties"]
    2
    """
    if is_world(address) or address == CLINIC:
        return _clinic(address, n_parties)
    name = _kind(address)
    fixed = len(MEDQUAD_GROUPS) if name == "medquad" else None
    if fixed is not None and n_parties not in (None, fixed):
        raise SettingsError(
            f"MedQuAD's sources are put into {fixed} groups, not {n_parties}",
            where="parties",
            remedy=f"take {fixed}",
        )
    return {
        "collection": name,
        "data": str(_folder(address)),
        "n_parties": n_parties or fixed or USUAL_PARTIES,
    }


def _clinic(address: str, n_parties: int | None) -> dict[str, Any]:
    world, _, fields = address.removeprefix(WORLD_PREFIX).partition("?")
    if world != CLINIC:
        raise SettingsError(
            "only clinic worlds have documents", where=address, remedy="take world:clinic"
        )
    if not fields:
        chosen = n_parties or USUAL_PARTIES
        return {"collection": CLINIC, "data": f"{WORLD_PREFIX}{CLINIC}", "n_parties": chosen}
    has = ClinicSettings.from_text(fields).organisations
    if n_parties not in (None, has):
        raise SettingsError(
            f"the world has {has} organisations, and each is a party; not {n_parties}",
            where="parties",
            remedy=f"write organisations={n_parties} in its address (servers and staff at least "
            "as many)",
        )
    return {"collection": CLINIC, "data": address, "n_parties": has}


def _kind(address: str) -> CollectionName:
    """Return which collection a name or a folder's name stands for."""
    kinds = {Path(folder).name: name for name, folder in FOLDERS.items()}
    kinds |= {name: name for name in FOLDERS}
    return cast("CollectionName", kinds.get(Path(address).name, "beir"))


def _folder(address: str) -> Path:
    """Return where a collection lies: a folder of that name here goes before a known name."""
    if (folder := Path(address)).is_dir():
        return folder
    if address not in FOLDERS:
        raise NotFound(
            "neither a collection nor a folder",
            where=address,
            remedy=f"take one of {', '.join(FOLDERS)}, a folder in the BEIR layout, or "
            "world:clinic",
        )
    folder = data_folder() / FOLDERS[address]
    if not folder.is_dir():
        raise NotFound(
            f"{address} is not here",
            where=str(folder),
            remedy="set CLOISTER_DATA to where collections lie, name a folder, or take "
            "world:clinic, which is always there",
        )
    return folder
