"""Clicks drawn from a click model, and their exact chances."""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import (
    STREAM_WORDS,
    checked_stream,
    next_uniform,
    start_stream,
)
from cloister.core.kernel import kernel, parallel_kernel
from cloister.data.clicks.model import ClickModel
from cloister.data.clicks.pages import checked_pages, known_table

__all__ = ["CLICK_PURPOSE", "click_probabilities", "draw_clicks", "sample_clicks"]

CLICK_PURPOSE: Final = 0x434C4943  # "CLIC": keeps these streams apart from a simulation's own
_BLOCK: Final = 256  # pages that share one state array; the result does not depend on it


@kernel
def draw_clicks(
    labels: NDArray[Any],
    n: int,
    click: NDArray[np.float64],
    stop: NDArray[np.float64],
    stop_at_each: bool,
    examination: NDArray[np.float64],
    stream: NDArray[np.uint32],
    clicked: NDArray[np.bool_],
) -> int:
    """Draw the clicks on one page, inside a kernel; nothing is checked.

    Parameters
    ----------
    labels
        Grades of the documents shown, best rank first; each is in the table.
    n
        Number of documents shown.
    click, stop, stop_at_each, examination
        A row of :class:`~cloister.data.clicks.model.StackedTables`, or a ``ClickTable``.
    stream
        State of a counter-based stream; one number is drawn for each document seen, and one more
        wherever the user may leave.
    clicked
        Receives the clicks: its first ``n`` places are written.

    Returns
    -------
    int
        Place of the last click, from 0; -1 for a page without a click.
    """
    last = -1
    seen = 0
    leaves = False
    while seen < n and not leaves:
        grade = labels[seen]
        # "<=": no number drawn is 0, and a chance of 1 is certain even if one rounds to 1.
        is_click = next_uniform(stream) <= examination[seen] * click[grade]
        clicked[seen] = is_click
        if is_click:
            last = seen
        if (is_click or stop_at_each) and stop[grade] > 0.0:
            leaves = next_uniform(stream) <= stop[grade]
        seen += 1
    for rank in range(seen, n):
        clicked[rank] = False
    return last


@parallel_kernel
def _draw_pages(
    pages: NDArray[np.int8],
    click: NDArray[np.float64],
    stop: NDArray[np.float64],
    stop_at_each: bool,
    examination: NDArray[np.float64],
    seed: np.uint64,
    round: int,
    clicked: NDArray[np.bool_],
) -> None:
    n_pages, width = pages.shape
    for block in numba.prange((n_pages + _BLOCK - 1) // _BLOCK):
        stream = np.empty(STREAM_WORDS, np.uint32)
        for page in range(block * _BLOCK, min((block + 1) * _BLOCK, n_pages)):
            n = 0
            while n < width and pages[page, n] >= 0:
                n += 1
            start_stream(stream, seed, round, page, CLICK_PURPOSE)
            draw_clicks(
                pages[page], n, click, stop, stop_at_each, examination, stream, clicked[page]
            )


def sample_clicks(
    model: ClickModel, page_labels: NDArray[Any], *, seed: int, round: int = 0
) -> NDArray[np.bool_]:
    """Draw clicks on many pages, each from a random stream of its own.

    Parameters
    ----------
    model
        Who clicks.
    page_labels
        Grades, pages by ranks; -1 after the last document of a short page.
    seed, round
        Together with the page's position they decide its clicks, for any number of threads. The
        seed is below 2^64, the round below 2^32.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> sample_clicks(click_model("perfect", 3), np.array([[2, 0, 2], [0, 2, -1]]), seed=1)
    array([[ True, False,  True],
           [False,  True, False]])
    """
    pages = checked_pages(page_labels, model.n_grades)
    clicked = np.zeros(pages.shape, np.bool_)
    key, round, _, _ = checked_stream(seed, round=round)
    _draw_pages(pages, *known_table(model, pages), key, round, clicked)
    return clicked


def click_probabilities(model: ClickModel, page_labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return the exact chance of a click at each rank of each page, 0 where no document is shown.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> click_probabilities(click_model("navigational", 3), np.array([[2, 2, -1]])).round(4)
    array([[0.95  , 0.1378, 0.    ]])
    """
    pages = checked_pages(page_labels, model.n_grades)
    click, stop, stop_at_each, examination = known_table(model, pages)
    chances = np.zeros(pages.shape)
    reached = np.ones(len(pages))  # chance that the user comes as far as this rank
    for rank, examined in enumerate(examination):
        grades = pages[:, rank]
        attracted = np.where(grades >= 0, examined * click[grades], 0.0)
        chances[:, rank] = reached * attracted
        reached *= 1.0 - stop[grades] * (1.0 if stop_at_each else attracted)
    return chances
