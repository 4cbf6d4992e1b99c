"""Groups of like clients: how often chance raises an alarm, and what is found when groups exist."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.random import stream
from cloister.federate.client_groups import (
    MOST_COORDINATES,
    Directions,
    distance_from_chance,
    find_groups,
)

N_TRIALS = 150


def alike(rng: np.random.Generator, n_clients: int, n_coordinates: int) -> np.ndarray:
    """Blocks of clients who differ by chance alone; what all do together changes with the block."""
    common = 3 * rng.standard_normal((1, 8, n_coordinates))
    return common + rng.standard_normal((n_clients, 8, n_coordinates))


def planted(
    rng: np.random.Generator, n_groups: int, n_clients: int, strength: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return blocks of clients in groups of about one size, and each client's group."""
    group = rng.permutation(np.arange(n_clients) % n_groups)
    wanted = strength * np.eye(n_groups, 20)[group]
    return wanted[:, None] + alike(rng, n_clients, 20), group


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(((a[:, None] == a) == (b[:, None] == b)).all())


# --- the permutation test


@pytest.mark.parametrize(("n_clients", "n_coordinates"), [(2, 10), (5, 3), (20, 20)])
def test_alike_clients_raise_an_alarm_as_rarely_as_chance_says(
    n_clients: int, n_coordinates: int
) -> None:
    rng = stream(1, "test", "false alarms")
    found = np.array(
        [
            distance_from_chance(alike(rng, n_clients, n_coordinates), rng=rng)
            for _ in range(N_TRIALS)
        ]
    )
    # Of a normal variable 5 % are above 1.645; the square has a longer tail where little is added.
    assert (found > 1.645).mean() < 0.13
    assert found.max() < 6
    assert abs(found.mean()) < 4 / math.sqrt(N_TRIALS)
    assert 0.75 < found.std() < 1.35


def test_alarm_needs_no_normal_updates() -> None:
    rng = stream(2, "test", "false alarms")
    found = []
    for _ in range(N_TRIALS):
        blocks = alike(rng, 8, 6)
        tails = np.sqrt(rng.chisquare(2, (8, 8, 1)) / 2)  # Student's t with 2 degrees of freedom
        found.append(distance_from_chance(blocks / tails, rng=rng))
    assert np.mean(np.array(found) > 1.645) < 0.13
    assert max(found) < 6


@pytest.mark.parametrize("n_groups", [2, 4])
def test_clients_who_differ_are_told_from_chance(n_groups: int) -> None:
    rng = stream(3, "test", "power")
    found = [distance_from_chance(planted(rng, n_groups, 16, 2.5)[0], rng=rng) for _ in range(20)]
    assert min(found) > 6


def test_certainty_grows_with_the_difference() -> None:
    rng = stream(4, "test", "power")
    means = [
        np.mean([distance_from_chance(planted(rng, 2, 12, s)[0], rng=rng) for _ in range(10)])
        for s in (0.0, 1.0, 2.0, 4.0)
    ]
    assert means[0] < 1.5
    assert means[0] + 1 < means[1] < means[2] < means[3]


def test_clients_who_are_equal_are_no_alarm() -> None:
    blocks = np.repeat(stream(5, "test").normal(size=(1, 8, 4)), 7, axis=0)
    assert abs(distance_from_chance(blocks, rng=stream(1, "shuffles"))) < 6


# --- groups


@pytest.mark.parametrize("n_groups", [2, 3, 4])
def test_planted_groups_are_found_exactly(n_groups: int) -> None:
    rng = stream(6, "test", "groups")
    hits = 0
    for _ in range(10):
        blocks, group = planted(rng, n_groups, 20, 3.0)
        hits += same_partition(find_groups(blocks, most_groups=8, rng=rng), group)
    assert hits >= 9


def test_one_group_is_found_where_there_is_none() -> None:
    rng = stream(7, "test", "groups")
    for _ in range(10):
        groups = find_groups(alike(rng, 20, 20), most_groups=8, rng=rng)
        assert set(groups.tolist()) == {0}


def test_groups_of_very_different_sizes_are_found() -> None:
    rng = stream(8, "test", "groups")
    group = np.array([0] * 15 + [1] * 3)
    blocks = 4.0 * np.eye(2, 20)[group][:, None] + alike(rng, 18, 20)
    assert same_partition(find_groups(blocks, most_groups=6, rng=rng), group)


@pytest.mark.parametrize("most_groups", [2, 3])
def test_no_more_groups_are_made_than_asked_for(most_groups: int) -> None:
    rng = stream(9, "test", "groups")
    blocks, _ = planted(rng, 5, 20, 4.0)
    found = find_groups(blocks, most_groups=most_groups, rng=rng)
    assert len(set(found.tolist())) == most_groups


def test_every_client_may_be_a_group_of_its_own() -> None:
    rng = stream(10, "test", "groups")
    blocks, group = planted(rng, 3, 3, 10.0)
    assert same_partition(find_groups(blocks, most_groups=10, rng=rng), group)


# --- directions


def updates_of(seed: int, n: int, width: int) -> np.ndarray:
    return stream(seed, "test", "updates").normal(size=(n, width)).astype(np.float32)


def test_only_the_direction_of_an_update_counts() -> None:
    one, two = (Directions(3, 6, seed=1) for _ in range(2))
    updates = updates_of(1, 3, 6)
    one.add(np.arange(3), updates)
    two.add(np.arange(3), updates * np.array([[1.0], [100.0], [1e-3]], np.float32))
    np.testing.assert_allclose(one.sums, two.sums, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(one.means(np.arange(3))[:, 0], axis=1), 1.0)


def test_updates_of_a_client_go_round_the_blocks() -> None:
    directions = Directions(2, 3, n_blocks=4, seed=1)
    for i in range(6):
        directions.add(np.array([1]), np.eye(3, dtype=np.float32)[[i % 3]])
    assert directions.counts.tolist() == [[0, 0, 0, 0], [2, 2, 1, 1]]
    means = directions.means(np.array([1]))[0]
    np.testing.assert_allclose(means[0], [0.5, 0.5, 0.0])  # the first update and the fifth
    np.testing.assert_allclose(means[3], [1.0, 0.0, 0.0])
    assert directions.fewest(np.array([1])) == 1
    assert directions.fewest(np.array([0, 1])) == 0


def test_update_of_zeros_says_nothing() -> None:
    directions = Directions(2, 3, seed=1)
    directions.add(np.arange(2), np.array([[0, 0, 0], [0, 2, 0]], np.float32))
    assert directions.counts[:, 0].tolist() == [0, 1]
    assert not directions.sums[0].any()


def test_forgetting_some_clients_leaves_the_others() -> None:
    directions = Directions(3, 4, seed=1)
    for _ in range(9):
        directions.add(np.arange(3), updates_of(1, 3, 4))
    directions.forget(np.array([0, 2]))
    assert directions.counts.sum(axis=1).tolist() == [0, 9, 0]
    assert not directions.sums[[0, 2]].any()
    directions.add(np.arange(3), updates_of(2, 3, 4))
    assert directions.counts[0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0]


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), width=st.sampled_from([257, 1000, 4000]))
def test_folding_keeps_angles_nearly(seed: int, width: int) -> None:
    rng = stream(seed, "test", "angles")
    a, b = rng.normal(size=(2, width))
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    cosines = np.array([-0.9, -0.3, 0.0, 0.5, 1.0])
    others = [c * a + math.sqrt(1 - c * c) * (b - (a @ b) * a) for c in cosines]
    directions = Directions(6, width, seed=seed)
    directions.add(np.arange(6), np.stack([a, *others]).astype(np.float32))
    folded = directions.means(np.arange(6))[:, 0]
    assert folded.shape[1] == MOST_COORDINATES
    # A folded product has a deviation of at most sqrt(2 / 256) = 0.09.
    np.testing.assert_allclose(folded[1:] @ folded[0], cosines, atol=0.45)
    assert abs(np.mean(folded[1:] @ folded[0] - cosines)) < 0.3


def test_folding_is_right_on_average() -> None:
    a, b = updates_of(3, 2, 600).astype(float)
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    products = []
    for seed in range(200):
        directions = Directions(2, 600, seed=seed)
        directions.add(np.arange(2), np.stack([a, b]).astype(np.float32))
        folded = directions.means(np.arange(2))[:, 0]
        products.append(folded[0] @ folded[1])
    assert np.mean(products) == pytest.approx(cosine, abs=4 * 0.09 / math.sqrt(200))
    assert np.std(products) < 0.09


def test_short_updates_are_not_folded() -> None:
    directions = Directions(2, MOST_COORDINATES, seed=1)
    updates = updates_of(4, 2, MOST_COORDINATES)
    directions.add(np.arange(2), updates)
    lengths = np.linalg.norm(updates.astype(float), axis=1, keepdims=True)
    np.testing.assert_allclose(directions.means(np.arange(2))[:, 0], updates / lengths)
