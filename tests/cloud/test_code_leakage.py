from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from cloister.cloud.code_leakage import (
    equal_classes_leak,
    order_leaks,
    path_places,
    rank_correlation,
)
from cloister.cloud.private_trees import ThresholdCodes, TreeCodes
from cloister.core.errors import DataError
from cloister.data.ranking_data import RankingData
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.rank.forest import ForestSettings, fit_forest

pytest.importorskip("lightgbm")


def trained(n_trees: int) -> tuple[TreeCodes, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = rng.random((1000, 3))
    labels = np.digitize(rows[:, 0] + rows[:, 1] ** 2, [0.5, 1, 1.5]).astype(np.int8)
    data = RankingData(rows, labels, np.arange(0, 1001, 50))
    forest = fit_forest(data, ForestSettings(n_trees=n_trees, n_leaves=8))
    return TreeCodes(bytes(32), [forest]), rng.random((3000, 3))


@pytest.mark.parametrize("n_thresholds", [1, 3, 9, 99])
def test_the_leak_of_equal_classes_is_the_formulas(n_thresholds: int) -> None:
    values = np.linspace(0, 1, 20_000, endpoint=False)
    thresholds = np.linspace(0, 1, n_thresholds + 2)[1:-1]
    ends = np.append(np.cumsum(np.full(n_thresholds, 2**40)), 2**63 - 1)
    codes = ThresholdCodes(thresholds, ends).coded(values, 0, SeededWords(3))
    measured = rank_correlation(values, codes)
    assert measured == pytest.approx(equal_classes_leak(n_thresholds), abs=0.01)
    assert 1 - measured == pytest.approx(1 / (n_thresholds + 1) ** 2, rel=0.05)


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-9, 9)), min_size=3, max_size=30))
def test_rank_correlation_is_scipys(pairs: list[tuple[int, float]]) -> None:
    first, second = np.array(pairs).T
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        assert rank_correlation(first, second) == 0
    else:
        found = rank_correlation(first, second)
        assert found == pytest.approx(spearmanr(first, second).statistic, abs=1e-9)


def test_more_thresholds_tell_more_of_the_order() -> None:
    leaks = []
    for n_trees in (1, 5, 60):
        codes, rows = trained(n_trees)
        leaks.append(order_leaks(codes, rows, words=SeededWords(1))[0])
    assert [leak.column.feature for leak in leaks] == [0, 0, 0]
    assert leaks[0].n_thresholds < leaks[1].n_thresholds < leaks[2].n_thresholds
    assert leaks[0].by_codes < leaks[1].by_codes < leaks[2].by_codes
    assert all(leak.by_codes < leak.by_intervals for leak in leaks)
    assert leaks[2].by_codes > 0.99
    assert all(leak.by_paths > 0.8 for leak in leaks)


def test_paths_tell_the_interval_that_the_nodes_met_leave() -> None:
    codes, rows = trained(4)
    forest = codes.private_forest()
    coded = codes.coded_rows(rows[:40])
    wanted = np.empty(coded.shape)
    for row, numbers in enumerate(coded.tolist()):
        for column in range(forest.n_columns):
            bounds = np.unique(forest.codes[forest.columns == column]).tolist()
            low, high = 0, len(bounds)
            for root in forest.roots.tolist():
                node = root
                while node >= 0:
                    goes_left = numbers[forest.columns[node]] <= forest.codes[node]
                    if forest.columns[node] == column:
                        rank = bounds.index(int(forest.codes[node]))
                        low, high = (low, min(high, rank)) if goes_left else (
                            max(low, rank + 1), high)  # fmt: skip
                    node = int((forest.left if goes_left else forest.right)[node])
            wanted[row, column] = (low + high) / 2
    np.testing.assert_array_equal(path_places(forest, coded), wanted)


def test_intervals_sort_values_with_ties_that_codes_hide() -> None:
    codes, rows = trained(60)
    leak = order_leaks(codes, np.round(rows, 1), words=SeededWords(1))[0]
    assert 1 - leak.by_intervals < (1 - leak.by_codes) / 3


def test_a_missing_value_is_left_out() -> None:
    codes, rows = trained(5)
    rows = rows[:200].copy()
    rows[0, 0] = np.nan
    assert order_leaks(codes, rows, words=SeededWords(1))[0].by_codes > 0.5


def test_a_negative_number_of_thresholds_is_refused() -> None:
    with pytest.raises(DataError):
        equal_classes_leak(-1)
