"""Conv-KNRM: kernel pooling over the cosines of n-grams (Dai et al., WSDM 2018).

The vector of n adjacent words is relu(W_n [v_1 ... v_n] + b_n), brought to the length 1: a
convolution with 128 filters over the unit vectors of the words. Query n-grams of each length are
matched with document n-grams of each length: 9 cross matches of 11 kernels for lengths up to 3.

An n-gram is n words that stand in the text; texts are not filled up at their end, so that an n-gram
is a key that can be looked up. An n-gram with a word that has no vector has none. Where the masking
is on, n-grams that share a word do not meet in a soft kernel, also if they differ in length: the
convolution of a pair is near that of its words, and would tell how often they occur.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.rank.cross_match import (
    BatchWords,
    VectorGrams,
    batch_words,
    compose_grams,
    match_features,
    text_grams,
)
from cloister.rank.embedding import Embedding
from cloister.rank.knrm import KernelModelSettings, last_layer, output_weights, with_extra
from cloister.rank.neural_batches import FlatTexts, TextBatch
from cloister.rank.neural_ranker import (
    VECTORS,
    Floats,
    Parameters,
    Tensor,
    Tensors,
    load_torch,
    uniform,
)

__all__ = ["ConvKnrm", "ConvKnrmSettings", "compose", "gram_features", "initial_filters"]

Match = tuple[int, int]  # words of a query's n-grams and of a document's


class ConvKnrmSettings(KernelModelSettings):
    """What a Conv-KNRM is made of; see `KernelModelSettings` for the rest.

    Parameters
    ----------
    n_filters
        Size of an n-gram's vector.
    longest
        Words of the longest n-grams.
    """

    n_filters: int = Field(default=128, ge=1)
    longest: int = Field(default=3, ge=1, le=5)


@dataclass(frozen=True)
class ConvKnrm:
    """Conv-KNRM as a `cloister.rank.neural_ranker.NeuralModel`.

    Examples
    --------
    >>> len(ConvKnrm().matches)
    9
    """

    settings: ConvKnrmSettings = field(default_factory=ConvKnrmSettings)
    kind = "conv-knrm"

    @property
    def matches(self) -> tuple[Match, ...]:
        """The cross matches in the order of their features."""
        lengths = range(1, self.settings.longest + 1)
        return tuple((query, document) for query in lengths for document in lengths)

    @property
    def n_extra(self) -> int:
        """Further features that it takes for each pair."""
        return self.settings.n_extra

    def constant(self, name: str) -> bool:
        """Say whether training leaves a parameter as it is."""
        return name == VECTORS and not self.settings.train_vectors

    def initial(self, embedding: Embedding, rng: np.random.Generator) -> dict[str, Floats]:
        """Return the parameters of an untrained ranker."""
        filters = initial_filters(embedding.size, self.settings.n_filters, self.matches, rng)
        n_features = len(self.matches) * self.settings.n_kernels + self.n_extra
        return filters | output_weights(n_features, rng)

    def features(self, tensors: Tensors, batch: TextBatch) -> Tensor:
        """Return the kernel features of each pair, and its further features after them."""
        return gram_features(self.settings, self.matches, tensors, batch)

    def scores(self, tensors: Tensors, batch: TextBatch) -> Tensor:
        """Return the score of each pair."""
        return last_layer(self.features(tensors, batch), tensors)


def initial_filters(
    size: int, n_filters: int, matches: tuple[Match, ...], rng: np.random.Generator
) -> dict[str, Floats]:
    """Return first filters for each length of n-grams: (words, size, filters) and biases."""
    parameters = {}
    for n in sorted({n for match in matches for n in match}):
        parameters[f"filters_{n}"] = uniform(rng, n * size, n, size, n_filters)
        parameters[f"shifts_{n}"] = np.zeros(n_filters, np.float32)
    return parameters


def gram_features(
    settings: KernelModelSettings, matches: tuple[Match, ...], tensors: Tensors, batch: TextBatch
) -> Tensor:
    """Return the features of some cross matches, and the further features after them."""
    torch = load_torch()
    words = batch_words(tensors[VECTORS], batch)
    lengths = sorted({n for match in matches for n in match})
    convolutions = {n: _Convolution.of(tensors, words, n) for n in lengths}
    query = {n: convolutions[n].grams(batch.queries, n) for n in {n for n, _ in matches}}
    document = {n: convolutions[n].grams(batch.documents, n) for n in {n for _, n in matches}}
    phi = [
        match_features(
            batch.rows,
            query[of_query],
            document[of_document],
            mask_exact=settings.mask_exact,
            exact_kernel=settings.exact_kernel,
        )
        for of_query, of_document in matches
    ]
    return with_extra(torch.cat(phi, dim=1), batch)


class _Convolution(NamedTuple):
    """The words of a batch as the filters of each place of n have them, and the biases."""

    words: BatchWords
    projected: Tensor  # (words, places, filters)
    shifts: Tensor

    @classmethod
    def of(cls, tensors: Tensors, words: BatchWords, n: int) -> _Convolution:
        filters = tensors[f"filters_{n}"]
        side_by_side = filters.permute(1, 0, 2).reshape(filters.shape[1], -1)
        projected = (words.vectors @ side_by_side).reshape(-1, n, filters.shape[2])
        return cls(words, projected, tensors[f"shifts_{n}"])

    def grams(self, texts: FlatTexts, n: int) -> VectorGrams:
        grams = text_grams(texts, n, self.words.n_known)
        rows = self.words.rows(grams.words)
        return VectorGrams(grams, compose_grams(self.projected, self.shifts, rows))


def compose(
    parameters: Parameters, embedding: Embedding, rows: NDArray[np.int64]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the vectors of n-grams with NumPy alone, and which n-grams have one.

    Parameters
    ----------
    parameters
        Of a trained Conv-KNRM or C-KNRM*.
    embedding
        Its word vectors.
    rows
        The words of each n-gram (row) as rows of the embedding, -1 for words without a vector.
    """
    n = rows.shape[1]
    filters = parameters[f"filters_{n}"]
    known = np.asarray((rows >= 0).all(axis=1))
    total = np.tile(parameters[f"shifts_{n}"], (len(rows), 1))
    for place in range(n):
        total[known] += embedding.vectors[rows[known, place]] @ filters[place]
    total = np.maximum(total, 0)
    total[~known] = 0
    lengths = np.linalg.norm(total, axis=1, keepdims=True)
    return np.divide(total, lengths, out=np.zeros_like(total), where=lengths > 1e-12), known
