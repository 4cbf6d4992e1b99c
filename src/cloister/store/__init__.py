"""Tier 1: transactional state on SQLite or PostgreSQL, migrations, content-addressed files.

`Database` opens a file or a server and gives transactions; both databases run the same code, at
isolation level serializable. `Schema` and `Migration` describe how a component's tables came to be.
`KeyedState` keeps small JSON records with version numbers, inside a caller's transaction. `Files`
keeps bytes under their SHA-256 and checks it on every read.

Names are imported when they are first used, so that ``import cloister.store`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cloister.core.contention import Busy
    from cloister.store.database import Database
    from cloister.store.files import FileRef, Files, Inspection
    from cloister.store.keyed_state import Entry, KeyedState
    from cloister.store.migrations import Migration, Schema

__all__ = [
    "Busy",
    "Database",
    "Entry",
    "FileRef",
    "Files",
    "Inspection",
    "KeyedState",
    "Migration",
    "Schema",
]

_HOME: Final = {
    "Busy": "contention",
    "Database": "database",
    "Entry": "keyed_state",
    "FileRef": "files",
    "Files": "files",
    "Inspection": "files",
    "KeyedState": "keyed_state",
    "Migration": "migrations",
    "Schema": "migrations",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module, once."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
