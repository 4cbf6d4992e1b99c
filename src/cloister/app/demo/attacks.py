"""The demo's steps on attacks: malicious clients, a rule that finds them, a client forgotten."""

from __future__ import annotations

from typing import Any, Final

from cloister.app.demo.state import DemoState, StepOutcome
from cloister.lab.forgetting.certificate import verify_certificate
from cloister.lab.forgetting.federation import StoredFederation
from cloister.lab.forgetting.forgetting import forget
from cloister.lab.simulation.run import simulate
from cloister.lab.simulation.run_files import prepare_folder, write_run
from cloister.lab.simulation.settings import SimulationSettings

__all__ = ["forget_client", "poison"]

CLIENTS: Final = 10
ATTACKERS: Final = 3
ROUNDS: Final = 600
N_POINTS: Final = 40  # of a learning curve


def _settings(state: DemoState, **chosen: Any) -> SimulationSettings:
    shared: dict[str, Any] = {
        "data": state.ranking_address,
        "clients": CLIENTS,
        "queries_per_round": 5,
        "rounds": ROUNDS,
        "evaluate_every": ROUNDS // N_POINTS,
        "click_model": "informational",
        "seed": state.seed,
    }
    return SimulationSettings(**shared | chosen)


def poison(state: DemoState) -> StepOutcome:
    """Let three of ten clients click on what is irrelevant, without and with a defence."""
    attack = {"attack": "poison-clicks", "attackers": ATTACKERS}
    runs = {
        "honest": simulate(_settings(state)),
        "attacked": simulate(_settings(state, **attack)),
        "median": simulate(_settings(state, **attack, rule="median")),
        "adaptive": simulate(_settings(state, **attack, rule="adaptive")),
    }
    results = state.console_home / "results"
    prepare_folder(results)
    for position, (name, run) in enumerate(runs.items()):
        write_run(results, run, system=f"demo: {name}", position=position)
    ndcg = {name: run.final.ndcg for name, run in runs.items()}
    told = runs["adaptive"].summary()
    return StepOutcome(
        {f"offline_ndcg@10_{name}": value for name, value in ndcg.items()}
        | {"attackers": ATTACKERS, "suspended": told["suspended"],
           "first_suspension": told["first_suspension"]},
        [
            f"{ATTACKERS} of {CLIENTS} clients click on what is irrelevant: nDCG@10 "
            f"{ndcg['attacked']:.3f}, where {ndcg['honest']:.3f} was reached without them",
            f"with the median of updates {ndcg['median']:.3f}; with the adaptive rule "
            f"{ndcg['adaptive']:.3f}",
            _suspensions(told),
        ],
    )  # fmt: skip


def _suspensions(told: dict[str, Any]) -> str:
    if told["first_suspension"] is None:
        return "it suspended nobody"
    names = ", ".join(told["suspended"]) or "nobody"
    return f"it began to suspend clients after {told['first_suspension'] + 1} rounds; out: {names}"


def forget_client(state: DemoState) -> StepOutcome:
    """Train with a client that spoils the ranker, then forget it from what was kept."""
    settings = _settings(state, attack="opposite", attackers=1)
    with StoredFederation.create(state.console_home / "forgettable", settings) as federation:
        result = simulate(settings, observers=[federation.store])
        federation.finish(result.learner.ranker)
        done = forget(federation, [f"client-{CLIENTS - 1}"])
        certificate = done.certificate
        key = federation.identity.public
    cost, ndcg = certificate["cost"], certificate["ndcg@10"]
    verify_certificate(certificate, key)
    return StepOutcome(
        {
            "forgotten": certificate["forgotten"],
            "offline_ndcg@10_before": ndcg["before"],
            "offline_ndcg@10_after": ndcg["after"],
            "client_steps": cost["client_steps"],
            "client_steps_of_retraining": cost["client_steps_of_retraining"],
        },
        [
            f"one client sends the opposite of what it learns: nDCG@10 {ndcg['before']:.3f}; "
            f"forgotten: {ndcg['after']:.3f}",
            f"{cost['client_steps']:,} client steps, where training anew takes "
            f"{cost['client_steps_of_retraining']:,}",
            "the certificate is signed, and says what remains: rankers released before stay so",
        ],
    )
