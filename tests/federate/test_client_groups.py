"""Groups of like clients: how often chance raises an alarm, and what is found when groups exist."""

from __future__ import annotations

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.random import stream
from cloister.federate.client_groups import (
    MOST_COORDINATES,
    N_PARTS,
    Lessons,
    distance_from_chance,
    find_groups,
)

N_TRIALS = 400


def alike(rng: np.random.Generator, n_clients: int, n_coordinates: int) -> np.ndarray:
    """Parts of clients who differ by chance alone; what all do together changes with the part."""
    common = 3 * rng.standard_normal((1, N_PARTS, n_coordinates))
    return common + rng.standard_normal((n_clients, N_PARTS, n_coordinates))


def planted(
    rng: np.random.Generator, n_groups: int, n_clients: int, strength: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return parts of clients in groups of about one size, and each client's group."""
    group = rng.permutation(np.arange(n_clients) % n_groups)
    wanted = strength * np.eye(n_groups, 20)[group]
    return wanted[:, None] + alike(rng, n_clients, 20), group


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(((a[:, None] == a) == (b[:, None] == b)).all())


# --- the permutation test


def agreement(parts: np.ndarray) -> float:
    """Add up the inner products of each client's parts, pair by pair."""
    pairs = combinations(range(parts.shape[1]), 2)
    return math.fsum(float((parts[:, p] * parts[:, q]).sum()) for p, q in pairs)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), n_clients=st.integers(2, 4), n_coordinates=st.integers(1, 5))
def test_distance_is_that_from_all_shuffles(seed: int, n_clients: int, n_coordinates: int) -> None:
    parts = stream(seed, "test", "shuffles").normal(size=(n_clients, 3, n_coordinates))
    centred = parts - parts.mean(axis=0)
    orders = [list(order) for order in permutations(range(n_clients))]
    chance = [
        agreement(np.stack([centred[order, p] for p, order in enumerate(chosen)], axis=1))
        for chosen in product(orders, repeat=3)
    ]
    assert np.mean(chance) == pytest.approx(0, abs=1e-9)
    expected = agreement(centred) / np.std(chance)
    assert distance_from_chance(parts) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("n_clients", "n_coordinates"), [(2, 10), (5, 3), (20, 20)])
def test_alike_clients_raise_an_alarm_as_rarely_as_chance_says(
    n_clients: int, n_coordinates: int
) -> None:
    rng = stream(1, "test", "false alarms")
    found = np.array(
        [distance_from_chance(alike(rng, n_clients, n_coordinates)) for _ in range(N_TRIALS)]
    )
    # Of a normal variable 5 % are above 1.645; the square has a longer tail where little is added.
    assert (found > 1.645).mean() < 0.13
    assert found.max() < 6
    assert abs(found.mean()) < 4 / math.sqrt(N_TRIALS)
    assert 0.75 < found.std() < 1.35


def test_alarm_needs_no_normal_lessons() -> None:
    rng = stream(2, "test", "false alarms")
    found = []
    for _ in range(N_TRIALS):
        parts = alike(rng, 8, 6)
        tails = np.sqrt(rng.chisquare(2, (8, N_PARTS, 1)) / 2)  # Student's t, 2 degrees
        found.append(distance_from_chance(parts / tails))
    assert np.mean(np.array(found) > 1.645) < 0.13
    assert max(found) < 6


@pytest.mark.parametrize("n_groups", [2, 4])
def test_clients_who_differ_are_told_from_chance(n_groups: int) -> None:
    rng = stream(3, "test", "power")
    found = [distance_from_chance(planted(rng, n_groups, 16, 2.5)[0]) for _ in range(20)]
    assert min(found) > 6


def test_certainty_grows_with_the_difference() -> None:
    rng = stream(4, "test", "power")
    means = [
        np.mean([distance_from_chance(planted(rng, 2, 12, s)[0]) for _ in range(10)])
        for s in (0.0, 1.0, 2.0, 4.0)
    ]
    assert means[0] < 1.5
    assert means[0] + 1 < means[1] < means[2] < means[3]


def test_clients_who_are_equal_are_no_alarm() -> None:
    parts = np.repeat(stream(5, "test").normal(size=(1, N_PARTS, 4)), 7, axis=0)
    assert abs(distance_from_chance(parts)) < 6


# --- groups


@pytest.mark.parametrize("n_groups", [2, 3, 4])
def test_planted_groups_are_found_exactly(n_groups: int) -> None:
    rng = stream(6, "test", "groups")
    hits = 0
    for _ in range(6):
        parts, group = planted(rng, n_groups, 20, 3.0)
        hits += same_partition(find_groups(parts, most_groups=8, rng=rng), group)
    assert hits >= 5


def test_one_group_is_found_where_there_is_none() -> None:
    rng = stream(7, "test", "groups")
    for _ in range(6):
        groups = find_groups(alike(rng, 20, 20), most_groups=8, rng=rng)
        assert set(groups.tolist()) == {0}


def test_groups_of_very_different_sizes_are_found() -> None:
    rng = stream(8, "test", "groups")
    group = np.array([0] * 15 + [1] * 3)
    parts = 4.0 * np.eye(2, 20)[group][:, None] + alike(rng, 18, 20)
    assert same_partition(find_groups(parts, most_groups=6, rng=rng), group)


@pytest.mark.parametrize("most_groups", [2, 3])
def test_no_more_groups_are_made_than_asked_for(most_groups: int) -> None:
    rng = stream(9, "test", "groups")
    parts, _ = planted(rng, 5, 20, 4.0)
    found = find_groups(parts, most_groups=most_groups, rng=rng)
    assert len(set(found.tolist())) == most_groups


def test_every_client_may_be_a_group_of_its_own() -> None:
    rng = stream(10, "test", "groups")
    parts, group = planted(rng, 3, 3, 10.0)
    assert same_partition(find_groups(parts, most_groups=10, rng=rng), group)


# --- lessons


def lessons_of(sums: np.ndarray, *, width: int = 0, seed: int = 1) -> Lessons:
    """Return lessons that have been learnt already."""
    lessons = Lessons(len(sums), sums.shape[2], width=width, seed=seed)
    lessons.sums[:, :, : sums.shape[2]] = sums
    return lessons


def random_sums(seed: int, n_clients: int, n_parameters: int) -> np.ndarray:
    return stream(seed, "test", "sums").normal(size=(n_clients, N_PARTS, n_parameters))


def test_directions_are_of_one_length_and_leave_out_what_all_share() -> None:
    sums = random_sums(1, 5, 6) + np.array([3.0, 0, 0, 0, 0, 0])
    units = sums / np.linalg.norm(sums, axis=2, keepdims=True)
    shared = units.mean(axis=(0, 1))
    shared /= np.linalg.norm(shared)
    found = lessons_of(sums, width=8).directions(np.arange(5))
    for client in range(5):
        for part in range(N_PARTS):
            expected = units[client, part] - (units[client, part] @ shared) * shared
            np.testing.assert_allclose(found[client, part], expected, atol=1e-6)
    np.testing.assert_allclose(found @ shared, 0.0, atol=1e-6)


def test_how_much_a_client_searches_changes_no_direction() -> None:
    sums = random_sums(2, 4, 6)
    busy = sums * np.array([1.0, 100.0, 1e-3, 7.0])[:, None, None]
    one, two = (lessons_of(each).directions(np.arange(4)) for each in (sums, busy))
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_some_clients_are_looked_at_among_themselves() -> None:
    sums = random_sums(3, 6, 5)
    some = np.array([1, 4, 5])
    found = lessons_of(sums).directions(some)
    np.testing.assert_allclose(found, lessons_of(sums[some]).directions(np.arange(3)), atol=1e-7)


def test_client_who_learnt_nothing_from_some_part_is_not_complete() -> None:
    sums = random_sums(4, 3, 5)
    sums[0, 6] = 0.0
    sums[1] = 0.0
    assert lessons_of(sums).complete(np.arange(3)).tolist() == [False, False, True]
    assert lessons_of(sums).complete(np.array([2, 0])).tolist() == [True, False]


def test_forgetting_some_clients_leaves_the_others() -> None:
    lessons = lessons_of(random_sums(5, 3, 4))
    before = lessons.sums.copy()
    lessons.heard(np.array([0, 1, 2]))
    lessons.heard(np.array([1, 2]))
    lessons.forget(np.array([0, 2]))
    assert lessons.n_rounds.tolist() == [0, 2, 0]
    assert not lessons.sums[[0, 2]].any()
    assert (lessons.sums[1] == before[1]).all()


def in_pairs(vectors: np.ndarray) -> np.ndarray:
    """Let each client's parts be a vector and its opposite in turn: clients share nothing."""
    signs = np.resize([1.0, -1.0], N_PARTS)
    return vectors[:, None] * signs[:, None]


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), width=st.sampled_from([257, 1000, 4000]))
def test_folding_keeps_angles_nearly(seed: int, width: int) -> None:
    rng = stream(seed, "test", "angles")
    a, b = rng.normal(size=(2, width))
    a /= np.linalg.norm(a)
    b -= (a @ b) * a
    b /= np.linalg.norm(b)
    cosines = np.array([-0.9, -0.3, 0.0, 0.5, 1.0])
    vectors = np.stack([a, *(c * a + math.sqrt(1 - c * c) * b for c in cosines)])
    folded = lessons_of(in_pairs(vectors), seed=seed).directions(np.arange(6))[:, 0]
    assert folded.shape[1] == MOST_COORDINATES
    # A product has a deviation of about sqrt(1 / 256) = 0.06.
    np.testing.assert_allclose(folded[1:] @ folded[0], cosines, atol=0.35)


def test_folding_is_right_on_average() -> None:
    a, b = np.abs(stream(6, "test", "signs").normal(size=(2, 600)))
    a[300:] = 0  # little in common, and of one sign: without random signs they would look alike
    vectors = np.stack([a / np.linalg.norm(a), b / np.linalg.norm(b)])
    products = []
    for seed in range(200):
        folded = lessons_of(in_pairs(vectors), seed=seed).directions(np.arange(2))[:, 0]
        products.append(folded[0] @ folded[1])
    assert np.mean(products) == pytest.approx(vectors[0] @ vectors[1], abs=0.02)
    assert np.std(products) < 0.09


def test_short_lessons_are_not_folded() -> None:
    vectors = random_sums(7, 2, MOST_COORDINATES)[:, 0]
    found = lessons_of(in_pairs(vectors)).directions(np.arange(2))[:, 0]
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(found, units, atol=1e-6)
