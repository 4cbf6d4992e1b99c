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
from cloister.federate.rules.adaptive import Adaptive
from cloister.federate.rules.bulyan import Bulyan
from cloister.federate.rules.fldetector import FLDetector
from cloister.federate.rules.krum import Krum
from cloister.federate.rules.median import Median
from cloister.federate.rules.multi_krum import MultiKrum
from cloister.federate.rules.norm_bounding import NormBounding
from cloister.federate.rules.rule import Aggregated, Beyond, Chosen, Received, Rule
from cloister.federate.rules.trimmed_mean import TrimmedMean
from cloister.federate.rules.weighted_mean import WeightedMean

__all__ = ["RULES", "Aggregated", "Beyond", "Chosen", "Received", "Rule", "make_rule"]

RULES: Final[dict[str, type[Rule]]] = {
    rule.name: rule
    for rule in (
        WeightedMean,
        Krum,
        MultiKrum,
        TrimmedMean,
        Median,
        Bulyan,
        NormBounding,
        FLDetector,
        Adaptive,
    )
}


def make_rule(name: str, *, n_attackers: int = 0, beyond: Beyond = "refuse") -> Rule:
    """Return a new rule of that name.

    Parameters
    ----------
    name
        One of `RULES`.
    n_attackers
        How many attackers to expect in a round.
    beyond
        What to do where that is more than the rule tolerates.
    """
    if name not in RULES:
        raise SettingsError(f"no rule {name!r}", where="rule", remedy=f"known: {', '.join(RULES)}")
    return RULES[name](n_attackers=n_attackers, beyond=beyond)
