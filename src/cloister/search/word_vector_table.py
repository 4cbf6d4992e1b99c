"""Words and their vectors as one table, in memory and in a checksummed file.

What the file tells whoever reads it is said in :mod:`cloister.search.word_vectors`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import Damaged, DataError
from cloister.store.array_file import StoredArrays, from_bytes, open_arrays, to_bytes, write_arrays

__all__ = ["WordVectors"]

Vectors = NDArray[np.float32]
KIND: Final = "word-vectors"


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words, their vectors, and how often each was read.

    Parameters
    ----------
    words
        Different ones.
    vectors
        One row a word.
    counts
        How often each word occurs in the documents that the vectors are of; 0 for a word that
        only the base knows.
    contexts
        The vectors of words as contexts, from which training can go on; a base has them.
    basis
        Stands for these documents: `cloister.search.word_vectors.corpus_digest`, or the digest of
        what may be read in some indexes.

    Examples
    --------
    >>> vectors = WordVectors(("cough", "fever"), np.eye(2, dtype=np.float32), np.array([3, 1]))
    >>> again = WordVectors.from_bytes(vectors.to_bytes())
    >>> again.words, again.vectors.tolist(), "rash" in again.positions
    (('cough', 'fever'), [[1.0, 0.0], [0.0, 1.0]], False)
    """

    words: tuple[str, ...] = field(repr=False)
    vectors: Vectors = field(repr=False)
    counts: NDArray[np.int64] = field(repr=False)
    contexts: Vectors | None = field(default=None, repr=False)
    basis: str = ""

    def __post_init__(self) -> None:
        n = len(self.words)
        sound = self.vectors.ndim == 2 and len(self.vectors) == len(self.counts) == n
        if not sound or (self.contexts is not None and self.contexts.shape != self.vectors.shape):
            raise DataError("words, vectors and counts do not fit together", where="WordVectors")
        if len(self.positions) != n or not bool(np.isfinite(self.vectors).all()):
            raise DataError("a word occurs twice or a vector is not finite", where="WordVectors")

    @property
    def size(self) -> int:
        """Numbers a vector has."""
        return int(self.vectors.shape[1])

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The row of each word."""
        return {word: place for place, word in enumerate(self.words)}

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that stand for the words and their vectors."""
        joined = "\0".join(self.words).encode()
        hashed = hashlib.blake2b(joined, digest_size=16)
        hashed.update(repr(self.vectors.shape).encode())
        hashed.update(np.ascontiguousarray(self.vectors, np.float32).data)
        return hashed.hexdigest()

    def mean(self, words: Iterable[str]) -> NDArray[np.float64]:
        """Return the mean vector of a text's words; words without a vector do not count.

        Examples
        --------
        >>> vectors = WordVectors(("cough", "fever"), np.eye(2, dtype=np.float32), np.array([3, 1]))
        >>> vectors.mean(["cough", "rash", "fever"]).tolist()
        [0.5, 0.5]
        """
        rows = [self.positions[word] for word in words if word in self.positions]
        if not rows:
            return np.zeros(self.size)
        return np.asarray(self.vectors[rows].mean(axis=0, dtype=np.float64))

    def query_mean(self, terms: Iterable[str]) -> NDArray[np.float64]:
        """Return the mean vector of a query, the same to the last bit in any order of its words."""
        return self.mean(sorted(terms, key=str.encode))

    def nearest(self, word: str, k: int = 10) -> list[tuple[str, float]]:
        """Return the words whose vectors make the smallest angle with a word's, and the cosines."""
        if word not in self.positions:
            return []
        rows = self.vectors.astype(np.float64)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        cosines = rows @ rows[self.positions[word]]
        cosines[self.positions[word]] = -np.inf
        order = np.argsort(-cosines, kind="stable")[: min(k, len(self.words) - 1)]
        return [(self.words[i], float(cosines[i])) for i in order.tolist()]

    def save(self, path: str | Path) -> None:
        """Write a checksummed file that its owner alone may read (mode 0600)."""
        write_arrays(path, KIND, *self._parts())

    def to_bytes(self) -> bytes:
        """Return what `save` would write; for a pod that is not a folder."""
        return to_bytes(KIND, *self._parts())

    @classmethod
    def open(cls, path: str | Path) -> WordVectors:
        """Map what `save` wrote; damage raises `Damaged`."""
        return _stored(open_arrays(path, KIND, what="a file of word vectors"), str(path))

    @classmethod
    def from_bytes(cls, content: bytes) -> WordVectors:
        """Read what `to_bytes` made; damage raises `Damaged`."""
        return _stored(from_bytes(content, KIND, what="a file of word vectors"), KIND)

    def _parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        encoded = [word.encode("utf-8") for word in self.words]
        arrays: dict[str, NDArray[Any]] = {
            "words": np.frombuffer(b"".join(encoded), np.uint8),
            "ends": np.cumsum([len(word) for word in encoded], dtype=np.int64),
            "vectors": self.vectors,
            "counts": self.counts,
        }
        if self.contexts is not None:
            arrays["contexts"] = self.contexts
        return {"basis": self.basis}, arrays


def _stored(stored: StoredArrays, where: str) -> WordVectors:
    try:
        ends = stored.arrays["ends"].tolist()
        joined = stored.arrays["words"].tobytes()
        words = tuple(
            joined[begin:end].decode("utf-8") for begin, end in zip([0, *ends], ends, strict=False)
        )
        return WordVectors(
            words,
            stored.arrays["vectors"],
            stored.arrays["counts"],
            stored.arrays.get("contexts"),
            str(stored.header["basis"]),
        )
    except (KeyError, UnicodeDecodeError, DataError):
        raise Damaged("not the parts that word vectors have", where=where) from None
