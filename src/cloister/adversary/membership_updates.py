"""Membership inference on updates: whether what was sent rests on a query, or on a client.

The adversary sees one client's update, or a sum over clients with or without noise, and knows the
round's ranker and the click model. Of the query it knows the candidates, and neither the page that
was shown nor the clicks. It asks what the query would teach (`expected_lesson`), learns from
queries of its own what any other would teach (`background_lesson`), and compares: what is seen is
the sum of so many lessons, one of which is this query's, or is not (`with_query`, `without_query`,
`log_ratio`). Sums of lessons are taken to be normal.

The client's queries taken together are attacked in the same way: was this client in the sum?

Only interactions with a click teach anything, and only they can be found.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.click_chances import page_beliefs
from cloister.adversary.click_grades import GradeModel
from cloister.adversary.click_inference import ROUNDING
from cloister.adversary.click_pages import PAGE_LENGTH, score_gradients
from cloister.core.errors import DataError
from cloister.data.clicks import ClickModel
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker

__all__ = [
    "Lesson",
    "alignment",
    "background_lesson",
    "expected_lesson",
    "log_density",
    "log_ratio",
    "rounding_variance",
    "standardised",
    "with_query",
    "without_query",
]

Floats = NDArray[np.float64]

SMALLEST: Final = 1e-9  # of the mean variance of the background: less is rounding


class Lesson(NamedTuple):
    """What something is expected to add to an update: mean and covariance of a vector."""

    mean: Floats
    covariance: Floats

    def plus(self, other: Lesson) -> Lesson:
        """Return the sum of two that are independent."""
        return Lesson(self.mean + other.mean, self.covariance + other.covariance)

    def times(self, n: float) -> Lesson:
        """Return the sum of so many that are independent and alike."""
        return Lesson(n * self.mean, n * self.covariance)

    def shortened(self, factor: float) -> Lesson:
        """Return the lesson of which so much is left after clipping, on average."""
        return Lesson(factor * self.mean, factor**2 * self.covariance)


def expected_lesson(
    ranker: Ranker,
    features: NDArray[np.float32],
    grades: GradeModel,
    click_model: ClickModel,
    settings: PdgdSettings,
    *,
    rng: np.random.Generator,
    page_length: int = PAGE_LENGTH,
    clip_norm: float = 0.0,
) -> Lesson:
    """Return what one query would teach, if something on its page was clicked.

    Parameters
    ----------
    ranker
        The round's.
    features
        Of the query's candidates.
    grades
        How relevant documents are by their scores: nobody's judgments of this query are needed.
    click_model, settings
        How clients click, and what a page teaches.
    rng
        Draws pages, grades and clicks.
    page_length
        Documents shown.
    clip_norm
        Longest update that a client of one query sends; 0 for any.
    """
    scores, rows = ranker.score(features), score_gradients(ranker, features)
    beliefs = page_beliefs(
        scores,
        np.arange(len(scores)),
        grades.chances(scores.astype(np.float64)[None])[0],
        click_model,
        settings,
        gram=rows @ rows.T if clip_norm > 0 else None,
        clip_norm=clip_norm,
        rng=rng,
        shown=min(page_length, len(scores)),
    )
    return Lesson(beliefs.weight @ rows, rows.T @ beliefs.covariance @ rows)


def background_lesson(updates: Floats) -> Lesson:
    """Return what any client's update looks like, from updates that the adversary made itself.

    Examples
    --------
    >>> background_lesson(np.array([[0.0, 1.0], [2.0, 1.0]])).mean
    array([1., 1.])
    """
    if len(updates) < 2:
        raise DataError("at least two updates are needed", where="background_lesson")
    return Lesson(updates.mean(axis=0), np.atleast_2d(np.cov(updates.T)))


def rounding_variance(ranker: Ranker) -> float:
    """Return how far single precision moves each parameter of one client, squared."""
    return float((ROUNDING * max(1e-6, float(np.abs(ranker.parameters).max()))) ** 2)


def without_query(
    background: Lesson, *, n_clients: int, sigma: float = 0.0, rounding: float = 0.0
) -> Lesson:
    """Return what is seen where the query is not in it.

    Parameters
    ----------
    background
        Of one client.
    n_clients
        In the sum.
    sigma
        Standard deviation of the noise in each coordinate of the sum.
    rounding
        As `rounding_variance` gives it.
    """
    whole = background.times(n_clients)
    d = len(background.mean)
    level = SMALLEST * float(np.trace(background.covariance)) / d
    floor = sigma**2 + n_clients * (rounding + level) + 1e-300
    return Lesson(whole.mean, whole.covariance + floor * np.eye(d))


def with_query(seen: Lesson, background: Lesson, lesson: Lesson, *, share: float = 1.0) -> Lesson:
    """Return what is seen where the lesson is in it, in the place of a part of a client's.

    Parameters
    ----------
    seen
        As `without_query` gives it.
    background
        Of one client.
    lesson
        Of the query or queries in question.
    share
        Of a client's queries that they are.
    """
    return seen.plus(background.times(-share)).plus(lesson)


def log_ratio(seen: Floats, present: Lesson, absent: Lesson) -> Floats:
    """Return the log likelihood ratio of present against absent, one number for each row.

    Examples
    --------
    >>> absent = Lesson(np.zeros(1), np.eye(1))
    >>> log_ratio(np.array([[0.5], [1.0]]), Lesson(np.ones(1), np.eye(1)), absent)
    array([0. , 0.5])
    """
    return log_density(seen, present) - log_density(seen, absent)


def alignment(seen: Floats, expected: Floats, lesson: Floats) -> Floats:
    """Return the cosine of what is seen beyond the expected with what the query would teach.

    Examples
    --------
    >>> alignment(np.array([[2.0, 1.0], [1.0, 2.0]]), np.ones(2), np.array([5.0, 0.0]))
    array([1., 0.])
    """
    beyond = seen - expected
    lengths = np.linalg.norm(beyond, axis=1) * np.linalg.norm(lesson)
    return np.asarray((beyond @ lesson) / np.maximum(lengths, 1e-300))


def standardised(scores: Floats, shadows: Floats) -> Floats:
    """Return scores by how far they stand out from those of shadows without the query.

    Offline LiRA: queries whose scores are high or wide anyway do not stand out for it.

    Examples
    --------
    >>> standardised(np.array([5.0]), np.array([1.0, 3.0]))
    array([2.12132034])
    """
    return np.asarray((scores - shadows.mean()) / max(float(shadows.std(ddof=1)), 1e-300))


def log_density(seen: Floats, of: Lesson) -> Floats:
    """Return the normal log density of each row, but for a constant.

    A direction in which the covariance is not positive (one lesson less than none) counts as one
    in which there is next to no spread.

    Examples
    --------
    >>> log_density(np.array([[3.0, 4.0]]), Lesson(np.zeros(2), np.eye(2)))
    array([-12.5])
    """
    values, vectors = np.linalg.eigh(of.covariance)
    variances = np.maximum(values, values[-1] * 1e-13 + 1e-300)
    parts = (seen - of.mean) @ vectors
    return np.asarray(-0.5 * ((parts**2 / variances).sum(axis=1) + np.log(variances).sum()))
