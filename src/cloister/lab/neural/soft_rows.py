"""Soft kernel features of all candidates under one C-KNRM*, in every form that is tried.

Kernel values are computed once; obfuscations and closed maps are made from them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.ranking_keys import RankingKeys
from cloister.cloud.served_features import soft_features
from cloister.lab.neural.layers import Features
from cloister.lab.neural.query_rows import QueryRows
from cloister.lab.neural.scene import NeuralScene
from cloister.rank.c_knrm_star import DocumentKernels
from cloister.rank.neural_ranker import NeuralRanker
from cloister.rank.query_kernels import KeyValues, QueryKernels

__all__ = ["SoftRows"]

Floats = NDArray[np.float64]


class SoftRows:
    """Kernel values of all queries' keys with their candidates.

    Parameters
    ----------
    scene
        Queries and candidates.
    star
        A trained C-KNRM*, exact matches masked.
    """

    def __init__(self, scene: NeuralScene, star: NeuralRanker) -> None:
        self.kernels = DocumentKernels.of(star, scene.documents)
        self._scene = scene
        kernels = QueryKernels(self.kernels)
        self._values = tuple(
            [
                kernels.values(terms, documents)
                for terms, documents in zip(part.terms, part.documents, strict=True)
            ]
            for part in scene.parts
        )

    def star_features(self) -> Features:
        """Return C-KNRM*'s own 33 features of each candidate, exact kernels among them."""
        return Features(*(np.concatenate([one.features() for one in v]) for v in self._values))

    def features(self, obfuscation: KernelObfuscation, keys: RankingKeys | None = None) -> Features:
        """Return the 30 soft features of each candidate; of a full map where no keys are given."""
        return Features(
            *(
                _rows(part, values, obfuscation, keys)
                for part, values in zip(self._scene.parts, self._values, strict=True)
            )
        )


def _rows(
    part: QueryRows,
    values: list[KeyValues],
    obfuscation: KernelObfuscation,
    keys: RankingKeys | None,
) -> Floats:
    rows = []
    for terms, documents, one in zip(part.terms, part.documents, values, strict=True):
        held = None if keys is None else keys.held(terms, documents)
        rows.append(soft_features(one, obfuscation, held))
    return np.concatenate(rows)
