"""Result pages as arrays: the checks that every function of this package makes first.

``page_labels`` has one row a page and one column a rank. It holds the grade of each document
shown, and -1 after the last document of a page that is shorter than the widest.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.data.clicks.model import ClickModel, ClickTable

__all__ = ["NO_DOCUMENT", "checked_clicks", "checked_pages", "known_table"]

NO_DOCUMENT: Final = -1


def checked_pages(page_labels: NDArray[Any], n_grades: int) -> NDArray[np.int8]:
    """Return the labels as int8, or say what is wrong with them.

    Examples
    --------
    >>> checked_pages(np.array([[2, 0], [1, -1]]), n_grades=3)
    array([[ 2,  0],
           [ 1, -1]], dtype=int8)
    >>> checked_pages(np.array([[-1, 0]]), n_grades=3)
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: page 0, rank 1: a document without a label; ...
    """
    labels = np.asarray(page_labels)
    if labels.ndim != 2 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"labels must be whole numbers, pages by ranks (given: {labels.dtype}, "
            f"{labels.ndim} dimensions)",
            where="page_labels",
        )
    present = labels >= 0
    _refuse(labels < NO_DOCUMENT, "a label below -1", "write -1 where no document is shown")
    hole = np.zeros_like(present)
    hole[:, :-1] = ~present[:, :-1] & present[:, 1:]
    _refuse(
        hole, "a document without a label", "leave pages with unlabelled documents out, or cut them"
    )
    _refuse(labels >= n_grades, f"a grade above {n_grades - 1}", "use a table with more grades")
    return np.ascontiguousarray(labels, np.int8)


def checked_clicks(pages: NDArray[np.int8], clicks: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the clicks as booleans of the same shape as the pages, or say what is wrong."""
    given = np.asarray(clicks)
    if given.shape != pages.shape:
        raise DataError(
            f"clicks have the shape {given.shape}, labels {pages.shape}", where="clicks"
        )
    _refuse((given != 0) & (given != 1), "neither 0 nor 1", "write 1 for a click and 0 for none")
    clicked = np.ascontiguousarray(given, np.bool_)
    _refuse(clicked & (pages < 0), "a click where no document is shown", "check the log")
    return clicked


def known_table(model: ClickModel, pages: NDArray[np.int8]) -> ClickTable:
    """Return a model's table for these pages, or raise if it lacks a chance that they need."""
    table = model.table(pages.shape[1])
    stop_needed = table.stop_at_each | (table.click > 0)
    known = ~np.isnan(table.click) & (~np.isnan(table.stop) | ~stop_needed)
    if not known.all():
        unknown = np.append(~known, False)  # the last place answers for NO_DOCUMENT
        _refuse(
            unknown[pages],
            f"the model {model.name} does not know this grade",
            "fit it to more data",
        )
    return table._replace(click=np.nan_to_num(table.click), stop=np.nan_to_num(table.stop))


def _refuse(wrong: NDArray[np.bool_], what: str, remedy: str) -> None:
    """Raise an error about the first page and rank marked as wrong, if any is."""
    if wrong.any():
        page, rank = np.argwhere(wrong)[0]
        raise DataError(what, where=f"page {page}, rank {rank + 1}", remedy=remedy)
