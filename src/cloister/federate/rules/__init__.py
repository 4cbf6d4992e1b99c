"""Aggregation rules: one file each, found by name.

Examples
--------
>>> from cloister.federate.rules import make_rule
>>> make_rule("fedavg").most_attackers(10)
0
"""

from __future__ import annotations

from typing import Final

from cloister.core.errors import SettingsError
from cloister.federate.rules.rule import Aggregated, Beyond, Chosen, Received, Rule
from cloister.federate.rules.weighted_mean import WeightedMean

__all__ = ["RULES", "Aggregated", "Beyond", "Chosen", "Received", "Rule", "make_rule"]

RULES: Final[dict[str, type[Rule]]] = {rule.name: rule for rule in (WeightedMean,)}


def make_rule(name: str, *, n_attackers: int = 0, beyond: Beyond = "refuse") -> Rule:
    """Return a new rule of that name.

    Parameters
    ----------
    name
        One of `RULES`.
    n_attackers
        How many attackers to expect in a round.
    beyond
        What to do where that is more than the rule bears.
    """
    if name not in RULES:
        raise SettingsError(f"no rule {name!r}", where="rule", remedy=f"known: {', '.join(RULES)}")
    return RULES[name](n_attackers=n_attackers, beyond=beyond)
