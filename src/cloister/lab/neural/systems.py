"""Names of the rankers that a trial compares."""

from __future__ import annotations

from typing import Final

__all__ = [
    "BM25",
    "C_KNRM",
    "C_KNRM_STAR",
    "C_KNRM_STAR_UNMASKED",
    "DRMM",
    "K_NRM",
    "LAMBDA_MART",
    "SERVED",
    "SOFT_ALONE",
    "T1",
    "T1_ALONE",
    "T1_COMBINED",
    "T2",
    "T2_ALONE",
    "closed",
    "merged",
    "obfuscated",
]

BM25: Final = "BM25"
LAMBDA_MART: Final = "LambdaMART"
DRMM: Final = "DRMM"
K_NRM: Final = "K-NRM"
C_KNRM: Final = "C-KNRM"  # Conv-KNRM
C_KNRM_STAR: Final = "C-KNRM*"
C_KNRM_STAR_UNMASKED: Final = "C-KNRM*, exact matches in soft kernels"
SOFT_ALONE: Final = "C-KNRM*, no exact kernel"
T1: Final = "C-KNRM*/T1"  # also C-KNRM*/T, and C-KNRM*/TO without obfuscation
T2: Final = "C-KNRM*/T2"
T1_COMBINED: Final = "C-KNRM*/T1, combined features"
T1_ALONE: Final = "T1 trees alone"
T2_ALONE: Final = "T2 trees alone"
SERVED: Final = "C-KNRM*/TOC as served"


def obfuscated(base: float) -> str:
    """Return the name of C-KNRM*/TO with a base.

    Examples
    --------
    >>> obfuscated(10.0)
    'C-KNRM*/TO r = 10'
    """
    return f"C-KNRM*/TO r = {base:g}"


def closed(kind: str, threshold: float) -> str:
    """Return the name of C-KNRM*/TOC with closures of a kind down to a threshold.

    Examples
    --------
    >>> closed("fixed", 0.3)
    'C-KNRM*/TOC fixed 0.3'
    """
    return f"C-KNRM*/TOC {kind} {threshold:g}"


def merged(threshold: float) -> str:
    """Return the name of C-KNRM*/TOC with adaptive closures that all reach the size p."""
    return f"{closed('adaptive', threshold)}, merged"
