"""Table 3: soft kernel values as levels to a base r."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cloister.lab.neural import systems
from cloister.lab.reproduce.claim import Claim
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.neural.paper_tables import PAPER_COLLECTIONS, printed
from cloister.lab.reproduce.neural.query_samples import keeps
from cloister.lab.reproduce.neural.setting import NOTE, PAPER_SETTING, studies
from cloister.lab.reproduce.neural.values_table import SOFT_SHARE, values_csv

__all__ = ["BASES", "KEPT", "SYSTEMS", "table_3"]

BASES: Final = (5, 10)
KEPT: Final = 0.96  # of nDCG@10; the slides' own numbers keep 0.963 and 0.993 with r = 10
SYSTEMS = (
    systems.C_KNRM,
    systems.C_KNRM_STAR,
    systems.T1,
    *(systems.obfuscated(base) for base in BASES),
)


def table_3(size: Size, data: Collections) -> Figure:
    """Return the table."""
    parts = studies(size, data)
    return Figure(
        "table-3",
        "Obfuscated kernel values, r = 5 and 10",
        PAPER_SETTING,
        parts,
        tuple(claim for part in parts for claim in _claims(part.name)),
        f"{NOTE} C-KNRM*/T1 is C-KNRM*/TO without obfuscation. Layers are fitted to each kind of "
        "levels anew. Intervals of ratios are bootstrap ones over queries.",
        measures=(),
        pictures=lambda evidence: {
            "values.csv": values_csv(parts, SYSTEMS, evidence, more=(SOFT_SHARE,))
        },
    )


def _claims(part: str) -> Iterator[Claim]:
    for base in BASES:
        system = systems.obfuscated(base)
        ratios = (printed(system, on, 10) / printed(systems.T1, on, 10) for on in PAPER_COLLECTIONS)
        told = " and ".join(f"{ratio:.3f}" for ratio in ratios)
        yield keeps(
            f"obfuscation with r = {base} costs at most 4 % of nDCG@10 (slides keep: {told})",
            part=part,
            system=system,
            baseline=systems.T1,
            share=KEPT,
        )
