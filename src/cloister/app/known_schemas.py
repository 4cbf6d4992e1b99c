"""All components that keep tables: what a backup may hold, and this program can restore."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cloister.store.migrations import Schema

__all__ = ["known_schemas"]

# Module, and the name of the schema in it; a test compares the list with the sources.
SCHEMAS: Final = (
    ("cloister.store.keyed_state", "KeyedState.schema"),
    ("cloister.privacy.ledger.tables", "LEDGER_SCHEMA"),
    ("cloister.privacy.sealed.replay", "SeenNumbers.schema"),
    ("cloister.federate.database_update_store", "DatabaseUpdateStore.schema"),
    ("cloister.federate.online.page_table", "PAGE_SCHEMA"),
    ("cloister.federate.engines.round_log", "RoundLog.schema"),
    ("cloister.federate.engines.site_memory", "SiteMemory.schema"),
)


def known_schemas() -> tuple[Schema, ...]:
    """Return the histories of all components' tables.

    Examples
    --------
    >>> "ledger" in {schema.component for schema in known_schemas()}
    True
    """
    return tuple(_found(module, name) for module, name in SCHEMAS)


def _found(module: str, name: str) -> Schema:
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value]
