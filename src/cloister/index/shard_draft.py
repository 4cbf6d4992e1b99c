"""Changes to a shard that are not committed yet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.ids import DocId, PodId, checked_id
from cloister.core.rights import Rights
from cloister.index.merge_policy import MergePolicy, SegmentSize
from cloister.index.postings import Postings
from cloister.index.shard_commit import ShardCommit, StoredSegment, merged_segment
from cloister.index.shard_files import ShardFiles
from cloister.index.string_table import StringTable
from cloister.index.term_counts import TermCounts, count_terms

__all__ = ["IndexedDocument", "ShardDraft"]


class IndexedDocument(NamedTuple):
    """A document as it goes into an index.

    Parameters
    ----------
    doc_id
        Its name, which no other document on this server has.
    pod_id
        The pod in which it lies.
    text
        What can be found; it is not stored.
    rights
        Who may read it.
    etag
        Which state of the document this is, as its pod says; for the next comparison.
    """

    doc_id: DocId
    pod_id: PodId
    text: str
    rights: Rights
    etag: str = ""


class ShardDraft:
    """The next commit in the making. New segments are on the disk, but no commit names them.

    Parameters
    ----------
    files
        Where segments are written.
    base
        The last commit.
    buffer_chars
        So many characters of text are kept in memory before they become a segment.
    """

    def __init__(self, files: ShardFiles, base: ShardCommit, *, buffer_chars: int) -> None:
        self._files = files
        self._commit = base
        self._buffer_chars = buffer_chars
        self._buffer: dict[DocId, IndexedDocument] = {}
        self._n_chars = 0
        self._gone: set[DocId] = set()
        self.touched = False  # whether the commit will say anything new

    def add(self, document: IndexedDocument) -> None:
        """Add a document, or put it in the place of the one that has its id."""
        _check(document)
        self.touched = True
        if (old := self._buffer.pop(document.doc_id, None)) is not None:
            self._n_chars -= len(old.text)
        self._buffer[document.doc_id] = document
        self._n_chars += len(document.text)
        if self._n_chars >= self._buffer_chars:
            self._flush()

    def add_counted(self, documents: Sequence[IndexedDocument], counts: TermCounts) -> None:
        """Add documents whose terms were counted already; their texts are not looked at."""
        if len({document.doc_id for document in documents}) != counts.n_documents:
            raise DataError("as many different ids are needed as documents were counted")
        for document in documents:
            _check(document)
        self.touched = True
        self._flush()
        self._append(documents, counts, _counted_stamps(documents, counts))

    def delete(self, doc_ids: Iterable[DocId]) -> int:
        """Take documents out; return how many were there."""
        n = 0
        for doc_id in doc_ids:
            old = self._buffer.pop(doc_id, None)
            self._n_chars -= len(old.text) if old is not None else 0
            there = doc_id not in self._gone and self._commit.find(doc_id) is not None
            n += there or old is not None
            if there:
                self._gone.add(doc_id)
        self.touched |= n > 0
        return n

    def has(self, doc_id: DocId) -> bool:
        """Say whether a document will be there after the commit."""
        return doc_id in self._buffer or (
            doc_id not in self._gone and self._commit.find(doc_id) is not None
        )

    def set_rights(self, changes: Mapping[DocId, Rights]) -> None:
        """Change who may read documents."""
        for doc_id in changes.keys() & self._buffer.keys():
            self._buffer[doc_id] = self._buffer[doc_id]._replace(rights=changes[doc_id])
        self._commit = self._commit.with_rights(changes)

    def set_etags(self, changes: Mapping[DocId, str]) -> None:
        """Change what documents are compared by."""
        for doc_id in changes.keys() & self._buffer.keys():
            self._buffer[doc_id] = self._buffer[doc_id]._replace(etag=changes[doc_id])
        self.touched |= bool(changes)
        self._commit = self._commit.with_etags(changes)

    def in_pod(self, pod_id: PodId) -> dict[DocId, tuple[str, Rights]]:
        """Return ETag and rights of each document of a pod, as the commit will have them."""
        found = {}
        for state, number in self._commit.in_pod(pod_id):
            doc_id = DocId(state.stored.doc_ids[number])
            if doc_id not in self._gone and doc_id not in self._buffer:
                rights = self._commit.rights[int(state.rights[number])]
                found[doc_id] = state.etags[number], rights
        for document in self._buffer.values():
            if document.pod_id == pod_id:
                found[document.doc_id] = document.etag, document.rights
        return found

    def merge(self, places: Sequence[int]) -> None:
        """Merge some segments, or write one anew without what is dead."""
        states = [self._commit.segments[place] for place in places]
        self.touched |= bool(states)
        if any(state.live.any() for state in states):
            stored = self._files.write_segment(merged_segment(states))
            self._commit = self._commit.replacing(places, stored)

    def finished(self, policy: MergePolicy) -> ShardCommit:
        """Return what to commit, merged as the policy says."""
        self._flush()
        while places := policy.due(self._sizes()):
            self.merge(places)
        return self._commit.tidied()

    def merged(self) -> ShardCommit:
        """Return what to commit, as one segment."""
        self._flush()
        segments = self._commit.segments
        if len(segments) > 1 or any(state.dead_share for state in segments):
            self.merge(range(len(segments)))
        return self._commit.tidied()

    def purged(self) -> ShardCommit:
        """Return what to commit, with no segment that holds anything dead."""
        self._flush()
        dead = [n for n, state in enumerate(self._commit.segments) if state.dead_share]
        if dead:
            self.merge(dead)
        return self._commit.tidied()

    def _sizes(self) -> list[SegmentSize]:
        self._commit = self._commit.tidied()
        return [
            SegmentSize(state.stored.postings.size_bytes, state.dead_share)
            for state in self._commit.segments
        ]

    def _flush(self) -> None:
        """Turn texts in memory into a segment."""
        self._commit = self._commit.without(self._gone)
        self._gone = set()
        if self._buffer:
            documents = list(self._buffer.values())
            counts = count_terms((one.text for one in documents), self._commit.analysis)
            stamps = [_stamp(one, _text_bytes(one.text)) for one in documents]
            self._append(documents, counts, stamps)
            self._buffer, self._n_chars = {}, 0

    def _append(
        self, documents: Sequence[IndexedDocument], counts: TermCounts, stamps: Sequence[int]
    ) -> None:
        pods: dict[str, int] = {}
        numbers = [pods.setdefault(one.pod_id, len(pods)) for one in documents]
        segment = StoredSegment(
            "",
            Postings.build(counts),
            StringTable.of(one.doc_id for one in documents),
            StringTable.of(pods),
            np.array(numbers, np.int32),
            np.array(stamps, np.uint64),
        )
        stored = self._files.write_segment(segment)
        kept = self._commit.without(one.doc_id for one in documents)
        self._commit = kept.with_segment(
            stored,
            [one.rights for one in documents],
            StringTable.of(one.etag for one in documents),
        )


def _check(document: IndexedDocument) -> None:
    for name in (checked_id(document.doc_id), checked_id(document.pod_id), document.etag):
        if not name.isascii():
            StringTable.of([name])


def _stamp(document: IndexedDocument, content: bytes) -> int:
    """Return 64 bits that stand for a document's id, pod and content."""
    hashed = hashlib.blake2b(digest_size=8)
    for part in (_text_bytes(document.doc_id), _text_bytes(document.pod_id), content):
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return int.from_bytes(hashed.digest(), "little")


def _text_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _counted_stamps(documents: Sequence[IndexedDocument], counts: TermCounts) -> list[int]:
    """Return stamps in which a hash of each term and its count stand for the text."""
    hashes = [_hash_bytes(term) for term in counts.vocabulary]
    terms = np.frombuffer(b"".join(hashes), np.uint64)
    entries = _mixed(terms[counts.terms] + counts.counts.astype(np.uint64))
    ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)])
    sums = ends[counts.starts[1:]] - ends[counts.starts[:-1]]  # both wrap around alike
    return [
        _stamp(document, total.to_bytes(8, "little"))
        for document, total in zip(documents, sums.tolist(), strict=True)
    ]


def _hash_bytes(text: str) -> bytes:
    return hashlib.blake2b(_text_bytes(text), digest_size=8).digest()


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread each bit over all others (the last steps of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
