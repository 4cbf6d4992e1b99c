"""Thesis figure 6.3: during unlearning the ranker approaches one trained without the client."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cloister.lab.forgetting.evaluation import CURVE
from cloister.lab.reproduce.claim import Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import alone, versus
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.quantity import Quantity
from cloister.lab.reproduce.unlearning.setting import PAPER_SETTING, Place, clicks, places

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["figure_6_3"]

PANEL_INCHES: Final = (3.6, 2.8)


def _rise(outcome: Any) -> float:
    values = outcome.curve("curve_ndcg")
    return float(values[-5:].mean() - values[0])


RISE: Final = Quantity("late nDCG@10 less that after a fortieth of the rounds", _rise)


def figure_6_3(size: Size, collections: Collections) -> Figure:
    """Return the figure."""
    found = places(size, collections)
    return Figure(
        "figure-6.3",
        "Unlearning, round by round, beside the ranker that is retrained from scratch",
        PAPER_SETTING,
        tuple(place.study for place in found),
        tuple(
            claim for place in found for click in clicks(size) for claim in _claims(place, click)
        ),
        note="Short retraining beside it, without history at equal steps, is ours.",
        measures=(),
        pictures=_pictures(found, clicks(size)),
    )


def _claims(place: Place, click: str) -> Iterator[Claim]:
    like = place.like
    beyond, unlearned = like.n_attackers > 1, like.unlearned(*CURVE)
    yield versus(
        "unlearning makes the poisoned ranker better",
        part=place.name,
        system=unlearned,
        baseline=like.poisoned,
        click=click,
        beyond=beyond,
    )
    yield versus(
        "the unlearned ranker ends where retraining from scratch does",
        part=place.name,
        system=unlearned,
        baseline=like.without,
        click=click,
        expects=Near(),
        beyond=beyond,
    )
    yield alone(
        "it gets there gradually",
        part=place.name,
        system=unlearned,
        quantity=RISE,
        click=click,
        beyond=beyond,
    )


def _pictures(
    found: Sequence[Place], models: Sequence[str]
) -> Callable[[Evidence], dict[str, bytes]]:
    def draw(evidence: Evidence) -> dict[str, bytes]:
        return {
            f"{place.name.lower().replace(',', '').replace(' ', '-')}.png": _png(
                evidence, place, models
            )
            for place in found
            if evidence.outcomes(place.name, place.like.without)
        }

    return draw


def _png(evidence: Evidence, place: Place, models: Sequence[str]) -> bytes:
    """Draw mean curves over repetitions, a panel a click model."""
    from matplotlib.figure import Figure as Drawing  # no pyplot: it keeps global state

    drawing = Drawing(
        figsize=(PANEL_INCHES[0] * len(models), PANEL_INCHES[1] + 0.4), layout="constrained"
    )
    panels = drawing.subplots(1, len(models), sharey=True, squeeze=False)[0]
    for panel, click in zip(panels, models, strict=True):
        _draw(panel, evidence, place, click)
    panels[0].set_ylabel("offline nDCG@10")
    handles, labels = panels[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    stream = io.BytesIO()
    drawing.savefig(stream, format="png", dpi=150)
    return stream.getvalue()


def _draw(panel: Axes, evidence: Evidence, place: Place, click: str) -> None:
    like = place.like
    for system, colour in ((like.unlearned(*CURVE), "#1f77b4"), (like.short(*CURVE), "#ff7f0e")):
        found: list[Any] = list(evidence.outcomes(place.name, system, click))
        if found:
            mean = np.mean([one.curve("curve_ndcg") for one in found], axis=0)
            panel.plot(found[0].curve("curve_rounds"), mean, color=colour, label=system)
    for system, style in ((like.without, "--"), (like.poisoned, ":")):
        ends = [
            one.at_end("offline_ndcg@10") for one in evidence.outcomes(place.name, system, click)
        ]
        if ends:
            panel.axhline(float(np.mean(ends)), color="#444444", linestyle=style, label=system)
    panel.set_title(click, fontsize=10)
    panel.set_xlabel("rounds of unlearning")
    panel.grid(color="#dddddd", linewidth=0.6)
