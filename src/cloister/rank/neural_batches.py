"""Texts as neural rankers take them: numbers of words, padded to matrices.

Numbers begin at 1; 0 fills up short texts. The words of an embedding have the numbers 1 to n in its
order. Other words get the numbers after them, as they come: they have no vector, but a word is to
be known as the same word when it comes again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.measure.ragged import checked_offsets
from cloister.rank.embedding import Embedding

__all__ = ["JudgedTexts", "NumberedTexts", "TextBatch", "TextNumbering", "padded"]

Numbers = NDArray[np.int64]
NO_EXTRA: Final = np.empty((0, 0), np.float32)


class TextBatch(NamedTuple):
    """Pairs of a query and a document, one a row.

    ``queries`` and ``documents`` are matrices of word numbers, filled up with 0; numbers up to
    ``n_known`` have a vector. ``extra`` has further features of each pair, and may have no columns.
    """

    queries: Numbers
    documents: Numbers
    n_known: int
    extra: NDArray[np.float32]


class TextNumbering:
    """The numbers of words: those of an embedding first, others as they come.

    Examples
    --------
    >>> numbering = TextNumbering(Embedding(("cough",), np.ones((1, 2), np.float32)))
    >>> numbering.numbers(["rash", "cough", "itch", "rash"]).tolist()
    [2, 1, 3, 2]
    """

    def __init__(self, embedding: Embedding) -> None:
        self.n_known = len(embedding)
        self._known = embedding.positions
        self._others: dict[str, int] = {}

    def numbers(self, words: Sequence[str]) -> Numbers:
        """Return the number of each word; new words get new numbers."""
        return np.array([self._number(word) for word in words], np.int64)

    def _number(self, word: str) -> int:
        row = self._known.get(word)
        if row is not None:
            return row + 1
        return self._others.setdefault(word, self.n_known + 1 + len(self._others))


def padded(texts: Sequence[Numbers]) -> Numbers:
    """Return texts as the rows of a matrix, filled up with 0; at least one column wide.

    Examples
    --------
    >>> padded([np.array([4, 2]), np.array([], np.int64)]).tolist()
    [[4, 2], [0, 0]]
    """
    matrix = np.zeros((len(texts), max(1, *map(len, texts), 1)), np.int64)
    for row, text in enumerate(texts):
        matrix[row, : len(text)] = text
    return matrix


@dataclass(frozen=True, eq=False)
class JudgedTexts:
    """Queries with graded candidate documents, as words.

    Parameters
    ----------
    queries, documents
        Analysed texts.
    candidates
        The document of each row; rows of one query are adjacent.
    labels
        The grade of each row.
    offsets
        Where each query's rows begin, and the number of rows at the end.
    extra
        Further features of each row, such as the score of a forest; none where not given.

    Examples
    --------
    >>> texts = JudgedTexts([["cough"]], [["cough"], ["rash"]], np.array([0, 1]),
    ...                     np.array([1, 0]), np.array([0, 2]))
    >>> texts.n_queries, texts.n_rows, texts.n_extra
    (1, 2, 0)
    """

    queries: Sequence[Sequence[str]] = field(repr=False)
    documents: Sequence[Sequence[str]] = field(repr=False)
    candidates: Numbers
    labels: NDArray[Any]
    offsets: Numbers
    extra: NDArray[np.float32] = field(default_factory=lambda: NO_EXTRA, repr=False)

    def __post_init__(self) -> None:
        candidates = np.asarray(self.candidates, np.int64)
        n_rows = len(candidates)
        offsets = checked_offsets(self.offsets, n_rows)
        extra = np.asarray(self.extra, np.float32)
        extra = np.zeros((n_rows, 0), np.float32) if extra.shape == (0, 0) else extra
        sound = (
            len(offsets) == len(self.queries) + 1
            and len(self.labels) == n_rows
            and extra.ndim == 2
            and len(extra) == n_rows
            and bool(np.isfinite(extra).all())
            and (not n_rows or 0 <= candidates.min() <= candidates.max() < len(self.documents))
        )
        if not sound:
            raise DataError("queries, rows and documents do not fit together", where="JudgedTexts")
        object.__setattr__(self, "candidates", candidates)
        object.__setattr__(self, "labels", np.asarray(self.labels))
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "extra", extra)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.queries)

    @property
    def n_rows(self) -> int:
        """Number of pairs of a query and a document."""
        return len(self.candidates)

    @property
    def n_extra(self) -> int:
        """Number of further features."""
        return int(self.extra.shape[1])

    def query_of_rows(self) -> Numbers:
        """Return the query of each row."""
        return np.repeat(np.arange(self.n_queries), np.diff(self.offsets))


class NumberedTexts:
    """Judged texts with their words numbered once, for many batches.

    Parameters
    ----------
    texts
        Queries and candidates.
    embedding
        Whose words have the first numbers.
    max_terms
        Longer documents are cut; None takes them whole.
    """

    def __init__(
        self, texts: JudgedTexts, embedding: Embedding, *, max_terms: int | None = None
    ) -> None:
        numbering = TextNumbering(embedding)
        self.texts = texts
        self._n_known = numbering.n_known
        self._queries = [numbering.numbers(words) for words in texts.queries]
        used = set(texts.candidates.tolist())
        self._documents = [
            numbering.numbers(words[:max_terms] if place in used else [])
            for place, words in enumerate(texts.documents)
        ]
        self._query_of_rows = texts.query_of_rows()

    def batch(self, rows: Numbers) -> TextBatch:
        """Return some rows as one batch."""
        return TextBatch(
            padded([self._queries[query] for query in self._query_of_rows[rows].tolist()]),
            padded([self._documents[place] for place in self.texts.candidates[rows].tolist()]),
            self._n_known,
            self.texts.extra[rows],
        )

    def all_batches(self, n: int) -> Iterator[tuple[Numbers, TextBatch]]:
        """Yield all rows, n at a time, texts of like length together."""
        lengths = np.array([len(self._documents[i]) for i in self.texts.candidates.tolist()])
        order = np.argsort(lengths, kind="stable")
        for first in range(0, len(order), n):
            rows = order[first : first + n]
            yield rows, self.batch(rows)
