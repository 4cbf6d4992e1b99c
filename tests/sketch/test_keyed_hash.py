"""Keyed hashing of terms, against hashlib one row at a time."""

from __future__ import annotations

import copy
import hashlib
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.sketch.keyed_hash import HashKey, SketchShape

secrets_of_32 = st.binary(min_size=32, max_size=32)
any_terms = st.lists(st.text(st.characters(exclude_categories=("Cs",))), max_size=6)
TERMS = [f"term{number}" for number in range(20_000)]


def literal(secret: bytes, term: str, row: int, n_columns: int) -> tuple[int, int]:
    """Return column and sign of one term in one row."""
    digest = hashlib.blake2b(
        term.encode(), key=secret, salt=(row // 16).to_bytes(8, "little"), person=b"cloister-sketch"
    ).digest()
    word = int.from_bytes(digest[4 * (row % 16) : 4 * (row % 16) + 4], "little")
    return (word >> 1) * n_columns >> 31, -1 if word & 1 else 1


@given(secrets_of_32, any_terms, st.integers(1, 40), st.integers(1, 1 << 20))
def test_columns_and_signs_are_those_of_single_digests(
    secret: bytes, terms: list[str], n_rows: int, n_columns: int
) -> None:
    shape = SketchShape(n_rows=n_rows, n_columns=n_columns)
    hashed = HashKey(secret).hash_terms(terms, shape)
    assert hashed.columns.dtype == np.uint32
    assert hashed.signs.dtype == np.int8
    assert hashed.columns.shape == hashed.signs.shape == (len(terms), n_rows)
    for number, term in enumerate(terms):
        for row in range(n_rows):
            found = int(hashed.columns[number, row]), int(hashed.signs[number, row])
            assert found == literal(secret, term, row, n_columns)


def test_long_terms_are_hashed_whole() -> None:
    shape = SketchShape(n_rows=20, n_columns=1000)
    terms = ["a" * n for n in (0, 1, 127, 128, 129, 255, 256, 257, 5000)]
    hashed = HashKey(b"k" * 32).hash_terms(terms, shape)
    for number, term in enumerate(terms):
        for row in (0, 15, 16, 19):
            expected = literal(b"k" * 32, term, row, 1000)
            assert (hashed.columns[number, row], hashed.signs[number, row]) == expected


def test_terms_spread_evenly_over_columns_and_signs() -> None:
    from scipy.stats import chisquare

    hashed = HashKey(b"spread".ljust(32)).hash_terms(TERMS, SketchShape(n_rows=30, n_columns=200))
    for row in range(30):
        assert chisquare(np.bincount(hashed.columns[:, row], minlength=200)).pvalue > 1e-6
        signs = np.bincount(hashed.signs[:, row].astype(np.int64) + 1, minlength=3)[[0, 2]]
        assert chisquare(signs).pvalue > 1e-6


def test_rows_are_independent_of_each_other() -> None:
    hashed = HashKey(b"rows".ljust(32)).hash_terms(TERMS, SketchShape(n_rows=30, n_columns=200))
    both = np.hstack([hashed.columns.astype(np.float64), hashed.signs.astype(np.float64)])
    correlation = np.corrcoef(both, rowvar=False) - np.eye(60)
    assert np.abs(correlation).max() < 6 / np.sqrt(len(TERMS))


def test_two_keys_place_terms_independently() -> None:
    shape = SketchShape(n_rows=10, n_columns=200)
    a, b = (HashKey(bytes([n]) * 32).hash_terms(TERMS, shape) for n in (1, 2))
    share = float((a.columns == b.columns).mean())
    assert abs(share - 1 / 200) < 6 * np.sqrt(1 / 200 / a.columns.size)


def test_fewer_rows_are_the_first_of_many() -> None:
    key = HashKey(bytes(32))
    few = key.hash_terms(TERMS[:50], SketchShape(n_rows=5))
    many = key.hash_terms(TERMS[:50], SketchShape(n_rows=33))
    assert (few.columns == many.columns[:, :5]).all()
    assert (few.signs == many.signs[:, :5]).all()


def test_flat_places_name_row_and_column() -> None:
    hashed = HashKey(bytes(32)).hash_terms(TERMS[:20], SketchShape(n_rows=4, n_columns=9))
    table = np.arange(36).reshape(4, 9)
    for term in range(20):
        expected = [table[row, hashed.columns[term, row]] for row in range(4)]
        assert hashed.cells()[term].tolist() == expected


def test_a_key_shows_its_fingerprint_and_not_its_secret() -> None:
    key = HashKey(b"\xab" * 32)
    assert "ab" * 4 not in repr(key)
    assert key.fingerprint in repr(key)
    assert key.hash_terms(["a"], SketchShape()).key_fingerprint == key.fingerprint
    assert key.secret_bytes() == b"\xab" * 32


def test_keys_are_equal_by_their_secret() -> None:
    assert HashKey(bytes(32)) == HashKey(bytes(32))
    assert len({HashKey(bytes(32)), HashKey(bytes(32)), HashKey(b"\x01" * 32)}) == 2
    assert HashKey.random() != HashKey.random()
    assert HashKey(bytes(32)) != "something else"


def test_a_key_is_not_pickled_nor_copied() -> None:
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            take(HashKey.random())


@pytest.mark.parametrize("n_bytes", [0, 31, 33, 64])
def test_a_secret_of_another_length_is_refused(n_bytes: int) -> None:
    with pytest.raises(SettingsError, match="32 bytes"):
        HashKey(bytes(n_bytes))


@pytest.mark.parametrize("fields", [{"n_rows": 0}, {"n_columns": 0}, {"n_columns": (1 << 20) + 1}])
def test_a_shape_without_cells_or_too_wide_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(SettingsError):
        SketchShape(**fields)


def test_a_long_list_is_hashed_as_its_terms_one_by_one() -> None:
    key, shape = HashKey(b"long".ljust(32)), SketchShape(n_rows=18, n_columns=77)
    together = key.hash_terms(TERMS[:5000], shape)
    for number in (0, 2047, 2048, 4095, 4096, 4999):
        alone = key.hash_terms([TERMS[number]], shape)
        assert (together.columns[number] == alone.columns[0]).all()
        assert (together.signs[number] == alone.signs[0]).all()
