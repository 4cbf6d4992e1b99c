"""Membership inference on an unlearned ranker, by an adversary who unlearns shadows itself.

FedEraser takes from the past the lengths of the updates of those who stay, and a forgotten client
had helped to shape them. So whoever asks whether a client was there and was forgotten should look
at *lengths*, and should know how rankers look after unlearning, not after training: shadows are
federations that the adversary draws, trains, and lets forget somebody (adaptive attack). What is
learnt from them is how a ranker differs between "this client was forgotten" and "it never was
there", beside who stays. Statistics are the ranker's length, or its direction and length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.membership_rankers import RIDGE, directions, shrunk_covariance
from cloister.core.errors import DataError

__all__ = ["ForgottenEffects", "direction_and_length", "forgotten_effects", "log_lengths"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class ForgottenEffects(NamedTuple):
    """How rankers that have forgotten a client differ from those that never knew it.

    Parameters
    ----------
    middle
        Clients x statistics: halfway between the two.
    effect
        Clients x statistics: the client was forgotten, less another was and it never was there.
    covariance
        Of what moves the statistics, who stays included.
    """

    middle: Floats
    effect: Floats
    covariance: Floats

    def past_presence(self, statistics: Floats) -> Floats:
        """Return the log likelihood ratio of "was forgotten" to "never was there".

        Parameters
        ----------
        statistics
            One ranker a row. The ratios are rankers x clients, and mean nothing for those who stay.
        """
        weights = np.linalg.solve(self.covariance, self.effect.T)
        offsets = np.einsum("cs,sc->c", self.middle, weights)
        scores: Floats = statistics @ weights - offsets
        return scores


def forgotten_effects(
    statistics: Floats, members: Flags, forgotten: NDArray[np.int64]
) -> ForgottenEffects:
    """Learn what a forgotten client leaves behind: one regression for all clients.

    Parameters
    ----------
    statistics
        Shadows x statistics of unlearned rankers.
    members
        Shadows x clients: who took part, as many in each.
    forgotten
        The one of them whom each shadow has forgotten. Of a client whom none has forgotten nothing
        is learnt, and every ratio is 0.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> drawn = np.argsort(rng.random((900, 4)), axis=1)[:, :2]
    >>> members = (np.arange(4) == drawn[:, :1]) | (np.arange(4) == drawn[:, 1:])
    >>> left = np.array([0, 3, 0, 3])[drawn[:, 0]] + np.array([5, 4, 3, 2])[drawn[:, 1]]
    >>> effects = forgotten_effects(left[:, None].astype(float), members, drawn[:, 0])
    >>> effects.effect.round(1).ravel().tolist()  # less what others leave, 2 or 1 on average
    [-2.0, 2.0, -2.0, 2.0]
    """
    n, n_clients = members.shape
    sizes = members.sum(axis=1)
    if not len(statistics) == n == len(forgotten) or n < 4 or (sizes != sizes[0]).any():
        raise DataError(
            "shadows need at least four federations, of as many clients each",
            where="forgotten_effects",
            remedy="make more shadows",
        )
    gone = np.arange(n_clients) == np.asarray(forgotten)[:, None]
    if not (members & gone).any(axis=1).all():
        raise DataError("only who took part can be forgotten", where="forgotten_effects")
    mean = statistics.mean(axis=0)
    flags = np.concatenate([members & ~gone, gone], axis=1).astype(np.float64)
    share = flags.mean(axis=0)
    inner = (flags - share).T @ (flags - share) + RIDGE * np.eye(2 * n_clients)
    found = np.linalg.solve(inner, (flags - share).T @ (statistics - mean))
    # One is forgotten in each shadow, and as many stay: coefficients add up to 0 over clients, and
    # where a client is not in a place, each of the others is likelier to be.
    there, left = np.split(n_clients / (n_clients - 1) * found, 2)
    middle = mean - share[:n_clients, None] * there + (0.5 - share[n_clients:, None]) * left
    return ForgottenEffects(middle, left, shrunk_covariance(statistics - mean, n - 1))


def log_lengths(rankers: Floats) -> Floats:
    """Return the logarithm of each ranker's length, as one column.

    Examples
    --------
    >>> log_lengths(np.array([[3.0, 4.0], [1.0, 0.0]])).round(3)
    array([[1.609],
           [0.   ]])
    """
    lengths = np.linalg.norm(np.atleast_2d(rankers), axis=1, keepdims=True)
    return np.asarray(np.log(np.maximum(lengths, 1e-300)), np.float64)


def direction_and_length(rankers: Floats) -> Floats:
    """Return rankers of length 1, and in one column more the logarithm of their lengths.

    Examples
    --------
    >>> direction_and_length(np.array([[3.0, 4.0]])).round(3)
    array([[0.6  , 0.8  , 1.609]])
    """
    return np.concatenate([directions(rankers), log_lengths(rankers)], axis=1)
