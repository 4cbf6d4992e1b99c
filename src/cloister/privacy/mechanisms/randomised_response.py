"""Randomised response: an answer is true with a known chance (Warner 1965, for k answers)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from cloister.core.errors import DataError, SettingsError
from cloister.privacy.mechanisms.mechanism import Mechanism
from cloister.privacy.mechanisms.noise_source import NoiseSource, checked_integers
from cloister.privacy.release import Release
from cloister.privacy.releases.randomised_response import RandomisedResponseRelease

__all__ = ["RandomisedResponse"]


class RandomisedResponse(Mechanism):
    """Local privacy: pure, with epsilon = log(p (k - 1) / (1 - p)) an answer, before it is sent.

    Nobody is trusted with the true answers. That an answer was given at all is not hidden, so
    neighbours differ by an answer changed to another.

    Parameters
    ----------
    keep_probability
        The chance p of the true answer.
    n_options
        How many answers there are, k: the numbers 0 to k - 1.
    n_answers
        How many of the protected answers concern one unit at most.

    Examples
    --------
    >>> from cloister.core.random import stream
    >>> from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
    >>> poll = RandomisedResponse(level="interaction", keep_probability=0.5, n_options=3)
    >>> truth = np.repeat([0, 1, 2], [7000, 2000, 1000])
    >>> answers, release = poll.protect(truth, SimulatedNoise(stream(1, "example")))
    >>> poll.estimated_counts(answers).round(-3).tolist(), round(release.epsilon, 3)
    ([7000.0, 2000.0, 1000.0], 0.693)
    """

    neighbours: Literal["replace"] = "replace"
    keep_probability: float = Field(gt=0, lt=1)
    n_options: int = Field(ge=2)
    n_answers: int = Field(default=1, ge=1)

    def estimated_counts(self, answers: ArrayLike) -> NDArray[np.float64]:
        """Estimate how many true answers there are of each kind, without bias.

        An estimate can be below 0. Its variance is at most n / (4 (p - q)^2) for n answers, where
        q = (1 - p) / (k - 1) is the chance of each wrong one.
        """
        array = self._checked(answers)
        other = (1 - self.keep_probability) / (self.n_options - 1)
        informative = self.keep_probability - other
        if not informative > 0:
            raise SettingsError(
                "answers carry nothing if the true one is as likely as any other",
                where="keep_probability",
            )
        seen = np.bincount(array.ravel(), minlength=self.n_options)
        return np.asarray((seen - array.size * other) / informative, np.float64)

    def _kind(self) -> type[Release]:
        return RandomisedResponseRelease

    def _noised(self, values: ArrayLike, source: NoiseSource) -> NDArray[Any]:
        array = self._checked(values)
        answers = source.randomised_response(array.ravel(), self.keep_probability, self.n_options)
        return answers.reshape(array.shape)

    def _checked(self, answers: ArrayLike) -> NDArray[np.int64]:
        array = checked_integers(answers, where="RandomisedResponse")
        if array.min() < 0 or array.max() >= self.n_options:
            raise DataError(f"an answer is outside 0..{self.n_options - 1}", where="answers")
        return array
