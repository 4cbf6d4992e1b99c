"""Brings what changed in a pod into an index: documents, and who may read them.

A document's ETag does not change with its access control list, so both are looked at. Rights are
compared as values with those in the index: a revocation is found even where two changes share a
tag. What takes away is committed first, before any text is read, so that a slow pod or a crash
does not keep revoked rights alive. A revocation by another process during a sync is not undone by
it: the pod is asked again after rights were set.

Where the pod keeps index resources (`cloister.pods.index_resource`), a document is indexed from its
own without its text being fetched, if it is of this state and analysis. What is missing is written.

Between two syncs the index may be behind the pod. A text is shown only after
`Datastore.read` has asked the pod itself; scores and ids follow the index.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from cloister.core.errors import StoreError
from cloister.core.ids import DocId, PodId
from cloister.core.rights import NOBODY, Rights
from cloister.index.analysis import TextAnalysis, has_long_word
from cloister.index.shard import IndexedDocument
from cloister.index.term_counts import TermCounts
from cloister.pods.courtesy import considerate
from cloister.pods.datastore import Datastore, LeftOut, Resource
from cloister.pods.document_reading import (
    DocumentReader,
    ReadDocument,
    add_documents,
    keep_texts,
    rights_now,
)
from cloister.pods.pod_index import PodIndex
from cloister.pods.text_store import PodTexts

__all__ = ["CutSync", "SyncCounts", "SyncedIndex", "sync"]

BATCH_CHARS: Final = 32_000_000  # of text between two commits
BATCH_S: Final = 30.0  # between two commits, where texts come slowly


class SyncCounts(NamedTuple):
    """What one sync did.

    Parameters
    ----------
    added, changed, deleted
        Documents.
    rights_changed
        Documents that were there already and that others may read now.
    unchanged
        Documents of which neither text nor rights changed.
    left_out
        Files that are not in the index: no text of a kind that is read, too large, costly or
        deep, or changed while they were read. A document that failed is read again when it
        changes.
    from_pod_index
        Of those added or changed: indexed from their index resources, their texts not fetched.
    pod_index_written, pod_index_failed
        Index resources that were written, and changes to index resources that the pod refused.
    left_out_files
        The files of ``left_out``, each with the reason.
    long_words
        Documents that were read and have words too long for the index, which leaves these out.
    """

    added: int = 0
    changed: int = 0
    deleted: int = 0
    rights_changed: int = 0
    unchanged: int = 0
    left_out: int = 0
    from_pod_index: int = 0
    pod_index_written: int = 0
    pod_index_failed: int = 0
    left_out_files: tuple[LeftOut, ...] = ()
    long_words: tuple[DocId, ...] = ()


class CutSync(StoreError):
    """A sync that ended early: rights are up to date, and some documents were not read.

    Parameters
    ----------
    n_indexed
        Documents that were added or changed. They stay, and the next sync reads the others.
    """

    usual_remedy = "sync the pod again"

    def __init__(self, what: str, *, where: str = "", remedy: str = "", n_indexed: int = 0) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.n_indexed = n_indexed


class SyncedIndex(Protocol):
    """What a sync needs of an index; a `cloister.index.shard.Shard` has it."""

    @property
    def analysis(self) -> TextAnalysis:
        """How texts are cut into terms."""

    def add(self, documents: Sequence[IndexedDocument], /) -> object:
        """Add documents, or change those that are there."""

    def add_counted(self, documents: Sequence[IndexedDocument], counts: TermCounts, /) -> object:
        """Add documents whose terms were counted already."""

    def delete(self, doc_ids: Iterable[DocId], /) -> object:
        """Take documents out."""

    def set_rights(self, changes: Mapping[DocId, Rights], /) -> object:
        """Say who may read documents that are there; it holds at once."""

    def etags(self, pod_id: PodId, /) -> Mapping[DocId, str]:
        """Return the documents of a pod and their tags when they were added."""

    def rights(self, pod_id: PodId, /) -> Mapping[DocId, Rights]:
        """Return the documents of a pod and who may read them."""

    def commit(self) -> object:
        """Make what was added and deleted hold."""


def sync(
    datastore: Datastore,
    index: SyncedIndex,
    *,
    index_in_pod: bool = False,
    texts: PodTexts | None = None,
    most_bytes: float = math.inf,
) -> SyncCounts:
    """Make an index hold what a pod holds, with the rights that hold there.

    Parameters
    ----------
    datastore
        The pod.
    index
        With no changes that wait for a commit.
    index_in_pod
        Whether the pod keeps an index resource beside each document, from which this index and
        others can be made. They are written with the documents' rules. Without Write the client is
        refused, and told so in the counts.
    texts
        Where texts are kept, and failures remembered. What is kept of documents that are gone or
        changed is erased before any text is read.
    most_bytes
        Of documents that are fetched by this sync.

    Raises
    ------
    CutSync
        The pod stopped to answer while documents were read: what was read is in the index.
    StoreError
        The pod does not answer. What the index has of it stays as it was.
    """
    held = _held(index, datastore.pod_id)
    not_listed: list[LeftOut] = []
    listed = {resource.doc_id: resource for resource in datastore.resources(not_listed)}
    plan = _plan(held, listed)
    _take_away(index, plan.gone, plan.rights)
    if texts is not None:
        texts.retain({doc_id: resource.etag for doc_id, resource in listed.items()})
    tags = {doc_id: held[doc_id].etag for doc_id in plan.rights}
    _confirm_rights(datastore, index, {doc_id: tag for doc_id, tag in tags.items() if tag})
    pod_index = PodIndex(datastore, index.analysis) if index_in_pod else None
    reader = DocumentReader(datastore, pod_index, texts, most_bytes=most_bytes)
    n_indexed = 0
    long_words: list[DocId] = []

    def put(batch: Sequence[ReadDocument]) -> None:
        long_words.extend(one.document.doc_id for one in batch if has_long_word(one.text or ""))
        keep_texts(texts, batch)
        add_documents(index, batch)
        index.commit()

    try:
        if pod_index is not None:
            pod_index.mend(listed)
        for batch in _batches(reader.read(plan.to_read)):
            considerate(put)(batch)
            n_indexed += len(batch)
            tags = {one.document.doc_id: one.document.etag for one in batch}
            _confirm_changed(datastore, index, {name: tags[name] for name in tags if name in held})
        left_out = frozenset(DocId(one.name) for one in reader.left_out)
        _take_away(index, [doc_id for doc_id in left_out if doc_id in held], {})
        if texts is not None:
            missing = DocumentReader(datastore, None, texts, most_bytes=reader.bytes_left)
            _keep_missing(missing, texts, listed, left_out)
        if pod_index is not None:
            done = {resource.doc_id for resource in plan.to_read}
            pod_index.fill(one for doc_id, one in listed.items() if doc_id not in done)
    except StoreError as error:
        what = (
            f"{error.what}; {n_indexed} of {len(plan.to_read)} new or changed documents are "
            "indexed, and the next sync reads the rest"
        )
        raise CutSync(what, where=error.where, remedy=error.remedy, n_indexed=n_indexed) from error
    counts = _counts(held, listed, plan, left_out)._replace(
        left_out=len(not_listed) + len(reader.left_out),
        left_out_files=(*not_listed, *reader.left_out),
        long_words=tuple(long_words),
    )
    if pod_index is None:
        return counts
    return counts._replace(
        from_pod_index=pod_index.n_read,
        pod_index_written=pod_index.n_written,
        pod_index_failed=pod_index.n_failed,
    )


class _Held(NamedTuple):
    """What the index has of a document."""

    etag: str
    rights: Rights


class _Plan(NamedTuple):
    """What is to be done."""

    gone: list[DocId]
    rights: dict[DocId, Rights]  # to be set before any text is read
    to_read: list[Resource]


def _plan(held: Mapping[DocId, _Held], listed: Mapping[DocId, Resource]) -> _Plan:
    rights = {}
    to_read = []
    for doc_id, resource in listed.items():
        before = held.get(doc_id)
        changed = before is None or not resource.etag or before.etag != resource.etag
        if changed:
            to_read.append(resource)
        if before is not None and before.rights != resource.rights:
            # The old text was never meant for the new readers: nobody has it meanwhile.
            rights[doc_id] = NOBODY if changed else resource.rights
    to_read.sort(key=lambda one: one.doc_id in held)  # a sync that is cut reads new ones first
    return _Plan([doc_id for doc_id in held if doc_id not in listed], rights, to_read)


def _take_away(index: SyncedIndex, gone: Sequence[DocId], rights: Mapping[DocId, Rights]) -> None:
    if rights:
        index.set_rights(rights)
    if gone:
        index.delete(gone)
        index.commit()


def _confirm_rights(datastore: Datastore, index: SyncedIndex, etags: Mapping[DocId, str]) -> None:
    """Ask the pod again, once rights are set: somebody may have revoked since they were read.

    A revocation changes the pod, then the index. One that came before ours in the index is found
    here; one that comes after it stays. Documents that are new to the index need no second look:
    nobody could change their rights there.

    Parameters
    ----------
    etags
        What the index has of these documents.
    """
    held = index.rights(datastore.pod_id)
    now = {name: rights_now(datastore, name, etag) for name, etag in etags.items()}
    changed = {name: rights for name, rights in now.items() if held.get(name) != rights}
    if changed:
        index.set_rights(changed)


def _confirm_changed(datastore: Datastore, index: SyncedIndex, etags: Mapping[DocId, str]) -> None:
    """Confirm the rights of documents that were read anew; where the pod is silent, nobody's."""
    try:
        _confirm_rights(datastore, index, etags)
    except StoreError:
        if etags:
            index.set_rights(dict.fromkeys(etags, NOBODY))  # until the next sync asks again
        raise


def _batches(documents: Iterable[ReadDocument]) -> Iterator[list[ReadDocument]]:
    """Read texts before the index is changed: nobody has to wait for a slow pod.

    Where the pod stops to answer, what was read comes before the error.
    """
    batch: list[ReadDocument] = []
    n_chars, until = 0, time.monotonic() + BATCH_S
    try:
        for document in documents:
            batch.append(document)
            n_chars += document.n_chars
            if n_chars >= BATCH_CHARS or time.monotonic() >= until:
                yield batch
                batch, n_chars, until = [], 0, time.monotonic() + BATCH_S
    except StoreError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _keep_missing(
    reader: DocumentReader,
    texts: PodTexts,
    listed: Mapping[DocId, Resource],
    left_out: frozenset[DocId],
) -> None:
    """Keep texts of documents that are indexed already: after a restore, or an update."""
    etags = {name: one.etag for name, one in listed.items() if name not in left_out}
    missing = texts.missing(etags)
    found = reader.read(one for name, one in listed.items() if name in missing)
    for batch in _batches(found):
        considerate(partial(keep_texts, texts))(batch)


def _held(index: SyncedIndex, pod_id: PodId) -> dict[DocId, _Held]:
    etags, rights = index.etags(pod_id), index.rights(pod_id)
    return {doc_id: _Held(etag, rights[doc_id]) for doc_id, etag in etags.items()}


def _counts(
    held: Mapping[DocId, _Held],
    listed: Mapping[DocId, Resource],
    plan: _Plan,
    left_out: frozenset[DocId],
) -> SyncCounts:
    read = {resource.doc_id for resource in plan.to_read}
    touched = read | plan.rights.keys()
    return SyncCounts(
        added=len(read - held.keys() - left_out),
        changed=len(read & held.keys() - left_out),
        deleted=len(plan.gone),
        rights_changed=len(plan.rights),
        unchanged=len(listed.keys() - touched),
    )
