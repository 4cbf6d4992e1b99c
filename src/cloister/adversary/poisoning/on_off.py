"""On and off: an attacker who knows that detectors remember, and that they forgive."""

from __future__ import annotations

from cloister.adversary.poisoning.attack import Floats, Known, ModelPoisoning
from cloister.core.errors import SettingsError

__all__ = ["OnOff"]


class OnOff(ModelPoisoning):
    """Attack for some rounds, behave for some, and so on.

    Behaving means to send what was learnt. The attackers, and what they know, are those of the
    attack inside.

    Parameters
    ----------
    attack
        What is done in the rounds of attack.
    on_rounds, off_rounds
        How many rounds of attack are followed by how many without, each at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from cloister.adversary.poisoning.opposite_model import OppositeModel
    >>> from cloister.federate.tampering import Sent
    >>> attack = OnOff(OppositeModel(attackers=[0], seed=1), on_rounds=1, off_rounds=2)
    >>> def sent(round):
    ...     return Sent(np.array([[1.0]]), np.array([0]), np.zeros(1), round)
    >>> [attack.tampered(sent(round)).item() for round in range(5)]
    [-2.0, 1.0, 1.0, -2.0, 1.0]
    """

    name = "on-off"

    def __init__(self, attack: ModelPoisoning, *, on_rounds: int, off_rounds: int) -> None:
        for where, value in (("on_rounds", on_rounds), ("off_rounds", off_rounds)):
            if value < 1:
                raise SettingsError(f"at least 1 (given: {value})", where=where)
        super().__init__(attackers=attack.attackers, knowledge=attack.knowledge, seed=attack.seed)
        self.attack = attack
        self.on_rounds = on_rounds
        self.off_rounds = off_rounds

    def attacks_in(self, round: int) -> bool:
        """Say whether a round is one of attack."""
        return round % (self.on_rounds + self.off_rounds) < self.on_rounds

    def crafted(self, known: Known) -> Floats:
        """Return what the attack inside crafts, or what was learnt."""
        return self.attack.crafted(known) if self.attacks_in(known.round) else known.own
