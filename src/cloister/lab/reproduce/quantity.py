"""Numbers that are read off a run: at its end, or off its learning curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.lab.simulation.run_files import KeptRun

__all__ = [
    "MAX_RR",
    "NDCG",
    "ONLINE",
    "ONLINE_LESS_OFFLINE",
    "Outcome",
    "Quantity",
    "figure",
    "gain",
    "late",
    "trend",
    "until",
    "unsteadiness",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """A run that was kept, whose curves are read once."""

    run: KeptRun

    @cached_property
    def curves(self) -> dict[str, Floats]:
        """Its curves, one number a round."""
        return self.run.curves()

    @property
    def repeat(self) -> tuple[str, int, int]:
        """Which of the repetitions it is: collection, fold and seed."""
        settings = self.run.settings
        return settings.data, settings.fold, settings.seed

    @property
    def click_model(self) -> str:
        """Whose clicks it trained on."""
        return self.run.settings.click_model

    def at_end(self, figure: str) -> float:
        """Return a figure of its summary."""
        value: Any = self.run.summary.get(figure)
        return float("nan") if value is None else float(value)

    def between(self, measure: str, low: float, high: float) -> float:
        """Return the mean of the points in a range of shares of the interactions.

        Where none lies there, the nearest to its end.
        """
        share, values = self.measured(measure)
        inside = (share > low) & (share <= high)
        if not inside.any():
            inside = np.arange(len(share)) == np.abs(share - high).argmin()
        return float(values[inside].mean())

    def measured(self, measure: str) -> tuple[Floats, Floats]:
        """Return the points at which something was measured, as shares of the interactions."""
        values = self.curves[measure]
        share = self.curves["interactions"] / self.curves["interactions"][-1]
        kept = ~np.isnan(values)
        return share[kept], values[kept]


class Quantity(NamedTuple):
    """A number that every run, or every outcome of a study, has, and what it is called."""

    label: str
    of: Callable[[Any], float]


def figure(name: str, label: str = "") -> Quantity:
    """Return the figure of that name, as a run's summary or a study has it."""
    return Quantity(label or name, lambda outcome: outcome.at_end(name))


NDCG: Final = Quantity("offline nDCG@10", lambda outcome: outcome.at_end("offline_ndcg@10"))
MAX_RR: Final = Quantity("offline MaxRR", lambda outcome: outcome.at_end("offline_max_rr"))
ONLINE: Final = Quantity(
    "discounted online nDCG@10", lambda outcome: outcome.at_end("online_ndcg@10")
)
ONLINE_LESS_OFFLINE: Final = Quantity(
    "online less offline nDCG@10 at the end",
    lambda outcome: outcome.between("online_ndcg", 0.9, 1.0) - NDCG.of(outcome),
)


def late(measure: str) -> Quantity:
    """Return the mean over the last tenth of the interactions."""
    return Quantity(
        f"{_words(measure)} at the end", lambda outcome: outcome.between(measure, 0.9, 1.0)
    )


def until(share: float, measure: str) -> Quantity:
    """Return the mean over the first part of the interactions."""
    return Quantity(
        f"{_words(measure)} over the first {100 * share:g} % of interactions",
        lambda outcome: outcome.between(measure, 0.0, share),
    )


def gain(measure: str, since: float = 0.02) -> Quantity:
    """Return what training has added: the last tenth less the first part."""
    return Quantity(
        f"{_words(measure)}, end less first {100 * since:g} %",
        lambda outcome: outcome.between(measure, 0.9, 1.0) - outcome.between(measure, 0.0, since),
    )


def trend(measure: str) -> Quantity:
    """Return the last tenth less the tenth in the middle."""
    return Quantity(
        f"{_words(measure)}, end less middle",
        lambda outcome: outcome.between(measure, 0.9, 1.0) - outcome.between(measure, 0.45, 0.55),
    )


def unsteadiness(measure: str) -> Quantity:
    """Return how far neighbouring points of the second half lie apart: a standard deviation."""

    def read(outcome: Outcome) -> float:
        share, values = outcome.measured(measure)
        return float(np.std(np.diff(values[share > 0.5])) / np.sqrt(2))

    return Quantity(f"unsteadiness of {_words(measure)}", read)


def _words(measure: str) -> str:
    side, _, name = measure.partition("_")
    names = {"ndcg": "nDCG@10", "max_rr": "MaxRR"}
    return f"{side} {names.get(name, name)}"
