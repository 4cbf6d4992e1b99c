"""The FOLTR thesis, chapters 3 and 4, and the click-inference report's section 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.foltr.click_preference import figure_4_8
from cloister.lab.reproduce.foltr.document_preference import figure_4_3, figure_4_4, table_4_2
from cloister.lab.reproduce.foltr.evolution_against_pdgd import figure_3_3, figure_3_5
from cloister.lab.reproduce.foltr.evolution_strategies import figure_3_1, figure_3_2, figure_3_4
from cloister.lab.reproduce.foltr.federation_size import figure_3_8, figure_3_9, figure_3_10
from cloister.lab.reproduce.foltr.fpdgd import figure_3_6, figure_3_7
from cloister.lab.reproduce.foltr.label_distribution import (
    figure_4_5,
    figure_4_6,
    figure_4_7,
    table_4_3,
)
from cloister.lab.reproduce.foltr.personalised import no_loss, personalised
from cloister.lab.reproduce.foltr.private_training import private_training
from cloister.lab.reproduce.foltr.published_run import published_run
from cloister.lab.reproduce.foltr.quantity import figure_4_9
from cloister.lab.reproduce.foltr.report_figures import report_figure_1, report_figure_2
from cloister.lab.reproduce.foltr.table_3_1 import table_3_1

__all__ = ["figures"]

_FIGURES: Final[tuple[Callable[[Size, Collections], Figure], ...]] = (
    published_run,
    figure_3_1,
    figure_3_2,
    figure_3_3,
    figure_3_4,
    figure_3_5,
    figure_3_6,
    table_3_1,
    figure_3_7,
    figure_3_8,
    figure_3_9,
    figure_3_10,
    figure_4_3,
    table_4_2,
    figure_4_4,
    figure_4_5,
    table_4_3,
    figure_4_6,
    figure_4_7,
    figure_4_8,
    figure_4_9,
    report_figure_1,
    report_figure_2,
    personalised,
    no_loss,
    private_training,
)


def figures(size: Size, collections: Collections) -> list[Figure]:
    """Return all figures, in the order of the thesis."""
    return [make(size, collections) for make in _FIGURES]
