"""The four tables of the private neural ranking slides, as printed.

One number stands as "04527" there (K-NRM on Robust04, nDCG@10): 0.4527.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from cloister.lab.neural import systems

__all__ = ["COLUMNS", "PAPER_COLLECTIONS", "PRINTED", "PaperCollection", "gap", "printed"]

PaperCollection = Literal["ClueWeb09-Cat-B", "Robust04"]
PAPER_COLLECTIONS: Final[tuple[PaperCollection, ...]] = ("ClueWeb09-Cat-B", "Robust04")
COLUMNS: Final = (1, 3, 10)  # cut-offs of nDCG

# nDCG@1, 3, 10 on ClueWeb09-Cat-B, then on Robust04.
PRINTED: Final[Mapping[str, tuple[float, ...]]] = {
    systems.LAMBDA_MART: (0.2893, 0.2828, 0.2827, 0.5181, 0.4610, 0.4044),
    systems.DRMM: (0.2586, 0.2659, 0.2634, 0.5049, 0.4872, 0.4528),
    systems.K_NRM: (0.2663, 0.2739, 0.2681, 0.4983, 0.4812, 0.4527),
    systems.C_KNRM: (0.3155, 0.3124, 0.3085, 0.5373, 0.4875, 0.4586),
    systems.C_KNRM_STAR: (0.2884, 0.2927, 0.2870, 0.5007, 0.4702, 0.4510),
    systems.T1: (0.3175, 0.3122, 0.3218, 0.5404, 0.5006, 0.4657),
    systems.T2: (0.3038, 0.2998, 0.2933, 0.5149, 0.4827, 0.4535),
    systems.obfuscated(5): (0.3178, 0.3067, 0.3100, 0.5306, 0.4987, 0.4613),
    systems.obfuscated(10): (0.3121, 0.3097, 0.3100, 0.5221, 0.4980, 0.4623),
    systems.closed("fixed", 0.3): (0.3136, 0.3078, 0.3091, 0.5225, 0.4974, 0.4621),
    systems.closed("fixed", 0.7): (0.3064, 0.3048, 0.3104, 0.4886, 0.4644, 0.4169),
    systems.closed("adaptive", 0.3): (0.3052, 0.3069, 0.3120, 0.5127, 0.4892, 0.4582),
    systems.closed("adaptive", 0.7): (0.3067, 0.3012, 0.3060, 0.4899, 0.4608, 0.4090),
}


def printed(system: str, collection: PaperCollection, k: int) -> float:
    """Return the slides' nDCG@k of a system.

    Examples
    --------
    >>> printed("C-KNRM*/T1", "Robust04", 10)
    0.4657
    """
    place = PAPER_COLLECTIONS.index(collection) * len(COLUMNS) + COLUMNS.index(k)
    return PRINTED[system][place]


def gap(system: str, baseline: str, k: int) -> str:
    """Write how far the slides' system is above another, on both collections.

    Examples
    --------
    >>> gap("C-KNRM*/T1", "C-KNRM*", 10)
    '+0.0348 and +0.0147'
    """
    gaps = (printed(system, on, k) - printed(baseline, on, k) for on in PAPER_COLLECTIONS)
    return " and ".join(f"{value:+.4f}" for value in gaps)
