"""C-KNRM*: Conv-KNRM with three cross matches, whose kernel values can be computed ahead.

Words meet words, words meet pairs of adjacent words, and pairs meet words; pairs do not meet pairs
(private neural ranking, slides). So a query needs the kernel values of its words and of its
adjacent pairs, each a key, with each candidate; `DocumentKernels` computes them with NumPy and
numba, and :class:`cloister.rank.kernel_ranker.KernelRanker` ranks by them. torch trains the filters
and is not needed afterwards.

C-KNRM*/T leaves the exact kernels out (``exact_kernel=False``) and takes the score of a forest as
a further feature (``n_extra=1``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.rank.conv_knrm import ConvKnrm, ConvKnrmSettings, Match, compose
from cloister.rank.kernel_pooling import (
    GramCounts,
    GramTable,
    count_grams,
    kernel_features,
    kernel_values,
)
from cloister.rank.neural_ranker import Floats, NeuralRanker

__all__ = [
    "CKnrmStar",
    "CKnrmStarSettings",
    "DocumentKernels",
    "composed_grams",
    "matches_of_key",
    "query_keys",
]

Key = tuple[str, ...]


class CKnrmStarSettings(ConvKnrmSettings):
    """What a C-KNRM* is made of; see `ConvKnrmSettings`. Its n-grams have one or two words."""

    longest: Literal[2] = 2


@dataclass(frozen=True)
class CKnrmStar(ConvKnrm):
    """C-KNRM* as a `cloister.rank.neural_ranker.NeuralModel`.

    Examples
    --------
    >>> CKnrmStar().matches
    ((1, 1), (1, 2), (2, 1))
    """

    settings: CKnrmStarSettings = field(default_factory=CKnrmStarSettings)
    kind = "c-knrm-star"

    @property
    def matches(self) -> tuple[Match, ...]:
        """The cross matches in the order of their features."""
        return ((1, 1), (1, 2), (2, 1))


def matches_of_key(key: Sequence[str]) -> tuple[int, ...]:
    """Return the lengths of the document n-grams that a key of one or two words meets.

    Examples
    --------
    >>> matches_of_key(["cough"]), matches_of_key(["dry", "cough"])
    ((1, 2), (1,))
    """
    if len(key) not in (1, 2):
        raise DataError(f"a key has one or two words (given: {len(key)})", where="key")
    return (1, 2) if len(key) == 1 else (1,)


def query_keys(query_terms: Sequence[str]) -> list[Key]:
    """Return the keys of a query: its words, then its pairs of adjacent words, as they stand.

    Examples
    --------
    >>> query_keys(["dry", "cough"])
    [('dry',), ('cough',), ('dry', 'cough')]
    """
    return [*((term,) for term in query_terms), *pairwise(query_terms)]


class DocumentKernels:
    """Kernel values of keys with documents under a trained C-KNRM*, without torch.

    Parameters
    ----------
    ranker
        Trained; its model is a `CKnrmStar`.
    words, pairs
        The documents' words and pairs of adjacent words, with vectors that `compose` made. `of`
        makes both.
    """

    def __init__(self, ranker: NeuralRanker, words: GramTable, pairs: GramTable) -> None:
        self.settings = _settings_of(ranker)
        self._ranker = ranker
        self._tables = {1: words, 2: pairs}

    @classmethod
    def of(cls, ranker: NeuralRanker, documents: Sequence[Sequence[str]]) -> DocumentKernels:
        """Compose the vectors of all words and adjacent pairs of analysed documents."""
        _settings_of(ranker)
        counts = (count_grams(documents, n) for n in (1, 2))
        return cls(ranker, *(composed_grams(ranker, grams) for grams in counts))

    def select(self, documents: NDArray[np.integer[Any]]) -> DocumentKernels:
        """Return the same for some documents, in the order given."""
        return DocumentKernels(
            self._ranker, *(self._tables[n].select(documents) for n in sorted(self._tables))
        )

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return self._tables[1].counts.n_documents

    def table(self, n: int) -> GramTable:
        """Return the documents' n-grams of one or two words."""
        return self._tables[n]

    def vector(self, key: Sequence[str]) -> Floats | None:
        """Return the vector of a key; None where one of its words has none."""
        rows = self._ranker.embedding.rows(key)[None, :]
        vectors, known = compose(self._ranker.parameters, self._ranker.embedding, rows)
        return vectors[0] if known[0] else None

    def values(self, key: Sequence[str]) -> Floats:
        """Return the kernel values of a key with each document: (documents, matches, 11).

        The matches are those of `matches_of_key`; the exact kernel is the last of the eleven.
        """
        lengths = matches_of_key(key)
        vector = self.vector(key)
        mask = self.settings.mask_exact
        return np.stack(
            [kernel_values(key, vector, self._tables[n], mask_exact=mask) for n in lengths], axis=1
        )

    def features(self, query_terms: Sequence[str]) -> NDArray[np.float64]:
        """Return what the ranker's last layer takes: a row a document, without further features."""
        n_kernels = self.settings.n_kernels
        phi = np.zeros((self.n_documents, 3, n_kernels))
        for key in query_keys(query_terms):
            own = slice(0, 2) if len(key) == 1 else slice(2, 3)
            phi[:, own] += kernel_features(self.values(key)[None, ..., :n_kernels])
        return phi.reshape(self.n_documents, 3 * n_kernels)


def _settings_of(ranker: NeuralRanker) -> CKnrmStarSettings:
    if not isinstance(ranker.model, CKnrmStar):
        raise DataError(f"not a C-KNRM* but {ranker.model.kind}", where="ranker")
    return ranker.model.settings


def composed_grams(ranker: NeuralRanker, counts: GramCounts) -> GramTable:
    """Return n-grams of one or two words with the vectors that a ranker's filters give them."""
    rows = np.asarray(ranker.embedding.rows(counts.vocabulary)[counts.words], np.int64)
    return GramTable(counts, *compose(ranker.parameters, ranker.embedding, rows))
