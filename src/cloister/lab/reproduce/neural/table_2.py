"""Table 2: which features the trees have."""

from __future__ import annotations

from collections.abc import Iterator

from cloister.lab.neural import systems
from cloister.lab.reproduce.claim import Claim
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.neural.paper_tables import COLUMNS, gap
from cloister.lab.reproduce.neural.query_samples import NO_WORSE, higher
from cloister.lab.reproduce.neural.setting import NOTE, PAPER_SETTING, studies
from cloister.lab.reproduce.neural.values_table import SOFT_SHARE, values_csv

__all__ = ["SYSTEMS", "table_2"]

SYSTEMS = (
    systems.C_KNRM,
    systems.C_KNRM_STAR,
    systems.T1,
    systems.T2,
    systems.T1_ALONE,
    systems.T2_ALONE,
)


def table_2(size: Size, data: Collections) -> Figure:
    """Return the table."""
    parts = studies(size, data)
    return Figure(
        "table-2",
        "Features of the trees: T1 beside T2",
        PAPER_SETTING,
        parts,
        tuple(claim for part in parts for claim in _claims(part.name)),
        f"{NOTE} T2 has term frequencies, T1 proximity and priors of the text besides: these "
        "collections have no page quality.",
        measures=(),
        pictures=lambda evidence: {
            "values.csv": values_csv(parts, SYSTEMS, evidence, more=(SOFT_SHARE,))
        },
    )


def _claims(part: str) -> Iterator[Claim]:
    for k in COLUMNS:
        yield higher(
            f"T1 ranks better than T2 (slides: {gap(systems.T1, systems.T2, k)} nDCG@{k})",
            part=part,
            system=systems.T1,
            baseline=systems.T2,
            k=k,
            n_comparisons=len(COLUMNS),
        )
    yield higher(
        "T1 ranks at least as well as T2, but for 0.01",
        part=part,
        system=systems.T1,
        baseline=systems.T2,
        expects=NO_WORSE,
    )
    yield higher(
        f"T2 ranks better than C-KNRM* (slides: "
        f"{gap(systems.T2, systems.C_KNRM_STAR, 10)} nDCG@10)",
        part=part,
        system=systems.T2,
        baseline=systems.C_KNRM_STAR,
    )
