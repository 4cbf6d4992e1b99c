"""FPDGD with a rule of the server's choice, and attackers at the door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cloister.core.errors import SettingsError
from cloister.data.clicks import click_model
from cloister.data.partitions import by_quantity, iid
from cloister.data.source import load_fold
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.paper_laplace import PaperLaplaceNoise
from cloister.federate.population import Population
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.rules import RULES, make_rule
from cloister.federate.tampering import Sent
from cloister.lab.simulation.run import threads_limited
from cloister.measure.named import evaluate
from cloister.rank.ranker import Ranker, RankerSettings
from federate.made_clients import NAVIGATIONAL, ragged, two_threads

N_CLIENTS = 10
LINEAR = RankerSettings(n_features=5)
MLP = RankerSettings(kind="mlp", n_features=5, hidden=3)
B5 = FpdgdSettings(queries_per_round=5)


class Scaled:
    """The first clients multiply their updates."""

    def __init__(self, n_attackers: int, factor: float) -> None:
        self.n_attackers = n_attackers
        self.factor = factor

    def tampered(self, sent: Sent) -> np.ndarray:
        updates = sent.updates.copy()
        updates[sent.clients < self.n_attackers] *= self.factor
        return updates


class Notebook:
    """Writes down what arrives."""

    def __init__(self) -> None:
        self.seen: list[Sent] = []

    def observe(self, arrived: Sent) -> None:
        self.seen.append(arrived)


def small_clients() -> Population:
    return Population(iid(ragged(3), N_CLIENTS), NAVIGATIONAL)


def learner(rule: str = "fedavg", n_attackers: int = 0, **options: object) -> RobustFPDGD:
    options = {"seed": 4, "settings": B5, **options}
    made = make_rule(rule, n_attackers=n_attackers, beyond="mark")
    return RobustFPDGD(small_clients(), Ranker.initial(LINEAR, seed=1), rule=made, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("made_of", [LINEAR, MLP], ids=["linear", "mlp"])
def test_the_weighted_mean_is_fpdgd(made_of: RankerSettings) -> None:
    population = Population(by_quantity(ragged(3), (1, 2, 4), n_clients=7), NAVIGATIONAL)
    first = Ranker.initial(made_of, seed=1)
    plain = FPDGD(population, first, seed=4)
    ruled = RobustFPDGD(population, first, rule=make_rule("fedavg"), seed=4)
    for _ in range(20):
        assert plain.step() == ruled.step()
        np.testing.assert_allclose(
            ruled.ranker.parameters, plain.ranker.parameters, rtol=1e-4, atol=1e-5
        )
    assert ruled.n_unused.sum() == 0
    assert ruled.n_rounds_beyond == 0


@pytest.mark.parametrize("name", RULES)
def test_every_rule_trains(name: str) -> None:
    trained = learner(name, n_attackers=1)
    for _ in range(15):
        trained.step()
    assert np.isfinite(trained.ranker.parameters).all()
    assert np.abs(trained.ranker.parameters).max() > 0
    assert trained.n_rounds_beyond == (0 if trained.rule.most_attackers(N_CLIENTS) else 15)


def test_the_model_moves_by_the_outcome_of_the_rule() -> None:
    notebook = Notebook()
    trained = learner("median", tampering=Scaled(2, -50.0), observers=[notebook])
    for _ in range(5):
        trained.step()
    models = [sent.model for sent in notebook.seen]
    for sent, after in zip(notebook.seen, models[1:], strict=False):
        np.testing.assert_allclose(after, sent.model + np.median(sent.updates, axis=0), atol=1e-12)


def test_observers_see_what_attackers_sent() -> None:
    honest, poisoned = Notebook(), Notebook()
    learner(observers=[honest]).step()
    learner(observers=[poisoned], tampering=Scaled(3, -2.0)).step()
    sent, other = honest.seen[0], poisoned.seen[0]
    np.testing.assert_array_equal(other.updates[3:], sent.updates[3:])
    np.testing.assert_allclose(other.updates[:3], -2.0 * sent.updates[:3])
    assert sent.round == 0


def test_clients_who_send_no_numbers_are_counted_and_the_rest_trains() -> None:
    trained = learner("trimmed-mean", n_attackers=2, tampering=Scaled(2, float("nan")))
    for _ in range(4):
        trained.step()
    assert dict(trained.refused) == {0: 4, 1: 4}
    assert trained.n_unused[:2].tolist() == [4, 4]
    assert np.isfinite(trained.ranker.parameters).all()
    assert trained.n_rounds_beyond == 0


def test_what_a_rule_does_not_bear_is_refused_before_training() -> None:
    with pytest.raises(SettingsError, match="krum tolerates 3 attackers among 10 clients"):
        RobustFPDGD(
            small_clients(), Ranker.initial(LINEAR), rule=make_rule("krum", n_attackers=4), seed=1
        )


def test_rounds_beyond_the_bound_are_counted() -> None:
    trained = learner("krum", n_attackers=4)
    for _ in range(3):
        trained.step()
    assert trained.n_rounds_beyond == 3


@pytest.mark.parametrize(
    "settings",
    [
        FpdgdSettings(aggregation="sum"),
        FpdgdSettings(private_layer=True),
        FpdgdSettings(paper_noise=PaperLaplaceNoise(epsilon=4.5, sensitivity=5.0)),
    ],
    ids=["sum", "private layer", "noise"],
)
def test_what_no_rule_can_add_up_is_refused(settings: FpdgdSettings) -> None:
    with pytest.raises(SettingsError, match="whole updates without noise"):
        RobustFPDGD(
            small_clients(),
            Ranker.initial(MLP),
            rule=make_rule("fedavg"),
            settings=settings,
            seed=1,
        )


@two_threads
@pytest.mark.parametrize("name", RULES)
def test_the_number_of_threads_does_not_change_a_bit(name: str) -> None:
    found = []
    for n_threads in (1, 2):
        with threads_limited(n_threads):
            trained = learner(name, n_attackers=1, tampering=Scaled(1, -3.0))
            for _ in range(15):
                trained.step()
        found.append(trained.ranker.parameters.tobytes())
    assert found[0] == found[1]


def trained_ndcg(train: object, test: object, rule: str, n_attackers: int, rounds: int) -> float:
    population = Population(iid(train, N_CLIENTS), click_model("navigational", 3))  # type: ignore[arg-type]
    made = make_rule(rule, n_attackers=2, beyond="mark")
    first = Ranker.initial(RankerSettings(n_features=46))
    trained = RobustFPDGD(
        population, first, rule=made, tampering=Scaled(n_attackers, -20.0), settings=B5, seed=2
    )
    for _ in range(rounds):
        trained.step()
    scores = trained.ranker.score(test.features)  # type: ignore[attr-defined]
    return float(np.nanmean(evaluate(scores, test, ["nDCG@10"])["nDCG@10"]))  # type: ignore[arg-type]


def test_robust_rules_save_a_ranker_that_the_mean_loses(
    real_data: Callable[[str], Path],
) -> None:
    """MQ2008, two of ten clients send their updates turned round and twenty times as long."""
    fold = load_fold(str(real_data("ltr/mq2008")))
    honest = trained_ndcg(fold.train, fold.test, "fedavg", 0, 150)
    poisoned = trained_ndcg(fold.train, fold.test, "fedavg", 2, 150)
    assert poisoned < honest - 0.1
    for rule in ("krum", "multi-krum", "trimmed-mean", "median", "bulyan", "norm-bounding"):
        assert trained_ndcg(fold.train, fold.test, rule, 2, 150) > honest - 0.05, rule
    # What attackers did before a window had passed is in the model.
    assert trained_ndcg(fold.train, fold.test, "fldetector", 2, 150) > poisoned + 0.2
