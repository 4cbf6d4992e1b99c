"""The demo's steps on privacy: a training with a true guarantee, a sum nobody takes apart."""

from __future__ import annotations

from typing import Final

import numpy as np

from cloister.app.demo.state import DemoState, StepOutcome
from cloister.app.recording import READERS, recorder
from cloister.core.errors import BudgetExceeded
from cloister.core.random import stream
from cloister.data.clicks import click_model
from cloister.data.partitions import iid
from cloister.federate.evaluation import Evaluation
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.population import Population
from cloister.federate.private_fpdgd import PrivateFPDGD, PrivateTraining
from cloister.federate.protected_update import UpdateProtection
from cloister.federate.secure_sum import secure_sum
from cloister.privacy.calibration import planned_noise
from cloister.privacy.filters import charge_of
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.mechanisms.secure_noise import SecureNoise
from cloister.privacy.secure_aggregation.client import Stage
from cloister.rank.ranker import Ranker, RankerSettings

__all__ = ["add_up_unseen", "learn_privately"]

N_ROUNDS: Final = 60
CLIENTS: Final = 20_000
PARTICIPANTS: Final = 500
EPSILON: Final = 2.0
DELTA: Final = 1e-6
PARTY: Final = "a-client"


def learn_privately(state: DemoState) -> StepOutcome:
    """Train with and without noise; pay for each round on a ledger until the limit is reached."""
    fold = state.ranking_data()
    model = click_model("informational", 5)
    clients = Population(iid(fold.train, CLIENTS), model)
    evaluation = Evaluation(iid(fold.test, 1), model, seed=state.seed)
    first = Ranker.initial(RankerSettings(n_features=fold.train.n_features))
    settings = FpdgdSettings(participants=PARTICIPANTS)
    plain = FPDGD(clients, first, settings=settings, seed=state.seed)
    address = str(state.folder / "ledger.db")
    limit = _planned_limit()
    with _limited_ledger(address, limit) as ledger, recorder(address, PARTY) as record:
        private = PrivateFPDGD(
            clients,
            first,
            settings=settings,
            privacy=PrivateTraining(epsilon=EPSILON, delta=DELTA, n_rounds=N_ROUNDS),
            seed=state.seed,
            record=record,
        )
        for _ in range(N_ROUNDS):
            plain.step()
            private.step()
        report = ledger.cost(PARTY, delta=DELTA, simulated=True).epsilon
        n_releases = len(ledger.entries(party_id=PARTY)) - 1  # the first entry is the limit
        refused = _refusal(ledger, private)
    one = charge_of(private.release(private.n_expected), limit.level, limit.filter.order)
    cost = limit.filter.spent(one.times(n_releases))
    quality = [evaluation.measure_one(learner.ranker).ndcg for learner in (plain, private)]
    return StepOutcome(
        {
            "clients": CLIENTS,
            "rounds": N_ROUNDS,
            "releases": n_releases,
            "epsilon": cost,
            "epsilon_report": report,
            "delta": DELTA,
            "epsilon_of_server_if_sums_are_secure": private.epsilon_of_server(),
            "offline_ndcg@10_no_noise": quality[0],
            "offline_ndcg@10_private": quality[1],
            "refused": refused,
        },
        [
            f"{CLIENTS:,} clients, {PARTICIPANTS} drawn for each of {N_ROUNDS} rounds: "
            f"nDCG@10 {quality[0]:.3f} without noise, {quality[1]:.3f} with",
            f"the ledger: {n_releases} releases, epsilon {cost:.3f} of {EPSILON:g} spent for a "
            f"user's whole data (delta {DELTA:g}), against readers of all rankers who do not know "
            f"who took part; {report:.3f} by the report, which takes rounds for planned beforehand",
            f"one release more is refused by the ledger: {refused}",
            "noise of a simulation comes from a seed, and the ledger says so",
        ],
    )


def _planned_limit() -> Limit:
    rate = PARTICIPANTS / CLIENTS
    plan = planned_noise(EPSILON, DELTA, n_rounds=N_ROUNDS, sampling_rate=rate)
    return Limit(epsilon=EPSILON, delta=DELTA, order=plan.order)


def _limited_ledger(address: str, limit: Limit) -> Ledger:
    ledger = Ledger.open(address)
    ledger.set_limit(PARTY, limit, purpose="the demo's limit")
    return ledger


def _refusal(ledger: Ledger, learner: PrivateFPDGD) -> str:
    """Ask the ledger for one release more than the limit allows; return its answer."""
    one_more = learner.release(learner.n_expected)
    try:
        ledger.release(one_more, b"", party_id=PARTY, recipient=READERS, purpose="one too many")
    except BudgetExceeded as error:
        return error.what
    return ""


def add_up_unseen(state: DemoState) -> StepOutcome:
    """Add up updates by secure aggregation, with noise shares and two dropouts."""
    n, n_values = 20, 46
    rng = stream(state.seed, "demo", "updates")
    updates = {f"clinic-{i:02}": rng.normal(0, 0.02, n_values) for i in range(n)}
    agreed = UpdateProtection(
        clip_norm=0.3, sigma=0.05, min_survivors=15, n_colluders=3, n_values=n_values
    )
    silent = {"clinic-03": Stage.MASK_INPUT, "clinic-11": Stage.SIGN_SURVIVORS}
    total = secure_sum(updates, agreed, SecureNoise(), dropouts=silent)
    exact = np.sum([updates[name] for name in total.client_ids], axis=0)
    error = float(np.abs(total.values - exact).mean())
    return StepOutcome(
        # The error is another in each run: this noise comes from no seed.
        {"clients": n, "in_the_sum": len(total.client_ids), "noise_sigma": agreed.sigma},
        [
            f"{n} clients, one silent before it sent and one after: "
            f"the sum has {len(total.client_ids)} updates",
            f"mean error {error:.3f}: noise of {agreed.sigma:g} or more, in shares that none of "
            f"{agreed.n_colluders} colluders and the server can take off",
        ],
    )  # fmt: skip
