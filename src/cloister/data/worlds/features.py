"""The *features* world: LETOR-like data of chosen sizes, where an MLP can beat a linear ranker.

How a data set is made, and why:

- Each query-document pair has a few latent qualities (how well it matches, how good the page is,
  ...). Features observe them: each is a noisy mixture of some qualities, passed through one of the
  shapes that real features have (plain, skewed with a long tail, saturating, rare and mostly zero,
  the same for all documents of a query).
- Relevance is a function of the qualities: a linear part, and a part that is not (products of two
  qualities and a hump). ``nonlinearity`` says how much of the variance the second part has. A
  linear ranker sees little of it, through the bent shapes of some features.
- Noise is added, and the result is cut into grades at fixed quantiles, so that most documents are
  not relevant and few are perfect, as in MSLR-WEB10K.

Blocks of queries are made from streams of their own: any range of a world can be made alone, and
one seed gives the same world whatever the order. Sums are added up in one fixed order, without
BLAS, so the world does not depend on the machine's number of threads or kind of processor either.
(The exponential and the hyperbolic tangent are the C library's, in double precision; where two
libraries differ in the last bit of a double, rounding to single precision hides it nearly always.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.kernel import kernel
from cloister.core.memory import require_memory
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.data.ranking_data import RankingData

__all__ = ["FeaturesSettings", "FeaturesWorld", "GRADE_SHARES", "ordered_product"]

Floats = NDArray[np.float32]

BLOCK_QUERIES: Final = 256
# The shapes of features; 0 is plain.
SKEWED, SATURATING, RARE, QUERY_LEVEL = 1, 2, 3, 4
# Shares of the grades from 0 up. Five grades: close to MSLR-WEB10K's (52, 32, 13, 2, 1 %);
# three: close to MQ2007's.
GRADE_SHARES: Final = {
    2: (0.8, 0.2),
    3: (0.74, 0.2, 0.06),
    4: (0.6, 0.25, 0.1, 0.05),
    5: (0.52, 0.32, 0.13, 0.02, 0.01),
}


class FeaturesSettings(Settings):
    """What a features world is made of.

    Parameters
    ----------
    queries, documents, features, grades
        Sizes; ``documents`` is the mean number of candidates of a query.
    spread
        How much the number of candidates varies between queries (0: all have the same).
    nonlinearity
        Share of the relevance signal's variance that is not linear in the latent qualities. A
        linear ranker sees little of it, through the bent shapes of some features.
    noise
        Share of relevance's variance that no ranker can see.
    qualities
        Number of latent qualities that features observe.
    """

    seed: int = Field(default=1, ge=0)
    queries: int = Field(default=1000, ge=1)
    documents: int = Field(default=40, ge=1)
    features: int = Field(default=46, ge=2)
    grades: int = Field(default=5, ge=2, le=5)
    spread: float = Field(default=0.3, ge=0, le=2)
    nonlinearity: float = Field(default=0.5, ge=0, le=1)
    noise: float = Field(default=0.15, ge=0, lt=1)
    qualities: int = Field(default=8, ge=4, le=64)


class _Law(NamedTuple):
    """What is fixed for a whole world: how features observe qualities, and what is relevant."""

    mixing: Floats  # qualities x features
    scale: Floats  # of each feature's own noise
    shape: NDArray[np.int64]  # which of the five shapes a feature has
    linear: Floats  # weight of each quality
    cuts: Floats  # thresholds between the grades


class FeaturesWorld:
    """A seeded LETOR-like data set.

    Examples
    --------
    >>> world = FeaturesWorld(FeaturesSettings(queries=20, documents=10, features=5, grades=3))
    >>> data = world.data()
    >>> data.n_queries, data.n_features, data.n_grades
    (20, 5, 3)
    """

    def __init__(self, settings: FeaturesSettings | None = None) -> None:
        self.settings = settings or FeaturesSettings()
        _require_memory(self.settings, n_queries=1)
        self._law = _make_law(self.settings)

    def data(self, part: str = "train") -> RankingData:
        """Make the whole data set; ``part`` names another draw from the same law.

        ``data("train")`` and ``data("test")`` share what is relevant and how features see it, and
        no query.
        """
        _require_memory(self.settings, n_queries=self.settings.queries)
        blocks = list(self.blocks(part))
        lengths = np.concatenate([block.lengths for block in blocks])
        return RankingData(
            np.concatenate([block.features for block in blocks]),
            np.concatenate([block.labels for block in blocks]),
            np.concatenate(([0], np.cumsum(lengths))),
            [name for block in blocks for name in block.query_ids],
        )

    def blocks(self, part: str = "train") -> Iterator[RankingData]:
        """Make the data set block by block, in bounded memory."""
        for first in range(0, self.settings.queries, BLOCK_QUERIES):
            yield self.block(first // BLOCK_QUERIES, part)

    def block(self, number: int, part: str = "train") -> RankingData:
        """Make one block of queries alone."""
        settings, law = self.settings, self._law
        first = number * BLOCK_QUERIES
        n_queries = min(BLOCK_QUERIES, settings.queries - first)
        rng = stream(settings.seed, "features world", part, number)
        lengths = _lengths(settings, n_queries, rng)
        owner = np.repeat(np.arange(n_queries), lengths)
        qualities = _qualities(settings.qualities, n_queries, owner, rng)
        relevance = _relevance(settings, law.linear, qualities, rng)
        return RankingData(
            _observe(law, qualities, owner, n_queries, rng),
            np.searchsorted(law.cuts, relevance).astype(np.int8),
            np.concatenate(([0], np.cumsum(lengths))),
            [f"{part}-{first + i + 1}" for i in range(n_queries)],
        )


def _require_memory(settings: FeaturesSettings, *, n_queries: int) -> None:
    """Refuse what cannot fit: the features of all documents, and how they observe qualities."""
    n_rows = n_queries * max(1, settings.documents)
    n_bytes = 4 * settings.features * (n_rows + settings.qualities) + n_rows + 50 * n_queries
    remedy = "ask for fewer queries, documents or features"
    require_memory(n_bytes, where="world", remedy=remedy)


def _make_law(settings: FeaturesSettings) -> _Law:
    rng = stream(settings.seed, "features world", "law")
    n_qualities, n_features = settings.qualities, settings.features
    # Each feature sees one quality mainly and two others a little, as real feature groups do.
    mixing = np.zeros((n_qualities, n_features), np.float32)
    columns = np.arange(n_features)
    mixing[columns % n_qualities, columns] = rng.uniform(0.7, 1.3, n_features)
    for _ in range(2):
        np.add.at(
            mixing,
            (rng.integers(n_qualities, size=n_features), columns),
            0.3 * rng.standard_normal(n_features),
        )
    # Shapes: mostly plain and skewed, some saturating, rare, or query-level (useless alone).
    shape = rng.choice(5, n_features, p=[0.35, 0.3, 0.2, 0.08, 0.07])
    shape[: min(n_qualities, n_features)] = 0  # every quality is seen plainly at least once
    scale = rng.uniform(0.1, 0.6, n_features).astype(np.float32)
    linear = rng.standard_normal(n_qualities).astype(np.float32)
    linear[:4] = 0  # the first four work through products and the hump only
    linear /= np.sqrt(np.square(linear).sum()) or 1.0
    return _Law(mixing, scale, shape, linear, _cuts(settings, linear))


def _cuts(settings: FeaturesSettings, linear: Floats) -> Floats:
    """Find the thresholds at which the grades have the shares that are wanted."""
    rng = stream(settings.seed, "features world", "cuts")
    n_queries, per_query = 500, 40
    owner = np.repeat(np.arange(n_queries), per_query)
    qualities = _qualities(settings.qualities, n_queries, owner, rng)
    relevance = _relevance(settings, linear, qualities, rng)
    shares = np.cumsum(GRADE_SHARES[settings.grades])[:-1]
    return np.asarray(np.quantile(relevance, shares), np.float32)


def _lengths(
    settings: FeaturesSettings, n_queries: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    if settings.spread == 0:
        return np.full(n_queries, settings.documents, np.int64)
    # A log-normal with the wanted mean: many short lists and a few long ones, as in real sets.
    sigma = settings.spread
    drawn = rng.lognormal(np.log(settings.documents) - sigma**2 / 2, sigma, n_queries)
    return np.maximum(1, np.rint(drawn)).astype(np.int64)


def _qualities(
    n_qualities: int, n_queries: int, owner: NDArray[np.int64], rng: np.random.Generator
) -> Floats:
    """Draw each document's qualities: part of their level belongs to the query."""
    level = rng.standard_normal((n_queries, n_qualities), dtype=np.float32)
    own = rng.standard_normal((len(owner), n_qualities), dtype=np.float32)
    return np.float32(0.4) * level[owner] + np.float32(np.sqrt(1 - 0.16)) * own


def _relevance(
    settings: FeaturesSettings, linear: Floats, qualities: Floats, rng: np.random.Generator
) -> Floats:
    """Return relevance before it is cut into grades; its variance is about 1."""
    product = qualities[:, 0] * qualities[:, 1]  # neither helps without the other
    hump = (1 - qualities[:, 2] ** 2) / np.float32(np.sqrt(2))  # the middle is best
    curved = (product + hump + qualities[:, 2] * qualities[:, 3]) / np.float32(np.sqrt(3))
    share, noise = settings.nonlinearity, settings.noise
    parts = ((1 - noise) * (1 - share), (1 - noise) * share, noise)
    straight, bent, blind = np.sqrt(parts).astype(np.float32)
    unseen = rng.standard_normal(len(qualities), dtype=np.float32)
    level = ordered_product(qualities, linear[:, None])[:, 0]
    return np.asarray(straight * level + bent * curved + blind * unseen)


def _observe(
    law: _Law,
    qualities: Floats,
    owner: NDArray[np.int64],
    n_queries: int,
    rng: np.random.Generator,
) -> Floats:
    """Make the features: mixtures of qualities, each in its shape, all finite and in 0..1 or so."""
    n_features = law.mixing.shape[1]
    seen = ordered_product(qualities, law.mixing)
    seen += law.scale * rng.standard_normal((len(owner), n_features), dtype=np.float32)
    _bend(seen, law.shape)
    level = rng.standard_normal((n_queries, n_features), dtype=np.float32)
    query_level = law.shape == QUERY_LEVEL
    seen[:, query_level] = level[:, query_level][owner]
    return seen


@kernel
def ordered_product(left: Floats, right: Floats) -> Floats:
    """Multiply two matrices; each sum is added up from first to last, on every machine.

    A product by BLAS has other last bits for other processors and numbers of threads.

    Examples
    --------
    >>> left, right = np.array([[1, 2]], np.float32), np.array([[3, 5], [4, 6]], np.float32)
    >>> ordered_product(left, right)
    array([[11., 17.]], dtype=float32)
    """
    product = np.zeros((left.shape[0], right.shape[1]), np.float32)
    for row in range(left.shape[0]):
        for inner in range(left.shape[1]):
            for column in range(right.shape[1]):
                product[row, column] += left[row, inner] * right[inner, column]
    return product


@kernel
def _bend(seen: Floats, shape: NDArray[np.int64]) -> None:
    """Give each column its shape, in place; doubles, so that rounding hides their last bits."""
    for row in range(seen.shape[0]):
        for column in range(seen.shape[1]):
            value, kind = np.float64(seen[row, column]), shape[column]
            if kind == SKEWED:
                # A tail as long as term frequencies have, bounded so that no single value rules.
                seen[row, column] = math.exp(min(value, 4.0)) / 4
            elif kind == SATURATING:
                seen[row, column] = math.tanh(value)
            elif kind == RARE:
                seen[row, column] = max(value - 1, 0.0)
