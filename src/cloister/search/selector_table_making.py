"""Makes a selector table of what one reader may read.

Nothing but the readable documents goes into it. Documents are numbered by the order of their ids,
terms by the order of their hashes: neither hidden documents, nor the order in which documents came,
nor merges and commits show in any bit. Making it takes the longer, the more the index holds,
readable or not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.core.kernel import kernel
from cloister.index.best_k import keep_best
from cloister.index.postings import TermMajor
from cloister.index.reader_view import ReaderView
from cloister.index.term_totals import term_totals
from cloister.search.bit_codes import MAX_VALUE
from cloister.search.impact_list import list_length
from cloister.search.selector_table import SelectorTable, listed_terms
from cloister.search.selector_table_codec import (
    length_code,
    list_section_bits,
    pack_counts,
    pack_lengths,
    pack_lists,
)
from cloister.search.selector_table_head import TableHead
from cloister.search.table_settings import TableSettings
from cloister.search.term_keys import KEY_BITS, TermKeys

__all__ = ["make_selector_table"]

Ints = NDArray[np.int64]
Int32s = NDArray[np.int32]


class _Lists(NamedTuple):
    """Lists of best impacts, each with its documents rising, and all documents' lengths."""

    starts: Ints
    documents: Int32s
    counts: Int32s
    lengths: Ints


def make_selector_table(
    view: ReaderView, server_id: ServerId, settings: TableSettings | None = None
) -> SelectorTable:
    """Make the table of what a view's reader may read.

    Lists are given to the terms in most documents first, each up to ``n_best`` long, until
    ``max_bytes`` is reached: queries are mostly made of these.

    Raises
    ------
    DataError
        A number is too large for a table: a term occurs more than four billion times.
    """
    settings = settings or TableSettings()
    flat = view.term_major()
    keys = TermKeys(server_id, len(flat.terms)).of_all(flat.terms)
    order = np.argsort(keys, kind="stable")
    counts = term_totals(flat, view.pods)[order]
    if counts.max(initial=0) > MAX_VALUE:
        raise DataError("a term occurs too often", where=server_id, remedy="use more servers")
    pods, documents = view.level("pod"), view.level("document")
    head = TableHead(
        server_id, settings.hash_bits, settings.n_best, view.version,
        int(documents.n_entities), int(pods.n_entities), len(order),
    )  # fmt: skip
    words = np.zeros(4 * len(order) + 1, np.uint64)  # more than any term needs
    hashes, fine = np.divmod(keys[order], np.uint64(1 << (KEY_BITS - settings.hash_bits)))
    n_bits = pack_counts(
        words,
        settings.hash_bits,
        head.one_each,
        hashes.astype(np.int64),
        fine.astype(np.int64),
        counts,
    )
    lists = _best_lists(view, flat, order, settings.n_best)
    n_listed = _n_listed(head, n_bits, counts[:, 0], lists, settings.max_bytes)
    stream, head = _with_lists(head, words, n_bits, counts[:, 0], lists, n_listed)
    return SelectorTable.from_bytes(head.with_stream(stream))


def _best_lists(view: ReaderView, flat: TermMajor, order: Ints, n_best: int) -> _Lists:
    """Return the lists of all terms, in an order of terms; documents by the order of ids."""
    numbers = view.documents
    names = view.doc_ids(numbers)
    by_id = numbers[sorted(range(len(names)), key=names.__getitem__)]
    places = np.full(len(view.lengths), -1, np.int32)
    places[by_id] = np.arange(len(by_id))
    lengths = view.lengths[by_id].astype(np.int64)
    sizes = np.minimum(np.diff(flat.starts)[order], n_best)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    documents, counts = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.int32)
    factors = list_length(view.level("document").mean_length)
    _select(flat.starts, flat.documents, flat.counts, order, places, lengths, *factors,
            starts, documents, counts)  # fmt: skip
    return _Lists(starts, documents, counts, lengths)


def _n_listed(
    head: TableHead, n_bits: int, frequencies: Ints, lists: _Lists, max_bytes: int
) -> int:
    """Return how many terms can have their lists, by halving what is open."""
    by_frequency = np.argsort(-frequencies, kind="stable")
    fits, too_many = 0, (len(frequencies) if len(lists.documents) else 0) + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        more = list_section_bits(by_frequency[:middle], *lists)
        if head.size_bytes(n_bits + more) <= max_bytes:
            fits = middle
        else:
            too_many = middle
    return fits


def _with_lists(
    head: TableHead,
    words: NDArray[np.uint64],
    n_bits: int,
    frequencies: Ints,
    lists: _Lists,
    n_listed: int,
) -> tuple[bytes, TableHead]:
    """Return the bits of counts and of some lists, and the header for them."""
    listed = listed_terms(frequencies, n_listed)
    kept = np.repeat(listed, np.diff(lists.starts))
    sizes = np.where(listed, np.diff(lists.starts), 0)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    named, documents = np.unique(lists.documents[kept], return_inverse=True)
    lengths = lists.lengths[named]
    least, parameter = length_code(lengths)
    more = list_section_bits(np.flatnonzero(listed), *lists)
    whole = np.zeros((n_bits + more) // 64 + 2, np.uint64)
    n_words = min(len(words), len(whole))
    whole[:n_words] = words[:n_words]
    position = pack_lengths(whole, n_bits, lengths, least, parameter)
    position = pack_lists(
        whole, position, starts, documents.astype(np.int32), lists.counts[kept], len(named)
    )
    head = head._replace(
        n_listed=n_listed, n_named=len(named), least_length=least, length_parameter=parameter
    )
    return whole.astype("<u8").tobytes()[: -(-position // 8)], head


@kernel
def _select(
    starts: Ints,
    documents: Int32s,
    values: Int32s,
    order: Ints,
    places: Int32s,
    lengths: Ints,
    at_zero: float,
    by_length: float,
    list_starts: Ints,
    listed: Int32s,
    counts: Int32s,
) -> None:
    """Write each term's documents of the largest weights, rising, and their counts."""
    count_of = np.empty(len(lengths), np.int32)
    for place in range(len(order)):
        term = order[place]
        found = listed[list_starts[place] : list_starts[place + 1]]
        weights = np.empty(len(found), np.float64)
        n_found = 0
        for entry in range(starts[term], starts[term + 1]):
            document, count = places[documents[entry]], values[entry]
            count_of[document] = count
            weight = count / (count + at_zero + by_length * lengths[document])
            n_found = keep_best(found, weights, n_found, document, weight)
        found.sort()
        for i in range(n_found):
            counts[list_starts[place] + i] = count_of[found[i]]
