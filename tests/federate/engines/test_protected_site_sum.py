"""What one user changes in a site's sum is what is recorded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from cloister.core.errors import DataError, SettingsError
from cloister.federate.engines.agreement import FALSE_ALARM
from cloister.federate.engines.protected_site_sum import SiteSumProtection
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
from cloister.rank.ranker import RankerSettings
from federate.engines.made_federation import agreed, private, secure

PROTECTION = SiteSumProtection(
    clip_norm=0.7, sigma=0.01, min_survivors=3, n_colluders=1, n_values=3
)
NUMBERS = st.floats(-1e6, 1e6, width=32)
USERS = st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=4)


def noise() -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(5))


@given(USERS)
def test_one_user_more_or_less_moves_the_sum_by_no_more_than_is_recorded(
    users: list[list[float]],
) -> None:
    updates = np.array(users, np.float32)
    moved = PROTECTION.protected_sum(updates, noise()) - PROTECTION.protected_sum(
        updates[1:].reshape(-1, 3), noise()
    )
    exact = sum(int(step) ** 2 for step in moved)
    assert exact <= PROTECTION.release().model_dump()["sensitivity"] ** 2


@given(USERS)
def test_every_sum_fits_the_range_that_was_agreed_on(users: list[list[float]]) -> None:
    total = PROTECTION.protected_sum(np.array(users, np.float32), noise())
    PROTECTION.fixed_point.encode(total)


@pytest.mark.parametrize("shape", [(2, 4), (3,)])
def test_updates_of_another_length_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError):
        PROTECTION.protected_sum(np.zeros(shape, np.float32), noise())


def test_short_updates_are_kept_to_a_millionth() -> None:
    exact = np.array([[0.1, -0.2, 0.3], [0.05, 0.1, -0.6]], np.float32)
    own = noise()
    share = PROTECTION.shares.draw_share(3, noise())
    found = PROTECTION.decoded(PROTECTION.protected_sum(exact, own) - share)
    np.testing.assert_allclose(found, exact.sum(axis=0, dtype=np.float64), atol=2e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rule": "fldetector"},
        {"rule": "no such"},
        {"rule": "median", "secure_aggregation": True, "min_sites": 2},
        {"secure_aggregation": True},
        {"secure_aggregation": True, "min_sites": 3, "n_colluders": 2},
        {"privacy": private().privacy},
        {"training": {"participants": 3}},
        {"training": {"aggregation": "sum"}},
        {"name": "two words"},
    ],
)
def test_agreements_that_do_not_fit_together_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        agreed(**wrong)


def test_a_delta_that_protects_nobody_is_refused() -> None:
    with pytest.raises(SettingsError, match="publish"):
        private(delta=0.2)


def test_what_is_not_protected_says_so() -> None:
    plain, masked = agreed().release(), secure().release()
    assert plain.model_dump()["mechanism"] == masked.model_dump()["mechanism"] == "none"
    assert "each site's" in plain.note
    assert "sum over sites" in masked.note
    for agreement in (agreed, secure):
        found = agreement(ranker=RankerSettings(n_features=9))
        assert found.release().n_values == 10  # and the number of interactions
        assert "number of interactions" in found.release().note
        assert found.ranker_release().n_values == 9
    assert private().release().n_values == 5  # how many interactions is not revealed
    assert private().ranker_release() == private().release()


def test_more_sites_than_survivors_carry_more_noise_and_few_sums_exceed_the_bound() -> None:
    chance, n_sites, n_sums = 0.01, 7, 4000
    shares = PROTECTION.shares.share_sigma * np.random.default_rng(3).standard_normal(
        (n_sums, n_sites, PROTECTION.n_values)
    )
    lengths = np.linalg.norm(PROTECTION.decoded(np.trunc(shares).sum(axis=1)), axis=1)
    longest = PROTECTION.longest_sum(0, n_sites, chance=chance)
    assert (lengths > longest).mean() <= chance
    assert (lengths > 0.7 * longest).mean() > chance  # and the bound is no wider than it must be
    assert (lengths > PROTECTION.longest_sum(0, 3, chance=chance)).mean() > chance


@pytest.mark.parametrize(("n_users", "rate"), [(12, 0.3), (300, 0.1), (100_000, 0.01)])
def test_the_number_of_users_drawn_exceeds_what_the_longest_sum_allows_for_in_no_round(
    n_users: int, rate: float
) -> None:
    fields = private(delta=1e-9, n_users=n_users).privacy
    agreement = secure(privacy=fields, sampling_rate=rate)
    protection = agreement.protection
    assert protection is not None
    noise_alone = protection.longest_sum(0, 3, chance=FALSE_ALARM / 2)
    allowed = round((agreement.longest_sum(3) - noise_alone) / protection.clip_norm)
    assert binom.sf(allowed, n_users, rate) <= FALSE_ALARM / 2
    assert binom.sf(allowed - 1, n_users, rate) > FALSE_ALARM / 2
    assert agreement.largest_step(3) == pytest.approx(agreement.longest_sum(3) / (n_users * rate))
