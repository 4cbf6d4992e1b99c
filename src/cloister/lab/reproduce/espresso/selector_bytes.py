"""How large the data of a selector by best impacts are, beside the index they are made of.

Counted is all that a user's lists say, for every term that the user may read on a server, also of
terms that nobody will ever ask for. Two forms:

*packed*, as a server would keep the lists beside its index: one bit for each term of the index
(has this user a list of it), documents by their place among those that the user may read, counts in
Elias' gamma code, the length of each named document once, and of each term what the list leaves
out (documents and occurrences).

*sent*, as summaries have them: the term, and 6 bytes for each document with its count and length.

The index is counted as its files less the names of documents and pods: postings, lengths, rights,
and stamps. A user's lists are no part of it: a server makes them when it is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from cloister.index.snapshot import Snapshot
from cloister.search.node import ServerSummary

__all__ = ["ListBytes", "gamma_bits", "index_bytes", "list_bytes", "varint_bytes"]

LENGTH_BITS: Final = 20  # of a document; a million tokens


class ListBytes(NamedTuple):
    """Bytes of one user's lists on one server."""

    packed: int
    sent: int


def gamma_bits(number: int) -> int:
    """Return the bits of a number from 1 on in Elias' gamma code.

    Examples
    --------
    >>> [gamma_bits(n) for n in (1, 2, 3, 4)]
    [1, 3, 3, 5]
    """
    return 2 * number.bit_length() - 1


def varint_bytes(number: int) -> int:
    """Return the bytes of a number, seven bits in each.

    Examples
    --------
    >>> [varint_bytes(n) for n in (0, 127, 128)]
    [1, 1, 2]
    """
    return max(1, -(-number.bit_length() // 7))


def list_bytes(summary: ServerSummary, n_index_terms: int) -> ListBytes:
    """Count what one user's lists take on one server.

    Parameters
    ----------
    summary
        With a list for each term that the user may read there.
    n_index_terms
        Different terms of the whole index.
    """
    place_bits = max(1, (summary.documents.n_entities - 1).bit_length())
    bits, sent = n_index_terms, 0
    named = set()
    for term, found in summary.terms.items():
        left = found.n_occurrences - sum(one.n_occurrences for one in found.best)
        bits += gamma_bits(max(len(found.best), 1))
        bits += gamma_bits(found.n_documents - len(found.best) + 1)
        bits += gamma_bits(found.n_documents - found.n_pods + 1)
        bits += gamma_bits(left + 1) if left else 0
        sent += len(term.encode()) + 1 + sum(varint_bytes(number) for number in found[:3])
        for one in found.best:
            named.add(one.document)
            bits += place_bits + gamma_bits(one.n_occurrences)
            sent += 6 + varint_bytes(one.n_occurrences) + varint_bytes(one.length)
    bits += LENGTH_BITS * len(named)
    return ListBytes(-(-bits // 8), sent)


def index_bytes(folder: Path, snapshot: Snapshot) -> int:
    """Return the bytes of an index's files, less the names of documents and pods."""
    files = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    names = sum(len(name) for segment in snapshot.segments for name in segment.doc_ids)
    return files - names - sum(len(name) for name in snapshot.pod_ids)
