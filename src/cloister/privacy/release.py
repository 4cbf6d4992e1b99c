"""What was released: the mechanism and its parameters, and not yet what it costs.

A release states its sensitivity, the unit that it protects and what neighbouring inputs differ in.
:mod:`cloister.privacy.accounting` says what releases cost together; the ledger keeps them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from cloister.core.errors import DataError, SettingsError
from cloister.core.settings import Settings
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss

__all__ = [
    "AnyRelease",
    "BoundedRelease",
    "DiscreteGaussianRelease",
    "DiscreteLaplaceRelease",
    "GaussianRelease",
    "LaplaceRelease",
    "NoisyTable",
    "NoisyTablesRelease",
    "RandomisedResponseRelease",
    "Release",
    "TreeRelease",
    "UnprotectedRelease",
    "read_release",
]

UNBOUNDED: Final = Loss("unbounded")
# A discrete normal variable is, up to 1 part in 10^33, a rounding of a continuous one of two
# steps' less width (see `DiscreteGaussianRelease`).
ROUNDING_SIGMA: Final = 2.0
LARGEST_EXPONENT: Final = 700.0  # of e, in a double


class Release(Settings):
    """What every release states.

    Parameters
    ----------
    level
        The unit that is protected.
    neighbours
        Whether neighbouring inputs differ by one unit more or less (``add-remove``), or by one
        unit changed to any other (``replace``); the sensitivity is stated for this.
    group_sizes
        How many units at most a larger one holds, by level: with it the release also has a cost
        for the larger unit, by group privacy. Without it that cost is unbounded.
    n_values
        How many numbers were released.
    simulated
        Whether noise came from a seeded generator: nobody is protected by such a release.
    claimed_epsilon
        What the inventors of a mechanism claim, where that is not what holds.
    note
        Anything that a reader of the ledger should know.
    """

    level: Level
    neighbours: Literal["add-remove", "replace"] = "add-remove"
    group_sizes: dict[Level, int] = Field(default_factory=dict)
    n_values: int = Field(default=1, ge=1)
    simulated: bool = False
    claimed_epsilon: float | None = Field(default=None, gt=0)
    note: str = Field(default="", max_length=1000)

    @model_validator(mode="after")
    def _groups_are_larger(self) -> Self:
        for level, size in self.group_sizes.items():
            if level == self.level or not level.covers(self.level):
                raise ValueError(f"a {level.value} does not hold units of {self.level.value}")
            if size < 1:
                raise ValueError(f"a {level.value} holds at least one {self.level.value}")
        return self

    def losses(self, level: Level) -> tuple[Loss, ...]:
        """Return what this release can reveal of one unit of a level."""
        group_size = self._group_size(level)
        return (UNBOUNDED,) if group_size is None else self._losses(group_size)

    def loss_counts(self, level: Level) -> Counter[Loss]:
        """Return the same losses, each with how often it is suffered."""
        return Counter(self.losses(level))

    def _group_size(self, level: Level) -> int | None:
        """Return how many protected units a change to one of a level amounts to, at most.

        None if nobody says. A part of a unit may change the unit to any other, which is one unit
        removed and one added.
        """
        if level == self.level:
            return 1
        if self.level.covers(level):
            return 1 if self.neighbours == "replace" else 2
        return self.group_sizes.get(level)

    @abstractmethod
    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        """Return the losses of a group of so many units."""


class GaussianRelease(Release):
    """Normal noise on every value.

    Parameters
    ----------
    sigma
        Standard deviation of the noise.
    sensitivity
        How far one unit can move the values, in Euclidean length.
    sampling_rate
        The chance with which each unit was drawn into the release, apart from all others and
        unknown to whoever reads it (Poisson sampling); 1 for no sampling.

    Examples
    --------
    >>> GaussianRelease(level="user", sigma=2.0, sensitivity=0.5).noise_multiplier
    4.0
    """

    mechanism: Literal["gaussian"] = "gaussian"
    sigma: float = Field(gt=0)
    sensitivity: float = Field(gt=0)
    sampling_rate: float = Field(default=1.0, gt=0, le=1)

    @model_validator(mode="after")
    def _sampling_adds_or_removes(self) -> Self:
        _check_sampling(self.sampling_rate, self.neighbours)
        return self

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise over sensitivity."""
        return self.sigma / self.sensitivity

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        # Members of a group are sampled apart: counting the whole group as present is safe.
        rate = self.sampling_rate if group_size == 1 else 1.0
        return (Loss("gaussian", self.noise_multiplier / group_size, sampling_rate=rate),)


class DiscreteGaussianRelease(Release):
    """Discrete normal noise on whole numbers, drawn once or as the sum of several shares.

    It costs no more than continuous noise a little narrower: let y be drawn from the discrete
    normal of width s around a continuous normal variable of mean c and width r. Then y is the
    discrete normal of mean c and width sqrt(r^2 + s^2), up to a factor of 1 + 4 exp(-2 pi^2 s^2)
    (Poisson's summation formula; Peikert 2010, theorem 3.1), which for s = 2 is 1 + 2e-34. A
    function of a continuous Gaussian release costs no more than that release. The sum of shares
    of width at least 3 is a discrete normal variable up to an even smaller factor (Kairouz, Liu
    and Steinke 2021, theorem 1). Both factors, to the power of a million values, stay below
    anything that double precision shows.

    Parameters
    ----------
    sigma
        Width of the noise (of the whole sum, without what colluders know), in steps.
    sensitivity
        How far one unit can move the whole numbers, in Euclidean length.
    share_sigma
        Width of the narrowest share, where the noise is a sum of shares.
    sampling_rate
        As in `GaussianRelease`.

    Examples
    --------
    >>> release = DiscreteGaussianRelease(level="token", sigma=5.0, sensitivity=1)
    >>> round(release.losses(Level.TOKEN)[0].noise, 4)
    4.5826
    """

    mechanism: Literal["discrete-gaussian"] = "discrete-gaussian"
    sigma: float = Field(gt=ROUNDING_SIGMA)
    sensitivity: float = Field(gt=0)
    share_sigma: float | None = Field(default=None, ge=3)
    sampling_rate: float = Field(default=1.0, gt=0, le=1)

    @model_validator(mode="after")
    def _sampling_adds_or_removes(self) -> Self:
        _check_sampling(self.sampling_rate, self.neighbours)
        return self

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        continuous = math.sqrt(self.sigma**2 - ROUNDING_SIGMA**2)
        rate = self.sampling_rate if group_size == 1 else 1.0
        noise = continuous / (self.sensitivity * group_size)
        return (Loss("gaussian", noise, sampling_rate=rate),)


def _check_sampling(sampling_rate: float, neighbours: str) -> None:
    if sampling_rate < 1 and neighbours != "add-remove":
        raise ValueError("a sampled release is accounted for units added or removed only")


class NoisyTable(Settings):
    """One table of counts with discrete normal noise on every value.

    Parameters
    ----------
    name
        What is counted.
    sigma
        Width of the noise, in steps; any width is accounted for as it is.
    n_moved
        How many of its values one unit moves, each by one step up or down.
    n_values
        How many values it has.
    """

    name: str = Field(min_length=1, max_length=100)
    sigma: float = Field(gt=0)
    n_moved: int = Field(ge=1, le=10_000)
    n_values: int = Field(default=1, ge=1)


class NoisyTablesRelease(Release):
    """Tables of counts that leave together, each with discrete normal noise of its own width.

    A unit more or less moves ``n_moved`` values of each table by exactly one step: the loss is that
    of so many discrete normal variables shifted by one, known in full. Of a larger group, or of a
    unit replaced, only the squared distance is known, (k^2 times) the number of values moved; that
    bounds the divergences (Canonne, Kamath and Steinke 2020, theorem 14). A unit replaced is one
    removed and one added.

    Examples
    --------
    >>> cells = NoisyTable(name="cells", sigma=3.0, n_moved=4)
    >>> lengths = NoisyTable(name="lengths", sigma=9.0, n_moved=1)
    >>> release = NoisyTablesRelease(
    ...     level="token", tables=(cells, lengths), group_sizes={"document": 10})
    >>> dict(release.loss_counts(Level.TOKEN)) == {
    ...     Loss("discrete-gaussian", 3.0): 4, Loss("discrete-gaussian", 9.0): 1}
    True
    >>> round(release.losses(Level.DOCUMENT)[0].noise, 4)  # 1 / (10 sqrt(4/9 + 1/81))
    0.148
    """

    mechanism: Literal["noisy-tables"] = "noisy-tables"
    tables: tuple[NoisyTable, ...] = Field(min_length=1)

    @property
    def noise_multiplier(self) -> float:
        """Width over sensitivity of the whole, as if all of it were one normal release."""
        return 1 / math.sqrt(sum(table.n_moved / table.sigma**2 for table in self.tables))

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        if group_size == 1 and self.neighbours == "add-remove":
            return tuple(
                Loss("discrete-gaussian", table.sigma)
                for table in self.tables
                for _ in range(table.n_moved)
            )
        n_units = group_size * (2 if self.neighbours == "replace" else 1)
        return (Loss("concentrated", self.noise_multiplier / n_units),)


class LaplaceRelease(Release):
    """Laplace noise on every value.

    Parameters
    ----------
    scale
        Of the noise; its standard deviation is sqrt(2) times that.
    sensitivity
        How far one unit can move the values: the sum of the absolute changes.

    Examples
    --------
    >>> LaplaceRelease(level="user", scale=2.0, sensitivity=1.0).epsilon
    0.5
    """

    mechanism: Literal["laplace"] = "laplace"
    scale: float = Field(gt=0)
    sensitivity: float = Field(gt=0)

    @property
    def epsilon(self) -> float:
        """The pure epsilon of this release alone."""
        return self.sensitivity / self.scale

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        return (Loss("laplace", self.scale / (self.sensitivity * group_size)),)


class DiscreteLaplaceRelease(Release):
    """Discrete Laplace (two-sided geometric) noise on whole numbers.

    Parameters
    ----------
    scale
        Of the noise, in steps.
    sensitivity
        The sum of the absolute changes that one unit can make, in steps.
    """

    mechanism: Literal["discrete-laplace"] = "discrete-laplace"
    scale: float = Field(gt=0)
    sensitivity: int = Field(ge=1)

    @property
    def epsilon(self) -> float:
        """The pure epsilon of this release alone."""
        return self.sensitivity / self.scale

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        return (Loss("discrete-laplace", self.scale, self.sensitivity * group_size),)


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


class TreeRelease(Release):
    """All sums of a training's first 1, 2, ... rounds, by a tree of noisy nodes (DP-FTRL).

    Parameters
    ----------
    sigma
        Standard deviation of each node's noise.
    sensitivity
        How far one contribution can move a round's sum, in Euclidean length.
    n_rounds
        Rounds of the whole training, all paid for at once.
    n_contributions
        How often one unit takes part at most.
    n_rounds_between
        Two contributions of one unit are at least so many rounds apart; 1 if consecutive rounds
        are allowed.

    Examples
    --------
    >>> once = TreeRelease(level="user", sigma=6.0, sensitivity=1, n_rounds=8, n_contributions=1)
    >>> once.losses(Level.USER)[0].noise  # a round lies in four nodes: leaf, pair, four, eight
    3.0
    """

    mechanism: Literal["tree"] = "tree"
    sigma: float = Field(gt=0)
    sensitivity: float = Field(gt=0)
    n_rounds: int = Field(ge=1)
    n_contributions: int = Field(ge=1)
    n_rounds_between: int = Field(default=1, ge=1)

    @property
    def tree_sensitivity(self) -> float:
        """How far one unit can move all nodes together, in Euclidean length.

        The nodes of one height hold apart rounds. One that spans w rounds has at most
        c = ceil(w / n_rounds_between) contributions of one unit, each in the same direction at
        worst; all nodes of the height together have k, so the sum of their squares is at most
        c k. Kairouz et al. 2021 (DP-FTRL), appendix D, with fewer restrictions.
        """
        most = min(self.n_contributions, -(-self.n_rounds // self.n_rounds_between))
        heights = range(self.n_rounds.bit_length())  # nodes that are complete in the end
        squares = sum(most * min(most, -(-(2**h) // self.n_rounds_between)) for h in heights)
        return self.sensitivity * math.sqrt(squares)

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        return (Loss("gaussian", self.sigma / (self.tree_sensitivity * group_size)),)


class BoundedRelease(Release):
    """A release by any other mechanism, whose guarantee is stated from outside.

    Parameters
    ----------
    epsilon, delta
        What it guarantees.
    mechanism_name
        What it is called.
    """

    mechanism: Literal["bounded"] = "bounded"
    epsilon: float = Field(ge=0)
    delta: float = Field(default=0.0, ge=0, lt=1)
    mechanism_name: str

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        # Group privacy of (epsilon, delta): each member in turn, Dwork and Roth 2014, theorem 2.2:
        # delta (1 + e^epsilon + ... + e^((k - 1) epsilon)), and 1 where a double cannot hold it.
        epsilon, delta = group_size * self.epsilon, self.delta
        if delta and group_size > 1:
            if self.epsilon == 0:
                delta *= group_size
            elif epsilon < LARGEST_EXPONENT:
                delta *= math.expm1(epsilon) / math.expm1(self.epsilon)
            else:
                delta = 1.0
        return (Loss("bound", epsilon, delta=min(1.0, delta)),)


class UnprotectedRelease(Release):
    """A release of exact values: whoever gets it knows them.

    It has no finite epsilon. It is recorded all the same, and a party with a limit refuses it.
    """

    mechanism: Literal["none"] = "none"

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        return (UNBOUNDED,)


AnyRelease = Annotated[
    GaussianRelease
    | DiscreteGaussianRelease
    | NoisyTablesRelease
    | LaplaceRelease
    | DiscreteLaplaceRelease
    | RandomisedResponseRelease
    | TreeRelease
    | BoundedRelease
    | UnprotectedRelease,
    Field(discriminator="mechanism"),
]
_reader: Final[TypeAdapter[Any]] = TypeAdapter(AnyRelease)


def read_release(text: str, *, where: str = "release") -> Release:
    """Read a release from its canonical JSON.

    Examples
    --------
    >>> one = LaplaceRelease(level="token", scale=2.0, sensitivity=1)
    >>> read_release(one.canonical()) == one
    True
    """
    try:
        release: Release = _reader.validate_json(text)
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
        raise DataError(f"not a release: {reason}", where=where) from None
    except SettingsError as error:
        raise DataError(f"not a release: {error.message}", where=where) from None
    return release
