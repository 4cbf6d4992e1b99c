"""What a simulated training reveals: the figures on privacy that ``cloister simulate`` prints."""

from __future__ import annotations

from typing import Any, Final

from cloister.federate.evolution import EvolutionStrategies
from cloister.federate.fpdgd import FPDGD
from cloister.federate.learner import Learner
from cloister.federate.private_fpdgd import PrivateFPDGD

__all__ = ["privacy_figures"]

_AGAINST: Final = {
    "gaussian": "whoever sees the rankers of all rounds and knows neither who took part nor how "
    "many",
    "tree": "whoever sees the rankers of all rounds, but not the server, which sees exact sums",
}


def privacy_figures(learner: Learner) -> dict[str, Any]:
    """Return the true epsilons where noise was added, each with what it is of; else nothing.

    ``epsilon`` is of a client's whole training.
    """
    if isinstance(learner, PrivateFPDGD):
        return _of_private_training(learner)
    if isinstance(learner, FPDGD) and learner.settings.paper_noise is not None:
        return _of_paper_noise(learner)
    if isinstance(learner, EvolutionStrategies) and learner.settings.keep_probability < 1:
        cost = learner.epsilon()
        return {
            "epsilon": cost.per_training,
            "epsilon_of_a_message": cost.per_message,
            "epsilon_of_an_interaction": cost.per_interaction,
            "epsilon_against": "a server that sees each message",
        }
    return {}


def _of_private_training(learner: PrivateFPDGD) -> dict[str, Any]:
    figures = {
        "epsilon": learner.spending.spent(),
        "epsilon_report": learner.spending.cost().epsilon,
        "filter_order": learner.planned.order,
        "delta": learner.privacy.delta,
        "epsilon_level": "user",
        "epsilon_against": _AGAINST[learner.privacy.mechanism],
        "noise_sigma": learner.sigma,
        "most_turns_of_a_client": learner.most_turns,
    }
    of_server = learner.epsilon_of_server()
    if of_server is not None:
        figures["epsilon_of_server_if_sums_are_secure"] = of_server
    if learner.privacy.in_shares:
        figures["failed_rounds"] = learner.n_failed_rounds
    return figures


def _of_paper_noise(learner: FPDGD) -> dict[str, Any]:
    noise = learner.settings.paper_noise
    if noise is None:
        return {}
    guarantee = noise.guarantee(
        n_parameters=learner.ranker.settings.n_parameters, n_rounds=learner.most_turns
    )
    return {
        "epsilon": guarantee.of_the_training,
        "epsilon_of_a_round": guarantee.of_a_round,
        "epsilon_of_a_message": float("inf"),
        "epsilon_claimed": guarantee.claimed,
        "most_turns_of_a_client": learner.most_turns,
        "epsilon_against": "a server that sees the sum of all clients only",
    }
