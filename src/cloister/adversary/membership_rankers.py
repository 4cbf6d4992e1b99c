"""Membership inference on a ranker: whether a client was among those who trained it.

The adversary knows what everybody who may have taken part searches for and prefers, and not who
did. It trains *shadow* rankers of federations that it draws itself, and learns from them how each
one's presence moves a ranker (LiRA, Carlini et al. 2022, with statistics for rankers):

- *fit* (`pairs_in_order`): how well the ranker orders the client's own documents, beside how well
  shadows with and without the client do (:func:`cloister.adversary.membership.likelihood_ratio`).
  It needs no more than the ranker's answers to the client's queries.
- *parameters* (`ShadowEffects.presence`): how far the parameters lie in the direction in which the
  client moves them, beside what moves them otherwise: a linear discriminant.
- *difference* (`ShadowEffects.departure`): who left, from the rankers before and after forgetting.

Rankers are compared as directions. A ranker's length tells how long it was trained, and changes no
order of documents. On rankers that were unlearned, length is the one channel that FedEraser leaves:
:mod:`cloister.adversary.membership_unlearned` looks at it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.data.partitions import ClientView

__all__ = [
    "RIDGE",
    "ShadowEffects",
    "directions",
    "pairs_in_order",
    "preferred_pairs",
    "shadow_effects",
    "shrunk_covariance",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]

RIDGE: Final = 1.0  # as if one shadow more had shown that a client moves nothing
SMALLEST: Final = 1e-9  # of the mean variance: no direction is taken to be more exact


class ShadowEffects(NamedTuple):
    """How clients move rankers, as shadows show it.

    Parameters
    ----------
    middle
        Clients x parameters: halfway between rankers with the client and without.
    effect
        Clients x parameters: with less without.
    covariance
        Of what moves rankers, other clients' presence included.
    residual
        Of what is left where it is known who took part: queries and clicks drawn, pages shown.
    """

    middle: Floats
    effect: Floats
    covariance: Floats
    residual: Floats

    def presence(self, rankers: Floats) -> Floats:
        """Return the log likelihood ratio of "was there", rankers x clients.

        Parameters
        ----------
        rankers
            Parameters, one ranker a row.
        """
        weights = np.linalg.solve(self.covariance, self.effect.T)
        offsets = np.einsum("cp,pc->c", self.middle, weights)
        scores: Floats = directions(rankers) @ weights - offsets
        return scores

    def departure(self, before: Floats, after: Floats) -> Floats:
        """Return how much speaks for each client having left between two rankers.

        The log likelihood ratio of "it left" against "nobody did", pairs of rankers x clients;
        only those who were there can have left.
        """
        noise = 2.0 * self.residual  # two trainings
        weights = np.linalg.solve(noise, self.effect.T)
        lengths = np.einsum("cp,pc->c", self.effect, weights)
        moved = directions(before) - directions(after)
        scores: Floats = moved @ weights - lengths / 2.0
        return scores


def shadow_effects(rankers: Floats, members: Flags) -> ShadowEffects:
    """Learn how each client's presence moves a ranker: one regression for all clients.

    Parameters
    ----------
    rankers
        Shadows x parameters.
    members
        Shadows x clients: who trained each. Nobody may be in all of them, or in none.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> members = rng.random((200, 6)) < 0.5
    >>> truth = rng.normal(size=(6, 12))
    >>> made = 9 + members @ truth + 0.1 * rng.normal(size=(200, 12))
    >>> effects = shadow_effects(made[:150], members[:150])
    >>> scores = effects.presence(made[150:])
    >>> bool(scores[members[150:]].mean() > 0 > scores[~members[150:]].mean())
    True
    """
    there = members.mean(axis=0)
    if len(rankers) != len(members) or len(rankers) < 4 or there.min() == 0 or there.max() == 1:
        raise DataError(
            "shadows need at least four federations, each client in some and not in all",
            where="shadow_effects",
            remedy="make more shadows",
        )
    made = directions(rankers)
    mean, presence = made.mean(axis=0), members - there
    inner = presence.T @ presence + RIDGE * np.eye(members.shape[1])
    effect = np.linalg.solve(inner, presence.T @ (made - mean))
    rest = made - mean - presence @ effect
    freedom = max(1, len(made) - 1 - members.shape[1])
    return ShadowEffects(
        mean + (0.5 - there)[:, None] * effect,
        effect,
        shrunk_covariance(made - mean, len(made) - 1),
        shrunk_covariance(rest, freedom),
    )


def directions(rankers: Floats) -> Floats:
    """Return rankers of length 1; one without any length stays.

    Examples
    --------
    >>> directions(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    vectors = np.atleast_2d(np.asarray(rankers, np.float64))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))


def preferred_pairs(view: ClientView) -> tuple[Rows, Rows]:
    """Return rows of documents that the client prefers, and rows to which it prefers them.

    Examples
    --------
    >>> from cloister.data.ranking_data import RankingData
    >>> data = RankingData(np.eye(3), np.array([1, 0, 2], np.int8), np.array([0, 3]))
    >>> better, worse = preferred_pairs(ClientView(data))
    >>> better.tolist(), worse.tolist()
    ([0, 2, 2], [1, 0, 1])
    """
    better, worse = [], []
    for i in range(view.n_queries):
        rows = np.arange(view.data.n_rows)[view.query_rows(i)]
        grades = view.query_labels(i)
        higher, lower = np.nonzero(grades[:, None] > grades)
        better.append(rows[higher])
        worse.append(rows[lower])
    return np.concatenate(better), np.concatenate(worse)


def pairs_in_order(scores: Floats, pairs: tuple[Rows, Rows]) -> Floats:
    """Return the share of a client's pairs that each ranker orders as the client would.

    Parameters
    ----------
    scores
        Rankers x rows: what each gives to every document.
    pairs
        As `preferred_pairs` gives them; without any the share is one half.

    Examples
    --------
    >>> pairs_in_order(np.array([[0.1, 0.3, 0.2]]), (np.array([1, 0]), np.array([0, 2])))
    array([0.5])
    """
    better, worse = pairs
    if not len(better):
        return np.full(len(scores), 0.5)
    return np.asarray((scores[:, better] > scores[:, worse]).mean(axis=1), np.float64)


def shrunk_covariance(rest: Floats, freedom: int) -> Floats:
    """Return a covariance, drawn towards a round one the more the fewer shadows there are.

    Parameters
    ----------
    rest
        Shadows x statistics: how far each lies from what was expected.
    freedom
        Degrees of freedom.
    """
    n_parameters = rest.shape[1]
    found = rest.T @ rest / freedom
    level = float(np.trace(found)) / n_parameters
    share = n_parameters / (n_parameters + 10.0 * freedom) + SMALLEST
    round_one = (share * level + 1e-300) * np.eye(n_parameters)
    return np.asarray((1.0 - share) * found + round_one, np.float64)
