"""Filters: what they let pass costs no more than the limit, however releases are chosen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import BudgetExceeded
from cloister.privacy.accounting import divergence
from cloister.privacy.calibration import noise_multiplier, planned_noise
from cloister.privacy.filters import Charge, PrivacyFilter, charge_of, total_charge
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.spending import charged, spent
from cloister.privacy.ledger.statement import overview
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.release import BoundedRelease, Release
from cloister.privacy.releases.gaussian import GaussianRelease
from cloister.privacy.releases.laplace import DiscreteLaplaceRelease, LaplaceRelease
from cloister.privacy.releases.noisy_tables import NoisyTable, NoisyTablesRelease
from cloister.privacy.releases.randomised_response import RandomisedResponseRelease
from cloister.privacy.releases.tree import TreeRelease
from cloister.sketch.release_noise import NoisyReleaseSettings, planned_release

TO_HUB = {"party_id": "clinic", "recipient": "hub", "purpose": "test"}
USER = Level.USER

# --- divergences, against the accountant's and against sums over all outcomes


def by_accountant(event: Any, order: float) -> float:
    accountant = rdp.RdpAccountant([order])
    accountant.compose(event)
    return float(accountant._rdp[0])


@settings(max_examples=30, deadline=None)
@given(
    order=st.floats(1.1, 60), noise=st.floats(0.4, 20), rate=st.sampled_from((0.01, 0.1, 0.5, 1.0))
)
def test_divergences_are_the_accountants(order: float, noise: float, rate: float) -> None:
    normal = dp_accounting.GaussianDpEvent(noise)
    event = dp_accounting.PoissonSampledDpEvent(rate, normal) if rate < 1 else normal
    ours = divergence(Loss("gaussian", noise, sampling_rate=rate), order)
    assert ours == pytest.approx(by_accountant(event, order), rel=1e-9)
    ours = divergence(Loss("laplace", noise), order)
    assert ours == pytest.approx(by_accountant(dp_accounting.LaplaceDpEvent(noise), order))


@settings(max_examples=60, deadline=None)
@given(order=st.floats(1.05, 50), scale=st.floats(0.2, 30), steps=st.integers(1, 12))
def test_discrete_laplace_diverges_as_the_sum_over_all_outcomes(
    order: float, scale: float, steps: int
) -> None:
    x = np.arange(-40 * math.ceil(scale) - 40, 40 * math.ceil(scale) + 40 + steps)
    log_p, log_q = -np.abs(x) / scale, -np.abs(x - steps) / scale
    norm = np.logaddexp.reduce(log_p)
    total = np.logaddexp.reduce(order * log_p + (1 - order) * log_q) - norm
    ours = divergence(Loss("discrete-laplace", scale, steps), order)
    assert ours == pytest.approx(total / (order - 1), rel=1e-6, abs=1e-9)
    # All steps in one value tell at least as much as spread over several.
    spread = steps * divergence(Loss("discrete-laplace", scale, 1), order)
    assert ours >= spread - 1e-9


@settings(max_examples=40, deadline=None)
@given(order=st.floats(1.05, 50), random=st.floats(0.01, 1), n=st.integers(2, 12))
def test_answers_diverge_as_the_sum_over_all_answers(order: float, random: float, n: int) -> None:
    kept, other = 1 - random * (n - 1) / n, random / n
    chances = [(kept, other), (other, kept), *[(other, other)] * (n - 2)]
    total = math.log(sum(p**order * q ** (1 - order) for p, q in chances)) / (order - 1)
    ours = divergence(Loss("response", random, n), order)
    assert ours >= total - 1e-9
    assert ours == pytest.approx(total, rel=1e-6, abs=1e-5)
    pure = math.log(kept / other)
    assert divergence(Loss("bound", pure), order) >= ours - 1e-9


# --- the best adaptive adversary, worked out exactly


def failing(loss: float, epsilon: float) -> float:
    return max(0.0, 1 - math.exp(epsilon - loss))


class Answer(NamedTuple):
    """One thing to ask for: what a filter charges, and the chance of each loss when it is present.

    The opposite loss has the chance of the absent one, so both directions are alike.
    """

    charge: Charge
    outcomes: tuple[tuple[float, float], ...]


def pure(epsilon: float, order: float) -> Answer:
    """Randomised response."""
    chance = 1 / (1 + math.exp(-epsilon))
    charge = Charge(divergence(Loss("bound", epsilon), order), epsilon)
    return Answer(charge, ((chance, epsilon), (1 - chance, -epsilon)))


def failing_by_itself(epsilon: float, delta: float, order: float) -> Answer:
    """The same, but that it tells everything with a chance of delta."""
    charge, outcomes = pure(epsilon, order)
    rest = tuple(((1 - delta) * chance, loss) for chance, loss in outcomes)
    return Answer(charge._replace(delta=delta), ((delta, math.inf), *rest))


def in_one_go(epsilon: float, rare: float, share: float, order: float) -> Answer:
    """Return an answer that is, with a small share, randomised response of a larger epsilon.

    Its divergence is known, and epsilon holds but for an own delta.
    """
    usual, larger = pure(epsilon, order), pure(rare, order)
    parts = (((1 - share), usual), (share, larger))
    power = sum(w * math.exp((order - 1) * one.charge.divergence) for w, one in parts)
    own = share * sum(chance * failing(loss, epsilon) for chance, loss in larger.outcomes)
    outcomes = tuple((w * chance, loss) for w, one in parts for chance, loss in one.outcomes)
    return Answer(Charge(math.log(power) / (order - 1), epsilon, 0.0, own), outcomes)


Admits = Callable[[tuple[int, ...]], bool]


def worst_delta(answers: Sequence[Answer], admits: Admits, epsilon: float) -> float:
    """Return the delta at epsilon of the best adversary, which asks by what it has seen.

    It chooses which answer comes next, or stops, by all losses so far.
    """

    @cache
    def value(counts: tuple[int, ...], loss: float) -> float:
        most = failing(loss, epsilon)
        if loss == math.inf:
            return most
        for place, answer in enumerate(answers):
            after = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
            if admits(after):
                mean = sum(p * value(after, round(loss + one, 9)) for p, one in answer.outcomes)
                most = max(most, mean)
        return most

    return value((0,) * len(answers), 0.0)


def exact_delta(epsilons: Sequence[float], counts: tuple[int, ...], epsilon: float) -> float:
    """Return the exact delta of releases that were planned beforehand."""
    weights = {0.0: 1.0}
    for one, n in zip(epsilons, counts, strict=True):
        chance = 1 / (1 + math.exp(-one))
        for _ in range(n):
            after: dict[float, float] = {}
            for loss, weight in weights.items():
                for step, part in ((one, chance), (-one, 1 - chance)):
                    key = round(loss + step, 9)
                    after[key] = after.get(key, 0.0) + weight * part
            weights = after
    return sum(weight * failing(loss, epsilon) for loss, weight in weights.items())


def admission(
    admits: Callable[[Charge], bool], answers: Sequence[Answer], *, most: int = 40
) -> Admits:
    def admitted(counts: tuple[int, ...]) -> bool:
        total = total_charge((one.charge, n) for one, n in zip(answers, counts, strict=True))
        return sum(counts) <= most and admits(total)

    return cache(admitted)


def test_an_adaptive_adversary_beats_exact_composition_and_not_the_filter() -> None:
    epsilons, epsilon, delta = (1.0, 0.25), 2.0, 0.01
    decides = PrivacyFilter.of(epsilon, delta, failures=0.0)
    answers = [pure(one, decides.order) for one in epsilons]

    def by_composition(counts: tuple[int, ...]) -> bool:
        return sum(counts) <= 40 and exact_delta(epsilons, counts, epsilon) <= delta

    assert worst_delta(answers, by_composition, epsilon) > 1.4 * delta
    assert 0 < worst_delta(answers, admission(decides.admits, answers), epsilon) <= delta


@settings(max_examples=25, deadline=None)
@given(
    epsilons=st.tuples(st.floats(0.3, 1.5), st.floats(0.3, 1.0)),
    epsilon=st.floats(0.5, 3),
    delta=st.sampled_from((0.1, 0.03, 0.01)),
    order=st.none() | st.floats(1.2, 12),
)
def test_no_adaptive_adversary_gets_more_than_delta_out_of_a_filter(
    epsilons: tuple[float, float], epsilon: float, delta: float, order: float | None
) -> None:
    decides = PrivacyFilter.of(epsilon, delta, failures=0.0, order=order)
    answers = [pure(one, decides.order) for one in epsilons]
    worst = worst_delta(answers, admission(decides.admits, answers), epsilon)
    assert worst <= delta * (1 + 1e-9)


# The sum allows a release made in one go and, if that told much, all of epsilon besides; the order
# allows the same release and, if it told little, one that fails by itself.
MIXED: Final = PrivacyFilter(3.0, 0.06, 0.04, 2.0)
MIXTURE: Final = (
    in_one_go(0.1, 2.1, 0.05, MIXED.order),
    pure(2.9, MIXED.order),
    failing_by_itself(0.0, 0.04, MIXED.order),
)


def without_own_deltas_in_the_order(charge: Charge) -> bool:
    by_sum = MIXED.admits(charge._replace(divergence=math.inf))
    return by_sum or MIXED.admits(charge._replace(epsilon=math.inf, own_delta=0.0))


def without_own_deltas_in_the_sum(charge: Charge) -> bool:
    return MIXED.admits(charge) or MIXED.admits(charge._replace(own_delta=0.0))


def test_own_deltas_count_beside_failures_in_both_accounts() -> None:
    def worst(admits: Callable[[Charge], bool]) -> float:
        return worst_delta(MIXTURE, admission(admits, MIXTURE, most=6), MIXED.epsilon)

    assert all(MIXED.admits(one.charge) for one in MIXTURE)
    assert 0.5 * MIXED.delta < worst(MIXED.admits) <= MIXED.delta
    assert worst(without_own_deltas_in_the_order) > 1.1 * MIXED.delta
    assert worst(without_own_deltas_in_the_sum) > 1.1 * MIXED.delta


@settings(max_examples=40, deadline=None)
@given(
    delta=st.sampled_from((0.15, 0.06, 0.02)),
    share=st.floats(0.05, 0.9),
    epsilon=st.floats(0.5, 4),
    order=st.none() | st.floats(1.2, 8),
    data=st.data(),
)
def test_no_adaptive_adversary_gets_more_than_delta_out_of_mixed_releases(
    delta: float, share: float, epsilon: float, order: float | None, data: st.DataObject
) -> None:
    decides = PrivacyFilter.of(epsilon, delta, failures=share * delta, order=order)
    low = data.draw(st.floats(0.0, 0.5))
    answers = (
        in_one_go(
            low, low + data.draw(st.floats(0.5, 4)), data.draw(st.floats(0.01, 0.2)), decides.order
        ),
        pure(data.draw(st.floats(0.1, epsilon)), decides.order),
        failing_by_itself(
            data.draw(st.floats(0.0, 0.5)),
            data.draw(st.floats(0.2, 1.0)) * decides.failures,
            decides.order,
        ),
    )
    worst = worst_delta(answers, admission(decides.admits, answers, most=6), epsilon)
    assert worst <= delta * (1 + 1e-9)


# --- the ledger, against the accountant taken literally

SHOWN = NoisyTablesRelease(level="user", tables=(NoisyTable(name="cells", width=9.0, n_moved=4),))
releases = st.one_of(
    st.builds(
        GaussianRelease,
        level=st.just("user"),
        sigma=st.floats(1, 30),
        sensitivity=st.just(1.0),
        sampling_rate=st.sampled_from((0.05, 1.0)),
    ),
    st.builds(
        LaplaceRelease, level=st.just("user"), scale=st.floats(0.8, 30), sensitivity=st.just(1.0)
    ),
    st.builds(
        RandomisedResponseRelease,
        level=st.just("user"),
        keep_probability=st.floats(0.51, 0.9),
        n_options=st.just(2),
    ),
    st.builds(
        TreeRelease,
        level=st.just("user"),
        sigma=st.floats(4, 40),
        sensitivity=st.just(1.0),
        n_rounds=st.just(8),
        n_contributions=st.just(1),
    ),
    st.just(SHOWN),
    st.builds(
        BoundedRelease,
        level=st.just("user"),
        epsilon=st.floats(0, 0.5),
        delta=st.sampled_from((0.0, 2e-8, 6e-8)),
        mechanism_name=st.just("other"),
    ),
)


def event_of(release: Release) -> Any:
    """Return what the accountant knows a release as, by its own account of the mechanism."""
    match release:
        case GaussianRelease():
            normal = dp_accounting.GaussianDpEvent(release.noise_multiplier)
            if release.sampling_rate == 1:
                return normal
            return dp_accounting.PoissonSampledDpEvent(release.sampling_rate, normal)
        case LaplaceRelease():
            return dp_accounting.LaplaceDpEvent(release.scale)
        case RandomisedResponseRelease():
            return dp_accounting.RandomizedResponseDpEvent(2 * (1 - release.keep_probability), 2)
        case TreeRelease():
            return dp_accounting.GaussianDpEvent(release.sigma / release.tree_sensitivity)
        case NoisyTablesRelease():
            return dp_accounting.GaussianDpEvent(9.0 / 2)
        case BoundedRelease():
            truth = math.exp(release.epsilon) / (1 + math.exp(release.epsilon))
            return dp_accounting.RandomizedResponseDpEvent(2 * (1 - truth), 2)
    raise AssertionError(release)


def pure_of(release: Release) -> float:
    match release:
        case LaplaceRelease() | RandomisedResponseRelease() | BoundedRelease():
            return release.epsilon
    return math.inf


@settings(max_examples=12, deadline=None)
@given(wanted=st.lists(releases, min_size=1, max_size=14), epsilon=st.floats(0.3, 6))
def test_what_a_ledger_lets_pass_never_costs_more_than_the_limit(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[Release], epsilon: float
) -> None:
    limit = Limit(epsilon=epsilon, delta=1e-6)
    decides = limit.filter
    accountant = rdp.RdpAccountant([decides.order])
    answers = 0.0  # the accountant has randomised response for units that are replaced alone
    spare = decides.delta - decides.failures
    pure = failures = shown = 0.0
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.set_limit("clinic", limit, purpose="test")
        for release in wanted:
            before = ledger.head()
            try:
                ledger.release(release, b"", **TO_HUB)
            except BudgetExceeded:
                assert ledger.head() == before
                continue
            event = event_of(release)
            if isinstance(event, dp_accounting.RandomizedResponseDpEvent):
                relation = dp_accounting.NeighboringRelation.REPLACE_ONE
                apart = rdp.RdpAccountant([decides.order], relation)
                answers += apart.compose(event)._rdp[0]
            else:
                accountant.compose(event)
            pure += pure_of(release)
            failures += getattr(release, "delta", 0.0)
            by_order = rdp.compute_epsilon([decides.order], accountant._rdp + answers, spare)[0]
            assert min(by_order, pure) <= epsilon * (1 + 1e-6) + 1e-9
            assert failures <= decides.failures * (1 + 1e-9)
            counted = ledger.database.run(lambda c: spent(c, "clinic"), read_only=True)
            now = decides.spent(charged(limit, {USER: limit}, counted))
            assert shown - 1e-12 <= now <= epsilon * (1 + 1e-9)  # it never goes down
            shown = now
        check_ledger(ledger)


@pytest.mark.parametrize(
    ("epsilon", "delta", "n_rounds", "sampling_rate"),
    [(4.5, 1e-6, 200, 0.1), (8.0, 1e-4, 24, 1.0), (2.0, 1e-6, 50, 0.01), (0.1, 1e-6, 3, 1.0)],
)
def test_a_planned_training_fits_its_limit_and_not_one_round_more(
    tmp_path: Path, epsilon: float, delta: float, n_rounds: int, sampling_rate: float
) -> None:
    plan = planned_noise(epsilon, delta, n_rounds=n_rounds, sampling_rate=sampling_rate)
    one = GaussianRelease(
        level="user", sigma=plan.multiplier, sensitivity=1.0, sampling_rate=sampling_rate
    )
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        limit = Limit(epsilon=epsilon, delta=delta, order=plan.order)
        ledger.set_limit("clinic", limit, purpose="the plan's")
        for _ in range(n_rounds):
            ledger.release(one, b"", **TO_HUB)
        with pytest.raises(BudgetExceeded, match="would bring it to"):
            ledger.release(one, b"", **TO_HUB)
        check_ledger(ledger)
    exact = noise_multiplier(
        epsilon, delta, n_rounds=n_rounds, sampling_rate=sampling_rate, method="pld"
    )
    assert exact <= plan.multiplier <= 1.15 * exact  # what the proof costs


@pytest.mark.parametrize(
    ("n_rounds", "sampling_rate"),
    [(1, 1.0), (1000, 1.0), (5000, 1.0), (20_000, 1.0), (1000, 0.01), (20_000, 0.1)],
)
def test_planned_rounds_fit_and_at_most_a_few_in_a_thousand_more(
    n_rounds: int, sampling_rate: float
) -> None:
    plan = planned_noise(4.5, 1e-5, n_rounds=n_rounds, sampling_rate=sampling_rate)
    decides = PrivacyFilter.of(4.5, 1e-5, order=plan.order)
    one = by_accountant(
        dp_accounting.PoissonSampledDpEvent(
            sampling_rate, dp_accounting.GaussianDpEvent(plan.multiplier)
        ),
        plan.order,
    )
    assert decides.admits(Charge(n_rounds * one, math.inf))
    too_many = n_rounds + math.ceil(n_rounds / 200)
    assert not decides.admits(Charge(too_many * one, math.inf))


def test_a_release_made_in_one_go_is_charged_by_its_exact_epsilon(tmp_path: Path) -> None:
    mixed = NoisyTablesRelease(
        level="user",
        tables=(NoisyTable(name="cells", width=3.0, n_moved=1),),
        own_delta=1e-6,
    )
    charge = charge_of(mixed, USER, 8.0)
    plain = charge_of(mixed.model_copy(update={"own_delta": None}), USER, 8.0)
    assert plain.epsilon == math.inf
    assert plain.divergence == charge.divergence
    assert (charge.own_delta, plain.own_delta, charge.delta) == (1e-6, 0.0, 0.0)
    limit = Limit(epsilon=charge.epsilon * (1 + 1e-9), delta=1e-6, failures=1e-6)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.set_limit("clinic", limit, purpose="all of delta is for the release")
        ledger.release(mixed, b"", **TO_HUB)
        with pytest.raises(BudgetExceeded, match=r"would bring it|no finite epsilon"):
            ledger.release(mixed, b"", **TO_HUB)
        (statement,) = overview(ledger).statements
        assert statement.limits[USER].epsilon == pytest.approx(statement.real.epsilon, rel=1e-6)


def test_epsilons_of_pure_releases_add_up_where_that_is_less() -> None:
    decides = PrivacyFilter.of(1.0, 1e-6)
    half = charge_of(DiscreteLaplaceRelease(level="user", scale=2.0, sensitivity=1), USER, 22.0)
    assert decides.admits(half.times(2))
    assert decides.spent(half.times(2)) == 1.0
    assert not decides.admits(half.times(3))


def test_a_plan_that_needs_its_own_order_is_refused_at_any_other(tmp_path: Path) -> None:
    plan = planned_noise(4.5, 1e-5, n_rounds=1000, sampling_rate=0.01)
    one = GaussianRelease(level="user", sigma=plan.multiplier, sensitivity=1.0, sampling_rate=0.01)
    limit = Limit(epsilon=4.5, delta=1e-5)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.set_limit("clinic", limit, purpose="the usual order")
        with pytest.raises(BudgetExceeded, match=f"--order {plan.order!r}.*order = {plan.order!r}"):
            ledger.check_plan(one, 1000, party_id="clinic", order=plan.order)
        ledger.check_plan(one, 50, party_id="clinic", order=plan.order)
        better = limit.model_copy(update={"order": plan.order})
        ledger.set_limit("clinic", better, purpose="the plan's order")
        ledger.check_plan(one, 1000, party_id="clinic", order=plan.order)
        # No order helps: the ledger refuses when the time comes.
        ledger.check_plan(one, 2000, party_id="clinic", order=plan.order)
        for closed in (Limit(epsilon=0, delta=1e-5), None):
            ledger.set_limit("clinic", closed, purpose="test")
            ledger.check_plan(one, 1000, party_id="clinic", order=plan.order)


def test_own_deltas_that_close_the_sum_are_named_with_the_remedy_that_helps(
    tmp_path: Path,
) -> None:
    release = planned_release(NoisyReleaseSettings(epsilon=1.0), n_documents=1000)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        limit = Limit(epsilon=2.0, delta=1e-6, level="token")
        ledger.set_limit("clinic", limit, purpose="body and title")
        ledger.release(release, b"body", **TO_HUB)
        with pytest.raises(BudgetExceeded, match=r"own deltas .* add up to 2e-07") as refused:
            ledger.release(release, b"title", **TO_HUB)
        assert "--epsilon 2 --delta 1e-06 --failures 2e-07" in refused.value.remedy
        wider = limit.model_copy(update={"failures": 2e-7})
        ledger.set_limit("clinic", wider, purpose="as the remedy says")
        ledger.release(release, b"title", **TO_HUB)
        with pytest.raises(BudgetExceeded, match="would bring it to") as refused:
            ledger.release(release, b"a third", **TO_HUB)
        assert "failures" not in refused.value.remedy  # more of delta set aside would not help
