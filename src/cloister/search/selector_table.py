"""What one reader may know of one server for choosing servers, in few bytes.

A table holds, for every term that the reader may read on a server, in how many documents and pods
it is and how often it occurs, and for the terms in most documents the lists of best impacts
(`cloister.search.impact_list`). Whoever has the tables of all servers chooses among them without
asking any of them.

Terms are not there by name but as hashes. That saves space and hides nothing: who has a table can
try out words. A term that is not there is taken for one that is about once in ``2**hash_bits``; it
then counts as the other one does. A term that is there is always found. Two of n terms that are
there are taken for each other with a chance of about n / 2^33.

The bytes: a header; then as one stream of bits (`cloister.search.selector_table_codec`) the terms
in the order of their hashes with their counts, the lengths of documents that lists name, and the
lists of the terms in most documents; a checksum. Documents are numbered by the order of the ids of
those that lists name, and lists are in the order of the numbers: the reader of a table puts the
best first again. The checksum finds damage, not malice. Contents that cannot be true are refused.

A table is made of what its reader may read and of nothing else. It is for that reader alone: it
tells in how many documents each word is there, how often, and how long documents are. It is good
until the version changes; whoever had it keeps what it said.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.search.bit_codes import padded_words
from cloister.search.impact_list import list_length
from cloister.search.node import Impact, LevelSummary, ServerSummary, TermSummary
from cloister.search.selector_table_codec import (
    sort_lists,
    unpack_counts,
    unpack_lengths,
    unpack_lists,
)
from cloister.search.selector_table_head import TableHead, impossible, opened
from cloister.search.term_keys import KEY_BITS, TermKeys

__all__ = ["SelectorTable", "listed_terms"]

Ints = NDArray[np.int64]
Unsigned = NDArray[np.unsignedinteger]

_NOTHING: Final = TermSummary(0, 0, 0)
_impact: Final = partial(tuple.__new__, Impact)  # `Impact._make` without its check: twice as fast


class SelectorTable:
    """The table of one server for one reader. It never changes; threads may share it.

    Examples
    --------
    >>> from cloister.core.ids import AgentId, DocId, PodId, ServerId
    >>> from cloister.core.rights import Reader, Rights
    >>> from cloister.index.shard import IndexedDocument, Shard
    >>> from cloister.search.selector_table_making import make_selector_table
    >>> import tempfile
    >>> ann, clinic = Rights(owner=AgentId("ann")), ServerId("clinic")
    >>> with tempfile.TemporaryDirectory() as folder, Shard.open(folder, server_id=clinic) as shard:
    ...     shard.add([IndexedDocument(DocId("a"), PodId("p"), "cough, dry cough", ann)])
    ...     _ = shard.commit()
    ...     content = make_selector_table(shard.view(Reader(AgentId("ann"))), clinic).to_bytes()
    >>> table = SelectorTable.from_bytes(content)
    >>> table.summary(["cough"]).terms
    {'cough': TermSummary(n_documents=1, n_pods=1, n_occurrences=2,
        best=(Impact(document=0, n_occurrences=2, length=3),))}
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        head, stream = opened(content)
        words, end = padded_words(stream), 8 * len(stream)
        hashes, fine, counts, position = _read_counts(head, words, end)
        sizes = np.where(listed_terms(counts[:, 0], head.n_listed), counts[:, 0], 0)
        starts = np.concatenate([[0], np.cumsum(np.minimum(sizes, head.n_best))])
        documents, listed, lengths = _read_lists(head, words, position, end, starts)
        _check_lists(counts, starts, documents, listed, lengths)
        self.server_id = head.server_id
        self.version = head.version
        self._n_terms = head.n_terms
        n_pairs, n_pod_pairs, self._n_tokens = (int(total) for total in counts.sum(axis=0))
        if self._n_tokens < lengths.sum():
            raise impossible("documents are longer than all that the terms occur")
        self._documents = LevelSummary(head.n_documents, n_pairs)
        self._pods = LevelSummary(head.n_pods, n_pod_pairs)
        mean_length = self._n_tokens / head.n_documents if head.n_documents else 0.0
        sort_lists(starts, documents, listed, lengths, *list_length(mean_length))
        self._keys = TermKeys(head.server_id, head.n_terms)
        self._shift = KEY_BITS - head.hash_bits
        self._hashes = _compact(hashes, largest=(head.n_terms << head.hash_bits) - 1)  # of any term
        self._shared = np.flatnonzero(fine >= 0)  # terms whose hashes others have too
        self._fine = fine[self._shared]
        self._counts = tuple(_compact(column) for column in counts.T)
        self._starts = _compact(starts)
        self._lists = _compact(documents), _compact(listed), _compact(lengths)

    def summary(self, terms: Sequence[str]) -> ServerSummary:
        """Say what the reader may read there of some terms, as far as the table has it.

        A term has its whole list, of ``n_best`` documents at most, or none. A list of as many
        documents as hold the term is complete.
        """
        return ServerSummary(
            self.server_id,
            self.version,
            self._n_tokens,
            self._documents,
            self._pods,
            self._n_terms,
            {term: self._term_summary(term) for term in terms},
        )

    def to_bytes(self) -> bytes:
        """Return the table as `from_bytes` takes it."""
        return self._content

    @classmethod
    def from_bytes(cls, content: bytes) -> SelectorTable:
        """Read a table.

        Raises
        ------
        DataError
            The bytes are damaged, or say what cannot be true.
        """
        return cls(bytes(content))

    def _term_summary(self, term: str) -> TermSummary:
        place = self._find(term)
        if place < 0:
            return _NOTHING
        n_documents, n_pods, n_occurrences = self._counts
        return TermSummary(
            n_documents.item(place),
            n_pods.item(place),
            n_occurrences.item(place),
            self._best(self._starts.item(place), self._starts.item(place + 1)),
        )

    def _best(self, begin: int, end: int) -> tuple[Impact, ...]:
        documents, counts, lengths = self._lists
        listed = documents[begin:end]
        rows = listed.tolist(), counts[begin:end].tolist(), lengths[listed].tolist()
        return tuple(map(_impact, zip(*rows, strict=True)))

    def _find(self, term: str) -> int:
        """Return the place of a term, or -1."""
        key = self._keys.of(term)
        coarse = self._hashes.dtype.type(key >> self._shift)
        place = int(self._hashes.searchsorted(coarse))
        if place == self._n_terms or self._hashes[place] != coarse:
            return -1
        if place + 1 == self._n_terms or self._hashes[place + 1] != coarse:
            return place
        last = int(self._hashes.searchsorted(coarse, "right"))
        begin, end = self._shared.searchsorted((place, last))
        fine = key - (int(coarse) << self._shift)
        found = int(begin + self._fine[begin:end].searchsorted(fine))
        return place + found - int(begin) if found < end and self._fine[found] == fine else -1


def listed_terms(frequencies: Ints, n_listed: int) -> NDArray[np.bool_]:
    """Say which terms have lists: those in most documents, of equal ones the first.

    Examples
    --------
    >>> listed_terms(np.array([2, 9, 2, 3]), 3)
    array([ True,  True, False,  True])
    """
    if n_listed <= 0:
        return np.zeros(len(frequencies), np.bool_)
    least = np.partition(frequencies, -n_listed)[-n_listed]
    listed: NDArray[np.bool_] = frequencies > least
    n_equal = n_listed - int(listed.sum())
    listed[np.flatnonzero(frequencies == least)[:n_equal]] = True
    return listed


def _read_counts(
    head: TableHead, words: NDArray[np.uint64], end: int
) -> tuple[Ints, Ints, Ints, int]:
    """Return hashes, what tells equal ones apart, counts, and where the bits go on."""
    hashes, fine = np.empty(head.n_terms, np.int64), np.empty(head.n_terms, np.int64)
    counts = np.empty((head.n_terms, 3), np.int64)
    position = unpack_counts(words, end, head.hash_bits, head.one_each, hashes, fine, counts)
    if position < 0 or (counts[:, :2] > (head.n_documents, head.n_pods)).any():
        raise impossible("the counts of terms cannot be")
    return hashes, fine, counts, position


def _read_lists(
    head: TableHead, words: NDArray[np.uint64], position: int, end: int, starts: Ints
) -> tuple[NDArray[np.int32], NDArray[np.int32], Ints]:
    """Return the documents of lists, how often they hold the term, and their lengths."""
    n_entries = int(starts[-1])
    if 2 * n_entries > end - position or head.n_named > n_entries:  # two bits at least
        raise impossible("the lists are longer than the table")
    lengths = np.empty(head.n_named, np.int64)
    documents, counts = np.empty(n_entries, np.int32), np.empty(n_entries, np.int32)
    position = unpack_lengths(
        words, position, end, head.least_length, head.length_parameter, lengths
    )
    if position >= 0:
        position = unpack_lists(words, position, end, starts, documents, counts, head.n_named)
    if not end - 8 < position <= end:
        raise impossible("the lists end elsewhere than the table")
    return documents, counts, lengths


def _check_lists(
    counts: Ints,
    starts: Ints,
    documents: NDArray[np.int32],
    listed: NDArray[np.int32],
    lengths: Ints,
) -> None:
    """Raise `DataError` where lists do not fit what is said of their terms and documents."""
    ends = np.concatenate([[0], np.cumsum(listed, dtype=np.int64)])[starts]
    n_left = counts[:, 0] - np.diff(starts)
    left = counts[:, 2] - np.diff(ends)
    known = np.diff(starts) > 0
    in_documents = np.bincount(documents, listed, len(lengths))
    sound = (
        bool((left[known] >= n_left[known]).all())  # the others hold the term once at least
        and bool((left[known & (n_left == 0)] == 0).all())
        and bool((in_documents <= lengths).all())
        and bool((in_documents > 0).all())
    )
    if not sound:
        raise impossible("the lists do not fit the counts")


def _compact(values: NDArray[np.signedinteger], largest: int = 0) -> Unsigned:
    """Return numbers in as few bytes as they and the largest need, not to be changed."""
    largest = max(int(values.max(initial=0)), largest)
    small: Unsigned = values.astype(np.min_scalar_type(largest))
    small.setflags(write=False)
    return small
