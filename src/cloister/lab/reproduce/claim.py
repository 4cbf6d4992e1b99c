"""What a paper claims, and the rule by which runs agree with it or not.

A claim compares something measured (an :class:`Estimate` with its interval) with what the paper
leads one to expect (:class:`Above`, :class:`Below`, :class:`Near`, :class:`Within`). The verdict is

- ``agrees`` where the whole interval is as expected,
- ``differs`` where none of it is,
- ``undecided`` where it reaches to both sides, or there is no interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from cloister.lab.reproduce.evidence import Evidence

__all__ = ["Above", "Below", "Claim", "Estimate", "Expectation", "Near", "Verdict", "Within"]

Verdict = Literal["agrees", "differs", "undecided", "skipped"]

MARGIN: Final = 0.01  # of nDCG: less is called no difference


class Estimate(NamedTuple):
    """Something measured over runs, with its interval at 95 %.

    Parameters
    ----------
    value
        What came out; None where it cannot be told, and ``note`` says why.
    low, high
        The interval; None where there are too few runs for one.
    n
        Pairs of runs (one fold and seed each), or single runs, that it rests on.
    means
        What was compared, by name.
    note
        What else is to be known.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    means: dict[str, float] = {}  # noqa: RUF012
    note: str = ""


class Above(NamedTuple):
    """The whole interval lies above a threshold.

    Examples
    --------
    >>> Above().verdict(Estimate(0.02, 0.01, 0.03)), Above().verdict(Estimate(0.02, -0.01, 0.05))
    ('agrees', 'undecided')
    """

    threshold: float = 0.0

    @property
    def word(self) -> str:
        """What the paper leads one to expect."""
        return "higher" if self.threshold == 0 else f"at least {self.threshold:g}"

    @property
    def rule(self) -> str:
        """When the verdict is ``agrees``."""
        return f"interval above {self.threshold:g}"

    def verdict(self, estimate: Estimate) -> Verdict:
        """Judge an estimate."""
        if estimate.low is None or estimate.high is None:
            return "undecided"
        if estimate.low > self.threshold:
            return "agrees"
        return "differs" if estimate.high < self.threshold else "undecided"


class Below(NamedTuple):
    """The whole interval lies below a threshold.

    Examples
    --------
    >>> Below(0.01).verdict(Estimate(0.0, -0.005, 0.005)), Below().verdict(Estimate(2.0, 1.0, 3.0))
    ('agrees', 'differs')
    """

    threshold: float = 0.0

    @property
    def word(self) -> str:
        """What the paper leads one to expect."""
        return "lower" if self.threshold == 0 else f"less than {self.threshold:g}"

    @property
    def rule(self) -> str:
        """When the verdict is ``agrees``."""
        return f"interval below {self.threshold:g}"

    def verdict(self, estimate: Estimate) -> Verdict:
        """Judge an estimate."""
        if estimate.low is None or estimate.high is None:
            return "undecided"
        if estimate.high < self.threshold:
            return "agrees"
        return "differs" if estimate.low > self.threshold else "undecided"


class Near(NamedTuple):
    """The whole interval lies within a margin around 0: no difference to speak of.

    Examples
    --------
    >>> rule = Near(0.01)
    >>> [rule.verdict(Estimate(0.0, low, high))
    ...  for low, high in ((-0.004, 0.006), (0.02, 0.03), (0.005, 0.03))]
    ['agrees', 'differs', 'undecided']
    """

    margin: float = MARGIN

    @property
    def word(self) -> str:
        """What the paper leads one to expect."""
        return "no difference"

    @property
    def rule(self) -> str:
        """When the verdict is ``agrees``."""
        return f"interval within ±{self.margin:g}"

    def verdict(self, estimate: Estimate) -> Verdict:
        """Judge an estimate."""
        if estimate.low is None or estimate.high is None:
            return "undecided"
        if -self.margin < estimate.low and estimate.high < self.margin:
            return "agrees"
        outside = estimate.low > self.margin or estimate.high < -self.margin
        return "differs" if outside else "undecided"


class Within(NamedTuple):
    """The value itself lies within a tolerance of the paper's number.

    Examples
    --------
    >>> Within(0.7010, 0.01).verdict(Estimate(0.6995)), Within(0.7010, 0.01).verdict(Estimate(0.68))
    ('agrees', 'differs')
    """

    number: float
    tolerance: float

    @property
    def word(self) -> str:
        """What the paper leads one to expect."""
        return f"{self.number:g}"

    @property
    def rule(self) -> str:
        """When the verdict is ``agrees``."""
        return f"value within {self.tolerance:g} of {self.number:g}"

    def verdict(self, estimate: Estimate) -> Verdict:
        """Judge an estimate."""
        if estimate.value is None:
            return "undecided"
        return "agrees" if abs(estimate.value - self.number) <= self.tolerance else "differs"


Expectation = Above | Below | Near | Within


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, held against runs.

    Parameters
    ----------
    statement
        What the paper says, in our words.
    compared
        What is measured here.
    parts
        The parts of the figure whose runs it needs.
    expects
        What the statement leads one to expect of the estimate.
    estimate
        Measures it.
    paper
        The number that the paper prints for the same thing, if it does.
    beyond
        Whether the statement is ours and not the paper's.
    """

    statement: str
    compared: str
    parts: tuple[str, ...]
    expects: Expectation
    estimate: Callable[[Evidence], Estimate] = field(repr=False)
    paper: float | None = None
    beyond: bool = False
