"""What a federation's settings make anew, to train with or to forget by."""

from __future__ import annotations

from typing import NamedTuple

from cloister.core.errors import SettingsError
from cloister.federate.evaluation import Evaluation
from cloister.federate.fpdgd import FPDGD
from cloister.federate.retraining import Retraining
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.rules.rule import Rule
from cloister.federate.rules.weighted_mean import WeightedMean
from cloister.lab.forgetting.forgettable import refuse_unless_forgettable
from cloister.lab.simulation.clients import make_clients
from cloister.lab.simulation.learners import make_learner
from cloister.lab.simulation.settings import SimulationSettings
from cloister.rank.ranker import Ranker

__all__ = ["Basis", "make_basis", "without_attack"]


class Basis(NamedTuple):
    """An untrained learner, its rule, and held-out queries."""

    learner: FPDGD
    rule: Rule
    evaluation: Evaluation

    def measured(self, ranker: Ranker) -> float:
        """Return a ranker's nDCG@10 on held-out queries."""
        return self.evaluation.measure_one(ranker).ndcg

    def steps_of_retraining(self, settings: SimulationSettings, learner: Retraining) -> int:
        """Return the interactions that training without the forgotten takes, on average."""
        each = self.learner.population.n_interactions(settings.queries_per_round)
        each = each[learner.remaining]
        n = min(settings.participants or len(each), len(each))
        return round(settings.rounds * n * float(each.mean()))


def make_basis(settings: SimulationSettings, *, honest: bool = False) -> Basis:
    """Load the data and make the learner.

    Parameters
    ----------
    settings
        Of the training.
    honest
        Whether clients whose clicks were poisoned are to click honestly. The rule is the same.
    """
    refuse_unless_forgettable(settings)
    clients = make_clients(without_attack(settings) if honest else settings)
    learner = make_learner(settings, clients)
    if not isinstance(learner, FPDGD):
        raise SettingsError("updates are kept of FPDGD only", where="method")
    rule = learner.rule if isinstance(learner, RobustFPDGD) else WeightedMean()
    evaluation = Evaluation(
        clients.test,
        clients.click_model,
        seed=settings.seed,
        nothing_relevant=settings.nothing_relevant,
    )
    return Basis(learner, rule, evaluation)


def without_attack(settings: SimulationSettings) -> SimulationSettings:
    """Return the settings with nobody who attacks.

    Examples
    --------
    >>> attacked = SimulationSettings(data="world:features", attack="poison-clicks", attackers=2)
    >>> without_attack(attacked) == SimulationSettings(data="world:features")
    True
    """
    changes = {"attack": "none", "attackers": 0, "off_rounds": 0}
    return SimulationSettings(**(settings.model_dump() | changes))
