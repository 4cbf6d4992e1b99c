"""A ranker: what it is made of, and its parameters in one vector."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.rank.linear import score_linear
from cloister.rank.mlp import RECTIFIER, SIGMOID, n_mlp_parameters, score_mlp

__all__ = ["LARGEST_FEATURE", "LARGEST_PARAMETER", "Ranker", "RankerSettings", "RankerShape"]

LARGEST_FEATURE: Final = 2.0**32  # of a logged page; features of result pages lie within 0 and 1
# No ranker that is trained on such pages comes near. No score overflows single precision (2^128):
# 4,096 hidden units of 2^20 times (65,536 features of 2^32 times 2^20) make 2^100.
LARGEST_PARAMETER: Final = 2.0**20

_NO_ROWS: Final = np.empty(0, np.int64)
_BLOCK: Final = 4096  # documents scored at once by a neural ranker


class RankerShape(NamedTuple):
    """A ranker's make-up as kernels take it; no hidden units means linear."""

    n_features: int
    n_hidden: int
    activation: int


class RankerSettings(Settings):
    """What a ranker is made of.

    Parameters
    ----------
    kind
        ``linear``, or ``mlp`` with one hidden layer.
    n_features
        Length of a feature vector.
    hidden
        Hidden units of the MLP: 64 in PDGD, 10 in FOLtR-ES.
    activation
        Of the hidden units: the rectifier, or the logistic function of the original PDGD code.

    Examples
    --------
    >>> RankerSettings(n_features=46).n_parameters
    46
    >>> RankerSettings(kind="mlp", n_features=46, hidden=10).n_parameters
    480
    """

    kind: Literal["linear", "mlp"] = "linear"
    n_features: int = Field(ge=1)
    hidden: int = Field(default=64, ge=1, le=4096)
    activation: Literal["relu", "sigmoid"] = "relu"

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        if self.kind == "linear":
            return self.n_features
        return n_mlp_parameters(self.n_features, self.hidden)

    @property
    def shape(self) -> RankerShape:
        """The make-up as kernels take it."""
        hidden = self.hidden if self.kind == "mlp" else 0
        return RankerShape(
            self.n_features, hidden, RECTIFIER if self.activation == "relu" else SIGMOID
        )


@dataclass(frozen=True, eq=False)
class Ranker:
    """A ranker with its parameters.

    Examples
    --------
    >>> ranker = Ranker(RankerSettings(n_features=2), np.array([1.0, -0.5], np.float32))
    >>> ranker.score([[2.0, 2.0], [0.0, 4.0]])
    array([ 1., -2.], dtype=float32)
    """

    settings: RankerSettings
    parameters: NDArray[np.float32]

    def __post_init__(self) -> None:
        parameters = np.ascontiguousarray(self.parameters, np.float32)
        if parameters.shape != (self.settings.n_parameters,):
            raise DataError(
                f"{self.settings.n_parameters} parameters are needed (given: {parameters.shape})",
                where="Ranker",
            )
        object.__setattr__(self, "parameters", parameters)

    @classmethod
    def initial(cls, settings: RankerSettings, *, seed: int = 0) -> Ranker:
        """Return an untrained ranker: zero weights if linear, small random ones if neural.

        Weights of a hidden unit are normal with variance 1 / inputs, so that its input has the
        width of a feature; the output weights likewise. Biases begin at 0.
        """
        parameters = np.zeros(settings.n_parameters, np.float32)
        if settings.kind == "mlp":
            rng = stream(seed, "ranker", "initial")
            n, hidden = settings.n_features, settings.hidden
            weights = rng.standard_normal(n * hidden) / np.sqrt(n)
            parameters[: n * hidden] = weights
            parameters[(n + 1) * hidden :] = rng.standard_normal(hidden) / np.sqrt(hidden)
        return cls(settings, parameters)

    def with_parameters(self, parameters: NDArray[Any]) -> Ranker:
        """Return a ranker of the same make with other parameters."""
        return replace(self, parameters=parameters)

    def score(self, features: Any) -> NDArray[np.float32]:
        """Score documents, one a row."""
        matrix = np.asarray(features, np.float32)
        if matrix.ndim != 2 or matrix.shape[1] != self.settings.n_features:
            raise DataError(
                f"documents need {self.settings.n_features} features (given: {matrix.shape})",
                where="Ranker.score",
            )
        scores = np.empty(len(matrix), np.float32)
        if self.settings.kind == "linear":
            score_linear(self.parameters, matrix, _NO_ROWS, 0, len(matrix), scores)
            return scores
        hidden = np.empty((min(len(matrix), _BLOCK), self.settings.hidden), np.float32)
        for start in range(0, len(matrix), _BLOCK):
            out = scores[start : start + _BLOCK]
            score_mlp(
                self.parameters,
                *self.settings.shape,
                matrix,
                _NO_ROWS,
                start,
                len(out),
                hidden,
                out,
            )
        return scores
