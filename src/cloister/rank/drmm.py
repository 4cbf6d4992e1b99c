"""DRMM: histograms of cosines, weighed by the rarity of query words (Guo et al., CIKM 2016).

For each word of the query, the cosines with the document's words are counted in bins: 29 of equal
width over [-1, 1), and one for the word itself. The logarithms of 1 + count (LCH) go through a
small network, 30 to 5 to 1 units with tanh. The outcomes are added with weights that are a softmax
over the query's words of g . IDF, with g learnt. The counts cannot be differentiated: word vectors
are not trained. The last bin is the term frequency; a baseline, not for an untrusted server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.settings import Settings
from cloister.index.term_counts import TermCounts
from cloister.rank.cross_match import VectorGrams, compare, word_grams
from cloister.rank.embedding import Embedding
from cloister.rank.neural_batches import Numbers, TextBatch
from cloister.rank.neural_ranker import VECTORS, Floats, Tensor, Tensors, load_torch, uniform

__all__ = ["Drmm", "DrmmSettings", "inverse_document_frequencies"]


class DrmmSettings(Settings):
    """What a DRMM is made of.

    Parameters
    ----------
    n_bins
        Bins of a histogram, the last one for exact matches.
    n_hidden
        Hidden units.
    """

    n_bins: int = Field(default=30, ge=2)
    n_hidden: int = Field(default=5, ge=1)


def inverse_document_frequencies(terms: TermCounts) -> dict[str, float]:
    """Return ln(1 + (N - n + 0.5) / (n + 0.5)) of each word that n of N documents hold.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> inverse_document_frequencies(count_terms(["cough fever", "fever"]))["cough"]
    0.6931471805599453
    """
    n = terms.document_frequencies(list(terms.vocabulary))
    values = np.log1p((terms.n_documents - n + 0.5) / (n + 0.5))
    return dict(zip(terms.vocabulary, values.tolist(), strict=True))


@dataclass(frozen=True)
class Drmm:
    """DRMM as a `cloister.rank.neural_ranker.NeuralModel`.

    Parameters
    ----------
    settings
        Its make-up.
    idf
        Inverse document frequencies by word. Words of the embedding that are not there, and words
        without a vector, count as the rarest. They become parameters that training leaves alone.
    """

    settings: DrmmSettings = field(default_factory=DrmmSettings)
    idf: Mapping[str, float] = field(default_factory=dict, repr=False)
    kind = "drmm"
    n_extra = 0

    def constant(self, name: str) -> bool:
        """Say whether training leaves a parameter as it is."""
        return name in (VECTORS, "idf")

    def initial(self, embedding: Embedding, rng: np.random.Generator) -> dict[str, Floats]:
        """Return the parameters of an untrained ranker."""
        bins, hidden = self.settings.n_bins, self.settings.n_hidden
        rarest = max(self.idf.values(), default=1.0)
        idf = [rarest, *(self.idf.get(word, rarest) for word in embedding.words)]
        return {
            "idf": np.array(idf, np.float32),
            "inner": uniform(rng, bins, bins, hidden),
            "inner_bias": np.zeros(hidden, np.float32),
            "outer": uniform(rng, hidden, hidden),
            "outer_bias": np.zeros(1, np.float32),
            "gate": np.ones(1, np.float32),
        }

    def scores(self, tensors: Tensors, batch: TextBatch) -> Tensor:
        """Return the score of each pair."""
        torch = load_torch()
        query, document = word_grams(tensors[VECTORS], batch)
        counts, present = _histograms(batch.rows, query, document, self.settings.n_bins)
        hidden = torch.tanh(torch.log1p(counts) @ tensors["inner"] + tensors["inner_bias"])
        outcome = torch.tanh(hidden @ tensors["outer"] + tensors["outer_bias"])
        words = np.zeros(present.shape, np.int64)
        words[present] = query.grams.words[_keys(batch.rows, query.grams.starts), 0]
        words[words > batch.n_known] = 0
        there = torch.from_numpy(present)
        idf = tensors["idf"][torch.from_numpy(words)]
        gates = (tensors["gate"] * idf).masked_fill(~there, -math.inf)
        empty = ~there.any(dim=1, keepdim=True)  # a softmax over nothing has no value
        weights = torch.softmax(gates.masked_fill(empty, 0.0), dim=1)
        return (weights * outcome * there).sum(dim=1)


def _keys(rows: Numbers, starts: Numbers) -> Numbers:
    """Return the query words of each row, row after row."""
    sizes = np.diff(starts)[rows[:, 0]]
    before = np.cumsum(sizes) - sizes
    return np.asarray(np.arange(sizes.sum()) + np.repeat(starts[rows[:, 0]] - before, sizes))


def _histograms(
    rows: Numbers, query: VectorGrams, document: VectorGrams, n_bins: int
) -> tuple[Tensor, NDArray[np.bool_]]:
    """Count cosines in bins: (rows, query words, bins). Say which query words are there."""
    torch = load_torch()
    cells = compare(rows, query, document)
    bins = np.floor((cells.cosines + 1) / 2 * (n_bins - 1)).astype(np.int64)
    bins = np.where(cells.same, n_bins - 1, bins.clip(0, n_bins - 2))
    owners = np.repeat(np.arange(len(cells.sizes)), cells.sizes)
    n_keys = len(cells.sizes)
    flat = np.bincount((owners * n_bins + bins)[cells.counted], minlength=n_keys * n_bins)
    present = np.arange(max(cells.key_counts.max(initial=0), 1)) < cells.key_counts[:, None]
    counts = np.zeros((*present.shape, n_bins), cells.cosines.dtype)
    counts[present] = flat.reshape(n_keys, n_bins)
    return torch.from_numpy(counts), present
