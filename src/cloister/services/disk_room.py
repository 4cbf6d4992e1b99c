"""Whether a service has room for its state: a full disk refuses every search and every round."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cloister.services.service_file import ServiceFile

__all__ = ["LEAST_FREE_BYTES", "has_room"]

LEAST_FREE_BYTES: Final = 1 << 20


def has_room(file: ServiceFile) -> bool:
    """Say whether the file systems of a service's files and database have a megabyte free.

    The room of a database on another machine is not known here.
    """
    places = [file.files]
    if "://" not in file.state:
        places.append(Path(file.state).resolve().parent)
    return all(_free_bytes(place) >= LEAST_FREE_BYTES for place in places)


def _free_bytes(place: Path) -> int:
    while not place.exists():  # it is made when something is kept there
        place = place.parent
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize
