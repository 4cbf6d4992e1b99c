"""Cross matches in torch: kernel pooling over all pairs of query and document n-grams.

The same arithmetic as :mod:`cloister.rank.kernel_pooling`, for whole batches and with gradients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cloister.rank.kernel_pooling import KERNEL_MEANS, KERNEL_WIDTHS, LOG_FLOOR, LOG_SCALE, N_SOFT
from cloister.rank.neural_batches import Numbers
from cloister.rank.neural_ranker import Tensor, load_torch

__all__ = ["TextGrams", "match_features", "pair_similarities", "text_grams"]


class TextGrams(NamedTuple):
    """The n-grams of each text of a batch.

    Parameters
    ----------
    vectors
        (texts, places, size), of length 1 or 0.
    words
        (texts, places, n): the numbers of the words.
    present
        (texts, places): whether an n-gram is there at all.
    known
        (texts, places): whether all of its words have a vector.
    """

    vectors: Tensor
    words: Tensor
    present: Tensor
    known: Tensor


def text_grams(vectors: Tensor, numbers: Numbers, n: int, n_known: int) -> tuple[Tensor, TextGrams]:
    """Return the unit word vectors of texts, and their n-grams, yet without vectors.

    Words without a vector have a zero row. Texts of fewer than n words are filled up to n places;
    the n-grams that come of this are not present.
    """
    torch = load_torch()
    width = max(numbers.shape[1], n)
    filled = np.zeros((len(numbers), width), np.int64)
    filled[:, : numbers.shape[1]] = numbers
    words = torch.from_numpy(filled)
    rows = torch.where(words <= n_known, words, torch.zeros_like(words))
    unit = torch.nn.functional.normalize(vectors, dim=1)[rows]
    grams = words.unfold(1, n, 1)
    present = (grams > 0).all(dim=2)
    known = present & (grams <= n_known).all(dim=2)
    return unit, TextGrams(unit[:, :0], grams, present, known)


class PairSimilarities(NamedTuple):
    """Of each text, query n-gram and document n-gram: the cosine, and what kind of pair it is."""

    cosines: Tensor
    counted: Tensor  # both have a vector, or they are the same
    same: Tensor
    shares: Tensor  # they have a word in common


def pair_similarities(query: TextGrams, document: TextGrams) -> PairSimilarities:
    """Compare all n-grams of each query with all n-grams of its document."""
    torch = load_torch()
    both = query.present[:, :, None] & document.present[:, None, :]
    equal = query.words[:, :, None, :, None] == document.words[:, None, :, None, :]
    shares = equal.flatten(3).any(dim=3) & both
    same = torch.zeros_like(shares)
    if query.words.shape[2] == document.words.shape[2]:
        same = equal.diagonal(dim1=3, dim2=4).all(dim=3) & both
    cosines = query.vectors @ document.vectors.transpose(1, 2)
    cosines = torch.where(same, torch.ones_like(cosines), cosines)
    known = query.known[:, :, None] & document.known[:, None, :]
    return PairSimilarities(cosines, known | same, same, shares)


def match_features(
    query: TextGrams, document: TextGrams, *, mask_exact: bool, exact_kernel: bool
) -> Tensor:
    """Return 0.01 ln(max(K, 1e-10)) summed over each query's n-grams: (texts, kernels)."""
    torch = load_torch()
    pairs = pair_similarities(query, document)
    n_kernels = len(KERNEL_MEANS) if exact_kernel else N_SOFT
    soft = pairs.counted & ~pairs.shares if mask_exact else pairs.counted
    pooled = []
    for kernel in range(n_kernels):
        off = (pairs.cosines - float(KERNEL_MEANS[kernel])) / float(KERNEL_WIDTHS[kernel])
        weight = soft if kernel < N_SOFT else pairs.counted
        pooled.append((torch.exp(-0.5 * off * off) * weight).sum(dim=2))
    logs = torch.log(torch.stack(pooled, dim=2).clamp(min=LOG_FLOOR))
    return LOG_SCALE * (logs * query.present[:, :, None]).sum(dim=1)
