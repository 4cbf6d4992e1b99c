"""Beyond the paper: its Word2Vec at low access beside its base, and a form that is mended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cloister.lab.espresso.vector_curve import CurveSettings
from cloister.lab.reproduce.claim import Below, Claim, Expectation
from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.espresso.level_lines_image import LinesPanel, lines_png
from cloister.lab.reproduce.espresso.low_access_trial import (
    BASE,
    BM25,
    CLINIC,
    FORMS,
    MENDED_FORM,
    PAPER_FORM,
    LowAccessSettings,
    at_level,
)
from cloister.lab.reproduce.espresso.setting import ACCESS, PAPER_COLLECTION, PAPER_SETTING
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.quantity import Quantity, figure
from cloister.lab.reproduce.study import Study, StudyJob
from cloister.search.word_vectors import WordVectorSettings

__all__ = ["low_access"]

FUNCTION: Final = "cloister.lab.reproduce.espresso.low_access_trial:measure"
LOW: Final = (5, 10, 25)  # per cent: under the half from which on the paper finds tuning to help
AGREEMENT: Final = figure("agreement", "agreement, nDCG@10")
RELEVANCE: Final = figure("relevance", "relevance, nDCG@10")
CHANCE: Final = "chance"


def low_access(size: Size, data: Collections) -> Figure:
    """Return the curve over access levels."""
    parts = tuple(_study(collection, told, size) for collection, told in _collections(size, data))
    return Figure(
        "low-access",
        "Word2Vec for users who may read little: base, the paper's tuning, the mended one",
        PAPER_SETTING,
        parts,
        tuple(claim for part in parts for claim in _claims(part.name)),
        "Agreement: with BM25 of the same user, whose best ten count as right. Relevance: by "
        "people's grades (NFCorpus), or by how patients were made (clinic world), of what the user "
        "may read. A repetition is another public fifth, another base and another user, in the "
        "clinic world also another world. The paper puts the failure down to overfitting and "
        "leaves it untested; it does not compare with the base. No servers are chosen here: all "
        "that the user may read is ranked.",
        measures=(),
        pictures=lambda evidence: _pictures(parts, evidence),
    )


def _collections(size: Size, data: Collections) -> tuple[tuple[Collection, str], ...]:
    pods, queries = size.of(quick=40, full=200), size.of(quick=60, full=200)
    address = f"{CLINIC}servers=10&pods={pods}&queries={queries}"
    return (
        (data["NFCorpus"], "test queries"),
        (Collection("clinic world", address), f"10 x {pods} pods, {queries} queries"),
    )


def _study(collection: Collection, told: str, size: Size) -> Study:
    base = WordVectorSettings(size=size.of(quick=100, full=300))
    jobs = tuple(
        StudyJob(
            FUNCTION,
            LowAccessSettings(
                data=collection.address, seed=seed, curve=CurveSettings(levels=ACCESS, base=base)
            ),
            20,
        )
        for seed in range(1, size.of(quick=3, full=10) + 1)
    )
    told = f"{told}, vectors of {base.size} numbers, a fifth of the documents public"
    return Study(collection.name, collection, jobs, told, PAPER_COLLECTION)


def _claims(part: str) -> Iterator[Claim]:
    for quantity in (RELEVANCE, AGREEMENT):
        for access in LOW:
            yield _versus(
                "the paper's form falls below its base under 50 % access",
                part, PAPER_FORM, BASE, access, quantity, Below(),
            )  # fmt: skip
        for access in ACCESS:
            for other in (BASE, PAPER_FORM):
                yield _versus(
                    "the mended form is above the base and above the paper's at each level",
                    part, MENDED_FORM, other, access, quantity,
                )  # fmt: skip
    for access in ACCESS:
        yield _versus(
            "BM25 is above the mended form in relevance", part, BM25, MENDED_FORM, access, RELEVANCE
        )


def _versus(
    statement: str,
    part: str,
    system: str,
    baseline: str,
    access: int,
    quantity: Quantity,
    expects: Expectation | None = None,
) -> Claim:
    return versus(
        statement,
        part=part,
        system=at_level(system, access),
        baseline=at_level(baseline, access),
        quantity=quantity,
        expects=expects,
        beyond=True,
    )


def _pictures(parts: tuple[Study, ...], evidence: Evidence) -> dict[str, bytes]:
    shown = [part for part in parts if evidence.outcomes(part.name, at_level(BM25, ACCESS[0]))]
    if not shown:
        return {}
    panels = [
        [_panel(evidence, part.name, one) for part in shown] for one in (RELEVANCE, AGREEMENT)
    ]
    title = f"Word2Vec by what the user may read, {len(shown[0].jobs)} repetitions"
    return {"curve.png": lines_png(panels, title)}


def _panel(evidence: Evidence, part: str, quantity: Quantity) -> LinesPanel:
    """Return the forms' lines; BM25's where it is not 1, and chance's where it is known."""
    names = [name for name in FORMS.values() if name != BM25 or quantity is RELEVANCE]
    lines = {name: _line(evidence, part, name, quantity) for name in names}
    if quantity is AGREEMENT:
        lines[CHANCE] = _line(evidence, part, BM25, figure("chance"))
    ticks = [f"{access} %" for access in ACCESS]
    return LinesPanel(part, quantity.label, "documents that may be read", ticks, lines)


def _line(evidence: Evidence, part: str, form: str, quantity: Quantity) -> list[list[float]]:
    samples = [evidence.sample(part, at_level(form, access), quantity) for access in ACCESS]
    return [[v for v in sample.values() if np.isfinite(v)] for sample in samples]
