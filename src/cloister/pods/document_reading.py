"""Reads one document of a pod for the index: its terms, with the rights that held for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from cloister.core.errors import AccessDenied, DataError
from cloister.core.ids import DocId
from cloister.core.rights import NOBODY, Rights
from cloister.index.analysis import TextAnalysis
from cloister.index.shard import IndexedDocument, Shard
from cloister.index.term_counts import TermCounts
from cloister.pods.datastore import Datastore, Resource, refused
from cloister.pods.index_resource import DocumentTerms, joined_counts
from cloister.pods.pod_index import PodIndex

__all__ = ["ReadDocument", "add_documents", "read_document", "rights_now", "update_document"]

N_TRIES: Final = 3  # to read a document that somebody is just changing


class DocumentTaker(Protocol):
    """What takes documents that were read; a `cloister.index.shard.Shard` does."""

    @property
    def analysis(self) -> TextAnalysis:
        """How texts are cut into terms."""

    def add(self, documents: Sequence[IndexedDocument], /) -> object:
        """Add documents, or change those that are there."""

    def add_counted(self, documents: Sequence[IndexedDocument], counts: TermCounts, /) -> object:
        """Add documents whose terms were counted already."""


class ReadDocument(NamedTuple):
    """A document that was read, and its terms where they were counted for an index resource."""

    document: IndexedDocument
    terms: DocumentTerms | None

    @property
    def n_chars(self) -> int:
        """How long it is, roughly."""
        terms = () if self.terms is None else self.terms.terms
        return len(self.document.text) + sum(map(len, terms))


def read_document(
    datastore: Datastore, resource: Resource, pod_index: PodIndex | None = None
) -> ReadDocument | None:
    """Read a document with the rights that held both before and after it was read.

    None where it is no text, or somebody keeps changing it.
    """
    for _ in range(N_TRIES):
        known = None if pod_index is None else pod_index.read(resource)
        text = ""
        if known is None:
            try:
                text = datastore.text(resource.doc_id)
            except (AccessDenied, DataError):
                return None
        now = datastore.resource(resource.doc_id)
        if now is None:
            return None
        if now == resource:
            terms = known if pod_index is None else pod_index.keep(now, text, known)
            document = IndexedDocument(
                doc_id=now.doc_id,
                pod_id=datastore.pod_id,
                text=text if terms is None else "",
                rights=now.rights,
                etag=now.etag,
            )
            return ReadDocument(document, terms)
        resource = now
    return None


def add_documents(index: DocumentTaker, batch: Sequence[ReadDocument]) -> None:
    """Give documents to an index, all of them with counted terms or none."""
    documents = [one.document for one in batch]
    counted = [one.terms for one in batch if one.terms is not None]
    if counted:
        index.add_counted(documents, joined_counts(counted))
    else:
        index.add(documents)


def rights_now(datastore: Datastore, doc_id: DocId, etag: str) -> Rights:
    """Return who may read what an index has of a document.

    Nobody where the document is another than the index has: its new readers were never meant to
    read the old text. Of a pod that gives no tags that cannot be told: the text must just have been
    read.
    """
    now = datastore.resource(doc_id)
    return now.rights if now is not None and now.etag == etag else NOBODY


def update_document(
    datastore: Datastore, shard: Shard, doc_id: DocId, *, index_in_pod: bool = False
) -> None:
    """Bring one document of an index up to date, before others get to read it.

    Raises
    ------
    AccessDenied
        It is gone, or no text any more.
    """
    resource = datastore.resource(doc_id)
    if resource is None:
        raise refused()
    if resource.etag and shard.etags(datastore.pod_id).get(doc_id) == resource.etag:
        return
    pod_index = PodIndex(datastore, shard.analysis) if index_in_pod else None
    read = read_document(datastore, resource, pod_index)
    if read is None:
        raise refused()
    add_documents(shard, [read])
    shard.commit()
