"""What a server holds of some documents in a closed soft match map, and the truth beside it.

A `KernelScene` has a row for each (word, document) of the map: words whose closure has the
document, so that most of them do not occur in it. Beside the row's soft kernel values, with exact
matches masked and not, stand the term frequency, which the server must not learn, and whether the
document is one of those that the adversary knows: it learns from these and guesses the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.cloud.adaptive_clustering import AdaptiveThresholds
from cloister.cloud.closure_pairs import ClosurePairs
from cloister.cloud.clustering import term_closures
from cloister.cloud.fixed_threshold_clustering import FixedThreshold
from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.soft_match_map import (
    ClosureKernels,
    SoftMatchMap,
    build_soft_match_map,
    gram_kernels,
)
from cloister.cloud.term_closures import TermClosures
from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.index.term_counts import TermCounts
from cloister.rank.c_knrm_star import CKnrmStar, composed_grams, matches_of_key
from cloister.rank.embedding import Embedding
from cloister.rank.kernel_pooling import N_SOFT, GramCounts, GramTable, count_grams, word_table
from cloister.rank.neural_ranker import NeuralRanker
from cloister.rank.proximity_features import TermSequences

__all__ = [
    "NO_VALUES",
    "KernelDesign",
    "KernelScene",
    "KernelSceneSettings",
    "c_knrm_star_scene",
    "knrm_scene",
]

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


class KernelDesign(NamedTuple):
    """How soft kernel values are stored.

    Parameters
    ----------
    masked
        Whether exact matches are left out of the soft kernels; the slides leave them in.
    base
        r of the levels; None keeps plain values.

    Examples
    --------
    >>> KernelDesign(False, None).name, KernelDesign(True, 10).name
    ('unmasked, plain', 'masked, r = 10')
    """

    masked: bool
    base: float | None

    @property
    def name(self) -> str:
        """What it is called in tables."""
        if self == NO_VALUES:
            return "no values"
        values = "plain" if self.base is None else f"r = {self.base:g}"
        return f"{'masked' if self.masked else 'unmasked'}, {values}"


NO_VALUES: Final = KernelDesign(True, 1e30)
"""No kernel value is above this base: all have level 1, as if none were stored."""


class KernelSceneSettings(Settings):
    """Which documents, and which words with them.

    Parameters
    ----------
    n_documents
        Drawn from the collection's. All of them are taken where there are fewer.
    known_share
        Share of these that the adversary knows.
    closures
        How the words of the whole collection are put into closures.
    seed
        Of both draws.
    """

    n_documents: int = Field(default=200, ge=2)
    known_share: float = Field(default=0.5, gt=0, lt=1)
    closures: AdaptiveThresholds | FixedThreshold = AdaptiveThresholds()
    seed: int = Field(default=0, ge=0)


@dataclass(frozen=True, eq=False)
class KernelScene:
    """Rows (word, document) of a closed map.

    Parameters
    ----------
    masked, unmasked
        Plain soft kernel values. The first ten are those of words with words; there may be ten
        more, of words with pairs of adjacent words.
    words, closures, documents
        Numbers of each row's word, of its closure, and of its document.
    frequencies
        How often the word occurs in the document: the secret.
    lengths
        Of the row's document, in words that have a vector, which kernels count.
    known
        Whether the adversary knows the row's document.
    """

    masked: Floats = field(repr=False)
    unmasked: Floats = field(repr=False)
    words: Integers = field(repr=False)
    closures: Integers = field(repr=False)
    documents: Integers = field(repr=False)
    frequencies: Integers = field(repr=False)
    lengths: Integers = field(repr=False)
    known: NDArray[np.bool_] = field(repr=False)

    def __post_init__(self) -> None:
        n = len(self.frequencies)
        columns = (self.words, self.closures, self.documents, self.lengths, self.known)
        sound = (
            all(column.shape == (n,) for column in columns)
            and self.masked.ndim == 2
            and self.masked.shape == self.unmasked.shape
            and len(self.masked) == n
            and self.masked.shape[1] >= N_SOFT
        )
        if not sound:
            raise DataError("the columns do not fit together", where="KernelScene")
        if self.known.all() or not self.known.any():
            raise DataError(
                "documents to learn from and others are needed",
                where="KernelScene.known",
                remedy="take more documents",
            )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.frequencies)

    def stored(self, design: KernelDesign) -> NDArray[Any]:
        """Return the rows' vectors as the server has them under a design."""
        values = self.masked if design.masked else self.unmasked
        return KernelObfuscation(base=design.base).stored(values)

    def summary(self) -> Mapping[str, float]:
        """Return figures of the rows: how many there are and how many occur."""
        occurring = self.frequencies > 0
        return {
            "n_rows": self.n_rows,
            "n_documents": len(np.unique(self.documents)),
            "n_words": len(np.unique(self.words)),
            "n_attacked_rows": int((~self.known).sum()),
            "occurring_share": float(occurring.mean()),
            "mean_frequency_occurring": float(self.frequencies[occurring].mean()),
        }


def knrm_scene(
    texts: TermSequences, embedding: Embedding, settings: KernelSceneSettings | None = None
) -> KernelScene:
    """Return the scene of words with words under an embedding, as K-NRM has them: ten kernels.

    Examples
    --------
    >>> vectors = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)
    >>> embedding = Embedding(("flu", "virus", "bone"), vectors)
    >>> texts = TermSequences.of([["flu", "flu", "bone"], ["virus", "bone"]])
    >>> scene = knrm_scene(texts, embedding)  # fewer words than a closure should have: one closure
    >>> scene.n_rows, scene.masked.shape[1], sorted(scene.frequencies.tolist())
    (6, 10, [0, 0, 1, 1, 1, 2])
    """
    settings = settings or KernelSceneSettings()
    chosen = _chosen(texts, settings)
    keys = word_table(texts.counts, embedding)
    rows = keys.select(chosen)
    kernels = {mask: gram_kernels(keys, rows, mask_exact=mask) for mask in (True, False)}
    return _scene(texts, keys, chosen, kernels, settings)


def c_knrm_star_scene(
    texts: TermSequences, ranker: NeuralRanker, settings: KernelSceneSettings | None = None
) -> KernelScene:
    """Return the scene of words with words and with adjacent pairs under a C-KNRM*: 20 kernels.

    Closures are made from the embedding's vectors, kernels from those that the filters compose.
    """
    if not isinstance(ranker.model, CKnrmStar):
        raise DataError(f"not a C-KNRM* but {ranker.model.kind}", where="ranker")
    settings = settings or KernelSceneSettings()
    chosen = _chosen(texts, settings)
    keys = composed_grams(ranker, GramCounts.of_terms(texts.counts))
    documents = [texts.document(number) for number in chosen.tolist()]
    tables = [composed_grams(ranker, count_grams(documents, n)) for n in matches_of_key(("word",))]
    kernels = {mask: _joined(keys, tables, mask) for mask in (True, False)}
    words = word_table(texts.counts, ranker.embedding)
    return _scene(texts, words, chosen, kernels, settings, n_kernels=len(tables) * N_SOFT)


def _joined(keys: GramTable, tables: Sequence[GramTable], mask: bool) -> ClosureKernels:
    """Return the soft kernels of keys with the n-grams of several tables, side by side."""
    parts = [gram_kernels(keys, table, mask_exact=mask) for table in tables]

    def values(terms: Integers, numbers: Integers) -> NDArray[Any]:
        return np.concatenate([part(terms, numbers) for part in parts], axis=2)

    return values


def _chosen(texts: TermSequences, settings: KernelSceneSettings) -> Integers:
    """Draw documents that are not empty, in the order drawn."""
    filled = np.flatnonzero(np.diff(texts.starts) > 0)
    rng = stream(settings.seed, "kernel-scene")
    return np.asarray(rng.permutation(filled)[: settings.n_documents], np.int64)


def _scene(
    texts: TermSequences,
    keys: GramTable,
    chosen: Integers,
    kernels: Mapping[bool, ClosureKernels],
    settings: KernelSceneSettings,
    n_kernels: int = N_SOFT,
) -> KernelScene:
    closures = term_closures(texts.vocabulary, keys.vectors, settings.closures)
    counts = texts.counts.select(chosen)
    grams, plain = GramCounts.of_terms(counts), KernelObfuscation(base=None)
    maps: dict[bool, SoftMatchMap] = {
        mask: build_soft_match_map(closures, grams, kernel, plain, n_kernels=n_kernels)
        for mask, kernel in kernels.items()
    }
    words, documents = _row_names(closures, maps[True].pairs)
    n_known = round(settings.known_share * len(chosen))
    return KernelScene(
        masked=maps[True].values,
        unmasked=maps[False].values,
        words=words,
        closures=closures.labels[words],
        documents=chosen[documents],
        frequencies=_frequencies(counts, words, documents),
        lengths=_known_lengths(counts, keys.known)[documents],
        known=documents < min(max(n_known, 1), len(chosen) - 1),
    )


def _row_names(closures: TermClosures, pairs: ClosurePairs) -> tuple[Integers, Integers]:
    """Return the word and the document of each row of a `SoftMatchMap`."""
    n_documents = np.diff(pairs.starts)[closures.labels[closures.terms]]
    words = np.repeat(closures.terms, n_documents)
    first = pairs.starts[closures.labels[words]]  # where the documents of the row's closure begin
    begin = np.cumsum(n_documents) - n_documents
    place = np.arange(len(words)) - np.repeat(begin, n_documents)
    return words, pairs.documents[first + place].astype(np.int64)


def _frequencies(counts: TermCounts, words: Integers, documents: Integers) -> Integers:
    owner = np.repeat(np.arange(counts.n_documents), np.diff(counts.starts))
    held = owner * counts.n_terms + counts.terms  # rises
    asked = documents * counts.n_terms + words
    place = np.minimum(np.searchsorted(held, asked), len(held) - 1)
    return np.where(held[place] == asked, counts.counts[place], 0).astype(np.int64)


def _known_lengths(counts: TermCounts, has_vector: NDArray[np.bool_]) -> Integers:
    total = np.concatenate([[0], np.cumsum(counts.counts * has_vector[counts.terms])])
    return np.asarray(np.diff(total[counts.starts]), np.int64)
