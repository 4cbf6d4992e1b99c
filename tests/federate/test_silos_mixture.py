"""The mixture: standardising, blending, and a choice that never harms without evidence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cloister.core.errors import DataError
from cloister.data.ranking_data import RankingData
from cloister.federate.silos.mixture import (
    MixtureSettings,
    choose_share,
    mixed_scores,
    standardised,
)
from cloister.measure.named import evaluate

N_QUERIES, N_DOCUMENTS = 60, 12


def made(seed: int, n_queries: int = N_QUERIES) -> tuple[RankingData, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n_queries * N_DOCUMENTS).astype(np.int8)
    offsets = np.arange(0, len(labels) + 1, N_DOCUMENTS)
    return RankingData(np.zeros((len(labels), 1)), labels, offsets), rng.standard_normal(
        len(labels)
    )


@given(
    hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6)),
    st.integers(1, 5),
)
def test_standardised_scores_equal_the_literal_formula(scores: np.ndarray, step: int) -> None:
    offsets = np.unique([0, *range(0, len(scores), step), len(scores)])
    found = standardised(scores, offsets)
    for first, last in pairwise(offsets):
        part = scores[first:last]
        width = part.std()
        if width > 1e-6:
            assert found[first:last] == pytest.approx((part - part.mean()) / width, abs=1e-4)
        if (part == part[0]).all():
            assert found[first:last] == pytest.approx(np.zeros(len(part)), abs=1.01)


@given(st.floats(0.01, 1), st.floats(-100, 100), st.floats(0.1, 100), st.integers(0, 1000))
def test_the_blend_does_not_depend_on_scale_and_shift_of_the_scores(
    share: float, shift: float, scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    local, federated, offsets = rng.random(20), rng.random(20), np.array([0, 7, 20])
    one = mixed_scores(local, federated, offsets, share)
    other = mixed_scores(shift + scale * local, federated * 3 - 1, offsets, share)
    assert one == pytest.approx(other, abs=1e-6)


def test_a_share_of_nothing_is_the_local_ranker_bit_by_bit() -> None:
    data, local = made(1)
    blended = mixed_scores(local, np.zeros(len(local)), data.offsets, 0.0)
    assert blended.tobytes() == local.tobytes()


def test_a_share_of_all_ranks_as_the_federated_ranker() -> None:
    data, local = made(2)
    federated = np.random.default_rng(3).standard_normal(len(local))
    blended = mixed_scores(local, federated, data.offsets, 1.0)
    both = [evaluate(one, data, ["nDCG"])["nDCG"] for one in (blended, federated)]
    assert both[0] == pytest.approx(both[1])


def test_a_party_with_a_poor_ranker_takes_the_federated_one() -> None:
    data, local = made(4)
    good = data.labels + 0.3 * np.random.default_rng(5).standard_normal(data.n_rows)
    chosen = choose_share(local, good, data, seed=1)
    assert chosen.share >= 0.7
    assert chosen.gain > 0.1
    assert chosen.n_queries == N_QUERIES


def test_a_party_with_a_good_ranker_keeps_its_own() -> None:
    data, federated = made(6)
    good = data.labels + 0.3 * np.random.default_rng(7).standard_normal(data.n_rows)
    assert choose_share(good, federated, data, seed=1).share == 0.0


def test_two_rankers_of_the_same_worth_seldom_make_a_party_leave_its_own() -> None:
    """Shares gained by luck must lose no more than luck: the mean true change stays near 0."""
    n_left, changes = 0, []
    for seed in range(40):
        data, _ = made(seed, 120)
        rng = np.random.default_rng(1000 + seed)
        noise = rng.standard_normal(data.n_rows)
        local = data.labels + noise
        federated = local + 0.01 * rng.standard_normal(data.n_rows)
        half = data.query_range(0, 60)
        share = choose_share(local[: half.n_rows], federated[: half.n_rows], half, seed=seed).share
        rest = data.query_range(60, 120)
        own, other = local[half.n_rows :], federated[half.n_rows :]
        after = evaluate(mixed_scores(own, other, rest.offsets, share), rest, ["nDCG@10"])
        before = evaluate(own, rest, ["nDCG@10"])
        changes.append(float(np.mean(after["nDCG@10"] - before["nDCG@10"])))
        n_left += share > 0
    assert n_left <= 20
    assert abs(np.mean(changes)) < 0.002


def test_a_stricter_guard_never_takes_a_share_that_a_laxer_one_refuses() -> None:
    for seed in range(20):
        data, local = made(seed)
        rng = np.random.default_rng(seed + 50)
        better = local + 0.25 * data.labels + 0.5 * rng.standard_normal(data.n_rows)
        taken = [
            choose_share(local, better, data, seed=1, settings=MixtureSettings(guard=guard)).share
            > 0
            for guard in (0.0, 1.0, 2.0, 4.0)
        ]
        assert taken == sorted(taken, reverse=True)


def test_a_party_without_enough_queries_keeps_its_own() -> None:
    data, local = made(8, 1)
    assert choose_share(local, data.labels.astype(float), data, seed=1).share == 0.0


def test_queries_with_nothing_relevant_do_not_count() -> None:
    data, local = made(9)
    labels = data.labels.copy()
    labels[: 30 * N_DOCUMENTS] = 0
    half = RankingData(data.features, labels, data.offsets)
    assert choose_share(local, labels.astype(float), half, seed=1).n_queries == 30


def test_the_smallest_rule_takes_no_larger_share_than_the_best() -> None:
    data, local = made(10)
    good = data.labels + np.random.default_rng(11).standard_normal(data.n_rows)
    smallest = choose_share(local, good, data, seed=1, settings=MixtureSettings(rule="smallest"))
    assert 0 < smallest.share <= choose_share(local, good, data, seed=1).share


@pytest.mark.parametrize("shares", [(), (0.0,), (1.5,)])
def test_shares_outside_their_range_are_refused(shares: tuple[float, ...]) -> None:
    data, local = made(12)
    with pytest.raises(DataError, match="shares"):
        choose_share(local, local, data, seed=1, settings=MixtureSettings(shares=shares))
