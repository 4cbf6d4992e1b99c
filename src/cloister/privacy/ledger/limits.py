"""How much privacy a party gives away at most."""

from __future__ import annotations

from pydantic import Field

from cloister.core.settings import Settings
from cloister.privacy.level import Level

__all__ = ["Limit"]


class Limit(Settings):
    """The most that all releases of a party may cost together.

    It applies to all recipients together, as if they shared what they get, and to simulated
    releases apart from real ones.

    Parameters
    ----------
    epsilon
        What the composed epsilon may not exceed.
    delta
        The chance with which that may fail; well below one over the number of units.
    level
        The unit that is meant: a limit for users refuses what protects smaller units only.

    Examples
    --------
    >>> str(Limit(epsilon=4.5, delta=1e-6))
    'epsilon 4.5 (delta 1e-06, level user)'
    """

    epsilon: float = Field(ge=0)
    delta: float = Field(gt=0, lt=1)
    level: Level = Level.USER

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:.6g} (delta {self.delta:.6g}, level {self.level})"
