"""The privacy loss of one release, reduced to what composition needs to know of it.

Many mechanisms, few kinds of loss: a shifted normal or Laplace variable (perhaps of a Poisson
sample), an answer by randomised response, a bound stated by somebody else, or no protection.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Loss", "LossKind"]

LossKind = Literal[
    "gaussian",
    "discrete-gaussian",
    "concentrated",
    "laplace",
    "discrete-laplace",
    "response",
    "bound",
    "unbounded",
]


class Loss(NamedTuple):
    """The dominating pair of one release.

    Parameters
    ----------
    kind
        Which pair of distributions.
    noise
        ``gaussian`` and ``laplace``: standard deviation, or scale, over sensitivity.
        ``discrete-gaussian``: the width in steps, for one whole number. ``concentrated``: as if
        normal noise had this width over sensitivity, by Renyi divergence alone (zCDP with
        rho = 1 / (2 noise^2)). ``discrete-laplace``: the scale in steps. ``response``: the chance
        that the answer is drawn at random. ``bound``: epsilon.
    steps
        ``discrete-gaussian``, ``discrete-laplace``: the sensitivity in steps. ``response``: the
        number of answers.
    sampling_rate
        The chance with which each unit takes part, apart from all others; 1 for all.
    delta
        ``bound`` only: the chance that the bound fails.
    """

    kind: LossKind
    noise: float = 0.0
    steps: int = 1
    sampling_rate: float = 1.0
    delta: float = 0.0
