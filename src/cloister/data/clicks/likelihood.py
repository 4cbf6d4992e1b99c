"""How probable logged clicks are under a click model.

Down to the last click the user's way is known: each document was seen. Below it the user either
left at some point or saw documents and clicked none; ``silence[i]`` is the chance of no click
below rank i for a user who is at rank i.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel
from cloister.data.clicks.model import ClickModel
from cloister.data.clicks.pages import checked_clicks, checked_pages, known_table

__all__ = ["leave_chance", "log_likelihood", "page_evidence"]


@kernel
def leave_chance(is_click: bool, stop: float, stop_at_each: bool) -> float:
    """Return the chance that the user leaves at a document seen, given whether it was clicked."""
    return stop if is_click or stop_at_each else 0.0


@kernel
def page_evidence(
    labels: NDArray[np.int8],
    clicked: NDArray[np.bool_],
    click: NDArray[np.float64],
    stop: NDArray[np.float64],
    stop_at_each: bool,
    examination: NDArray[np.float64],
    silence: NDArray[np.float64],
) -> tuple[int, int, float]:
    """Return the number of documents, the last rank surely seen, and the page's log-likelihood.

    ``silence`` is filled from that rank to the end of the page.
    """
    n = 0
    known = 0  # the first document is always seen
    while n < len(labels) and labels[n] >= 0:
        if clicked[n]:
            known = n
        n += 1
    if n == 0:
        return 0, 0, 0.0
    silence[n - 1] = 1.0
    for rank in range(n - 2, known - 1, -1):
        leaves = leave_chance(clicked[rank], stop[labels[rank]], stop_at_each)
        ignored = 1.0 - examination[rank + 1] * click[labels[rank + 1]]
        silence[rank] = leaves + (1.0 - leaves) * ignored * silence[rank + 1]
    total = np.log(silence[known])
    for rank in range(known + 1):
        chance = examination[rank] * click[labels[rank]]
        total += np.log(chance if clicked[rank] else 1.0 - chance)
        if rank < known:
            total += np.log(1.0 - leave_chance(clicked[rank], stop[labels[rank]], stop_at_each))
    return n, known, total


@kernel
def _log_likelihoods(
    pages: NDArray[np.int8],
    clicked: NDArray[np.bool_],
    click: NDArray[np.float64],
    stop: NDArray[np.float64],
    stop_at_each: bool,
    examination: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    silence = np.empty(pages.shape[1])
    for page in range(len(pages)):
        _, _, out[page] = page_evidence(
            pages[page], clicked[page], click, stop, stop_at_each, examination, silence
        )


def log_likelihood(
    model: ClickModel, page_labels: NDArray[Any], clicks: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the natural logarithm of each page's probability, -inf for impossible clicks.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> pages, clicks = np.array([[1, 0, 2], [2, 1, 0]]), np.array([[1, 0, 1], [0, 0, 0]])
    >>> np.exp(log_likelihood(click_model("perfect", 3), pages, clicks)).tolist()
    [0.5, 0.0]
    """
    pages = checked_pages(page_labels, model.n_grades)
    clicked = checked_clicks(pages, clicks)
    out = np.empty(len(pages))
    _log_likelihoods(pages, clicked, *known_table(model, pages), out)
    return out
