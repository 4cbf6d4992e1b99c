"""Cells of the poisoning matrix: CPU seconds of one run, on one thread.

Ten clients, four attackers, five queries a round, informational clicks, a features world of 46
features. Bulyan has no outcome for four attackers of ten, and faces two.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from cloister.lab.bench import Advance, Figures
from cloister.lab.simulation.run import SimulationResult, simulate
from cloister.lab.simulation.settings import RuleName, SimulationSettings

__all__ = ["run"]

DATA: Final = "world:features?queries=500"
N_ATTACKERS: Final = 4
FEWER: Final = {"bulyan": 2}
ROUNDS: Final = 10_000
WARM: Final = 50  # rounds before the clock: kernels compiled
SLOWEST: Final = (("dyn-opt", "bulyan"), ("dyn-opt", "fldetector"), ("dyn-opt", "adaptive"))
LIMIT_S: Final = 60.0


def run(advance: Advance, *, rounds: int = ROUNDS) -> Figures:
    """Time each rule against poisoned clicks, then the slowest pairs of attack and rule."""
    cells = [("poison-clicks", rule) for rule in get_args(RuleName)]
    cells += [*SLOWEST]
    figures: Figures = {}
    for attack, rule in cells:
        _trained(attack, rule, WARM)
        key = f"{attack}_{rule}_10000_rounds".replace("-", "_")
        figures[f"{key}_cpu_s"] = _trained(attack, rule, rounds).cpu_seconds * ROUNDS / rounds
        advance(len(figures), len(cells))
    figures["slowest_cell_cpu_s"] = max(figures.values())
    figures["every_cell_under_a_minute"] = bool(figures["slowest_cell_cpu_s"] < LIMIT_S)
    return figures


def _trained(attack: Any, rule: Any, rounds: int) -> SimulationResult:
    settings = SimulationSettings(
        data=DATA,
        rule=rule,
        attack=attack,
        attackers=FEWER.get(rule, N_ATTACKERS),
        knowledge="full",
        click_model="informational",
        clients=10,
        queries_per_round=5,
        rounds=rounds,
        evaluate_every=max(1, rounds // 40),
    )
    return simulate(settings, threads=1)
