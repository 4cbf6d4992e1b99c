from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cloud.private_trees import (
    PrivateForest,
    ThresholdCodes,
    TreeCodes,
    _secret_ends,
)
from cloister.core.errors import DataError, SettingsError
from cloister.data.ranking_data import RankingData
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.rank.forest import Forest, ForestSettings, fit_forest

pytest.importorskip("lightgbm")

SECRET = bytes(range(32))
N_FEATURES = 6
ZERO = float(np.float32(1e-35))
EDGES = [np.inf, -np.inf, np.nan, 0.0, -0.0, 5e-324, -5e-324, 1e-310, ZERO, -ZERO, 1e-36, 1e308]


def made_rows(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = np.exp(rng.normal(size=(n, N_FEATURES)))
    rows[:, 1] = np.round(rows[:, 1])
    rows[:, 2] -= 1
    return rows


def grown(rows: np.ndarray, **settings: int) -> Forest:
    known = np.nan_to_num(rows)
    labels = np.digitize(known[:, 0] + known[:, 1] * known[:, 2], [0.5, 2, 4]).astype(np.int8)
    data = RankingData(rows, labels, np.arange(0, len(rows) + 1, 20))
    return fit_forest(data, ForestSettings(n_trees=40, n_leaves=12, **settings))


@pytest.fixture(scope="module")
def plain() -> Forest:
    return grown(made_rows(600))


@pytest.fixture(scope="module")
def with_missing() -> Forest:
    rows = made_rows(600)
    rows[np.random.default_rng(1).random(rows.shape) < 0.2] = np.nan
    return grown(rows)


def edge_rows(codes: TreeCodes, n: int) -> np.ndarray:
    """Half ordinary values, half exactly at thresholds, beside them, or at the ends of numbers."""
    rng = np.random.default_rng(2)
    found = np.concatenate([codes.thresholds(column) for column in codes.columns()])
    near = np.concatenate([found, np.nextafter(found, np.inf), np.nextafter(found, -np.inf)])
    rows = made_rows(n, 5)
    odd = rng.random(rows.shape)
    rows = np.where(odd < 0.4, rng.choice(near, rows.shape), rows)
    return np.where(odd > 0.85, rng.choice(EDGES, rows.shape), rows)


def same_bits(forest: Forest, rows: np.ndarray) -> bool:
    codes = TreeCodes(SECRET, [forest])
    found = codes.private_forest().score(codes.coded_rows(rows))
    return bool((found.view(np.int64) == forest.score(rows).view(np.int64)).all())


def of_kind(forest: Forest, kind: int) -> Forest:
    """The same trees with another rule for missing values."""
    lines = [
        f"decision_type={' '.join([str(kind)] * len(line.split()))}"
        if line.startswith("decision_type=")
        else line
        for line in forest.text.split("\n")
    ]
    return Forest("\n".join(lines), forest.n_features)


def test_scores_of_10000_rows_are_the_same_to_the_bit(plain: Forest) -> None:
    assert same_bits(plain, edge_rows(TreeCodes(SECRET, [plain]), 10_000))


def test_codes_of_32_bits_give_the_same_bits_and_are_other_codes(plain: Forest) -> None:
    codes = TreeCodes(SECRET, [plain], n_bits=32)
    rows = edge_rows(codes, 10_000)
    coded = codes.coded_rows(rows)
    assert 0 <= coded.min() <= coded.max() < 2**31
    found = codes.private_forest().score(coded)
    np.testing.assert_array_equal(found, plain.score(rows))
    long = TreeCodes(SECRET, [plain]).private_forest().codes >> 32
    assert not np.isin(codes.private_forest().codes, long).any()


def test_more_thresholds_than_32_bits_hold_are_refused() -> None:
    with pytest.raises(SettingsError, match="too many"):
        _secret_ends(SECRET, ("tf", 0), np.arange(2.0**14), 32)
    ends = _secret_ends(SECRET, ("tf", 0), np.arange(2.0**14 - 1), 32)
    assert (np.diff(ends) > 2**15).all()
    assert ends[-1] == 2**31 - 1


def test_scores_with_missing_values_are_the_same_to_the_bit(with_missing: Forest) -> None:
    codes = TreeCodes(SECRET, [with_missing])
    assert {column.kind for column in codes.columns()} == {8, 10}
    assert same_bits(with_missing, edge_rows(codes, 10_000))


@pytest.mark.parametrize("kind", [0, 2, 4, 6, 8, 10])
def test_every_rule_for_missing_values_is_lightgbms(plain: Forest, kind: int) -> None:
    forest = of_kind(plain, kind)
    assert same_bits(forest, edge_rows(TreeCodes(SECRET, [forest]), 2000))


def test_single_precision_rows_are_scored_as_lightgbm_does(plain: Forest) -> None:
    assert same_bits(plain, made_rows(500, 9).astype(np.float32))


def test_a_tree_of_one_leaf_counts() -> None:
    rows = made_rows(100)
    data = RankingData(rows, np.zeros(100, np.int8), np.array([0, 100]))
    forest = fit_forest(data, ForestSettings(n_trees=3))
    codes = TreeCodes(SECRET, [forest])
    assert codes.columns() == []
    assert same_bits(forest, rows)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8, unique=True),
    st.lists(st.floats(), min_size=1, max_size=8),
    st.integers(0, 2**32),
)
def test_codes_compare_as_values_do(
    thresholds: list[float], values: list[float], seed: int
) -> None:
    bounds = np.unique(np.array(thresholds) + 0.0)
    bounds = bounds[np.abs(bounds) > 1e-30]
    ends = np.append(np.arange(1, len(bounds) + 1) * 10, 2**63 - 1)
    codes = ThresholdCodes(bounds, ends).coded(np.array(values), 0, SeededWords(seed))
    for value, code in zip(values, codes.tolist(), strict=True):
        known = 0.0 if np.isnan(value) else value
        assert [known <= bound for bound in bounds] == [code <= end for end in ends[:-1]]


def test_codes_need_the_secret_and_the_thresholds(plain: Forest, with_missing: Forest) -> None:
    first = TreeCodes(SECRET, [plain]).private_forest()
    again = TreeCodes(SECRET, [plain]).private_forest()
    other = TreeCodes(bytes(32), [plain]).private_forest()
    assert (first.codes == again.codes).all()
    assert not np.isin(first.codes, other.codes).any()
    retrained = TreeCodes(SECRET, [with_missing]).private_forest()
    assert not np.isin(first.codes, retrained.codes).any()


def test_equal_values_get_different_codes(plain: Forest) -> None:
    codes = TreeCodes(SECRET, [plain])
    rows = np.repeat(made_rows(1), 1000, axis=0)
    coded = codes.coded_rows(rows)
    assert all(len(np.unique(column)) == 1000 for column in coded.T)
    assert not np.array_equal(coded, codes.coded_rows(rows))
    same = [codes.coded_rows(rows, words=SeededWords(4)) for _ in range(2)]
    np.testing.assert_array_equal(*same)


def test_codes_of_one_interval_do_not_follow_their_values(plain: Forest) -> None:
    codes = TreeCodes(SECRET, [plain])
    column = codes.columns()[0]
    low, high = codes.thresholds(column)[:2]
    rows = np.zeros((4000, N_FEATURES))
    rows[:, column.feature] = np.linspace(np.nextafter(low, high), high, 4000)
    coded = codes.coded_rows(rows, words=SeededWords(1))[:, 0].astype(np.float64)
    assert abs(np.corrcoef(rows[:, column.feature], coded)[0, 1]) < 0.06  # 4 standard errors


def test_a_shared_scale_lets_one_code_serve_two_forests(plain: Forest) -> None:
    second = grown(made_rows(600, 8))
    scales = [["tf"] * 2 + list("cdef"), ["tf"] * 2 + list("cdef")]
    codes = TreeCodes(SECRET, [plain, second], scales)
    rows = made_rows(300, 4)
    for number, forest in enumerate([plain, second]):
        columns = codes.columns(number)
        coded = np.column_stack(
            [codes.coded_values(codes.scale(c, number), rows[:, c.feature]) for c in columns]
        )
        np.testing.assert_array_equal(codes.private_forest(number).score(coded), forest.score(rows))
    assert codes.scale(codes.columns(0)[0]) == codes.scale(codes.columns(1)[1], 1) == ("tf", 0)


def test_a_forest_comes_back_from_its_arrays(plain: Forest) -> None:
    codes = TreeCodes(SECRET, [plain])
    private = codes.private_forest()
    again = PrivateForest(**private.arrays, n_columns=private.n_columns)
    coded = codes.coded_rows(made_rows(50))
    np.testing.assert_array_equal(again.score(coded), private.score(coded))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("left", 3, 2),
        ("right", 0, 10**6),
        ("left", 0, -(10**6)),
        ("columns", 1, 99),
        ("columns", 1, -1),
        ("roots", 0, 10**6),
        ("values", 0, np.nan),
    ],
)
def test_trees_that_would_not_end_or_read_elsewhere_are_refused(
    plain: Forest, name: str, place: int, value: float
) -> None:
    private = TreeCodes(SECRET, [plain]).private_forest()
    arrays = {key: array.copy() for key, array in private.arrays.items()}
    arrays[name][place] = value
    with pytest.raises(DataError, match="do not make trees"):
        PrivateForest(**arrays, n_columns=private.n_columns)


def test_rows_of_another_width_or_type_are_refused(plain: Forest) -> None:
    private = TreeCodes(SECRET, [plain]).private_forest()
    with pytest.raises(DataError, match="codes are needed"):
        private.score(np.zeros((3, private.n_columns + 1), np.int64))
    with pytest.raises(DataError, match="codes are needed"):
        private.score(np.zeros((3, private.n_columns)))


def test_wrong_secrets_and_scales_are_refused(plain: Forest) -> None:
    with pytest.raises(SettingsError, match="32 bytes"):
        TreeCodes(b"short", [plain])
    with pytest.raises(SettingsError, match="needs a scale"):
        TreeCodes(SECRET, [plain], [["one"]])
    with pytest.raises(DataError, match="no tree asks"):
        TreeCodes(SECRET, [plain]).coded_values(("unheard", 0), [1.0])
