"""The opposite model: what a client that is to be forgotten sends, so that it can be told apart.

Thesis section 6.1.4. It does not hide, and serves to evaluate unlearning.
"""

from __future__ import annotations

from collections.abc import Iterable

from cloister.adversary.poisoning.attack import Floats, Knowledge, Known, ModelPoisoning
from cloister.core.errors import SettingsError

__all__ = ["OppositeModel"]


class OppositeModel(ModelPoisoning):
    """Each attacker sends its local model, times -z.

    Parameters
    ----------
    attackers, knowledge, seed
        As for every attack; it needs no more than its own update.
    strength
        z of eq. 6.3, above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from cloister.federate.tampering import Sent
    >>> model, update = np.array([10.0]), np.array([[1.0]])
    >>> attack = OppositeModel(attackers=[0], seed=1)
    >>> (model + attack.tampered(Sent(update, np.array([0]), model, 0))).item()  # -2 * 11
    -22.0
    """

    name = "opposite"

    def __init__(
        self,
        *,
        attackers: Iterable[int],
        knowledge: Knowledge = "partial",
        seed: int,
        strength: float = 2.0,
    ) -> None:
        super().__init__(attackers=attackers, knowledge=knowledge, seed=seed)
        if not strength > 0:
            raise SettingsError(f"must be above 0 (given: {strength})", where="strength")
        self.strength = strength

    def crafted(self, known: Known) -> Floats:
        """Return one row for each attacker, from its own update (thesis eq. 6.4)."""
        z = self.strength
        return -z * known.own - (z + 1) * known.model
