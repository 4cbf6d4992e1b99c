"""What one reader may read of an index, and exact statistics over just that.

A view answers as an index would that holds the readable documents and nothing else: no count,
length, frequency or score depends on any other document. What is looked up is kept for the next
query, as long as the index does not change; of a changed index one makes a new view.

What it does not hide is time: a term that many unreadable documents hold takes longer the first
time it is asked for than one that nobody uses.

Threads may share a view. Looking up and scoring take turns by a lock for each view, which is held
for the work of one call and never while the statistics of another view are asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import AccessDenied
from cloister.core.ids import DocId, PodId
from cloister.core.rights import Reader
from cloister.index.entity_view import EntityView, Level
from cloister.index.postings import TermMajor, TermPostings
from cloister.index.segment_merging import LivePostings, live_term_major
from cloister.index.snapshot import Snapshot
from cloister.index.string_table import StringTable

__all__ = ["ReaderView"]

Floats = NDArray[np.float64]
CACHE_BYTES: Final = 64_000_000  # of lists that a view keeps
_VERSION_BITS: Final = 63  # so that a version fits into a signed number


class ReaderView:
    """A snapshot as one reader sees it. Threads may share it.

    Parameters
    ----------
    snapshot
        The index.
    reader
        Who reads, verified.
    cache_bytes
        How much memory lists may take that are kept for later queries.
    hidden
        Pods that nobody may read at the moment.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        reader: Reader,
        *,
        cache_bytes: int = CACHE_BYTES,
        hidden: frozenset[PodId] = frozenset(),
    ) -> None:
        self.snapshot = snapshot
        self.reader = reader
        self.lock = threading.RLock()
        self._masks = snapshot.masks(reader, hidden)
        self._kept: OrderedDict[str, TermPostings] = OrderedDict()
        self._room = cache_bytes
        self._levels: dict[Level, EntityView] = {}

    @cached_property
    def version(self) -> int:
        """An opaque number that stays while nothing changes that the reader may read.

        It is made of the readable documents alone; neither commits, nor merges, nor other documents
        change it. Two different states have the same number once in 2^63 by chance. Where
        documents came without stamps it is the number of the commit, which hides nothing.
        """
        total = len(self.documents)
        for mask, segment in zip(self._masks, self.snapshot.segments, strict=True):
            if segment.stamps is None:
                return self.snapshot.version
            total += int(segment.stamps[mask].sum(dtype=np.uint64))
        return total % (1 << _VERSION_BITS)

    @cached_property
    def documents(self) -> NDArray[np.int32]:
        """The numbers of all readable documents, rising."""
        return np.flatnonzero(np.concatenate([np.empty(0, np.bool_), *self._masks])).astype(
            np.int32
        )

    @cached_property
    def lengths(self) -> Floats:
        """Number of tokens by document number; 0 for what may not be read."""
        parts = [
            np.where(mask, segment.postings.lengths, 0)
            for mask, segment in zip(self._masks, self.snapshot.segments, strict=True)
        ]
        return np.concatenate([np.empty(0), *parts])

    @cached_property
    def pods(self) -> NDArray[np.int32]:
        """The place of each document's pod in the snapshot, by document number."""
        parts = [segment.pods for segment in self.snapshot.segments]
        return np.concatenate([np.empty(0, np.int32), *parts])

    def doc_id(self, number: int) -> DocId:
        """Return a readable document's id; raise `AccessDenied` for any other number."""
        for (first, segment), mask in zip(self.snapshot.offsets(), self._masks, strict=True):
            if 0 <= number - first < len(mask) and mask[number - first]:
                return segment.doc_ids[number - first]
        raise AccessDenied("not allowed, or no such resource")

    def doc_ids(self, numbers: NDArray[np.int32]) -> list[DocId]:
        """Return the ids of readable documents whose numbers rise; as `doc_id`, but faster."""
        names: list[DocId] = []
        for (first, segment), mask in zip(self.snapshot.offsets(), self._masks, strict=True):
            begin, end = np.searchsorted(numbers, (first, first + len(mask)))
            here = numbers[begin:end] - np.int32(first)
            names += _picked(segment.doc_ids, here[mask[here]])
        if len(names) != len(numbers):
            raise AccessDenied("not allowed, or no such resource")
        return names

    def pod_id(self, number: int) -> PodId:
        """Return the pod in which a readable document lies."""
        self.doc_id(number)  # raises unless the document may be read
        return self.snapshot.pod_ids[int(self.pods[number])]

    def postings(self, term: str) -> TermPostings:
        """Return the readable documents that hold a term, rising, and how often."""
        with self.lock:
            found = self._kept.get(term)
            if found is not None:
                self._kept.move_to_end(term)
                return found
            found = self._decoded(term)
            self._keep(term, found)
            return found

    def level(self, level: Level) -> EntityView:
        """Return the readable part as documents, as pods, or as one server."""
        with self.lock:
            if level not in self._levels:
                self._levels[level] = EntityView(self, level)
            return self._levels[level]

    def vocabulary(self) -> list[str]:
        """Return the terms of readable documents, in the order of their bytes."""
        return [term.decode("utf-8") for term in self.term_major().terms]

    def term_major(self) -> TermMajor:
        """Return all terms of readable documents, uncompressed: about 8 bytes for each entry."""
        parts = [
            LivePostings(segment.postings, mask)
            for mask, segment in zip(self._masks, self.snapshot.segments, strict=True)
        ]
        numbers = [
            np.arange(first, first + segment.postings.n_documents, dtype=np.int32)
            for first, segment in self.snapshot.offsets()
        ]
        return live_term_major(parts, numbers)

    def n_distinct(self) -> float:
        """Return how many different terms all readable documents have, each counted by itself."""
        return float(
            sum(
                int(segment.postings.distinct[mask].sum(dtype=np.int64))
                for mask, segment in zip(self._masks, self.snapshot.segments, strict=True)
            )
        )

    def _decoded(self, term: str) -> TermPostings:
        parts = []
        for (first, segment), mask in zip(self.snapshot.offsets(), self._masks, strict=True):
            (number,) = segment.postings.find([term])
            documents, counts = segment.postings.readable(int(number), mask)
            parts.append(TermPostings(documents + np.int32(first) if first else documents, counts))
        if len(parts) == 1:
            return parts[0]
        return TermPostings(
            np.concatenate([np.empty(0, np.int32), *(part.documents for part in parts)]),
            np.concatenate([np.empty(0, np.int32), *(part.counts for part in parts)]),
        )

    def _keep(self, term: str, found: TermPostings) -> None:
        self._kept[term] = found
        self._room -= _n_bytes(found)
        while self._room < 0 and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._room += _n_bytes(dropped)


def _n_bytes(found: TermPostings) -> int:
    return 200 + found.documents.nbytes + found.counts.nbytes  # and what Python needs for it


def _picked(names: Sequence[DocId], places: NDArray[np.int32]) -> list[DocId]:
    if isinstance(names, StringTable):
        return names.picked(places)
    return [names[place] for place in places.tolist()]
