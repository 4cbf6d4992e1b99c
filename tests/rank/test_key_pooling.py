from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.rank.kernel_pooling import GramTable, count_grams, kernel_values
from cloister.rank.key_pooling import KeyTable, key_table, key_values

worlds = st.lists(st.lists(st.sampled_from("abcdef"), max_size=9), min_size=1, max_size=6)
KEYS = [("a",), ("b",), ("z",), ("a", "b"), ("b", "b"), ("z", "c"), ("f",)]


def made(documents: list[list[str]], n: int, seed: int) -> tuple[GramTable, KeyTable]:
    rng = np.random.default_rng(seed)
    counts = count_grams(documents, n)
    n_grams = len(counts.words)
    table = GramTable(counts, unit(rng, n_grams), rng.random(n_grams) < 0.8)
    return table, key_table(KEYS, unit(rng, len(KEYS)), rng.random(len(KEYS)) < 0.8, counts)


def unit(rng: np.random.Generator, n: int) -> np.ndarray:
    vectors = rng.normal(size=(n, 3)) + 0.5
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


@given(worlds, st.sampled_from([1, 2]), st.integers(0, 9), st.booleans(), st.data())
def test_values_are_those_of_one_key_at_a_time(
    documents: list[list[str]], n: int, seed: int, mask: bool, data: st.DataObject
) -> None:
    table, keys = made(documents, n, seed)
    chosen = data.draw(st.lists(st.integers(0, len(documents) - 1), unique=True, max_size=6))
    found = key_values(keys, table, np.array(chosen, np.int64), mask_exact=mask)
    assert found.shape == (len(KEYS), len(chosen), 11)
    for row, key in enumerate(KEYS):
        vector = keys.vectors[row] if keys.known[row] else None
        wanted = kernel_values(key, vector, table, mask_exact=mask)[chosen]
        soft, exact = slice(0, 10), slice(10, 11)
        np.testing.assert_allclose(found[row][:, soft], wanted[:, soft], rtol=2e-5, atol=1e-7)
        # The last kernel is a thousandth wide: where a cosine lies three widths from 1, its last
        # bit (6e-8) is worth 6e-8 * 0.003 / 0.001^2 = 2e-4 of the value.
        np.testing.assert_allclose(found[row][:, exact], wanted[:, exact], rtol=1e-3, atol=1e-7)


@given(worlds, st.integers(0, 9))
def test_values_do_not_depend_on_what_else_is_asked(documents: list[list[str]], seed: int) -> None:
    table, keys = made(documents, 1, seed)
    everywhere = np.arange(len(documents))
    together = key_values(keys, table, everywhere)
    for row in range(len(KEYS)):
        for document in everywhere:
            alone = key_values(keys.select(np.array([row])), table, np.array([document]))
            np.testing.assert_array_equal(alone[0, 0], together[row, document])


def test_keys_and_documents_that_do_not_fit_are_refused() -> None:
    table, keys = made([["a", "b"]], 1, 0)
    with pytest.raises(DataError, match="1 documents"):
        key_values(keys, table, np.array([1]))
    with pytest.raises(DataError, match="lengths"):
        key_values(keys._replace(vectors=keys.vectors[:, :2]), table, np.array([0]))
    with pytest.raises(DataError, match="fit the vectors"):
        key_table(KEYS, keys.vectors[1:], keys.known, table.counts)
    for key in [(), ("a", "b", "c")]:
        with pytest.raises(DataError, match="one or two words"):
            key_table([key], keys.vectors[:1], keys.known[:1], table.counts)
