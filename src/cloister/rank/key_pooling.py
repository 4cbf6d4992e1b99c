"""Kernel values of many keys with some documents at once, without torch.

The values are those of `cloister.rank.kernel_pooling.kernel_values`, up to the rounding of single
precision. They do not depend on which other keys and documents are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.rank.kernel_pooling import KERNEL_MEANS, KERNEL_WIDTHS, GramCounts, GramTable
from cloister.rank.key_pooling_kernel import entries_of, pool_keys, row_products

__all__ = ["KeyTable", "key_table", "key_values"]

Floats = NDArray[np.float32]

LONGEST_KEY: Final = 2  # words
_NO_WORD: Final = -1  # where a key has no second word
_NOWHERE: Final = -2  # a word that no document holds


class KeyTable(NamedTuple):
    """Keys of one or two words, ready to meet the n-grams of one table.

    Parameters
    ----------
    words
        int64 [key, 2]: positions in the vocabulary of that table; -2 for a word that it does not
        have, -1 in the place of a missing second word.
    vectors
        A row of length 1 (or 0) for each key.
    known
        Which keys have a vector.
    """

    words: NDArray[np.int64]
    vectors: Floats
    known: NDArray[np.bool_]

    def select(self, keys: NDArray[Any] | slice) -> KeyTable:
        """Return some keys, in the order given."""
        return KeyTable(self.words[keys], self.vectors[keys], self.known[keys])


def key_table(
    keys: Sequence[tuple[str, ...]], vectors: Floats, known: NDArray[np.bool_], counts: GramCounts
) -> KeyTable:
    """Return keys as positions in the vocabulary of counted n-grams.

    Examples
    --------
    >>> from cloister.rank.kernel_pooling import count_grams
    >>> counts = count_grams([["dry", "cough"]], 1)
    >>> keys = [("cough",), ("mild", "cough")]
    >>> key_table(keys, np.eye(2, dtype=np.float32), np.ones(2, bool), counts).words.tolist()
    [[1, -1], [-2, 1]]
    """
    if len(keys) != len(vectors) or len(keys) != len(known):
        raise DataError(f"{len(keys)} keys do not fit the vectors", where="key_table")
    if not all(1 <= len(key) <= LONGEST_KEY for key in keys):
        raise DataError("a key has one or two words", where="key_table")
    words = np.full((len(keys), LONGEST_KEY), _NO_WORD, np.int64)
    for row, key in enumerate(keys):
        found = counts.positions(key)
        words[row, : len(key)] = np.where(found < 0, _NOWHERE, found)
    return KeyTable(words, np.ascontiguousarray(vectors, np.float32), np.asarray(known, np.bool_))


def key_values(
    keys: KeyTable, table: GramTable, documents: NDArray[Any], *, mask_exact: bool = True
) -> Floats:
    """Return all kernel values of keys with some documents: [key, document, kernel].

    Parameters
    ----------
    keys
        Made for the vocabulary of ``table``.
    table
        The n-grams of one or two words that the keys meet.
    documents
        Numbers of documents.
    mask_exact
        See `cloister.rank.kernel_pooling.kernel_values`.

    Examples
    --------
    >>> from cloister.rank.embedding import Embedding
    >>> from cloister.rank.kernel_pooling import count_grams, word_table
    >>> embedding = Embedding(("cough", "fever"), np.array([[1.0, 0.0], [0.6, 0.8]], np.float32))
    >>> table = word_table(count_grams([["cough", "cough", "fever"], ["rash"]], 1), embedding)
    >>> keys = key_table([("cough",)], embedding.vectors[:1], np.array([True]), table.counts)
    >>> key_values(keys, table, np.array([0]))[0, 0, 7:].round(3).tolist()
    [0.6069999933242798, 0.6069999933242798, 0.010999999940395355, 2.0]
    """
    counts = table.counts
    numbers = np.ascontiguousarray(documents, np.int64)
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < counts.n_documents:
        raise DataError(f"there are {counts.n_documents} documents", where="documents")
    if counts.n > LONGEST_KEY or keys.vectors.shape[1] != table.vectors.shape[1]:
        raise DataError("keys and n-grams are of other lengths", where="key_values")
    rows, starts, places, n_times = entries_of(
        counts.starts, counts.places, counts.counts, numbers, len(counts.words)
    )
    return pool_keys(
        row_products(keys.vectors, table.vectors, rows),
        keys.known,
        table.known[rows],
        keys.words,
        counts.words[rows],
        (starts, places, n_times),
        mask_exact,
        KERNEL_MEANS,
        KERNEL_WIDTHS,
    )
