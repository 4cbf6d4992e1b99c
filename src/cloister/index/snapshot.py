"""The state of an index between two commits: what is in it, and who may read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import DocId, PodId
from cloister.core.rights import Reader, Rights
from cloister.index.postings import Postings

__all__ = ["Segment", "Snapshot"]


class Segment(NamedTuple):
    """Documents that were indexed together, which never change, and what is known of each now."""

    postings: Postings
    doc_ids: Sequence[DocId]
    pods: NDArray[np.int32]  # place of each document's pod in `Snapshot.pod_ids`
    live: NDArray[np.bool_]  # False for documents that were deleted or changed since
    rights: NDArray[np.int32]  # place of each document's rights in `Snapshot.rights`
    stamps: NDArray[np.uint64] | None = None  # changes with a document's text, id or pod


class Snapshot(NamedTuple):
    """Everything that a query needs. Documents are numbered through all segments.

    Parameters
    ----------
    version
        Larger for each commit: of documents, of rights, of anything.
    """

    version: int
    segments: tuple[Segment, ...]
    pod_ids: tuple[PodId, ...]
    rights: tuple[Rights, ...]

    @property
    def n_documents(self) -> int:
        """Number of documents, with those that were deleted."""
        return sum(segment.postings.n_documents for segment in self.segments)

    def offsets(self) -> Iterator[tuple[int, Segment]]:
        """Give each segment with the number of its first document."""
        first = 0
        for segment in self.segments:
            yield first, segment
            first += segment.postings.n_documents

    def masks(
        self, reader: Reader, hidden: frozenset[PodId] = frozenset()
    ) -> tuple[NDArray[np.bool_], ...]:
        """Return which documents of each segment are there, may be read and are not hidden."""
        allowed = np.array([rights.allow(reader) for rights in self.rights], np.bool_)
        masks = tuple(segment.live & allowed[segment.rights] for segment in self.segments)
        if not hidden:
            return masks
        shown = np.array([name not in hidden for name in self.pod_ids], np.bool_)
        pairs = zip(masks, self.segments, strict=True)
        return tuple(mask & shown[segment.pods] for mask, segment in pairs)
