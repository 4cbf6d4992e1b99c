"""The FOLTR thesis, chapter 5: poisoning attacks and defences, with what it leaves open."""

from __future__ import annotations

from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.poisoning.adaptive import adaptive
from cloister.lab.reproduce.poisoning.cross_device import cross_device
from cloister.lab.reproduce.poisoning.data_poisoning import figure_5_2, figure_5_5
from cloister.lab.reproduce.poisoning.matrix import matrix
from cloister.lab.reproduce.poisoning.model_poisoning import figure_5_3
from cloister.lab.reproduce.poisoning.nobody_attacks import figure_5_4
from cloister.lab.reproduce.poisoning.promotion import promotion

__all__ = ["figures"]


def figures(size: Size, collections: Collections) -> list[Figure]:
    """Return all figures, in the order of the thesis; then what it leaves open."""
    makers = (
        figure_5_2,
        figure_5_3,
        figure_5_4,
        figure_5_5,
        matrix,
        adaptive,
        cross_device,
        promotion,
    )
    return [make(size, collections) for make in makers]
