"""Word embeddings: a vector of length 1 for each of some words.

Vectors come from a file that others trained (`cloister.rank.embedding_file`), or are trained on the
collection itself by gensim's skip-gram (`train_embedding`, extra ``vectors``). A word that is not
in the table has no vector: it is like nothing but itself.

Vectors trained on a collection tell of it: they list its words above ``min_count``, and near
vectors stand for words that occur together. Nothing here protects them. Vectors trained on public
text tell nothing of the collection, unless the table was cut down to the collection's words.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError, MissingDependency
from cloister.core.random import stream
from cloister.core.settings import Settings

__all__ = ["Embedding", "EmbeddingSettings", "train_embedding"]

Vectors = NDArray[np.float32]

LONGEST: Final = 10_000  # words; of a longer text gensim leaves the rest out without a word


@dataclass(frozen=True, eq=False)
class Embedding:
    """Words and their vectors, brought to the length 1.

    Parameters
    ----------
    words
        Different ones.
    vectors
        One row a word, not all zeros.

    Raises
    ------
    DataError
        If words and vectors do not fit together, a word occurs twice, or a vector is zero or not
        finite.

    Examples
    --------
    >>> embedding = Embedding(("cough", "fever"), np.array([[3.0, 4.0], [0.0, 2.0]], np.float32))
    >>> embedding.vectors.tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    >>> embedding.rows(["fever", "rash"]).tolist()
    [1, -1]
    """

    words: tuple[str, ...] = field(repr=False)
    vectors: Vectors = field(repr=False)

    def __post_init__(self) -> None:
        vectors = np.ascontiguousarray(self.vectors, np.float32)
        if vectors.ndim != 2 or len(vectors) != len(self.words) or vectors.shape[1] < 1:
            raise DataError(
                f"{len(self.words)} words do not fit vectors of the shape {vectors.shape}",
                where="Embedding",
            )
        object.__setattr__(self, "words", tuple(self.words))
        if len(self.positions) != len(self.words):
            raise DataError("a word occurs twice", where="Embedding")
        object.__setattr__(self, "vectors", self._unit_rows(vectors))

    def _unit_rows(self, vectors: Vectors) -> Vectors:
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
        sound = np.isfinite(lengths) & (lengths > 0)
        if not sound.all():
            word = self.words[int(np.argmin(sound))]
            raise DataError(
                f"the vector of {word!r} is zero or not finite",
                where="Embedding",
                remedy="leave the word out",
            )
        off = np.abs(lengths - 1) > 1e-6  # a unit row stays as it is, to the bit
        unit = vectors.copy()
        unit[off] = vectors[off] / lengths[off, None]
        unit.flags.writeable = False
        return unit

    def __len__(self) -> int:
        return len(self.words)

    @property
    def size(self) -> int:
        """Numbers a vector has."""
        return int(self.vectors.shape[1])

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def rows(self, terms: Iterable[str]) -> NDArray[np.int64]:
        """Return the row of each term; -1 for one without a vector."""
        return np.array([self.positions.get(term, -1) for term in terms], np.int64)

    def matrix(self, terms: Sequence[str]) -> Vectors:
        """Return a row for each term; zeros for one that has no vector."""
        rows = self.rows(terms)
        vectors = np.zeros((len(terms), self.size), np.float32)
        vectors[rows >= 0] = self.vectors[rows[rows >= 0]]
        return vectors

    def only(self, words: Iterable[str]) -> Embedding:
        """Return the table of those words that have a vector, in the order given, each once.

        Examples
        --------
        >>> table = Embedding(("a", "b", "c"), np.eye(3, dtype=np.float32))
        >>> table.only(["c", "x", "a", "c"]).words
        ('c', 'a')
        """
        kept = tuple(dict.fromkeys(word for word in words if word in self.positions))
        return Embedding(kept, self.vectors[self.rows(kept)])


class EmbeddingSettings(Settings):
    """How skip-gram with negative sampling learns vectors from a collection.

    Parameters
    ----------
    size
        Numbers a vector has; 300 in the papers, which had far larger collections.
    window
        Words to each side that count as context.
    min_count
        Words seen less often get no vector.
    epochs
        Passes over the collection; small collections need more than gensim's five.
    negative, learning_rate, subsample
        gensim's defaults.
    """

    size: int = Field(default=100, ge=1)
    window: int = Field(default=5, ge=1)
    min_count: int = Field(default=3, ge=1)
    epochs: int = Field(default=20, ge=1)
    negative: int = Field(default=5, ge=1)
    learning_rate: float = Field(default=0.025, gt=0)
    subsample: float = Field(default=1e-3, ge=0)


def train_embedding(
    documents: Sequence[Sequence[str]],
    settings: EmbeddingSettings | None = None,
    *,
    seed: int = 0,
) -> Embedding:
    """Train vectors on analysed documents.

    One seed gives the same vectors: gensim runs with one worker, and no hash of Python's is used.

    Raises
    ------
    MissingDependency
        If gensim is not installed.
    DataError
        If no word occurs ``min_count`` times.
    """
    settings = settings or EmbeddingSettings()
    model = _word2vec()(
        vector_size=settings.size,
        window=settings.window,
        min_count=settings.min_count,
        sg=1,
        negative=settings.negative,
        alpha=settings.learning_rate,
        min_alpha=min(1e-4, settings.learning_rate),
        sample=settings.subsample,
        workers=1,
        hashfxn=_stable_hash,
        seed=int(stream(seed, "embedding").integers(2**31)),
    )
    pieces = _pieces(documents)
    model.build_vocab(pieces)
    if not len(model.wv):
        raise DataError(
            f"no word occurs {settings.min_count} times",
            where="documents",
            remedy="give more documents, or lower min_count",
        )
    model.train(pieces, total_examples=model.corpus_count, epochs=settings.epochs)
    return Embedding(tuple(model.wv.index_to_key), np.array(model.wv.vectors, np.float32))


def _stable_hash(word: str) -> int:
    return zlib.crc32(word.encode())


def _pieces(documents: Sequence[Sequence[str]]) -> list[list[str]]:
    """Cut long documents, of which gensim would read the beginning alone."""
    return [
        list(words[first : first + LONGEST])
        for words in documents
        for first in range(0, len(words), LONGEST)
    ]


def _word2vec() -> Any:
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingDependency(
            "gensim is not installed", where="embedding", remedy="pip install 'cloister[vectors]'"
        ) from None
    return Word2Vec
