"""K-NRM: kernel pooling over the cosines of single words (Xiong et al., SIGIR 2017).

The score of a pair is tanh(w . phi + b), phi the eleven kernel features of
:mod:`cloister.rank.kernel_pooling`, summed over the query's words. In the paper the word vectors
are trained too, with millions of clicks; here that is a setting, off by default: some hundred
judged queries are too few for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import Field

from cloister.core.settings import Settings
from cloister.rank.cross_match import match_features, word_grams
from cloister.rank.embedding import Embedding
from cloister.rank.kernel_pooling import N_KERNELS, N_SOFT
from cloister.rank.neural_batches import TextBatch
from cloister.rank.neural_ranker import VECTORS, Floats, Tensor, Tensors, load_torch, uniform

__all__ = ["KernelModelSettings", "Knrm", "KnrmSettings", "last_layer", "output_weights"]


class KernelModelSettings(Settings):
    """What K-NRM and its kin have in common.

    Parameters
    ----------
    mask_exact
        Whether n-grams that share a word are left out of the soft kernels. The papers leave them
        in, and the values then tell the term frequency: see :mod:`cloister.rank.kernel_pooling`.
    exact_kernel
        Whether the exact kernel is a feature. C-KNRM*/T has the score of a forest in its place.
    n_extra
        Further features of a pair beside the kernels, such as that score.
    train_vectors
        Whether word vectors are trained too.
    """

    mask_exact: bool = True
    exact_kernel: bool = True
    n_extra: int = Field(default=0, ge=0)
    train_vectors: bool = False

    @property
    def n_kernels(self) -> int:
        """Features of one cross match."""
        return N_KERNELS if self.exact_kernel else N_SOFT


class KnrmSettings(KernelModelSettings):
    """What a K-NRM is made of; see `KernelModelSettings`."""


@dataclass(frozen=True)
class Knrm:
    """K-NRM as a `cloister.rank.neural_ranker.NeuralModel`.

    Examples
    --------
    >>> from cloister.rank.neural_ranker import NeuralRanker
    >>> embedding = Embedding(("cough", "fever"), np.array([[1, 0], [0.6, 0.8]], np.float32))
    >>> ranker = NeuralRanker.initial(Knrm(), embedding)
    >>> {name: value.shape for name, value in ranker.parameters.items()}
    {'weights': (11,), 'bias': (1,)}
    """

    settings: KnrmSettings = field(default_factory=KnrmSettings)
    kind = "knrm"

    @property
    def n_extra(self) -> int:
        """Further features that it takes for each pair."""
        return self.settings.n_extra

    def constant(self, name: str) -> bool:
        """Say whether training leaves a parameter as it is."""
        return name == VECTORS and not self.settings.train_vectors

    def initial(self, embedding: Embedding, rng: np.random.Generator) -> dict[str, Floats]:
        """Return the parameters of an untrained ranker."""
        return output_weights(self.settings.n_kernels + self.n_extra, rng)

    def features(self, tensors: Tensors, batch: TextBatch) -> Tensor:
        """Return the kernel features of each pair, and its further features after them."""
        phi = match_features(
            batch.rows,
            *word_grams(tensors[VECTORS], batch),
            mask_exact=self.settings.mask_exact,
            exact_kernel=self.settings.exact_kernel,
        )
        return with_extra(phi, batch)

    def scores(self, tensors: Tensors, batch: TextBatch) -> Tensor:
        """Return the score of each pair."""
        return last_layer(self.features(tensors, batch), tensors)


def output_weights(n_features: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Return first weights of the last layer."""
    return {"weights": uniform(rng, n_features, n_features), "bias": np.zeros(1, np.float32)}


def with_extra(phi: Tensor, batch: TextBatch) -> Tensor:
    """Put the further features of each pair after its kernel features."""
    torch: Any = load_torch()
    return torch.cat([phi, torch.from_numpy(np.ascontiguousarray(batch.extra))], dim=1)


def last_layer(phi: Tensor, tensors: Tensors) -> Tensor:
    """Return tanh(w . phi + b)."""
    torch: Any = load_torch()
    return torch.tanh(phi @ tensors["weights"] + tensors["bias"])
