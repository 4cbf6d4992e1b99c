"""Figure 5: relevant and other documents under different sketches, as pictures and as a number."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import cloister
from cloister.lab.reproduce.claim import Above, Below, Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import alone, versus
from cloister.lab.reproduce.cs_f_ltr.separation_trial import (
    NO_SKETCH,
    STRATEGIES,
    SeparationSettings,
)
from cloister.lab.reproduce.cs_f_ltr.setting import (
    PAPER_COLLECTION,
    Ground,
    grounds,
    seeds,
)
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.quantity import figure
from cloister.lab.reproduce.study import Study, StudyJob, StudyOutcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["figure_5"]

FUNCTION: Final = "cloister.lab.reproduce.cs_f_ltr.separation_trial:measure"
AUC: Final = figure("auc", "AUC of a linear classifier")
CLEAR: Final = 0.9  # of AUC: a boundary that can be seen
ALIKE: Final = 0.02
COUNT_SKETCH, WIDTH_50, WIDTH_10, COUNT_MIN, FIVE, THREE, ONE = list(STRATEGIES)[1:]
RELEVANT, OTHER = "#d55e00", "#0072b2"
DPI: Final = 150


def figure_5(size: Size, data: Collections) -> Figure:
    """Return the figure."""
    chosen = grounds(data)
    parts = tuple(_study(ground, size) for ground in size.of(quick=chosen[:2], full=chosen))
    return Figure(
        "figure-5",
        "Relevant and other documents under different sketches",
        "400 instances, by t-SNE; Count Sketch and Count-Min, smaller w (not in the text), z1 of "
        "5, 3 and 1",
        parts,
        tuple(claim for part in parts for claim in _claims(part.name)),
        "The AUC is that of a logistic regression on queries held out. A boundary is called clear "
        f"from an AUC of {CLEAR} on, which is our word. The labels come from a full-text ranking "
        "of the same counts, so that exact features tell them nearly apart. One party a seed.",
        measures=(),
        pictures=lambda evidence: _pictures(parts, evidence),
    )


def _study(ground: Ground, size: Size) -> Study:
    jobs = tuple(
        StudyJob(
            FUNCTION,
            SeparationSettings(
                data=ground.collection.address, collection=ground.name, seed=seed, embed=seed == 1
            ),
            rounds=8,
        )
        for seed in seeds(size)
    )
    told = "400 instances of one party, 16 features (8 without titles)"
    return Study(ground.collection.name, ground.collection, jobs, told, PAPER_COLLECTION)


def _claims(part: str) -> Iterator[Claim]:
    for strategy in (COUNT_SKETCH, COUNT_MIN, FIVE, THREE):
        yield alone(
            f"the boundary stays clear under {strategy}",
            part=part,
            system=strategy,
            quantity=AUC,
            expects=Above(CLEAR),
        )
    yield versus(
        "Count-Min is about as good as Count Sketch",
        part=part,
        system=COUNT_MIN,
        baseline=COUNT_SKETCH,
        quantity=AUC,
        expects=Near(ALIKE),
    )
    for system, baseline in ((WIDTH_50, COUNT_SKETCH), (WIDTH_10, WIDTH_50)):
        yield _worse("a smaller w is worse", part, system, baseline)
    yield _worse("z1 of 1 is worse than of 3", part, ONE, THREE)
    yield versus(
        "the loss by Count Sketch is negligible",
        part=part,
        system=COUNT_SKETCH,
        baseline=NO_SKETCH,
        quantity=AUC,
        expects=Near(ALIKE),
    )


def _worse(statement: str, part: str, system: str, baseline: str) -> Claim:
    return versus(
        statement, part=part, system=system, baseline=baseline, quantity=AUC, expects=Below()
    )


def _pictures(parts: tuple[Study, ...], evidence: Evidence) -> dict[str, bytes]:
    drawn = {}
    for part in parts:
        found = {name: _embedded(evidence, part.name, name) for name in STRATEGIES}
        if all(found.values()):
            name = part.name.lower().replace(" ", "-")
            drawn[f"{name}.png"] = _panels(part.name, {key: one[0] for key, one in found.items()})
    return drawn


def _embedded(evidence: Evidence, part: str, strategy: str) -> list[StudyOutcome]:
    """Return the outcomes that have a place for each instance."""
    found = evidence.outcomes(part, strategy)
    return [one for one in found if isinstance(one, StudyOutcome) and "x" in one.figures]


def _panels(title: str, found: dict[str, StudyOutcome]) -> bytes:
    from matplotlib.figure import Figure as Drawing  # 0.7 s; no pyplot: it keeps global state

    drawing = Drawing(figsize=(11, 5.9), layout="constrained")
    axes = drawing.subplots(2, 4).ravel()
    for panel, (name, outcome) in zip(axes, found.items(), strict=True):
        _scatter(panel, name, outcome)
    handles, labels = axes[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    drawing.suptitle(f"{title}: t-SNE of 400 instances of one party", fontsize=11)
    stream = io.BytesIO()
    about = {"Software": f"Cloister {cloister.__version__}"}
    drawing.savefig(stream, format="png", dpi=DPI, metadata=about)
    return stream.getvalue()


def _scatter(axes: Axes, name: str, outcome: StudyOutcome) -> None:
    x, y = outcome.curve("x"), outcome.curve("y")
    relevant = outcome.curve("relevant") > 0
    kinds = ((relevant, "relevant", RELEVANT, "o"), (~relevant, "not relevant", OTHER, "*"))
    for chosen, label, colour, marker in kinds:
        axes.scatter(
            x[chosen], y[chosen], s=14, color=colour, marker=marker, alpha=0.7, linewidths=0,
            label=label,
        )  # fmt: skip
    axes.set_title(f"{name}\nAUC {outcome.at_end('auc'):.3f}", fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])
