from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cloud.kernel_obfuscation import KernelObfuscation, levels_of
from cloister.cloud.private_ranker import PrivateRankingSettings
from cloister.cloud.served_features import ServedFeatures, soft_features
from cloister.core.errors import DataError
from cloister.rank.proximity_features import PAIR_NAMES
from cloister.rank.tree_features import (
    TERM_NAMES,
    TreeFeatures,
    TreeFeatureSettings,
    feature_places,
)
from cloud.private_ranking_world import SETTINGS, WORDS, World

queries = st.lists(st.sampled_from([*WORDS, "zebra"]), max_size=5, unique=True)
numbers = st.lists(st.integers(0, 39), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def literal_soft(world: World, terms: list[str], documents: list[int]) -> np.ndarray:
    """One key and one document at a time."""
    phi = np.zeros((len(documents), 3, 10))
    keys = world.keys
    for word in terms:
        values = world.kernels.values([word])[documents][:, :, :10]
        held = keys.word_held(word, np.array(documents))
        phi[:, :2] += np.where(held[:, None, None], levels_of(values, 10), 1)
    for phrase in pairwise(terms):
        values = world.kernels.values(phrase)[documents][:, 0, :10]
        held = keys.phrase_held(phrase, np.array(documents))
        phi[:, 2] += np.where(held[:, None], levels_of(values, 10), 1)
    return phi.reshape(len(documents), 30)


@given(queries, numbers)
def test_soft_features_are_sums_of_levels_and_1_where_nothing_is_held(
    world: World, terms: list[str], documents: list[int]
) -> None:
    found = world.served.soft(terms, np.array(documents))
    assert found.tolist() == literal_soft(world, terms, documents).tolist()


def test_levels_above_1_occur_among_the_soft_features(world: World) -> None:
    found = world.served.soft(["a", "b"], np.arange(40))
    assert found[:, :20].max() > 2  # else the test above would hold for constants


def test_plain_values_without_closures_are_the_features_of_c_knrm_star(world: World) -> None:
    terms, documents = ["a", "g", "c"], np.arange(5, 25)
    values = world.served.soft_values(terms, documents)
    soft = soft_features(values, KernelObfuscation(base=None))
    expected = world.kernels.select(documents).features(terms).reshape(-1, 3, 11)[:, :, :10]
    np.testing.assert_allclose(soft.reshape(-1, 3, 10), expected, rtol=1e-5, atol=1e-5)


def test_absent_plain_values_count_as_no_match() -> None:
    settings = SETTINGS.model_copy(update={"obfuscation": KernelObfuscation(base=None)})
    world = World(settings)
    found = world.served.soft(["zebra"], np.arange(3))
    np.testing.assert_allclose(found[:, :20], 0.01 * np.log(1e-10))
    assert (found[:, 20:] == 0).all()  # a query of one word has no phrase


@given(queries, numbers)
def test_tree_rows_are_the_tree_features_less_what_no_key_leads_to(
    world: World, terms: list[str], documents: list[int]
) -> None:
    chosen = np.array(documents)
    assert world.trees is not None
    names = list(world.trees.names)
    expected = world.trees.of(terms, chosen)
    df = world.texts.counts.document_frequencies(terms)
    by_df = sorted(range(len(terms)), key=lambda i: (df[i] if df[i] else np.inf, i))
    placed = [terms[i] for i in by_df[:3]]
    for place, word in enumerate(placed):
        for name in (*TERM_NAMES, "earliness"):
            column = names.index(f"{name}[{place + 1}]")
            expected[~world.keys.word_held(word, chosen), column] = 0
    for a, b in combinations(range(len(placed)), 2):
        for name in PAIR_NAMES:
            column = names.index(f"{name}[{a + 1},{b + 1}]")
            expected[~world.keys.pair_held(placed[a], placed[b], chosen), column] = 0
    assert world.served.tree_rows(terms, chosen).tolist() == expected.tolist()


def test_serving_takes_something_away_from_the_tree_features(world: World) -> None:
    terms, documents = ["c", "m", "h"], np.arange(40)
    assert world.trees is not None
    lost = world.trees.of(terms, documents) != world.served.tree_rows(terms, documents)
    changed = {world.trees.names[column].split("[")[0] for column in np.flatnonzero(lost.any(0))}
    assert changed == {"lm", "closeness"}  # all others are 0 already where nothing is held


def test_places_of_features_are_those_of_the_tree_features(world: World) -> None:
    for order in ("rarest", "query"):
        settings = TreeFeatureSettings(kind="T2", combined=False, n_positions=2, order=order)
        made = TreeFeatures(world.texts, settings=settings)
        terms = ["a", "zebra", "k", "c"]
        rows = made.of(terms, np.arange(40))
        df = world.texts.counts.document_frequencies(terms)
        counts = world.texts.counts.term_counts(terms, np.arange(40))
        for place, term in enumerate(feature_places(df, settings)):
            column = made.names.index(f"tf[{place + 1}]")
            assert rows[:, column].tolist() == counts[term].tolist()


def test_other_tree_features_than_the_settings_name_are_refused(world: World) -> None:
    with pytest.raises(DataError, match="tree features"):
        ServedFeatures(world.kernels, None, world.keys, SETTINGS)
    without = PrivateRankingSettings(features=None)
    served = ServedFeatures(world.kernels, None, world.keys, without)
    with pytest.raises(DataError, match="no tree features"):
        served.tree_rows(["a"], np.array([0]))
    assert served.of(["a"], np.array([0, 1]), None).shape == (2, 30)
