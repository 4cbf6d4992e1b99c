"""Releases of answers of which some are not the true ones."""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal, Self

from pydantic import Field, model_validator

from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.release import UNBOUNDED, Release

__all__ = ["RandomisedResponseRelease"]


class RandomisedResponseRelease(Release):
    """Answers of which each is the true one with a certain chance, else any other.

    Parameters
    ----------
    keep_probability
        The chance of the true answer.
    n_options
        How many answers there are; each of the others is as likely.
    n_answers
        How many of the released answers concern one unit.

    Examples
    --------
    >>> round(RandomisedResponseRelease(level="interaction", neighbours="replace",
    ...     keep_probability=0.5, n_options=11).epsilon, 3)
    2.303
    """

    mechanism: Literal["randomised-response"] = "randomised-response"
    neighbours: Literal["add-remove", "replace"] = "replace"
    keep_probability: float = Field(gt=0, lt=1)
    n_options: int = Field(ge=2)
    n_answers: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _better_than_chance(self) -> Self:
        if self.keep_probability < 1 / self.n_options:
            raise ValueError("the true answer must be at least as likely as any other")
        return self

    @property
    def epsilon(self) -> float:
        """The pure epsilon of one answer."""
        odds = self.keep_probability * (self.n_options - 1) / (1 - self.keep_probability)
        return math.log(odds)

    def loss_counts(self, level: Level) -> Counter[Loss]:
        """Return the loss of one answer, and how many answers concern one unit of the level."""
        group_size = self._group_size(level)
        if group_size is None:
            return Counter((UNBOUNDED,))
        return Counter({self._answer: self.n_answers * group_size})

    @property
    def _answer(self) -> Loss:
        # The accountant speaks of the chance that an answer is drawn from all options alike.
        at_random = (1 - self.keep_probability) * self.n_options / (self.n_options - 1)
        return Loss("response", min(1.0, at_random), self.n_options)

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        return (self._answer,) * (self.n_answers * group_size)
