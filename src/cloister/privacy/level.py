"""Whose presence a release hides: the unit that a guarantee speaks of."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["Level"]


class Level(StrEnum):
    """What may be added, removed or changed without the release giving it away.

    A user holds documents and interactions, and a document holds tokens. A guarantee for a unit
    covers whatever is inside it: at the same cost where it is stated for units that are replaced,
    at that of two units where it is stated for units added or removed. For a larger unit it says
    nothing by itself.

    Examples
    --------
    >>> Level.USER.covers(Level.INTERACTION), Level.TOKEN.covers(Level.DOCUMENT)
    (True, False)
    """

    TOKEN = "token"
    DOCUMENT = "document"
    INTERACTION = "interaction"
    USER = "user"

    def covers(self, other: Level) -> bool:
        """Tell whether ``other`` is this unit or lies inside one."""
        return other == self or other in _INSIDE[self]


_INSIDE: Final[dict[Level, frozenset[Level]]] = {
    Level.TOKEN: frozenset(),
    Level.INTERACTION: frozenset(),
    Level.DOCUMENT: frozenset({Level.TOKEN}),
    Level.USER: frozenset({Level.TOKEN, Level.DOCUMENT, Level.INTERACTION}),
}
