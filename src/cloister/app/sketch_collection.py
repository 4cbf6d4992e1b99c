"""The texts that ``cloister sketch`` counts: one field of a collection, or of JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from cloister.core.errors import DataError, SettingsError
from cloister.core.records import Document
from cloister.data.json_lines import read_json_lines
from cloister.data.text_layout import open_text_collection
from cloister.data.worlds.address import is_world, open_world
from cloister.data.worlds.clinic import ClinicWorld
from cloister.index.term_counts import TermCounts, count_terms

__all__ = ["Counted", "Field", "count_field", "iter_documents", "read_documents"]

Field = Literal["body", "title"]


class Counted(NamedTuple):
    """One field of some documents: their ids in order, and their terms."""

    doc_ids: tuple[str, ...]
    counts: TermCounts


def iter_documents(address: str) -> Iterator[Document]:
    """Yield the documents of a folder, an ``irds:`` name or a clinic world, in their order."""
    if not is_world(address):
        yield from open_text_collection(address).iter_documents()
        return
    world = open_world(address)
    if not isinstance(world, ClinicWorld):
        raise SettingsError(
            "this world has no texts", where=address, remedy="name world:clinic?setting=value&..."
        )
    yield from world.documents()


def count_field(documents: Iterable[Document], field: Field, where: str) -> Counted:
    """Count the terms of one field of documents.

    Raises
    ------
    DataError
        If there are no documents, or the field is empty in all of them.

    Examples
    --------
    >>> from cloister.core.ids import DocId
    >>> counted = count_field([Document(DocId("d1"), "Cough, cough.", "A visit")], "body", "tiny")
    >>> counted.doc_ids, counted.counts.lengths.tolist()
    (('d1',), [2.0])
    """
    doc_ids: list[str] = []

    def texts() -> Iterator[str]:
        for document in documents:
            doc_ids.append(str(document.doc_id))
            yield document.text if field == "body" else document.title

    counts = count_terms(texts())
    if not doc_ids:
        raise DataError("no documents", where=where, remedy="name a collection that has some")
    if not counts.n_terms:
        other = "body" if field == "title" else "title"
        raise DataError(
            f"no document has a word in its {field}",
            where=where,
            remedy=f"sketch the {other}: --field {other}",
        )
    return Counted(tuple(doc_ids), counts)


def read_documents(path: str | Path) -> list[Document]:
    """Read documents from a file of JSON lines with the fields of BEIR: _id, text, title.

    Raises
    ------
    DataError
        If a line cannot be read, an id occurs twice, or there is no line.
    """
    found: dict[str, Document] = {}
    for line in read_json_lines(path):
        doc_id = line.identifier("_id")
        if doc_id in found:
            raise line.error(f"document {doc_id!r} occurs twice")
        title = line.text("title", optional=True)
        found[doc_id] = Document(doc_id, line.text("text"), title)  # type: ignore[arg-type]
    if not found:
        raise DataError("no documents", where=str(path), remedy="name a file that has some")
    return list(found.values())
