"""What attackers and rules did in a run: the figures that ``cloister simulate`` prints of them."""

from __future__ import annotations

from typing import Any

from cloister.adversary.poisoning import exposure
from cloister.data.ranking_data import RankingData
from cloister.federate.learner import Learner
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.rules.adaptive import Adaptive
from cloister.lab.simulation.clients import promotion_target
from cloister.lab.simulation.settings import SimulationSettings

__all__ = ["attack_figures"]


def attack_figures(
    settings: SimulationSettings, learner: Learner, test: RankingData
) -> dict[str, Any]:
    """Return how much of whose updates was used, who is suspended, and what was promoted."""
    figures: dict[str, Any] = {}
    if isinstance(learner, RobustFPDGD):
        honest = settings.clients - settings.attackers
        figures["unused_honest"] = _share(learner, slice(0, honest))
        figures["unused_attackers"] = _share(learner, slice(honest, None))
        figures["rounds_beyond_bound"] = learner.n_rounds_beyond
        figures["refused"] = {f"client-{c}": n for c, n in sorted(learner.refused.items())}
        if isinstance(learner.rule, Adaptive):
            figures["suspended"] = [f"client-{client}" for client in learner.rule.suspended]
            figures["suspensions"] = sum(len(done.suspended) for done in learner.rule.decisions)
            figures["first_suspension"] = next(
                (done.round for done in learner.rule.decisions if done.suspended), None
            )
    target = promotion_target(settings, test)
    if target is not None:
        seen = exposure(learner.ranker, target, seed=settings.seed)
        figures["target_on_first_page"] = seen.top_share
        figures["target_reciprocal_rank"] = seen.reciprocal_rank
        figures["target_rank"] = seen.rank
    return figures


def _share(learner: RobustFPDGD, clients: slice) -> float:
    """Return the share of some clients' updates that had no part in the model."""
    sent = int(learner.n_turns[clients].sum())
    return float(learner.n_unused[clients].sum()) / sent if sent else 0.0
