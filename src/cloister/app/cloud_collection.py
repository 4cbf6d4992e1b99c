"""The collections that ``cloister cloud`` trains on and builds from."""

from __future__ import annotations

from collections.abc import Iterator

from cloister.core.errors import SettingsError
from cloister.core.records import Query
from cloister.data.text_collection import TextCollection, TextRecord
from cloister.data.text_layout import open_text_collection
from cloister.data.worlds.address import is_world, open_world
from cloister.data.worlds.clinic import ClinicWorld

__all__ = ["clinic_collection", "open_collection"]


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


def clinic_collection(
    world: ClinicWorld, name: str, n_documents: int | None = None
) -> TextCollection:
    """Return a clinic world, or its first documents, as a judged collection."""

    def records() -> Iterator[TextRecord]:
        return (TextRecord(document, {}) for document in world.documents(0, n_documents))

    queries = tuple(Query(query.query_id, query.text) for query in world.queries)
    judgements = tuple(world.judgements(stop=n_documents)) if queries else ()
    return TextCollection("clinic", name, records, queries, {"all": judgements})
