from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pytest

from cloister.adversary.audit import Audit, AuditSettings, Neighbour, Subject, audit
from cloister.adversary.audits import SUBJECTS, make_subject
from cloister.adversary.mechanism_audits import (
    DiscreteGaussianAudit,
    DiscreteLaplaceAudit,
    GaussianAudit,
    LaplaceAudit,
    MechanismAudit,
    RandomisedResponseAudit,
)
from cloister.adversary.noise_shares_audit import NoiseSharesAudit
from cloister.adversary.paper_laplace_audit import PaperLaplaceMessage, PaperLaplaceSum
from cloister.adversary.paper_shared_noise import PaperSharedCounters
from cloister.adversary.private_fpdgd_audit import (
    PrivateFpdgdAudit,
    PrivateFpdgdTreeAudit,
    _tree_covariance,
)
from cloister.core.errors import NotFound
from cloister.core.random import stream
from cloister.federate.dp_ftrl import prefix_variance
from cloister.federate.private_fpdgd import PrivateFPDGD
from cloister.privacy.mechanisms import Laplace
from cloister.privacy.noise_shares import DiscreteGaussianShares
from cloister.privacy.release import Release
from cloister.sketch.paper_shared_noise import PaperSharedNoise

QUICK = AuditSettings(n_trials=40_000)
SOUND = [name for name in SUBJECTS if not name.startswith("paper-")]
MECHANISMS = [
    GaussianAudit,
    LaplaceAudit,
    DiscreteGaussianAudit,
    DiscreteLaplaceAudit,
    RandomisedResponseAudit,
]


def both_scores(subject: Subject, n_trials: int) -> list[np.ndarray]:
    neighbours: tuple[Neighbour, Neighbour] = (0, 1)
    return [subject.scores(b, n_trials, rng=stream(1, "scores", b)) for b in neighbours]


# --- every subject


@pytest.mark.parametrize("name", SUBJECTS)
def test_no_attack_shows_more_than_the_ledger_states(name: str) -> None:
    subject = make_subject(name, QUICK)
    found = audit(subject, QUICK)
    assert found.mechanism == name
    assert 0 < found.lower_bound <= found.ledger_epsilon
    assert found.lower_bound <= found.ceiling
    assert (found.n_trials, found.confidence, found.delta) == (40_000, 0.99, 1e-6)
    assert all(release.simulated for release in subject.releases())
    assert "exceeds the ledger" not in found.verdict


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_seed_repeats_an_audit(name: str) -> None:
    few = AuditSettings(n_trials=500, seed=3)
    assert audit(make_subject(name, few), few) == audit(make_subject(name, few), few)


@pytest.mark.parametrize("name", SOUND)
def test_where_nobody_claims_anything_the_verdict_is_about_the_ledger(name: str) -> None:
    few = AuditSettings(n_trials=500)
    found = audit(make_subject(name, few), few)
    assert found.claimed_epsilon is None
    assert found.refutes_claim is None
    assert found.verdict == "below the ledger's bound"


def test_an_unknown_subject_is_an_error_that_lists_all() -> None:
    with pytest.raises(NotFound, match=r"gaussian, laplace,.*paper-shared-noise"):
        make_subject("hope", AuditSettings())


def test_progress_is_told_until_all_is_done() -> None:
    told: list[tuple[int, int]] = []
    settings = AuditSettings(n_trials=25_000)
    audit(LaplaceAudit(), settings, advance=lambda done, total: told.append((done, total)))
    assert told == [(n, 50_000) for n in (10_000, 20_000, 25_000, 35_000, 45_000, 50_000)]


@pytest.mark.parametrize(
    ("claimed", "ledger", "verdict"),
    [
        (None, 2.0, "below the ledger's bound"),
        (None, 0.5, "exceeds the ledger's bound"),
        (0.5, 2.0, "exceeds the claim, below the ledger's bound"),
        (1.0, math.inf, "below the claim, the ledger states no bound"),
    ],
)
def test_a_verdict_says_what_was_exceeded(
    claimed: float | None, ledger: float, verdict: str
) -> None:
    found = Audit("m", "n", claimed, ledger, 1.0, 9.0, 0.99, 1e-6, 10, 1)
    assert found.verdict == verdict


# --- sound subjects: the attack is a strong one


@pytest.mark.parametrize(
    "subject",
    [kind() for kind in MECHANISMS]
    + [
        NoiseSharesAudit(),
        PaperLaplaceSum(epsilon=0.2),
        PrivateFpdgdAudit(),
        PrivateFpdgdTreeAudit(),
    ],
    ids=lambda subject: subject.name,
)
def test_scores_are_the_log_likelihood_ratios_of_what_is_seen(subject: Subject) -> None:
    # Under the first input the ratio itself has the mean 1, under the second its inverse has.
    absent, present = both_scores(subject, 100_000)
    for ratios in (np.exp(absent), np.exp(-present)):
        error = ratios.std() / math.sqrt(len(ratios))
        assert ratios.mean() == pytest.approx(1, abs=5 * error)
        assert error < 0.02


@pytest.mark.parametrize(
    ("kind", "share"),
    [(LaplaceAudit, 0.93), (DiscreteLaplaceAudit, 0.93), (RandomisedResponseAudit, 0.9)],
)
def test_of_pure_mechanisms_nearly_the_whole_epsilon_is_shown(
    kind: type[MechanismAudit], share: float
) -> None:
    settings = AuditSettings(n_trials=100_000)
    found = audit(kind(), settings)
    assert share * found.ledger_epsilon < found.lower_bound <= found.ledger_epsilon
    thrice = audit(kind(epsilon=0.5, n_rounds=3), settings)
    assert 0.5 < thrice.lower_bound <= thrice.ledger_epsilon <= 1.5 + 1e-6


@pytest.mark.parametrize("kind", MECHANISMS)
def test_noise_as_real_clients_draw_it_is_audited_too(kind: type[MechanismAudit]) -> None:
    subject = kind(epsilon=3.0, secure_noise=True)
    found = audit(subject, AuditSettings(n_trials=20_000))
    assert 0.1 < found.lower_bound <= found.ledger_epsilon
    assert not subject.releases()[0].simulated


# --- sound subjects: a broken one is caught


class ForgetfulLaplace(LaplaceAudit):
    """A mechanism whose record states twice the noise that it adds."""

    @cached_property
    def mechanism(self) -> Laplace:
        return Laplace(level="user", neighbours="add-remove", scale=0.5, sensitivity=1.0)

    def releases(self) -> Sequence[Release]:
        return LaplaceAudit(epsilon=1.0).releases()


def test_a_mechanism_with_too_little_noise_is_caught() -> None:
    found = audit(ForgetfulLaplace(), QUICK)
    assert found.refutes_ledger
    assert found.verdict == "exceeds the ledger's bound"


def test_shares_of_a_plan_that_forgot_dropouts_are_caught() -> None:
    class Careless(NoiseSharesAudit):
        """Of 20 shares planned to be in the sum, 15 are missing."""

        @cached_property
        def plan(self) -> DiscreteGaussianShares:
            planned = NoiseSharesAudit().plan
            return DiscreteGaussianShares(sigma=planned.sigma / 2, n_clients=5)

        def releases(self) -> Sequence[Release]:
            return NoiseSharesAudit().releases()

    assert audit(Careless(), AuditSettings(n_trials=200_000)).refutes_ledger


@pytest.mark.parametrize("kind", [PrivateFpdgdAudit, PrivateFpdgdTreeAudit])
def test_a_training_with_too_little_noise_is_caught(
    kind: type[PrivateFpdgdAudit], monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = PrivateFPDGD._noise
    monkeypatch.setattr(PrivateFPDGD, "_noise", lambda *given: noise(*given) / 4)
    assert audit(kind(), QUICK).refutes_ledger


def test_a_training_that_draws_the_same_clients_in_every_round_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = PrivateFPDGD._participants

    def same(self: PrivateFPDGD) -> np.ndarray:
        rounds, self._n_rounds = self._n_rounds, 0
        drawn = draw(self)
        self._n_rounds = rounds
        return drawn

    monkeypatch.setattr(PrivateFPDGD, "_participants", same)
    assert audit(PrivateFpdgdAudit(), QUICK).refutes_ledger


def test_the_ledger_has_one_release_a_round_and_the_tree_one_for_all() -> None:
    rounds = PrivateFpdgdAudit().releases()
    assert [release.mechanism for release in rounds] == ["gaussian"] * 20
    assert [release.mechanism for release in PrivateFpdgdTreeAudit().releases()] == ["tree"]


def test_the_adversary_knows_the_trees_variances() -> None:
    expected = [prefix_variance(t) for t in range(1, 21)]
    np.testing.assert_allclose(np.diag(_tree_covariance(20)), expected)


# --- the papers' mechanisms: both sides of each claim


@pytest.mark.parametrize("epsilon", [1.2, 2.3, 4.5])
def test_the_thesiss_noise_reveals_more_in_one_round_than_is_claimed(epsilon: float) -> None:
    found = audit(PaperLaplaceSum(epsilon=epsilon), QUICK)
    assert found.claimed_epsilon == epsilon
    assert found.lower_bound > epsilon
    assert found.ledger_epsilon == pytest.approx(epsilon * math.sqrt(46), rel=1e-3)
    assert found.verdict == "exceeds the claim, below the ledger's bound"


def test_of_one_weight_the_thesiss_claim_holds_and_with_its_codes_clipping_it_does_not() -> None:
    one = audit(PaperLaplaceSum(n_parameters=1), QUICK)
    assert 0.8 * 4.5 < one.lower_bound <= 4.5
    assert one.verdict == "below the claim, below the ledger's bound"
    whole = audit(PaperLaplaceSum(n_parameters=1, clip="whole"), QUICK)
    assert 4.5 < whole.lower_bound <= whole.ledger_epsilon
    assert whole.ledger_epsilon == pytest.approx(9.0, rel=1e-3)


def test_more_rounds_of_the_thesiss_noise_reveal_more() -> None:
    found = [audit(PaperLaplaceSum(epsilon=0.5, n_rounds=n), QUICK) for n in (1, 4, 16)]
    assert found[0].lower_bound < found[1].lower_bound < found[2].lower_bound
    assert found[0].ledger_epsilon < found[1].ledger_epsilon < found[2].ledger_epsilon
    assert {one.claimed_epsilon for one in found} == {0.5}


@pytest.mark.parametrize("epsilon", [0.1, 4.5])
def test_a_single_message_of_the_thesis_gives_itself_away(epsilon: float) -> None:
    found = audit(PaperLaplaceMessage(epsilon=epsilon), AuditSettings(n_trials=10_000))
    assert found.ledger_epsilon == math.inf
    assert found.lower_bound > 0.99 * found.ceiling
    assert found.verdict == "exceeds the claim, the ledger states no bound"


def test_a_message_with_all_of_the_noise_is_the_sum() -> None:
    alone = audit(PaperLaplaceMessage(epsilon=0.1, n_clients=1), QUICK)
    assert alone.lower_bound < 1


@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_counters_that_share_their_noise_are_told_apart_always(epsilon: float) -> None:
    found = audit(PaperSharedCounters(epsilon=epsilon), QUICK)
    assert found.lower_bound == found.ceiling
    assert found.verdict == "exceeds the claim, the ledger states no bound"


def test_one_counter_alone_hides_what_the_paper_says() -> None:
    noise, n = PaperSharedNoise(epsilon=1.0), 100_000

    class OneCounter(LaplaceAudit):
        def scores(
            self, neighbour: Neighbour, n_trials: int, *, rng: np.random.Generator
        ) -> np.ndarray:
            answers = noise.answer(np.array([float(neighbour)]), n_trials, rng=rng)
            return self.log_ratio(answers[:, 0])

    assert 0.9 < audit(OneCounter(), AuditSettings(n_trials=n)).lower_bound <= 1
