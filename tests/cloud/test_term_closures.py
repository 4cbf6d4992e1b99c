from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.cloud import adaptive_clustering, fixed_threshold_clustering
from cloister.cloud.adaptive_clustering import AdaptiveThresholds, adaptive_closures
from cloister.cloud.fixed_threshold_clustering import FixedThreshold, fixed_closures
from cloister.cloud.term_closures import TermClosures, hashed_groups
from cloister.core.errors import DataError, SettingsError

cases = st.tuples(st.integers(1, 60), st.integers(0, 10**6), st.integers(1, 6))


def made_vectors(n: int, seed: int, share_unknown: float = 0.1) -> np.ndarray:
    """Vectors around a few directions; some terms have none."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(5, 6))[rng.integers(0, 5, n)] + rng.normal(size=(n, 6))
    vectors[rng.random(n) < share_unknown] = 0
    return vectors


def names(n: int) -> list[str]:
    return [f"term{i}" for i in range(n)]


def cosines(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1)
    lengths[lengths == 0] = 1
    units = vectors / lengths[:, None]
    return units @ units.T


def literal_components(similar: np.ndarray) -> np.ndarray:
    labels = np.arange(len(similar))
    for i, j in itertools.combinations(range(len(similar)), 2):
        if similar[i, j]:
            labels[labels == labels[j]] = labels[i]
    return labels


def literal_adaptive(cosine: np.ndarray, thresholds: tuple[float, ...], p: int) -> np.ndarray:
    """Pairs in falling similarity, united if both closures are smaller than p."""
    labels = np.arange(len(cosine))
    pairs = sorted(itertools.combinations(range(len(cosine)), 2), key=lambda pair: -cosine[pair])
    for i, j in pairs:
        a, b = labels[i], labels[j]
        small = (labels == a).sum() < p and (labels == b).sum() < p
        if a != b and small and cosine[i, j] >= thresholds[0]:
            labels[labels == b] = a
    return labels


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    return TermClosures.numbered(a).labels.tolist() == TermClosures.numbered(b).labels.tolist()


@given(cases, st.sampled_from([0.3, 0.7]))
def test_single_linkage_gives_connected_components(
    case: tuple[int, int, int], threshold: float
) -> None:
    n, seed, p = case
    vectors = made_vectors(n, seed, share_unknown=0)
    found = fixed_closures(
        names(n), vectors, FixedThreshold(threshold=threshold, linkage="single", min_size=p)
    )
    assert same_partition(found.labels, literal_components(cosines(vectors) >= threshold))


@given(cases, st.sampled_from([0.3, 0.7]))
@settings(max_examples=30)
def test_any_two_terms_of_a_complete_closure_are_similar(
    case: tuple[int, int, int], threshold: float
) -> None:
    n, seed, p = case
    vectors = made_vectors(n, seed)
    known = np.flatnonzero(vectors.any(axis=1))
    settings_ = FixedThreshold(threshold=threshold, min_size=p)
    labels = fixed_closures(names(n), vectors, settings_).labels
    cosine = cosines(vectors)
    for i, j in itertools.combinations(known.tolist(), 2):
        assert labels[i] != labels[j] or cosine[i, j] >= threshold - 1e-5
    for term in known.tolist():  # a closure's first term had to take it, if it had fitted
        for first in {int(np.flatnonzero(labels == label)[0]) for label in set(labels)}:
            members = np.flatnonzero(labels == labels[first])
            if first < term and labels[first] != labels[term] and first in known:
                earlier = np.flatnonzero(labels == labels[term])[0] < first
                assert earlier or cosine[term, members].min() < threshold + 1e-5


@given(cases)
def test_adaptive_closures_take_pairs_from_the_most_similar_down(
    case: tuple[int, int, int],
) -> None:
    n, seed, p = case
    n = min(n, adaptive_clustering.N_NEAREST)  # then every list holds all neighbours
    vectors = made_vectors(n, seed, share_unknown=0)
    thresholds = (0.3, 0.6, 0.9)
    chosen = AdaptiveThresholds(thresholds=thresholds, min_size=p, remainder="keep")
    found = adaptive_closures(names(n), vectors, chosen)
    assert same_partition(found.labels, literal_adaptive(cosines(vectors), thresholds, p))


@given(cases)
@settings(max_examples=60)
def test_no_two_small_closures_are_similar_at_the_end(case: tuple[int, int, int]) -> None:
    n, seed, p = case
    vectors = made_vectors(4 * n, seed)
    chosen = AdaptiveThresholds(thresholds=(0.4, 0.8), min_size=p, remainder="keep")
    found = adaptive_closures(names(4 * n), vectors, chosen)
    small = (found.sizes[found.labels] < p) & vectors.any(axis=1)
    apart = found.labels[:, None] != found.labels[None, :]
    open_pairs = (cosines(vectors) >= 0.4 + 1e-5) & apart & small[:, None] & small[None, :]
    assert not open_pairs.any()
    assert found.sizes.max() <= max(1, 2 * p - 1)


@given(cases)
def test_merged_closures_all_reach_the_size(case: tuple[int, int, int]) -> None:
    n, seed, p = case
    found = adaptive_closures(names(n), made_vectors(n, seed), AdaptiveThresholds(min_size=p))
    assert len(found.labels) == n == found.sizes.sum()
    assert found.sizes.min() >= min(p, n) or n < 2 * p
    assert found.report(p).share_below == 0 or n < 2 * p
    assert found.sizes.max() <= 4 * p


@given(cases)
def test_every_term_is_in_exactly_one_closure(case: tuple[int, int, int]) -> None:
    n, seed, p = case
    vectors = made_vectors(n, seed)
    for found in (
        fixed_closures(names(n), vectors, FixedThreshold(min_size=p)),
        adaptive_closures(names(n), vectors, AdaptiveThresholds(min_size=p)),
    ):
        members = np.concatenate([found.members(c) for c in range(found.n_closures)])
        assert sorted(members.tolist()) == list(range(n))
        assert all(found.labels[t] == c for c in range(found.n_closures) for t in found.members(c))


def test_small_tiles_give_the_same_closures(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = made_vectors(300, 4)
    before = [
        adaptive_closures(names(300), vectors).labels,
        fixed_closures(names(300), vectors, FixedThreshold(linkage="single")).labels,
        fixed_closures(names(300), vectors).labels,
    ]
    monkeypatch.setattr(adaptive_clustering, "TILE", 32)
    monkeypatch.setattr(fixed_threshold_clustering, "TILE", 32)
    monkeypatch.setattr(fixed_threshold_clustering, "SEEDS", 7)
    after = [
        adaptive_closures(names(300), vectors).labels,
        fixed_closures(names(300), vectors, FixedThreshold(linkage="single")).labels,
        fixed_closures(names(300), vectors).labels,
    ]
    for first, second in zip(before, after, strict=True):
        np.testing.assert_array_equal(first, second)


@given(st.integers(1, 200), st.integers(1, 20))
def test_terms_without_vectors_make_groups_of_the_size_asked_for(n: int, p: int) -> None:
    sizes = np.bincount(hashed_groups(names(n), p))
    assert sizes.sum() == n
    assert sizes.min() >= min(n, p)
    assert sizes.max() < 2 * p or n < p


def test_hashed_groups_depend_on_the_salt_and_not_on_the_order_of_terms() -> None:
    terms = names(60)
    groups = hashed_groups(terms, 5)
    turned = hashed_groups(terms[::-1], 5)[::-1]
    np.testing.assert_array_equal(groups, turned)
    assert hashed_groups(terms, 5, salt=b"secret").tolist() != groups.tolist()


def test_a_lower_threshold_leaves_fewer_terms_in_small_closures() -> None:
    vectors = made_vectors(400, 1, share_unknown=0)
    shares = [
        adaptive_closures(
            names(400),
            vectors,
            AdaptiveThresholds(thresholds=thresholds, min_size=8, remainder="keep"),
        )
        .report(8)
        .share_below
        for thresholds in [(0.95,), (0.8, 0.95), (0.3, 0.8, 0.95)]
    ]
    assert shares[0] > shares[1] > shares[2]


def test_wrong_vectors_labels_and_thresholds_are_refused() -> None:
    with pytest.raises(DataError, match="3 finite vectors"):
        fixed_closures(names(3), np.ones((2, 4)))
    with pytest.raises(DataError, match="2 finite vectors"):
        adaptive_closures(names(2), np.array([[1.0, np.nan], [1.0, 0.0]]))
    with pytest.raises(DataError, match="no terms"):
        TermClosures(np.array([0, 2]))
    with pytest.raises(SettingsError, match="up to 1"):
        AdaptiveThresholds(thresholds=(0.5, 1.5))


def test_an_empty_vocabulary_has_no_closures() -> None:
    for found in (fixed_closures([], np.empty((0, 3))), adaptive_closures([], np.empty((0, 3)))):
        assert found.n_closures == 0
        assert found.report(5).share_below == 0
