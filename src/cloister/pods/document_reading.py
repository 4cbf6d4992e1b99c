"""Reads documents of a pod for the index: their terms, with the rights that held for them."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, Protocol, TypeVar

from cloister.core.deadline import time_left
from cloister.core.errors import AccessDenied, DataError, StoreError
from cloister.core.ids import DocId
from cloister.core.rights import NOBODY, Rights
from cloister.index.analysis import TextAnalysis
from cloister.index.shard import IndexedDocument, Shard
from cloister.index.term_counts import TermCounts
from cloister.pods.courtesy import considerate
from cloister.pods.datastore import Datastore, LeftOut, Resource, refused
from cloister.pods.extraction.pool import (
    GROUP_BYTES,
    GROUP_DOCUMENTS,
    Extracted,
    RawDocument,
    extraction_pool,
)
from cloister.pods.http_transport import TooLong
from cloister.pods.index_resource import DocumentTerms, joined_counts
from cloister.pods.pod_gate import PodAway
from cloister.pods.pod_index import PodIndex
from cloister.pods.solid_listing import in_threads
from cloister.pods.text_store import KnownText, PodTexts

__all__ = [
    "DocumentReader",
    "ReadDocument",
    "add_documents",
    "keep_texts",
    "rights_now",
    "update_document",
]

T = TypeVar("T")
R = TypeVar("R")
N_TRIES: Final = 3  # to read a document that somebody is just changing
MOST_AWAY: Final = 3  # documents that the pod's server does not give, before no more are asked for
GROUP_S: Final = 10.0  # for which documents are fetched before they are read: a cut loses no more
MAX_COSTLY: Final = 8  # documents of a pod that may end a child process in one sync
TOO_COSTLY: Final = (
    f"not read by this sync: {MAX_COSTLY} documents of this pod exceeded their limits"
)


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
    """A document that was read, and its terms where they were counted for an index resource.

    ``text`` is None where the terms were there already.
    """

    document: IndexedDocument
    terms: DocumentTerms | None
    text: str | None

    @property
    def n_chars(self) -> int:
        """How long it is, roughly."""
        return len(self.text or "") + (0 if self.terms is None else self.terms.n_bytes)


class DocumentReader:
    """Reads documents of one pod, each with the rights that held before and after it was read.

    Their words are taken from them by child processes (`cloister.pods.extraction`), many documents
    at a time. A document that is known to fail is not tried again until it changes.

    Parameters
    ----------
    pod_index
        Index resources from which terms are taken, and into which they are written.
    texts
        Where failures are remembered.
    most_bytes
        Of documents that are fetched. A server could say that all of them changed, each time.
    """

    def __init__(
        self,
        datastore: Datastore,
        pod_index: PodIndex | None = None,
        texts: PodTexts | None = None,
        *,
        most_bytes: float = math.inf,
    ) -> None:
        self.left_out: list[LeftOut] = []
        self._datastore = datastore
        self._pod_index = pod_index
        self._texts = texts
        self._n_costly = 0
        self._most_bytes, self._n_bytes = most_bytes, 0.0
        self._n_at_once = getattr(datastore, "n_readers", 1) if pod_index is None else 1

    @property
    def bytes_left(self) -> float:
        """How many bytes of documents may still be fetched."""
        return max(0.0, self._most_bytes - self._n_bytes)

    def read(self, resources: Iterable[Resource]) -> Iterator[ReadDocument]:
        """Give documents as they are read; `left_out` names those that cannot be.

        Raises
        ------
        PodAway
            The pod's server did not answer for some documents. Those that it gave come first.
        """
        waiting = deque((resource, N_TRIES) for resource in resources)
        away: list[PodAway] = []
        while waiting:
            group: list[_Fetched] = []
            n_bytes, until = 0, time.monotonic() + GROUP_S
            while waiting and len(group) < GROUP_DOCUMENTS and n_bytes < GROUP_BYTES:
                some = [waiting.popleft() for _ in range(min(self._n_at_once, len(waiting)))]
                for fetched in self._at_once(lambda one: self._fetch(*one), some):
                    if isinstance(fetched, LeftOut):
                        self.left_out.append(fetched)
                    elif isinstance(fetched, PodAway):
                        away.append(fetched)
                    else:
                        group.append(fetched)
                        n_bytes += fetched.n_bytes
                if len(away) >= MOST_AWAY:
                    waiting.clear()
                if time.monotonic() >= until:
                    break
            outcomes = self._extracted(group)
            names = [one.resource.doc_id for one in group]
            states = self._at_once(self._datastore.resource, names)
            for fetched, outcome, now in zip(group, outcomes, states, strict=True):
                found = self._checked(fetched, outcome, now)
                if isinstance(found, ReadDocument):
                    yield found
                elif isinstance(found, LeftOut):
                    self.left_out.append(found)
                else:
                    waiting.append((found, fetched.n_tries - 1))
        if away:
            raise away[0]

    def _fetch(self, resource: Resource, n_tries: int) -> _Fetched | LeftOut | PodAway:
        try:
            if not time_left():
                raise PodAway("the pod's sync takes too long", where=self._datastore.pod_id)
            return self._fetch_now(resource, n_tries)
        except PodAway as error:
            return error

    def _fetch_now(self, resource: Resource, n_tries: int) -> _Fetched | LeftOut:
        if not n_tries:
            return LeftOut(resource.doc_id, "changed while it was read")
        if self._n_costly >= MAX_COSTLY:
            return LeftOut(resource.doc_id, TOO_COSTLY)
        known = None if self._pod_index is None else self._pod_index.read(resource)
        if known is not None:
            return _Fetched(resource, n_tries, known, None)
        failure = None if self._texts is None else self._texts.failure(resource)
        if failure is not None:
            return LeftOut(resource.doc_id, failure)
        if self._n_bytes >= self._most_bytes:
            what = f"more than {self._most_bytes // 1_000_000:,.0f} MB of its documents changed"
            raise PodAway(what, where=self._datastore.pod_id)
        try:
            raw = self._datastore.content(resource.doc_id)
            self._n_bytes += len(raw.content)
            return _Fetched(resource, n_tries, None, raw)
        except PodAway:
            raise
        except (AccessDenied, DataError, StoreError) as error:
            if isinstance(error, TooLong):
                self._n_bytes += error.n_bytes
            return LeftOut(resource.doc_id, error.what)

    def _extracted(self, group: Sequence[_Fetched]) -> list[Extracted]:
        raw = [one.raw for one in group if one.raw is not None]
        pool = extraction_pool()
        found = iter(pool.extract_all(raw, pod_id=self._datastore.pod_id) if raw else ())
        return [Extracted() if one.raw is None else next(found) for one in group]

    def _at_once(self, work: Callable[[T], R], given: Sequence[T]) -> list[R]:
        """Ask the pod for several things, as many at a time as it is fit for."""
        if self._n_at_once == 1 or len(given) < 2:
            return list(map(considerate(work), given))
        with ThreadPoolExecutor(self._n_at_once, thread_name_prefix="pod-reading") as pool:
            return list(in_threads(pool, work, given))

    def _checked(
        self, fetched: _Fetched, found: Extracted, now: Resource | None
    ) -> ReadDocument | LeftOut | Resource:
        """Return a document if it is still as it was; else as it is now, to be read again."""
        resource = fetched.resource
        self._n_costly += found.is_costly
        if now is None:
            return LeftOut(resource.doc_id, "gone while it was read")
        if now != resource:
            return now
        if found.failure:
            if found.is_lasting and self._texts is not None:
                self._texts.keep([KnownText(now.doc_id, now.etag, failure=found.failure)])
            return LeftOut(now.doc_id, found.failure)
        terms = fetched.terms
        if self._pod_index is not None:
            terms = self._pod_index.keep(now, found.text, fetched.terms)
        document = IndexedDocument(
            doc_id=now.doc_id,
            pod_id=self._datastore.pod_id,
            text=found.text if terms is None else "",
            rights=now.rights,
            etag=now.etag,
        )
        return ReadDocument(document, terms, None if fetched.raw is None else found.text)


class _Fetched(NamedTuple):
    """A document that is to be read; its terms where an index resource has them."""

    resource: Resource
    n_tries: int
    terms: DocumentTerms | None
    raw: RawDocument | None

    @property
    def n_bytes(self) -> int:
        """How much memory it takes, roughly."""
        terms_bytes = 0 if self.terms is None else self.terms.n_bytes
        return terms_bytes + (0 if self.raw is None else len(self.raw.content))


def add_documents(index: DocumentTaker, batch: Sequence[ReadDocument]) -> None:
    """Give documents to an index, all of them with counted terms or none."""
    documents = [one.document for one in batch]
    counted = [one.terms for one in batch if one.terms is not None]
    if counted:
        index.add_counted(documents, joined_counts(counted))
    else:
        index.add(documents)


def keep_texts(texts: PodTexts | None, documents: Iterable[ReadDocument]) -> None:
    """Keep the texts of documents that were read, where texts are kept."""
    if texts is not None:
        texts.keep(
            KnownText(one.document.doc_id, one.document.etag, one.text)
            for one in documents
            if one.text is not None
        )


def rights_now(datastore: Datastore, doc_id: DocId, etag: str) -> Rights:
    """Return who may read what an index has of a document.

    Nobody where the document is another than the index has: its new readers were never meant to
    read the old text. Of a pod that gives no tags that cannot be told: the text must just have been
    read.
    """
    now = datastore.resource(doc_id)
    return now.rights if now is not None and now.etag == etag else NOBODY


def update_document(
    datastore: Datastore,
    shard: Shard,
    doc_id: DocId,
    *,
    index_in_pod: bool = False,
    texts: PodTexts | None = None,
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
    found = list(DocumentReader(datastore, pod_index, texts).read([resource]))
    if not found:
        raise refused()
    keep_texts(texts, found)
    add_documents(shard, found)
    shard.commit()
