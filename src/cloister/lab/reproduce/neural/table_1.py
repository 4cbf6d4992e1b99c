"""Table 1: a tree ensemble in the place of the exact-match kernel."""

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

__all__ = ["SYSTEMS", "table_1"]

SYSTEMS = (
    systems.BM25,
    systems.LAMBDA_MART,
    systems.DRMM,
    systems.K_NRM,
    systems.C_KNRM,
    systems.C_KNRM_STAR,
    systems.T1,
    systems.C_KNRM_STAR_UNMASKED,
    systems.SOFT_ALONE,
    systems.T1_ALONE,
    systems.T1_COMBINED,
)


def table_1(size: Size, data: Collections) -> Figure:
    """Return the table."""
    parts = studies(size, data)
    return Figure(
        "table-1",
        "A tree signal in the place of the exact-match kernel",
        PAPER_SETTING,
        parts,
        tuple(claim for part in parts for claim in _claims(part.name)),
        f"{NOTE} C-KNRM*/T1 has the filters of C-KNRM*, exact matches masked. T1 features are "
        "those that a server can look up; LambdaMART has sums over the query besides.",
        measures=(),
        pictures=lambda evidence: {
            "values.csv": values_csv(parts, SYSTEMS, evidence, more=(SOFT_SHARE,))
        },
    )


def _claims(part: str) -> Iterator[Claim]:
    others = (systems.C_KNRM_STAR, systems.C_KNRM)
    n = len(others) * len(COLUMNS)
    for baseline in others:
        for k in COLUMNS:
            yield higher(
                f"C-KNRM*/T ranks better than {baseline} (slides: "
                f"{gap(systems.T1, baseline, k)} nDCG@{k})",
                part=part,
                system=systems.T1,
                baseline=baseline,
                k=k,
                n_comparisons=n,
            )
        yield higher(
            f"C-KNRM*/T ranks at least as well as {baseline}, but for 0.01",
            part=part,
            system=systems.T1,
            baseline=baseline,
            expects=NO_WORSE,
        )
    yield higher(
        f"C-KNRM ranks better than C-KNRM* (slides: "
        f"{gap(systems.C_KNRM, systems.C_KNRM_STAR, 10)} nDCG@10)",
        part=part,
        system=systems.C_KNRM,
        baseline=systems.C_KNRM_STAR,
    )
    yield from _beyond(part)


def _beyond(part: str) -> Iterator[Claim]:
    for statement, system, baseline in (
        ("the tree signal adds to soft matches", systems.T1, systems.SOFT_ALONE),
        ("soft matches add to the trees", systems.T1, systems.T1_ALONE),
        ("C-KNRM*/T ranks better than BM25", systems.T1, systems.BM25),
        ("C-KNRM*/T ranks better than LambdaMART", systems.T1, systems.LAMBDA_MART),
        ("features that a server cannot combine would help", systems.T1_COMBINED, systems.T1),
    ):
        yield higher(statement, part=part, system=system, baseline=baseline, beyond=True)
    yield higher(
        "masking exact matches costs C-KNRM* nothing, but for 0.01",
        part=part,
        system=systems.C_KNRM_STAR,
        baseline=systems.C_KNRM_STAR_UNMASKED,
        expects=NO_WORSE,
        beyond=True,
    )
