"""Kernel features of whole sets of candidates, by torch: what last layers are fitted to."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.rank.conv_knrm import ConvKnrm
from cloister.rank.knrm import Knrm
from cloister.rank.neural_batches import JudgedTexts, NumberedTexts
from cloister.rank.neural_ranker import NeuralRanker, load_torch, tensors_of, torch_threads

__all__ = ["kernel_rows"]

BATCH_CELLS: Final = 200_000  # pairs of words compared at once


def kernel_rows(ranker: NeuralRanker, texts: JudgedTexts) -> NDArray[np.float32]:
    """Return phi of each row under a K-NRM, Conv-KNRM or C-KNRM*; documents are taken whole."""
    model = ranker.model
    if not isinstance(model, Knrm | ConvKnrm):
        raise DataError(f"{model.kind} has no kernels", where="ranker")
    torch = load_torch()
    tensors = tensors_of(ranker)
    n_features = len(ranker.parameters["weights"])
    phi = np.empty((texts.n_rows, n_features), np.float32)
    with torch.inference_mode(), torch_threads(1):
        for rows, batch in NumberedTexts(texts, ranker.embedding).all_batches(BATCH_CELLS):
            phi[rows] = model.features(tensors, batch).numpy()
    return phi
