"""Rankers that private neural ranking is compared with; none of them is private.

K-NRM and Conv-KNRM are as published: exact matches count in soft kernels too. Word vectors stay as
they are unless a setting trains those of K-NRM.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.lab.neural.kernel_rows import kernel_rows
from cloister.lab.neural.layers import Features, layer_scores, soft_columns
from cloister.lab.neural.scene import NeuralScene
from cloister.lab.neural.trial_settings import NeuralTrialSettings
from cloister.rank.c_knrm_star import CKnrmStar, CKnrmStarSettings
from cloister.rank.conv_knrm import ConvKnrm, ConvKnrmSettings
from cloister.rank.drmm import Drmm, inverse_document_frequencies
from cloister.rank.knrm import Knrm, KnrmSettings
from cloister.rank.neural_ranker import NeuralModel, NeuralRanker
from cloister.rank.neural_training import NeuralTraining, fit_neural

__all__ = ["conv_knrm_scores", "drmm_scores", "features_of", "knrm_scores", "trained_star"]

Floats = NDArray[np.float64]


def drmm_scores(scene: NeuralScene, settings: NeuralTrialSettings) -> Floats:
    """Return the scores of the test candidates by a trained DRMM."""
    model = Drmm(idf=inverse_document_frequencies(scene.collection.texts.counts))
    ranker = _trained(model, scene, settings.drmm, settings.seed)
    return ranker.score_rows(scene.test.texts(scene.documents)).astype(np.float64)


def knrm_scores(scene: NeuralScene, settings: NeuralTrialSettings) -> Floats:
    """Return the scores of the test candidates by K-NRM."""
    model = Knrm(KnrmSettings(mask_exact=False, train_vectors=settings.train_vectors))
    ranker = NeuralRanker.initial(model, scene.embedding, seed=settings.seed)
    if settings.train_vectors:
        ranker = _trained(model, scene, settings.knrm, settings.seed)
    learnt = soft_columns(1) if settings.train_vectors else ()
    return layer_scores(scene, features_of(ranker, scene), settings, learnt=learnt).scores


def conv_knrm_scores(scene: NeuralScene, settings: NeuralTrialSettings) -> Floats:
    """Return the scores of the test candidates by a trained Conv-KNRM."""
    model = ConvKnrm(
        ConvKnrmSettings(mask_exact=False, n_filters=settings.n_filters, longest=settings.longest)
    )
    ranker = _trained(model, scene, settings.convolutions, settings.seed)
    learnt = soft_columns(len(model.matches))
    return layer_scores(scene, features_of(ranker, scene), settings, learnt=learnt).scores


def trained_star(scene: NeuralScene, settings: NeuralTrialSettings) -> NeuralRanker:
    """Train a C-KNRM* whose soft kernels leave exact matches out."""
    model = CKnrmStar(CKnrmStarSettings(n_filters=settings.n_filters))
    return _trained(model, scene, settings.convolutions, settings.seed)


def features_of(ranker: NeuralRanker, scene: NeuralScene) -> Features:
    """Return the kernel features of all candidates."""
    return Features(*(kernel_rows(ranker, part.texts(scene.documents)) for part in scene.parts))


def _trained(
    model: NeuralModel, scene: NeuralScene, training: NeuralTraining, seed: int
) -> NeuralRanker:
    return fit_neural(
        NeuralRanker.initial(model, scene.embedding, seed=seed),
        scene.training.texts(scene.documents),
        training,
        seed=seed,
        validation=scene.validation.texts(scene.documents),
    ).ranker
