"""Figure 4: what the parameters of RTK-Sketch do to cover rate, time and space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from cloister.lab.reproduce.claim import Above, Below, Claim, Expectation, Near, Within
from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.comparing import alone, versus
from cloister.lab.reproduce.cs_f_ltr.corpus import ZIPF
from cloister.lab.reproduce.cs_f_ltr.figure_4_image import sweep_png
from cloister.lab.reproduce.cs_f_ltr.rtk_trial import MENDED, NAIVE, PRINTED, RtkSettings, system_at
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.quantity import Quantity, figure
from cloister.lab.reproduce.study import Study, StudyJob

__all__ = ["Searched", "corpora", "figure_4"]

FUNCTION: Final = "cloister.lab.reproduce.cs_f_ltr.rtk_trial:measure"
PAPER_DOCUMENTS: Final = 36_400
COVER: Final = figure("cover_rate", "cover rate")
MS: Final = figure("ms", "ms a query")
FASTER: Final = figure("times_faster", "times as fast as NAIVE")
SPACE: Final = figure("share_of_naive", "space, share of NAIVE's")
NEARLY_ALL: Final = 0.95  # of the true top: "approaches 1"
LITTLE: Final = 0.02  # of cover rate: no loss to speak of

# What the paper says of the cover rate: larger or smaller at one value than at another.
SHAPES: Final[tuple[tuple[str, str, float, float, Expectation], ...]] = (
    ("grows with alpha", "alpha", 5, 1, Above()),
    ("falls with larger beta", "beta", 0.5, 0.1, Below()),
    ("a beta of 0.2 is reasonable", "beta", 0.2, 0.1, Near(LITTLE)),
    ("grows with K", "K", 200, 50, Above()),
    ("grows with w", "w", 400, 50, Above()),
    ("grows with z", "z", 50, 10, Above()),
    ("falls again from z 50 to 70", "z", 70, 50, Below()),
)


class Searched(NamedTuple):
    """A corpus, how many of its documents are drawn (None: all), that in words, their length."""

    collection: Collection
    drawn: int | None
    told: str
    mean_length: float


def corpora(size: Size, data: Collections) -> tuple[Searched, ...]:
    """Return what is searched: a made corpus, and MedQuAD."""
    n = size.of(quick=PAPER_DOCUMENTS // 8, full=PAPER_DOCUMENTS)
    zipf = Collection("Zipf corpus", f"{ZIPF}?documents={n}")
    some, every = f"{n:,} documents", "all 17,896 documents"
    return (
        Searched(zipf, None, some, 1000),
        Searched(
            data["MedQuAD"], size.of(quick=n, full=None), size.of(quick=some, full=every), 200
        ),
    )


def figure_4(size: Size, data: Collections) -> Figure:
    """Return the figure."""
    parts = tuple(_study(one, size) for one in corpora(size, data))
    return Figure(
        "figure-4",
        "Parameters of RTK-Sketch: cover rate, query time, space",
        "36,400 documents; each parameter around alpha 5, beta 0.1, w 200, z 30, K 150",
        parts,
        tuple(claim for part in parts for claim in _claims(part.name)),
        "As printed: one heap of signed counts, the median of the rows present, with the sign that "
        "equation 3 leaves out. As mended: two sides of half the size each, missing rows imputed. "
        "NAIVE is a compiled scan, not a loop of an interpreter; times are medians of single "
        "queries on one thread, while other jobs may be running.",
        measures=(),
        pictures=lambda evidence: _pictures(parts, evidence),
    )


def _study(searched: Searched, size: Size) -> Study:
    n_terms = size.of(quick=300, full=1000)
    jobs = tuple(
        StudyJob(
            FUNCTION,
            RtkSettings(
                data=searched.collection.address,
                seed=seed,
                n_documents=searched.drawn,
                n_terms=n_terms,
            ),
            rounds=20,
        )
        for seed in range(1, size.of(quick=3, full=5) + 1)
    )
    told = f"{searched.told}, {n_terms} terms drawn by frequency"
    name = searched.collection.name
    return Study(name, searched.collection, jobs, told, "MS MARCO, 36,400 documents")


def _claims(part: str) -> Iterator[Claim]:
    for variant in (PRINTED, MENDED):
        beyond = variant == MENDED
        for statement, parameter, value, base, expects in SHAPES:
            yield versus(
                f"the cover rate {statement}" if "beta of" not in statement else statement,
                part=part,
                system=system_at(variant, parameter, value),
                baseline=system_at(variant, parameter, base),
                quantity=COVER,
                expects=expects,
                beyond=beyond,
            )
        yield _alone(
            "the cover rate approaches 1 at alpha 5", part, variant, COVER, Above(NEARLY_ALL)
        )
        yield _alone("a query takes under 10 ms", part, variant, MS, Below(10.0))
    yield _alone(
        "10,000 times as fast as NAIVE (over 100 s to under 10 ms)",
        part,
        PRINTED,
        FASTER,
        Above(10_000.0),
        paper=10_000.0,
    )
    yield _alone(
        "space about a fifth of NAIVE's", part, PRINTED, SPACE, Within(0.2, 0.05), paper=0.2
    )
    yield _alone("NAIVE takes over 100 s a query", part, NAIVE, MS, Above(100_000.0))
    yield _alone("RTK-Sketch is faster than a compiled NAIVE", part, MENDED, FASTER, Above(1.0))
    yield versus(
        "RTK-Sketch as mended covers more than as printed, at the same size",
        part=part,
        system=system_at(MENDED, "alpha", 5),
        baseline=system_at(PRINTED, "alpha", 5),
        quantity=COVER,
        beyond=True,
    )


def _alone(
    statement: str,
    part: str,
    variant: str,
    quantity: Quantity,
    expects: Expectation,
    paper: float | None = None,
) -> Claim:
    return alone(
        statement,
        part=part,
        system=system_at(variant, "alpha", 5),
        quantity=quantity,
        expects=expects,
        paper=paper,
        beyond=variant == MENDED,
    )


def _pictures(parts: tuple[Study, ...], evidence: Evidence) -> dict[str, bytes]:
    drawn = {}
    for part in parts:
        if evidence.outcomes(part.name, system_at(NAIVE, "alpha", 5)):
            name = part.name.lower().replace(" ", "-")
            drawn[f"{name}.png"] = sweep_png(evidence, part.name, f"{part.name}: {part.setting}")
    return drawn
