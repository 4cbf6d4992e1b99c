"""What a commit of a shard says: its segments, and what is known of each document now.

Nothing here is ever altered: a change makes a new commit, which shares what did not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import DocId, PodId, ServerId
from cloister.core.rights import NOBODY, Rights
from cloister.index.analysis import TextAnalysis
from cloister.index.postings import Postings
from cloister.index.segment_merging import LivePostings, merge_postings
from cloister.index.snapshot import Segment, Snapshot
from cloister.index.string_table import StringTable

__all__ = ["Place", "SegmentState", "ShardCommit", "StoredSegment", "merged_segment"]


@dataclass(frozen=True, eq=False)
class StoredSegment:
    """The part of a segment that never changes: one file.

    Parameters
    ----------
    name
        Of the file; empty as long as there is none.
    postings
        What the documents hold.
    doc_ids
        Of each document.
    pod_ids, pods
        Different pods, and the place of each document's among them.
    stamps
        A number for each document that another text, id or pod would change.
    """

    name: str
    postings: Postings
    doc_ids: StringTable
    pod_ids: StringTable
    pods: NDArray[np.int32]
    stamps: NDArray[np.uint64]

    @property
    def n_documents(self) -> int:
        """Number of documents, live or not."""
        return self.postings.n_documents

    @cached_property
    def places(self) -> Mapping[DocId, int]:
        """Where each document stands; made when it is first asked for."""
        ids = cast("list[DocId]", self.doc_ids.tolist())
        return {doc_id: place for place, doc_id in enumerate(ids)}

    @cached_property
    def pod_places(self) -> Mapping[PodId, int]:
        """Where each pod stands."""
        ids = cast("list[PodId]", self.pod_ids.tolist())
        return {pod_id: place for place, pod_id in enumerate(ids)}


class SegmentState(NamedTuple):
    """A segment, and what is known of its documents now."""

    stored: StoredSegment
    live: NDArray[np.bool_]
    rights: NDArray[np.int32]  # place of each document's rights in the commit's list
    etags: StringTable

    @property
    def dead_share(self) -> float:
        """Which share of the documents was deleted or changed since."""
        return 1 - float(self.live.mean()) if len(self.live) else 1.0


class Place(NamedTuple):
    """Where a live document is."""

    segment: int
    number: int


class ShardCommit(NamedTuple):
    """All that an index is at one time.

    ``rights`` begins with those that allow nobody. They are what dead documents get, so that
    nothing remains of whom they were for.
    """

    version: int
    server_id: ServerId
    analysis: TextAnalysis
    rights: tuple[Rights, ...] = (NOBODY,)
    segments: tuple[SegmentState, ...] = ()

    @property
    def n_live(self) -> int:
        """Number of live documents."""
        return sum(int(segment.live.sum()) for segment in self.segments)

    def find(self, doc_id: DocId) -> Place | None:
        """Return where a live document is."""
        for place, segment in enumerate(self.segments):
            number = segment.stored.places.get(doc_id)
            if number is not None and segment.live[number]:
                return Place(place, number)
        return None

    def in_pod(self, pod_id: PodId) -> Iterator[tuple[SegmentState, int]]:
        """Give each live document of a pod: its segment, and its number there."""
        for segment in self.segments:
            pod = segment.stored.pod_places.get(pod_id)
            if pod is not None:
                for number in np.flatnonzero((segment.stored.pods == pod) & segment.live).tolist():
                    yield segment, number

    def without(self, doc_ids: Iterable[DocId]) -> ShardCommit:
        """Return the same with some documents no longer live."""
        found = [place for doc_id in doc_ids if (place := self.find(doc_id)) is not None]
        segments = list(self.segments)
        for segment, numbers in _by_segment(found).items():
            live = segments[segment].live.copy()
            live[numbers] = False
            segments[segment] = segments[segment]._replace(live=live)
        return self._replace(segments=tuple(segments))

    def with_rights(self, changes: Mapping[DocId, Rights]) -> ShardCommit:
        """Return the same with other rights for some documents; unknown ids do not count."""
        known, numbers = self._numbered(changes.values())
        segments = list(self.segments)
        found = [(self.find(doc_id), rights) for doc_id, rights in changes.items()]
        listed = [(place, numbers[rights]) for place, rights in found if place is not None]
        for place in {place.segment for place, _ in listed}:
            changed = segments[place].rights.copy()
            here = [(one.number, number) for one, number in listed if one.segment == place]
            changed[[number for number, _ in here]] = [number for _, number in here]
            segments[place] = segments[place]._replace(rights=changed)
        return self._replace(rights=known, segments=tuple(segments))

    def with_etags(self, changes: Mapping[DocId, str]) -> ShardCommit:
        """Return the same with other ETags for some documents; unknown ids do not count."""
        segments = list(self.segments)
        found = [(self.find(doc_id), etag) for doc_id, etag in changes.items()]
        for segment in {place.segment for place, _ in found if place is not None}:
            etags = segments[segment].etags.tolist()
            for place, etag in found:
                if place is not None and place.segment == segment:
                    etags[place.number] = etag
            segments[segment] = segments[segment]._replace(etags=StringTable.of(etags))
        return self._replace(segments=tuple(segments))

    def with_segment(
        self, stored: StoredSegment, rights: Sequence[Rights], etags: StringTable
    ) -> ShardCommit:
        """Return the same with one more segment, all of it live."""
        known, numbers = self._numbered(rights)
        placed = np.array([numbers[one] for one in rights], np.int32)
        state = SegmentState(stored, np.ones(stored.n_documents, np.bool_), placed, etags)
        return self._replace(rights=known, segments=(*self.segments, state))

    def replacing(self, places: Sequence[int], stored: StoredSegment) -> ShardCommit:
        """Return the same with a merged segment in the place of those that it was made of."""
        old = [self.segments[place] for place in places]
        rights = [state.rights[state.live] for state in old]
        merged = SegmentState(
            stored,
            np.ones(stored.n_documents, np.bool_),
            np.concatenate([np.empty(0, np.int32), *rights]),
            StringTable.chained([state.etags.select(state.live) for state in old]),
        )
        kept = [state for place, state in enumerate(self.segments) if place not in set(places)]
        return self._replace(segments=(*kept, merged))

    def tidied(self) -> ShardCommit:
        """Return the same without segments and rights that nothing live uses."""
        segments = [state for state in self.segments if state.live.any()]
        used = np.unique(
            np.concatenate([np.zeros(1, np.int32), *(s.rights[s.live] for s in segments)])
        )
        new = np.zeros(len(self.rights), np.int32)
        new[used] = np.arange(len(used))
        tidy = [
            state._replace(
                rights=np.where(state.live, new[state.rights], np.int32(0)),
                etags=state.etags.blanked(~state.live),
            )
            for state in segments
        ]
        rights = tuple(self.rights[number] for number in used.tolist())
        return self._replace(rights=rights, segments=tuple(tidy))

    def snapshot(self) -> Snapshot:
        """Return what queries need."""
        pods: dict[str, int] = {}
        segments = []
        for stored, live, rights, _ in self.segments:
            here = [pods.setdefault(pod, len(pods)) for pod in stored.pod_ids.tolist()]
            segments.append(
                Segment(
                    stored.postings,
                    cast("Sequence[DocId]", stored.doc_ids),
                    np.array(here, np.int32)[stored.pods],
                    live,
                    rights,
                    stored.stamps,
                )
            )
        pod_ids = cast("tuple[PodId, ...]", tuple(pods))
        return Snapshot(self.version, tuple(segments), pod_ids, self.rights)

    def _numbered(self, more: Iterable[Rights]) -> tuple[tuple[Rights, ...], dict[Rights, int]]:
        """Return the list of rights with more of them, and the place of each."""
        numbers = {rights: number for number, rights in enumerate(self.rights)}
        for rights in more:
            numbers.setdefault(rights, len(numbers))
        return tuple(numbers), numbers


def merged_segment(states: Sequence[SegmentState]) -> StoredSegment:
    """Merge the live documents of segments; the result has no file yet."""
    live = [state.live for state in states]
    names: dict[str, int] = {}
    pods = []
    for state, mask in zip(states, live, strict=True):
        used, inverse = np.unique(state.stored.pods[mask], return_inverse=True)
        here = [names.setdefault(state.stored.pod_ids[pod], len(names)) for pod in used.tolist()]
        pods.append(np.array(here, np.int32)[inverse])
    ids = [state.stored.doc_ids.select(mask) for state, mask in zip(states, live, strict=True)]
    stamps = [state.stored.stamps[mask] for state, mask in zip(states, live, strict=True)]
    return StoredSegment(
        "",
        merge_postings([LivePostings(state.stored.postings, state.live) for state in states]),
        StringTable.chained(ids),
        StringTable.of(names),
        np.concatenate([np.empty(0, np.int32), *pods]),
        np.concatenate([np.empty(0, np.uint64), *stamps]),
    )


def _by_segment(places: Iterable[Place]) -> dict[int, list[int]]:
    grouped: dict[int, list[int]] = {}
    for segment, number in places:
        grouped.setdefault(segment, []).append(number)
    return grouped
