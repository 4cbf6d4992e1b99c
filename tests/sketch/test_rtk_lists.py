"""Lists against sorting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cloister.core.errors import DataError
from cloister.sketch.rtk_lists import LARGEST_VALUE, NO_FLOOR, RtkLists, select_row


def _check(cells: np.ndarray, cell_size: int) -> None:
    lists = RtkLists.empty(len(cells) * 2, cell_size)
    select_row(cells, cell_size, lists, 1)
    assert (lists.sizes[: len(cells)] == 0).all()  # row 0 is untouched
    for column, cell in enumerate(cells):
        for side, sign in enumerate((1, -1)):
            cut = np.clip(sign * cell.astype(np.int64), -LARGEST_VALUE, LARGEST_VALUE)
            order = np.lexsort([np.arange(len(cell)), -cut])
            place = len(cells) + column
            n = min(cell_size, len(cell))
            assert lists.sizes[place, side] == n
            assert lists.ids[place, side, :n].tolist() == order[:n].tolist()
            assert lists.values[place, side, :n].tolist() == cut[order[:n]].tolist()
            assert (lists.ids[place, side, n:] == -1).all()
            floor = cut[order[n]] if len(cell) > n else NO_FLOOR
            assert lists.floors[place, side] == floor


@given(arrays(np.int16, st.tuples(st.integers(1, 4), st.integers(0, 30))), st.integers(1, 12))
def test_selection_is_the_prefix_of_a_sort(cells: np.ndarray, cell_size: int) -> None:
    _check(np.where(cells % 3 == 0, cells, cells % 5 - 2), cell_size)


@given(
    arrays(np.int32, (2, 9), elements=st.sampled_from([0, 1, -1, 40000, 50000, -(2**31)])),
    st.integers(1, 12),
)
def test_values_beyond_sixteen_bits_are_cut(cells: np.ndarray, cell_size: int) -> None:
    _check(cells, cell_size)


def test_a_row_that_does_not_fit_is_refused() -> None:
    lists = RtkLists.empty(4, 3)
    for cell_size, row in ((4, 0), (0, 0), (3, 2), (3, -1)):
        with pytest.raises(DataError):
            select_row(np.zeros((2, 5), np.int16), cell_size, lists, row)
