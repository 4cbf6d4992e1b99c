"""Papers' experiments done again: what a paper says beside what comes out here.

One package a paper, with one module for each group of figures. A figure names the runs it needs
and the claims that are held against them; verdicts follow from rules, never from us.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Final

from cloister.core.errors import SettingsError
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Size

__all__ = ["NAMES", "figures_of"]

NAMES: Final = (
    "foltr",
    "click-inference",
    "poisoning",
    "unlearning",
    "membership",
    "cs-f-ltr",
    "espresso",
    "neural",
)


def figures_of(
    name: str, size: Size, collections: Collections, only: Sequence[str] = ()
) -> list[Figure]:
    """Return the figures of a paper, or those of them that are named.

    Examples
    --------
    >>> from pathlib import Path
    >>> [figure.key for figure in figures_of("foltr", Size("quick"), Collections(Path("data")),
    ...                                      only=["figure-3.8", "figure-4.8"])]
    ['figure-3.8', 'figure-4.8']
    """
    if name not in NAMES:
        raise SettingsError(
            f"no paper {name!r}", where="reproduce", remedy=f"there are: {', '.join(NAMES)}"
        )
    figures: list[Figure] = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").figures(
        size, collections
    )
    known = [figure.key for figure in figures]
    for key in only:
        if key not in known:
            raise SettingsError(
                f"no figure {key!r}", where="--only", remedy=f"there are: {', '.join(known)}"
            )
    return [figure for figure in figures if not only or figure.key in only]
