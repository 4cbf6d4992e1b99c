from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.adversary.code_order_recovery import (
    CodedColumn,
    coded_column,
    guess_values,
    recover_order,
    recover_values,
)
from cloister.adversary.label_naming import SeenLabels
from cloister.adversary.occurrence_recovery import (
    held_by_codes,
    labels_of_codes,
    recover_occurrence,
)
from cloister.cloud.code_leakage import order_leaks
from cloister.cloud.private_trees import TreeCodes
from cloister.core.errors import DataError
from cloister.data.ranking_data import RankingData
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.rank.forest import ForestSettings, fit_forest

pytest.importorskip("lightgbm")

TF = ("tf", 0)


def grown(n_trees: int, *, informative: bool = True) -> tuple[TreeCodes, np.ndarray]:
    """Grow trees on frequencies of a word and a made-up feature; return other rows of the kind."""
    draw = np.random.default_rng(1)
    rows = np.column_stack([draw.geometric(0.5, 3000) - 1, draw.random(3000)]).astype(np.float64)
    wanted = rows[:, 0] if informative else rows[:, 1] * 4
    labels = np.digitize(wanted + draw.normal(0, 0.3, 3000), [0.5, 1.5, 2.5]).astype(np.int8)
    data = RankingData(rows[:2000], labels[:2000], np.arange(0, 2001, 50))
    forest = fit_forest(data, ForestSettings(n_trees=n_trees, n_leaves=8, min_leaf_rows=5))
    return TreeCodes(bytes(32), [forest], [["tf", "other"]]), rows[2000:]


def column_of(values: np.ndarray, thresholds: list[float], *, seed: int = 0) -> CodedColumn:
    """Code by hand: interval i has the codes 1000 i + 1 to 1000 (i + 1)."""
    draw = np.random.default_rng(seed)
    places = np.searchsorted(thresholds, np.append(values, 0.0))
    codes = 1000 * places + draw.integers(1, 1001, len(places))
    ends = 1000 * np.arange(1, len(thresholds) + 1)
    return CodedColumn(codes[:-1].astype(np.int64), ends.astype(np.int64), int(codes[-1]))


@given(st.lists(st.integers(0, 6), min_size=2, max_size=40), st.integers(0, 9))
def test_frequencies_with_a_threshold_between_all_are_counted_exactly(
    frequencies: list[int], seed: int
) -> None:
    values = np.array(frequencies, np.float64)
    column = column_of(values, [0.5, 1.5, 2.5, 3.5, 4.5, 5.5], seed=seed)
    found = recover_values(column, np.array([0]), values)
    assert found.by_counting == 1
    assert held_by_codes([column]).tolist() == (values > 0).tolist()


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=40), st.integers(0, 9))
def test_guesses_rise_with_codes_and_stay_within_known_values(
    listed: list[float], seed: int
) -> None:
    values = np.array(listed)
    column = column_of(values, [-3.0, -1.0, 0.0, 2.0], seed=seed)
    known = np.arange(0, len(values), 2)
    guess = guess_values(column, known, values[known])
    in_order = np.argsort(column.intervals, kind="stable")
    assert (np.diff(guess[in_order]) >= -1e-12).all()
    assert values[known].min() <= guess.min()
    assert guess.max() <= values[known].max()


def test_known_rows_tell_the_others_values() -> None:
    codes, rows = grown(50)
    values = rows[:, 0]
    column = coded_column(codes, TF, values, words=SeededWords(2))
    found = recover_values(column, np.arange(100), values)
    assert found.n_rows == 900
    assert found.by_known_rows > 0.85 > 0.6 > found.without_codes
    assert found.by_counting > 0.85


def test_codes_without_a_threshold_tell_nothing() -> None:
    values = np.random.default_rng(3).integers(0, 4, 500).astype(np.float64)
    codes = np.random.default_rng(4).integers(1, 10**6, 501)
    blind = CodedColumn(codes[:-1], np.empty(0, np.int64), int(codes[-1]))
    found = recover_values(blind, np.arange(50), values)
    assert found.by_known_rows == found.without_codes
    held = recover_occurrence([blind], values > 0)
    assert held.auc == 0.5
    assert held.found.accuracy == pytest.approx(np.mean(values == 0))


def test_codes_show_which_documents_hold_the_word() -> None:
    codes, rows = grown(20)
    column = coded_column(codes, TF, rows[:, 0], words=SeededWords(5))
    found = recover_occurrence([column], rows[:, 0] > 0)
    assert found.found.accuracy == 1
    assert found.auc == 1
    assert found.without_codes < 0.6
    assert json.loads(json.dumps(found.as_dict()))["found"]["n_trials"] == 1000


def test_two_features_together_show_what_one_of_them_hides() -> None:
    values = np.array([0.0, 1.0, 2.0, 0.0, 1.0])
    coarse, fine = column_of(values, [1.5]), column_of(values / 10, [0.05])
    assert held_by_codes([coarse]).tolist() == [False, False, True, False, False]
    assert held_by_codes([coarse, fine]).tolist() == (values > 0).tolist()


def test_codes_take_back_what_closures_hide() -> None:
    codes, rows = grown(20)
    frequencies = rows[:60, 0].reshape(2, 30)
    own = frequencies > 0
    closed = SeenLabels(np.tile(own[0] | own[1], (2, 1)), np.zeros(2, np.int64))
    columns = [
        [coded_column(codes, TF, frequencies[label][closed.documents[label]])] for label in (0, 1)
    ]
    assert (closed.documents != own).any()
    np.testing.assert_array_equal(labels_of_codes(closed, columns).documents, own)


def test_sorting_agrees_with_the_measure_that_knows_the_truth() -> None:
    codes, rows = grown(20)
    found = recover_order(codes, rows, ["tf", "other"], words=SeededWords(6))
    measured = order_leaks(codes, rows, words=SeededWords(6))
    for one, leak in zip(found, measured, strict=True):
        assert one.n_thresholds == leak.n_thresholds
        assert one[2:] == (leak.by_codes, leak.by_intervals, leak.by_paths)
    assert found[0].by_intervals > found[0].by_codes > 0.8


def test_thresholds_of_another_forest_on_the_scale_sort_finer() -> None:
    draw = np.random.default_rng(7)
    rows = draw.random((1000, 1))
    labels = [np.digitize(rows[:, 0], ends).astype(np.int8) for ends in ([0.5], [0.25, 0.75])]
    few = ForestSettings(n_trees=1, n_leaves=4, min_leaf_rows=5)
    queries = np.arange(0, 1001, 50)
    forests = [fit_forest(RankingData(rows, part, queries), few) for part in labels]
    codes = TreeCodes(bytes(32), forests, [["x"], ["x"]])
    alone, both = (
        recover_order(codes, rows, ["x"], forests=held, words=SeededWords(8))[0]
        for held in ([0], [0, 1])
    )
    assert both.n_thresholds > alone.n_thresholds
    assert both.by_intervals > alone.by_intervals
    assert both.by_paths == alone.by_paths


def test_what_cannot_be_guessed_is_refused() -> None:
    column = column_of(np.array([0.0, 1.0]), [0.5])
    with pytest.raises(DataError, match="at least one"):
        guess_values(column, np.empty(0, np.int64), np.empty(0))
    with pytest.raises(DataError, match="all rows are known"):
        recover_values(column, np.arange(2), np.array([0.0, 1.0]))
    with pytest.raises(DataError, match="a coded feature"):
        held_by_codes([])
