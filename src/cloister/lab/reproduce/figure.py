"""A figure or table of a paper: which runs it takes, and what is claimed of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from cloister.lab.reproduce.claim import Claim
from cloister.lab.reproduce.collection import Collection
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.study import Study
from cloister.lab.simulation.curves import Axis
from cloister.lab.simulation.experiment import Experiment

__all__ = ["Figure", "Part", "Size"]

T = TypeVar("T")


class Size(NamedTuple):
    """How much is run: all that the paper does, or enough for a first look.

    Examples
    --------
    >>> Size("quick").of(quick=100, full=10_000)
    100
    """

    name: Literal["quick", "full"]

    @property
    def is_quick(self) -> bool:
        """Whether it is for a first look."""
        return self.name == "quick"

    def of(self, *, quick: T, full: T) -> T:
        """Return what holds for this size."""
        return quick if self.is_quick else full


class Part(NamedTuple):
    """The runs of a figure on one collection.

    Parameters
    ----------
    name
        By which claims speak of it; unique within the figure.
    collection
        What the runs are on.
    experiment
        The runs.
    paper_collection
        What the paper's runs are on, where that is another collection.
    """

    name: str
    collection: Collection
    experiment: Experiment
    paper_collection: str = ""


@dataclass(frozen=True)
class Figure:
    """One figure or table.

    Parameters
    ----------
    key
        By which it is asked for, ``figure-3.6``.
    title
        What it is about.
    paper_setting
        What the paper ran.
    parts
        What is run here; parts of different figures may share runs.
    claims
        What the paper says, and how it is held against the runs.
    note
        What differs here from the paper, beyond sizes and collections.
    measures, x
        Of its learning curves; none are drawn where there are no measures.
    pictures
        Draws what else there is to be seen: contents by file name, ``heat-map.png``.
    """

    key: str
    title: str
    paper_setting: str
    parts: tuple[Part | Study, ...]
    claims: tuple[Claim, ...]
    note: str = ""
    measures: tuple[str, ...] = ("offline_ndcg",)
    x: Axis = "rounds"
    pictures: Callable[[Evidence], dict[str, bytes]] | None = None

    def part(self, name: str) -> Part | Study:
        """Return the part of that name."""
        return next(part for part in self.parts if part.name == name)
