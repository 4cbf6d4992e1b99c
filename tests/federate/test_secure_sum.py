"""What a real client sends, and the sum that comes of it: sensitivity, range, dropouts, noise."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cloister.core.errors import BudgetExceeded, DataError, SettingsError
from cloister.federate.protected_update import UpdateProtection
from cloister.federate.secure_sum import secure_sum
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.level import Level
from cloister.privacy.mechanisms.secure_noise import SecureNoise
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
from cloister.privacy.release import Release
from cloister.privacy.releases.gaussian import DiscreteGaussianRelease, GaussianRelease
from cloister.privacy.secure_aggregation.client import Stage
from cloister.privacy.secure_aggregation.errors import AggregationFailed


def agreed(**fields: Any) -> UpdateProtection:
    usual = {"clip_norm": 0.5, "sigma": 1e-3, "min_survivors": 4, "n_values": 3}
    return UpdateProtection(**usual | fields)


def simulated(seed: int = 1) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


def steps_without_noise(protection: UpdateProtection, update: Any) -> np.ndarray:
    """Take the noise off again, which a seeded source allows."""
    noised = protection.protected(update, simulated(7))
    return noised - protection.shares.draw_share(protection.n_values, simulated(7))


# --- one client


@settings(max_examples=200)
@given(
    update=arrays(np.float64, 3, elements=st.floats(-1e6, 1e6)),
    clip_norm=st.floats(1e-6, 1e3),
)
def test_no_client_moves_the_sum_further_than_is_recorded(
    update: np.ndarray, clip_norm: float
) -> None:
    protection = agreed(clip_norm=clip_norm, sigma=clip_norm)
    steps = steps_without_noise(protection, update)
    square = sum(int(step) ** 2 for step in steps)
    release = protection.release()
    assert isinstance(release, DiscreteGaussianRelease)
    assert square <= Fraction(release.sensitivity) ** 2


def test_a_short_update_is_kept_to_a_millionth() -> None:
    protection = agreed()
    update = np.array([0.1, -0.2, 0.3])
    steps = steps_without_noise(protection, update)
    np.testing.assert_allclose(protection.decoded(steps), update, atol=1e-6)


@pytest.mark.parametrize(
    "update", [[5.0], [1.0] * 2, [1.0] * 4, [[1.0] * 3], 1.0, [], ["a", "b", "c"]]
)
def test_an_update_of_another_shape_is_refused(update: Any) -> None:
    with pytest.raises(DataError):
        agreed().protected(update, simulated())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(DataError):
        agreed().protected([bad, 0.0, 0.0], simulated())


def test_the_record_costs_what_continuous_noise_of_that_width_costs() -> None:
    protection = agreed(sigma=2.0)
    exact = GaussianRelease(level=Level.USER, sigma=2.0, sensitivity=0.5)
    costs = [
        composed_epsilon(losses_of([release]), 1e-6).epsilon
        for release in (protection.release(), exact)
    ]
    assert costs[0] >= costs[1]
    assert costs[0] == pytest.approx(costs[1], rel=1e-9)
    sampled = protection.release(sampling_rate=0.1, simulated=True, note="a note")
    assert sampled.simulated
    assert sampled.note.startswith("a note; shares of")
    assert composed_epsilon(losses_of([sampled]), 1e-6).epsilon < costs[0]


@pytest.mark.parametrize(
    "wrong",
    [{"n_colluders": 4}, {"min_survivors": 1}, {"clip_norm": 0}, {"sigma": 0}, {"n_values": 0},
     {"sigma": 1e-9}],
)  # fmt: skip
def test_agreements_that_protect_nobody_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        agreed(**wrong).release()


# --- the sum


def test_the_sum_carries_the_noise_that_is_stated_whoever_drops_out() -> None:
    protection = agreed(sigma=0.3, n_values=4000, min_survivors=6, n_colluders=2)
    updates = {f"c{i}": np.zeros(4000) for i in range(8)}
    silent = {"c1": Stage.MASK_INPUT, "c5": Stage.MASK_INPUT}
    total = secure_sum(updates, protection, simulated(), dropouts=silent)
    assert total.client_ids == ("c0", "c2", "c3", "c4", "c6", "c7")
    # Six shares, of which any four add up to 0.3.
    assert total.values.std() == pytest.approx(0.3 * math.sqrt(6 / 4), rel=0.05)


@pytest.mark.parametrize("stage", list(Stage)[:-1])
def test_dropouts_at_any_stage_leave_a_right_sum(stage: Stage) -> None:
    rng = np.random.default_rng(3)
    updates = {f"c{i}": rng.normal(0, 0.1, 3) for i in range(7)}
    total = secure_sum(
        updates, agreed(min_survivors=5), SecureNoise(), dropouts={"c2": stage, "c6": stage}
    )
    exact = np.sum([updates[name] for name in total.client_ids], axis=0)
    np.testing.assert_allclose(total.values, exact, atol=0.02)
    assert len(total.client_ids) in (5, 7)


def test_too_few_clients_get_no_sum() -> None:
    updates = {f"c{i}": np.zeros(3) for i in range(6)}
    with pytest.raises(DataError, match="6 clients came and 7 are needed"):
        secure_sum(updates, agreed(min_survivors=7), simulated())
    with pytest.raises(DataError, match="7 are needed"):
        secure_sum(updates, agreed(), simulated(), min_survivors=7)
    silent = {"c0": Stage.MASK_INPUT, "c1": Stage.REVEAL_SHARES}
    with pytest.raises(AggregationFailed):
        secure_sum(updates, agreed(min_survivors=5), simulated(), dropouts=silent)


def test_a_longer_update_counts_as_its_clipped_self() -> None:
    updates = {f"c{i}": np.array([300.0, 400.0, 0.0]) for i in range(5)}
    total = secure_sum(updates, agreed(), simulated())
    np.testing.assert_allclose(total.values, [1.5, 2.0, 0.0], atol=0.02)


def test_a_client_over_its_limit_stays_away_and_others_go_on(tmp_path: Path) -> None:
    protection = agreed(sigma=2.0, min_survivors=4)
    updates = {f"c{i}": np.full(3, 0.1) for i in range(6)}
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.set_limit("c3", Limit(epsilon=1.3, delta=1e-6), purpose="one round at most")

        def record(client: str, release: Release) -> None:
            ledger.release(release, b"", party_id=client, recipient="server", purpose="a round")

        taking_part = [
            secure_sum(updates, protection, SecureNoise(), record=record).client_ids
            for _ in range(2)
        ]
        counts = {name: len(ledger.pending(party_id=name)) for name in updates}
        spent = ledger.cost("c3", delta=1e-6).epsilon
    assert "c3" in taking_part[0]
    assert set(updates) - set(taking_part[1]) == {"c3"}
    assert counts == dict.fromkeys(updates, 2) | {"c3": 1}
    assert 1 < spent <= 1.3


def test_nothing_is_formed_where_too_many_stay_away() -> None:
    def refuse(client: str, release: Release) -> None:
        raise BudgetExceeded("spent", where=client)

    updates = {f"c{i}": np.zeros(3) for i in range(6)}
    with pytest.raises(DataError, match="0 clients came"):
        secure_sum(updates, agreed(), simulated(), record=refuse)
