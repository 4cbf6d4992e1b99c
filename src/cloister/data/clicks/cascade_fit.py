"""The cascade model fitted to logged clicks by expectation maximisation (EM).

What the log does not show is where the user left: below the last click, documents may have been
seen and passed over, or never seen. Each iteration computes the chance that each document was
seen, and that the user left at it, under the present tables; then sets each table entry to the
share of documents clicked among those seen, and of users who left among those who could have.
The likelihood never falls from one iteration to the next.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import kernel
from cloister.data.clicks.cascade import CascadeModel, StopRule
from cloister.data.clicks.likelihood import leave_chance, page_evidence
from cloister.data.clicks.pages import checked_clicks, checked_pages

__all__ = ["FittedCascade", "fit_cascade"]

_START: Final = 0.5  # every chance before the first iteration: inside (0, 1), favours neither side
_CLICKS, _SEEN, _LEFT, _COULD_LEAVE = range(4)  # rows of the expected counts


class FittedCascade(NamedTuple):
    """A cascade model and how well it fits.

    A click chance is ``None`` for a grade that no page shows. A stop chance is ``None`` for a
    grade of which the log cannot tell whether users left: none of its documents was clicked (for
    ``after_click``) or shown (for ``at_each_document``) above the last rank of a page.
    """

    model: CascadeModel
    log_likelihood: float  # natural logarithm, of all pages together, under ``model``
    n_pages: int
    n_iterations: int
    converged: bool  # False: stopped by ``max_iterations``
    trace: tuple[float, ...]  # log-likelihood before each iteration, and at the end


def fit_cascade(
    page_labels: NDArray[Any],
    clicks: NDArray[Any],
    n_grades: int,
    *,
    stop: StopRule = "after_click",
    tolerance: float = 1e-9,
    max_iterations: int = 2000,
) -> FittedCascade:
    """Fit click and stop chances by grade to logged pages.

    Parameters
    ----------
    page_labels
        Grades, pages by ranks; -1 after the last document of a short page.
    clicks
        1 where a document was clicked, of the same shape.
    n_grades
        Number of relevance grades.
    stop
        Which cascade to fit.
    tolerance
        The fit ends when an iteration raises the mean log-likelihood of a page by less.
    max_iterations
        The fit ends after as many iterations in any case.

    Examples
    --------
    >>> from cloister.data.clicks import click_model, sample_clicks
    >>> pages = np.random.default_rng(1).integers(0, 3, (20000, 10))
    >>> clicks = sample_clicks(click_model("navigational", 3), pages, seed=1)
    >>> fit = fit_cascade(pages, clicks, 3)
    >>> [round(chance, 1) for chance in fit.model.stop_probability]
    [0.2, 0.5, 0.9]
    """
    if tolerance < 0 or max_iterations < 1:
        raise SettingsError(
            "tolerance must be at least 0 and max_iterations at least 1", where="fit_cascade"
        )
    pages = checked_pages(page_labels, n_grades)
    clicked = checked_clicks(pages, clicks)
    if not len(pages):
        raise DataError("no pages to fit to", where="fit_cascade")
    stop_at_each = stop == "at_each_document"
    chances = np.full((2, n_grades), _START)
    trace: list[float] = []
    converged = False
    while True:
        counts, likelihood = _expected_counts(pages, clicked, chances, stop_at_each)
        converged = bool(trace) and likelihood - trace[-1] < tolerance * len(pages)
        trace.append(likelihood)
        if converged or len(trace) > max_iterations:
            break
        chances = _shares(counts, chances)
    known = counts[[_SEEN, _COULD_LEAVE]] > 0
    return FittedCascade(
        _model(chances, known, stop),
        likelihood,
        len(pages),
        len(trace) - 1,
        converged,
        tuple(trace),
    )


@kernel
def _expected_counts(
    pages: NDArray[np.int8],
    clicked: NDArray[np.bool_],
    chances: NDArray[np.float64],
    stop_at_each: bool,
) -> tuple[NDArray[np.float64], float]:
    """Return what each grade's documents are expected to have gone through, and the likelihood."""
    click, stop = chances
    width = pages.shape[1]
    examination, silence = np.ones(width), np.empty(width)
    counts = np.zeros((4, len(click)))
    total = 0.0
    for page in range(len(pages)):
        labels, clicks = pages[page], clicked[page]
        n, known, evidence = page_evidence(
            labels, clicks, click, stop, stop_at_each, examination, silence
        )
        total += evidence
        seen = 1.0  # chance that the document at this rank was seen, given the clicks
        for rank in range(n):
            grade = labels[rank]
            counts[_SEEN, grade] += seen
            if clicks[rank]:
                counts[_CLICKS, grade] += 1.0
            if rank == n - 1:
                break  # whether the user leaves at the end of the page makes no difference
            if clicks[rank] or stop_at_each:
                counts[_COULD_LEAVE, grade] += seen
            leaves = leave_chance(clicks[rank], stop[grade], stop_at_each)
            if rank >= known and leaves > 0.0:
                left = seen * leaves / silence[rank]
                counts[_LEFT, grade] += left
                seen -= left
    return counts, total


def _shares(counts: NDArray[np.float64], chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return new chances; a grade without any count keeps its old ones."""
    events, trials = counts[[_CLICKS, _LEFT]], counts[[_SEEN, _COULD_LEAVE]]
    shares = np.divide(events, trials, out=chances.copy(), where=trials > 0)
    return np.clip(shares, 0.0, 1.0)  # rounding can leave a share just above 1


def _model(chances: NDArray[np.float64], known: NDArray[np.bool_], stop: StopRule) -> CascadeModel:
    click, leave = (
        tuple(float(chance) if sure else None for chance, sure in zip(row, mask, strict=True))
        for row, mask in zip(chances, known, strict=True)
    )
    return CascadeModel(name="fitted", click_probability=click, stop_probability=leave, stop=stop)
