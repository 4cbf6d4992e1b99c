"""The index resources of a pod, kept as a sync finds its documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from cloister.core.errors import AccessDenied, DataError, SettingsError, StoreError
from cloister.core.ids import MAX_ID_LENGTH, DocId
from cloister.index.analysis import TextAnalysis
from cloister.pods.datastore import Datastore, Resource
from cloister.pods.extraction.pool import extraction_pool
from cloister.pods.index_resource import (
    DocumentTerms,
    decode_terms,
    document_of,
    encode_terms,
    is_terms,
    terms_id,
)
from cloister.pods.solid_listing import N_THREADS, in_threads

__all__ = ["PodIndex", "remove_index_resources"]

MAX_STEP_BYTES: Final = 250  # of a file's name, with its list's ending: file systems allow 255


class PodIndex:
    """The index resources of one pod during one sync.

    Parameters
    ----------
    datastore
        The pod.
    analysis
        By which documents are counted.
    """

    def __init__(self, datastore: Datastore, analysis: TextAnalysis) -> None:
        self._datastore = datastore
        self._analysis = analysis
        self._there = {
            doc_id
            for data_id in datastore.data_ids()
            if (doc_id := document_of(data_id)) is not None
        }
        self.n_read = 0
        self.n_written = 0
        self.n_failed = 0

    def mend(self, listed: Mapping[DocId, Resource]) -> None:
        """Remove what no document has any more, and give the rest the rules of their documents.

        One that tells of an older state of its document is not given new rules, but removed: the
        new readers were never meant to read that state.
        """
        gone = sorted(self._there - listed.keys())
        kept = sorted(self._there & listed.keys())
        with ThreadPoolExecutor(N_THREADS) as pool:
            alike = list(in_threads(pool, self._is_alike, kept))
        for doc_id in gone:
            self._remove(doc_id)
        for doc_id, same in zip(kept, alike, strict=True):
            if same:
                continue
            if self._found(listed[doc_id]) is None:
                self._remove(doc_id)
            else:
                self._tried(partial(self._datastore.make_alike, terms_id(doc_id), doc_id))

    def read(self, resource: Resource) -> DocumentTerms | None:
        """Return a document's terms from its index resource; None where there is none to trust."""
        return self._found(resource) if resource.doc_id in self._there else None

    def keep(self, resource: Resource, text: str, known: DocumentTerms | None) -> DocumentTerms:
        """Return a document's terms: those known from its index resource, or else of its text.

        The latter are written.
        """
        if known is not None:
            self.n_read += 1
            return known
        found = DocumentTerms.of_text(text, self._analysis)
        self._write(resource, found)
        return found

    def fill(self, resources: Iterable[Resource]) -> None:
        """Make the index resources that are missing; stop where the pod refuses one."""
        for resource in resources:
            if resource.doc_id in self._there or not _has_place(resource):
                continue
            try:
                raw = self._datastore.content(resource.doc_id)
            except (AccessDenied, DataError):
                continue
            (found,) = extraction_pool().extract_all([raw], pod_id=self._datastore.pod_id)
            if found.failure or self._datastore.resource(resource.doc_id) != resource:
                continue  # the next sync looks at it again
            n_failed = self.n_failed
            self.keep(resource, found.text, None)
            if self.n_failed > n_failed:
                return

    def _write(self, resource: Resource, found: DocumentTerms) -> None:
        """Store what a document holds, with the document's rules."""
        doc_id, data_id = resource.doc_id, terms_id(resource.doc_id)
        if not _has_place(resource):
            return
        content = encode_terms(found, doc_id, resource.etag, self._analysis)
        if self._is_others(doc_id):
            self.n_failed += 1
        elif self._tried(lambda: self._datastore.write_data(data_id, content, like=doc_id)):
            self._there.add(doc_id)
            self.n_written += 1

    def _found(self, resource: Resource) -> DocumentTerms | None:
        doc_id = resource.doc_id
        try:
            content = self._datastore.data(terms_id(doc_id))
            if content is None:
                return None
            return decode_terms(content, doc_id, resource.etag, self._analysis)
        except (DataError, StoreError):  # also where it is too long to be fetched
            return None

    def _is_alike(self, doc_id: DocId) -> bool:
        try:
            return self._datastore.is_alike(terms_id(doc_id), doc_id)
        except AccessDenied:
            return False

    def _remove(self, doc_id: DocId) -> None:
        if not self._is_others(doc_id) and self._tried(
            lambda: self._datastore.delete_data(terms_id(doc_id))
        ):
            self._there.discard(doc_id)

    def _is_others(self, doc_id: DocId) -> bool:
        """Say whether somebody else's file has the name of an index resource: it is left alone."""
        if doc_id not in self._there:
            return False
        try:
            content = self._datastore.data(terms_id(doc_id))
        except StoreError:
            return True
        return content is not None and content != b"" and not is_terms(content)

    def _tried(self, change: Callable[[], None]) -> bool:
        try:
            change()
        except (AccessDenied, StoreError, SettingsError):
            self.n_failed += 1
            return False
        return True


def remove_index_resources(datastore: Datastore) -> int:
    """Remove all index resources of a pod; return how many there were."""
    n_removed = 0
    for data_id in list(datastore.data_ids()):
        if document_of(data_id) is None:
            continue
        content = datastore.data(data_id)
        if content is None or not content or is_terms(content):
            datastore.delete_data(data_id)
            n_removed += 1
    return n_removed


def _has_place(resource: Resource) -> bool:
    """Say whether a document can have an index resource: it has a tag, and its name is not long."""
    data_id = terms_id(resource.doc_id)
    last = data_id.rpartition("/")[2].encode()
    return bool(resource.etag) and len(data_id) <= MAX_ID_LENGTH and len(last) <= MAX_STEP_BYTES
