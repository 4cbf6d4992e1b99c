"""What the server learns: of an index at rest, and of each query that it answers.

`server_view` is all that there is to see before the first query: labels and sizes. `QueryTrace` is
all that there is to see in a query, beyond the model's box, which every query opens: the server
computes its answer from these two alone. A server may keep every trace, and a box that was opened
once stays open to it.

So over time it learns, of each word, phrase and pair that was ever asked for: that the same label
came again; its stored kernel values and codes; the closure's label, and its documents by number. A
pair has no closure: its documents are those in which the two words stand near each other. It learns
of each query how many different terms it has, how many of them have a box, which words share a
closure, which order the trees' places have (by rarity, or the query's), of each pair which word the
query has first, the candidates, and all scores; and when it came, and from where. Which texts the
client fetches afterwards, it sees by number. It does not learn words, names of documents, or texts
by these means; what attacks make of it is measured in :mod:`cloister.adversary`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.private_index import PrivateIndex

__all__ = [
    "OpenedKey",
    "OpenedPair",
    "QueryTrace",
    "RestingView",
    "TraceCounts",
    "server_view",
]

Integers = NDArray[np.int64]
Documents = NDArray[np.int32]


class RestingView(NamedTuple):
    """What lies in the open in an index of which no box was opened.

    Parameters
    ----------
    index_id
        Drawn anew for each index.
    labels
        [box, 16], rising: words of a keyed hash, so that neighbours have nothing in common.
    box_bytes
        Size of each sealed box: of words it tells the size of their closures, in steps of Padmé.
    name_bytes, text_bytes
        Sizes of each document's sealed name and text; 0 where no texts are stored.
    """

    index_id: bytes
    labels: NDArray[np.uint8]
    box_bytes: Integers
    name_bytes: Integers
    text_bytes: Integers

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.name_bytes)


def server_view(index: PrivateIndex) -> RestingView:
    """Return what a server sees of an index before any query, besides sealed bytes.

    Examples
    --------
    >>> index = PrivateIndex.of(bytes(16), {b"L" * 16: bytes(24)}, [bytes(40), bytes(40)])
    >>> view = server_view(index)
    >>> view.n_documents, view.box_bytes.tolist(), view.name_bytes.tolist()
    (2, [24], [40, 40])
    """
    return RestingView(
        index.index_id,
        index.labels,
        np.diff(index.starts),
        np.diff(index.document_name_starts),
        np.diff(index.document_text_starts),
    )


class OpenedKey(NamedTuple):
    """A word, or two adjacent words, as the server has it open.

    Parameters
    ----------
    label
        The same whenever the word is asked for.
    place
        Among the places of tree features; -1 if none.
    closure
        Label of its closure: words of one closure share it.
    documents
        Of the closure, rising.
    levels
        Stored kernel values, a row a document.
    codes
        Coded features, a row a document; without columns where there are none.
    """

    label: bytes
    place: int
    closure: bytes
    documents: Documents
    levels: NDArray[Any]
    codes: Integers


class OpenedPair(NamedTuple):
    """Two words near each other, as the server has them open.

    Parameters
    ----------
    label
        The same whenever the two are asked for.
    first, second
        Their places.
    turned
        Whether the query has them in the other order than the box.
    documents
        In which they stand near each other, rising.
    codes
        Coded proximity, a row a document.
    """

    label: bytes
    first: int
    second: int
    turned: bool
    documents: Documents
    codes: Integers


class TraceCounts(NamedTuple):
    """How much a query opened.

    Parameters
    ----------
    n_terms, n_words, n_phrases, n_pairs
        Different terms of the query; boxes of words, adjacent words and pairs.
    n_closures
        Different closures of words and phrases.
    n_documents
        Documents of these closures, each once.
    n_levels, n_codes
        Stored kernel values and codes that were read.
    """

    n_terms: int
    n_words: int
    n_phrases: int
    n_pairs: int
    n_closures: int
    n_documents: int
    n_levels: int
    n_codes: int


@dataclass(frozen=True, eq=False)
class QueryTrace:
    """All that a server sees of one query, besides the model.

    Parameters
    ----------
    n_terms
        Different terms, with those that have no box.
    words, phrases, pairs
        What was opened, in the order of the request.
    candidates
        As asked for; None where all documents of the closures are.
    k
        How many documents were wanted.
    """

    n_terms: int
    words: tuple[OpenedKey, ...] = field(repr=False)
    phrases: tuple[OpenedKey, ...] = field(repr=False)
    pairs: tuple[OpenedPair, ...] = field(repr=False)
    candidates: Integers | None = field(repr=False)
    k: int

    @property
    def closures(self) -> dict[bytes, Documents]:
        """Documents of each closure, by its label."""
        return {key.closure: key.documents for key in (*self.words, *self.phrases)}

    @property
    def documents(self) -> Integers:
        """Documents of all closures, rising, each once."""
        held = [documents.astype(np.int64) for documents in self.closures.values()]
        return np.unique(np.concatenate([np.empty(0, np.int64), *held]))

    @property
    def counts(self) -> TraceCounts:
        """How much was opened."""
        keys = (*self.words, *self.phrases)
        return TraceCounts(
            self.n_terms,
            len(self.words),
            len(self.phrases),
            len(self.pairs),
            len(self.closures),
            len(self.documents),
            sum(key.levels.size for key in keys),
            sum(key.codes.size for key in keys) + sum(pair.codes.size for pair in self.pairs),
        )
