"""Texts as neural rankers take them: numbers of words, one text after the other.

Numbers begin at 1. The words of an embedding have the numbers 1 to n in its order. Other words get
the numbers after them, as they come: they have no vector, but a word is to be known as the same
word when it comes again.
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

__all__ = ["FlatTexts", "JudgedTexts", "NumberedTexts", "TextBatch", "TextNumbering"]

Numbers = NDArray[np.int64]
NO_EXTRA: Final = np.empty((0, 0), np.float32)


class FlatTexts(NamedTuple):
    """The word numbers of texts, and where each text begins, with their number at the end."""

    numbers: Numbers
    starts: Numbers

    @classmethod
    def of(cls, texts: Sequence[Numbers]) -> FlatTexts:
        """Put texts one after the other.

        Examples
        --------
        >>> FlatTexts.of([np.array([4, 2]), np.array([], np.int64)]).starts.tolist()
        [0, 2, 2]
        """
        numbers = np.concatenate(texts) if texts else np.empty(0, np.int64)
        return cls(numbers, np.cumsum([0, *map(len, texts)]))


class TextBatch(NamedTuple):
    """Pairs of a query and a document, one a row; a text of many rows is there once.

    Parameters
    ----------
    queries, documents
        The texts. Numbers up to ``n_known`` have a vector.
    rows
        The query and the document of each row, by position.
    n_known
        The number of words that have a vector.
    extra
        Further features of each row; it may have no columns.
    """

    queries: FlatTexts
    documents: FlatTexts
    rows: Numbers
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
        queries, of_query = np.unique(self._query_of_rows[rows], return_inverse=True)
        documents, of_document = np.unique(self.texts.candidates[rows], return_inverse=True)
        return TextBatch(
            FlatTexts.of([self._queries[query] for query in queries.tolist()]),
            FlatTexts.of([self._documents[place] for place in documents.tolist()]),
            np.stack([of_query, of_document], axis=1),
            self._n_known,
            self.texts.extra[rows],
        )

    def all_batches(self, n_cells: int) -> Iterator[tuple[Numbers, TextBatch]]:
        """Yield all rows, those of one document together.

        A batch has about ``n_cells`` pairs of a query's and a document's word, or is one row.
        """
        candidates = self.texts.candidates
        order = np.argsort(candidates, kind="stable")
        of_query = np.array([len(text) for text in self._queries], np.int64)
        of_document = np.array([len(text) for text in self._documents], np.int64)
        cells = of_query[self._query_of_rows[order]] * of_document[candidates[order]]
        part = np.cumsum(cells) // n_cells
        for rows in np.split(order, np.flatnonzero(np.diff(part)) + 1):
            if len(rows):
                yield rows, self.batch(rows)
