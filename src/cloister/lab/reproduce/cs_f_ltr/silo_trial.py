"""One repetition of learning to rank across silos, as a study keeps it."""

from __future__ import annotations

from cloister.lab.reproduce.cs_f_ltr.setting import SilosStudySettings, system_name
from cloister.lab.reproduce.study import Figures
from cloister.lab.silos.experiment import measure_silos
from cloister.lab.simulation.run import Advance

__all__ = ["measure"]


def measure(settings: SilosStudySettings, advance: Advance) -> Figures:
    """Return the figures of every run of every ranker; all rankers share the rows."""
    figures: Figures = {}
    for done, ranker in enumerate(settings.rankers, 1):
        found = measure_silos(settings.silos.model_copy(update={"ranker": ranker}))
        for run, values in found.items():
            figures[system_name(ranker, run)] = dict(values)
        advance(done, len(settings.rankers))
    return figures
