"""A clinic world as a judged collection of texts."""

from __future__ import annotations

from collections.abc import Iterator

from cloister.core.records import Query
from cloister.data.text_collection import TextCollection, TextRecord
from cloister.data.worlds.clinic import ClinicWorld

__all__ = ["clinic_collection"]


def clinic_collection(
    world: ClinicWorld, name: str, n_documents: int | None = None
) -> TextCollection:
    """Return a clinic world, or its first documents, as a judged collection."""

    def records() -> Iterator[TextRecord]:
        return (TextRecord(document, {}) for document in world.documents(0, n_documents))

    queries = tuple(Query(query.query_id, query.text) for query in world.queries)
    judgements = tuple(world.judgements(stop=n_documents)) if queries else ()
    return TextCollection("clinic", name, records, queries, {"all": judgements})
