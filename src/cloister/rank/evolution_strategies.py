"""Evolution strategies for ranking: FOLtR-ES's arithmetic (Kharitonov 2019; thesis section 3.1).

A client ranks with a perturbed copy of the model and tells the server only the seed of the
perturbation and how well the pages did. The server makes the perturbation anew, and moves the
model towards perturbations that did well (eq. 3.4, 3.5). With antithetic variates one client uses
the perturbation for half of its interactions and its opposite for the other half.

What it protects. The seed is sent in clear and says nothing about the user. Of an interaction
(query, documents, clicks) the message holds one thing: the reward, one of n values, which is sent
as it is with the chance p and otherwise replaced by one of the n - 1 others. Against the server,
and anyone else who reads messages, one interaction has local differential privacy with epsilon
log(p (n - 1) / (1 - p)) (eq. 3.6), so long as the replacement is drawn from a secure source that
the client keeps to itself: the sent seed or Philox, which simulates it here, will not do. A user
is in every interaction: a message of B of them costs B times as much, and rounds add up. That a
client took part, when, and how often it searched are not hidden.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from cloister.core.counter_random import (
    checked_stream,
    draw_below,
    fill_uniform,
    new_stream,
    next_uniform,
    start_stream,
)
from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import inline_kernel, kernel
from cloister.core.settings import Settings
from cloister.core.single_precision import log32
from cloister.privacy.level import Level
from cloister.privacy.releases.randomised_response import RandomisedResponseRelease

__all__ = [
    "AdamState",
    "EvolutionEpsilon",
    "EvolutionSettings",
    "adam_step",
    "estimate_gradient",
    "evolution_epsilon",
    "fill_perturbation",
    "perturbation",
    "randomised_response",
    "reward_signal",
    "stochastic_level",
]

Floats = NDArray[np.float32]
Stream = NDArray[np.uint32]

PERTURBATION_PURPOSE: Final = 0x45535045  # "ESPE": keeps these streams apart from all others
_32: Final = np.uint64(32)
_f = np.float32


class EvolutionSettings(Settings):
    """How evolution strategies learn; the defaults are those of the thesis and of public code.

    A linear ranker that begins with zero weights ranks alike at every scale, and so Adam's path
    depends on ``learning_rate / sigma`` only, where ``adam_epsilon`` is negligible: twice both
    gives twice the weights.

    Parameters
    ----------
    sigma
        Standard deviation of a perturbation's coordinates.
    learning_rate, beta1, beta2, adam_epsilon
        Of Adam.
    antithetic
        Whether a client uses a perturbation and its opposite, each for half of its interactions
        (the perturbation once more where their number is odd).
    reward
        ``max_rr``, one over the rank of the highest click; or ``ndcg``, the page's nDCG by the
        client's relevance grades, which a simulation knows and a real client does not.
    keep_probability
        p: the chance that a reward is sent as it is. It must be more than one over the number of
        values, or the reward would be turned round; 1 protects nothing.
    ndcg_levels
        Values to which nDCG is rounded before it is privatised, from 0 to 1 in equal steps.

    Examples
    --------
    >>> EvolutionSettings(keep_probability=0.9).reward_values(10).round(2).tolist()
    [0.0, 1.0, 0.5, 0.33, 0.25, 0.2, 0.17, 0.14, 0.12, 0.11, 0.1]
    """

    sigma: float = Field(default=0.01, gt=0)
    learning_rate: float = Field(default=0.001, gt=0)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    adam_epsilon: float = Field(default=1e-8, gt=0)
    antithetic: bool = True
    reward: Literal["max_rr", "ndcg"] = "max_rr"
    keep_probability: float = Field(default=1.0, gt=0, le=1)
    ndcg_levels: int = Field(default=11, ge=2, le=1001)

    def reward_values(self, page_length: int) -> NDArray[np.float64]:
        """Return the values that a privatised reward can take; MaxRR's by rank, no click first.

        Raises if ``keep_probability`` is too small for so many values.
        """
        if self.reward == "max_rr":
            ranks = np.arange(1, page_length + 1, dtype=np.float64)
            values = np.concatenate(([0.0], 1.0 / ranks))
        else:
            values = np.linspace(0.0, 1.0, self.ndcg_levels)
        _check_response(self.keep_probability, len(values))
        return values


class EvolutionEpsilon(NamedTuple):
    """What messages cost a client, in local differential privacy; delta is 0.

    Parameters
    ----------
    per_interaction
        One interaction is replaced by any other.
    per_message
        All interactions of one message are replaced; no smaller number would do.
    per_training
        All of a client's interactions are replaced, by basic composition over its messages.
    """

    per_interaction: float
    per_message: float
    per_training: float


def evolution_epsilon(
    keep_probability: float, n_values: int, *, n_interactions: int, n_messages: int
) -> EvolutionEpsilon:
    """Return the true epsilon of messages with privatised rewards (thesis eq. 3.6).

    Where nothing is replaced it is infinite; the thesis prints 10 there. It states the cost of
    one interaction for p = 0.25, 0.5 and 0.9 with 11 values: 1.2, 2.3 and 4.5. Drawing clients at
    random makes none of it smaller, for the server sees who takes part.

    Parameters
    ----------
    keep_probability
        The chance that a reward is sent as it is.
    n_values
        Number of values that a reward can take.
    n_interactions
        Interactions in a message.
    n_messages
        Messages that the client has sent: the rounds in which it took part.

    Examples
    --------
    >>> evolution_epsilon(0.5, 11, n_interactions=4, n_messages=250)
    EvolutionEpsilon(per_interaction=2.302..., per_message=9.21..., per_training=2302.5...)
    """
    _check_response(keep_probability, n_values)
    if n_interactions < 0 or n_messages < 0:
        raise SettingsError("counts are at least 0", where="n_interactions, n_messages")
    one = math.inf
    if keep_probability < 1.0:
        one = RandomisedResponseRelease(
            level=Level.INTERACTION, keep_probability=keep_probability, n_options=n_values
        ).epsilon
    message = one * n_interactions if n_interactions else 0.0
    return EvolutionEpsilon(one, message, message * n_messages if n_messages else 0.0)


def _check_response(keep_probability: float, n_values: int) -> None:
    if n_values < 2 or not 1.0 / n_values < keep_probability <= 1.0:
        raise SettingsError(
            f"must be more than 1/{n_values} and at most 1 (given: {keep_probability})",
            where="keep_probability",
        )


@kernel
def randomised_response(value: int, n_values: int, keep_probability: float, stream: Stream) -> int:
    """Return the number of the value with the chance p, else one of the others, all alike."""
    if next_uniform(stream) <= keep_probability:
        return value
    other = draw_below(stream, n_values - 1)
    return int(other + 1 if other >= value else other)


@kernel
def stochastic_level(value: float, n_levels: int, stream: Stream) -> int:
    """Round a value in 0..1 to one of the two levels beside it, so that its mean stays."""
    scaled = value * (n_levels - 1)
    level = int(scaled)
    return level + 1 if next_uniform(stream) <= scaled - level else level


@inline_kernel
def _turn(t: Any) -> Any:
    """Return cosine and sine of 2 pi t for t in 0..1, to within 2e-7 (Cephes polynomials)."""
    quarter = np.int32(np.floor(_f(4.0) * t + _f(0.5)))
    a = (t - _f(0.25) * _f(quarter)) * _f(2.0 * np.pi)  # in -pi/4 .. pi/4
    z = a * a
    sine = (_f(-1.9515295891e-4) * z + _f(8.3321608736e-3)) * z + _f(-1.6666654611e-1)
    sine = sine * z * a + a
    cosine = (_f(2.443315711809948e-5) * z + _f(-1.388731625493765e-3)) * z
    cosine = (cosine + _f(4.166664568298827e-2)) * z * z - _f(0.5) * z + _f(1.0)
    odd = (quarter & np.int32(1)) != 0
    x = sine if odd else cosine
    y = cosine if odd else sine
    x = -x if quarter == 1 or quarter == 2 else x
    y = -y if quarter == 2 or quarter == 3 else y
    return x, y


@kernel
def fill_perturbation(
    out: Floats, seed: np.uint64, round: int, client: int, stream: Stream
) -> None:
    """Fill an array with a client's standard normal numbers of a round, inside a kernel.

    They come by Box and Muller's method from numbers of 23 bits, so none is beyond 5.8. The
    ``stream`` is overwritten.
    """
    start_stream(stream, seed, round, client, PERTURBATION_PURPOSE)
    fill_uniform(stream, out)
    half = len(out) // 2
    for i in range(half):
        radius = np.sqrt(_f(-2.0) * log32(out[i]))
        x, y = _turn(out[half + i])
        out[i] = radius * x
        out[half + i] = radius * y
    if len(out) % 2:
        x, y = _turn(next_uniform(stream))
        out[2 * half] = np.sqrt(_f(-2.0) * log32(out[2 * half])) * x


def perturbation(n_parameters: int, *, seed: int, round: int, client: int) -> Floats:
    """Return the perturbation, before sigma, that client and server make from one seed.

    Examples
    --------
    >>> one = perturbation(5, seed=1, round=0, client=7)
    >>> bool((one == perturbation(5, seed=1, round=0, client=7)).all())
    True
    """
    key, number, who, _ = checked_stream(seed, round=round, client=client)
    out = np.empty(n_parameters, np.float32)
    fill_perturbation(out, key, number, who, new_stream(0))
    return out


@inline_kernel
def reward_signal(plus: float, n_plus: int, minus: float, n_minus: int) -> float:
    """Return what a client's perturbation is weighted by, from sums of rewards of both kinds.

    Where nothing was ranked by the opposite it is the plain mean reward (eq. 3.5).
    """
    mean = plus / n_plus
    return 0.5 * (mean - minus / n_minus) if n_minus > 0 else mean


def estimate_gradient(
    perturbations: ArrayLike,
    plus: ArrayLike,
    minus: ArrayLike | None = None,
    *,
    sigma: float,
    weights: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Estimate the gradient of the mean reward from clients' messages: thesis eq. 3.5.

    Parameters
    ----------
    perturbations
        Clients by parameters, before they are multiplied by sigma.
    plus
        Mean reward of each client with its perturbation added.
    minus
        With it subtracted, where antithetic variates are used.
    sigma
        Standard deviation of the perturbations.
    weights
        Of the clients; all alike unless given.

    Examples
    --------
    >>> estimate_gradient([[1.0, -1.0]], [0.75], [0.25], sigma=0.5)
    array([ 0.5, -0.5])
    """
    normals = np.asarray(perturbations, np.float64)
    signal = np.asarray(plus, np.float64)
    if minus is not None:
        signal = 0.5 * (signal - np.asarray(minus, np.float64))
    shares = np.ones(len(normals)) if weights is None else np.asarray(weights, np.float64)
    if normals.ndim != 2 or not signal.shape == shares.shape == normals.shape[:1]:
        raise DataError("one reward and one weight a client", where="estimate_gradient")
    if not (shares >= 0).all() or not shares.sum() > 0:
        raise DataError("weights are at least 0 and not all 0", where="estimate_gradient")
    gradient: NDArray[np.float64] = (shares * signal) @ normals / (sigma * shares.sum())
    return gradient


class AdamState(NamedTuple):
    """Adam's memory: means of gradients and of their squares, and the steps done."""

    mean: NDArray[np.float64]
    square: NDArray[np.float64]
    n_steps: int

    @classmethod
    def initial(cls, n_parameters: int) -> AdamState:
        """Return the memory before the first step."""
        return cls(np.zeros(n_parameters), np.zeros(n_parameters), 0)


def adam_step(
    state: AdamState, gradient: NDArray[Any], settings: EvolutionSettings
) -> tuple[AdamState, NDArray[np.float64]]:
    """Return the new memory and what to add to the parameters to climb (Kingma and Ba 2015).

    Examples
    --------
    >>> state, change = adam_step(AdamState.initial(2), np.array([3.0, 0.0]), EvolutionSettings())
    >>> change.round(6).tolist(), state.n_steps
    ([0.001, 0.0], 1)
    """
    b1, b2 = settings.beta1, settings.beta2
    t = state.n_steps + 1
    mean = b1 * state.mean + (1.0 - b1) * gradient
    square = b2 * state.square + (1.0 - b2) * np.square(gradient, dtype=np.float64)
    width = np.sqrt(square / (1.0 - b2**t)) + settings.adam_epsilon
    return AdamState(mean, square, t), settings.learning_rate * (mean / (1.0 - b1**t)) / width
