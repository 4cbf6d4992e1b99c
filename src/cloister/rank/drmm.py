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
from pydantic import Field

from cloister.core.settings import Settings
from cloister.index.term_counts import TermCounts
from cloister.rank.cross_match import TextGrams, pair_similarities, text_grams
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
        query, document = (
            _words(tensors[VECTORS], numbers, batch.n_known)
            for numbers in (batch.queries, batch.documents)
        )
        counts = _histograms(query, document, self.settings.n_bins)
        hidden = torch.tanh(torch.log1p(counts) @ tensors["inner"] + tensors["inner_bias"])
        outcome = torch.tanh(hidden @ tensors["outer"] + tensors["outer_bias"])
        words = query.words[:, :, 0]
        rows = torch.where(words <= batch.n_known, words, torch.zeros_like(words))
        gates = (tensors["gate"] * tensors["idf"][rows]).masked_fill(~query.present, -math.inf)
        empty = ~query.present.any(dim=1, keepdim=True)  # a softmax over nothing has no value
        weights = torch.softmax(gates.masked_fill(empty, 0.0), dim=1)
        return (weights * outcome * query.present).sum(dim=1)


def _words(vectors: Tensor, numbers: Numbers, n_known: int) -> TextGrams:
    unit, grams = text_grams(vectors, numbers, 1, n_known)
    return grams._replace(vectors=unit)


def _histograms(query: TextGrams, document: TextGrams, n_bins: int) -> Tensor:
    """Count cosines in bins: (texts, query words, bins)."""
    torch = load_torch()
    pairs = pair_similarities(query, document)
    bins = torch.floor((pairs.cosines + 1) / 2 * (n_bins - 1)).long().clamp(0, n_bins - 2)
    bins = torch.where(pairs.same, torch.full_like(bins, n_bins - 1), bins)
    counts = torch.zeros(*bins.shape[:2], n_bins, dtype=pairs.cosines.dtype)
    return counts.scatter_add_(2, bins, pairs.counted.to(counts.dtype))
