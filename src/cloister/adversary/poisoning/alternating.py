"""Alternating: an attack made for rules that watch how clients behave over many rounds.

Every other round the attackers push against what they have learnt, as far as a rule that cuts off
at some usual distances lets through; in the rounds between they send next to nothing, in the
opposite direction. A rule that adds up directions sees them cancel, while the model moves by
lengths. The attackers need no more than their own updates.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from cloister.adversary.poisoning.attack import Floats, Knowledge, Known, ModelPoisoning
from cloister.core.errors import SettingsError

__all__ = ["Alternating"]

NEXT_TO_NOTHING: Final = 1e-6
MEMORY: Final = 0.9  # of what was learnt, from round to round


class Alternating(ModelPoisoning):
    """Attackers who push hard in even rounds and send next to nothing in odd ones.

    Parameters
    ----------
    attackers, knowledge, seed
        As for every attack.
    strength
        How many times as long as the attackers' honest updates the pushes are.
    """

    name = "alternating"

    def __init__(
        self,
        *,
        attackers: Iterable[int],
        knowledge: Knowledge = "partial",
        seed: int,
        strength: float = 4.0,
    ) -> None:
        super().__init__(attackers=attackers, knowledge=knowledge, seed=seed)
        if not strength > 0:
            raise SettingsError(f"must be above 0 (given: {strength})", where="strength")
        self.strength = strength
        self._learnt: Floats | None = None

    def crafted(self, known: Known) -> Floats:
        """Return the same row for each attacker."""
        mean = known.before.mean(axis=0)
        before = mean if self._learnt is None else self._learnt
        self._learnt = MEMORY * before + (1 - MEMORY) * mean
        direction = self._learnt / max(float(np.linalg.norm(self._learnt)), 1e-300)
        length = float(np.linalg.norm(known.own, axis=1).mean())
        factor = NEXT_TO_NOTHING if known.round % 2 else -self.strength * length
        return np.tile(factor * direction, (known.n_attackers, 1))
