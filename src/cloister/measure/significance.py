"""Is the difference between two systems more than chance? The two-tailed paired t-test.

With m comparisons each p-value is multiplied by m (Bonferroni): then the chance that *any* of
them is called significant though nothing differs is at most alpha.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import DataError, SettingsError

__all__ = ["Comparison", "compare_with_baseline", "paired_differences", "paired_t_test"]

_ROUNDING: Final = 4 * float(np.finfo(np.float64).eps)  # what two orders of adding up may differ by


class Comparison(NamedTuple):
    """The outcome of one paired t-test.

    Parameters
    ----------
    mean_difference
        Mean of the system's values less the baseline's.
    t
        Student's statistic; infinite where all differences are equal and not 0.
    p_value
        Two-tailed, of this comparison alone.
    p_corrected
        Times the number of comparisons, at most 1 (Bonferroni).
    n
        Pairs used.
    n_dropped
        Pairs left out because one of the two values is NaN.
    significant
        Whether ``p_corrected`` is below alpha.
    """

    mean_difference: float
    t: float
    p_value: float
    p_corrected: float
    n: int
    n_dropped: int
    significant: bool


def paired_t_test(
    system: ArrayLike, baseline: ArrayLike, *, n_comparisons: int = 1, alpha: float = 0.05
) -> Comparison:
    """Compare two systems on the same queries (or the same folds and seeds).

    Parameters
    ----------
    system, baseline
        One value a query, in the same order; pairs with a NaN are left out.
    n_comparisons
        How many comparisons are made in all, for Bonferroni's correction.
    alpha
        The level of significance after correction.

    Examples
    --------
    >>> outcome = paired_t_test([0.5, 0.7, 0.9], [0.4, 0.5, 0.6])
    >>> round(outcome.mean_difference, 4), round(outcome.t, 4), round(outcome.p_value, 4)
    (0.2, 3.4641, 0.0742)
    """
    if n_comparisons < 1:
        raise SettingsError(f"at least 1 (given: {n_comparisons})", where="n_comparisons")
    if not 0.0 < alpha < 1.0:
        raise SettingsError(f"alpha lies in (0, 1) (given: {alpha})", where="alpha")
    differences, n_dropped = paired_differences(system, baseline)
    if len(differences) < 2:
        raise DataError(
            f"a t-test needs two pairs of values; there are {len(differences)}",
            where="paired_t_test",
            remedy="measure more queries, folds or seeds",
        )
    t, p_value = _student(differences)
    p_corrected = min(1.0, p_value * n_comparisons)
    return Comparison(
        mean_difference=float(differences.mean()),
        t=t,
        p_value=p_value,
        p_corrected=p_corrected,
        n=len(differences),
        n_dropped=n_dropped,
        significant=p_corrected < alpha,
    )


def compare_with_baseline(
    systems: Mapping[str, ArrayLike], baseline: ArrayLike, *, alpha: float = 0.05
) -> dict[str, Comparison]:
    """Compare each system with one baseline, corrected for their number.

    Examples
    --------
    >>> outcomes = compare_with_baseline({"a": [0.5, 0.7, 0.9], "b": [0.4, 0.5, 0.6]},
    ...                                  baseline=[0.4, 0.5, 0.6])
    >>> {name: round(outcome.p_corrected, 4) for name, outcome in outcomes.items()}
    {'a': 0.1484, 'b': 1.0}
    """
    return {
        name: paired_t_test(values, baseline, n_comparisons=len(systems), alpha=alpha)
        for name, values in systems.items()
    }


def paired_differences(system: ArrayLike, baseline: ArrayLike) -> tuple[NDArray[np.float64], int]:
    """Return system less baseline without pairs that hold a NaN, and how many those were.

    Differences that rounding explains are set to 0: two equal systems must not differ by the
    order in which they added up.

    Examples
    --------
    >>> paired_differences([1.0, 0.1 + 0.2, float("nan")], [0.5, 0.3, 0.5])
    (array([0.5, 0. ]), 1)
    """
    a, b = np.asarray(system, np.float64), np.asarray(baseline, np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise DataError(
            f"pairs need two lists of one length, not the shapes {a.shape} and {b.shape}",
            where="paired values",
            remedy='use nothing_relevant="skip", which keeps a place for every query',
        )
    if np.isinf(a).any() or np.isinf(b).any():
        raise DataError("a value is infinite", where="paired values")
    kept = ~(np.isnan(a) | np.isnan(b))
    a, b = a[kept], b[kept]
    differences = a - b
    differences[np.abs(differences) <= _ROUNDING * np.maximum(np.abs(a), np.abs(b))] = 0.0
    return differences, int(len(kept) - kept.sum())


def _student(differences: NDArray[np.float64]) -> tuple[float, float]:
    """Return t of the mean difference against 0, and its two-tailed p-value."""
    from scipy.special import stdtr  # Student's distribution, without the 1.2 s of scipy.stats

    n = len(differences)
    mean = float(differences.mean())
    error = float(differences.std(ddof=1)) / n**0.5
    if np.ptp(differences) == 0.0 or error == 0.0:  # no variance: equal, or surely different
        return (0.0, 1.0) if mean == 0.0 else (float(np.copysign(np.inf, mean)), 0.0)
    t = mean / error
    return t, 2.0 * float(stdtr(n - 1, -abs(t)))
