"""Is one system better than another? Paired over the folds and seeds that both have run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cloister.core.random import stream
from cloister.lab.simulation.run_files import KeptRun
from cloister.lab.simulation.systems import by_panel_and_system, find_baseline
from cloister.measure.bootstrap import mean_difference_interval
from cloister.measure.significance import paired_t_test

__all__ = ["COMPARED", "SystemComparison", "compare_systems"]

FEWEST_PAIRS: Final = 5  # for an interval: three pairs have ten distinct resamples, five have 126
COMPARED: Final = ("offline_ndcg@10", "online_ndcg@10")  # at the end; discounted over rounds


class SystemComparison(NamedTuple):
    """A system against the baseline in one panel.

    Parameters
    ----------
    figure
        Which figure of the summaries.
    panel, system, baseline
        What is compared.
    n_pairs
        Folds and seeds that both have run.
    difference
        Mean of the system's values less the baseline's.
    low, high
        Its bootstrap interval at 95 %; None with fewer than five pairs, of which it would be far
        too narrow.
    p_value, p_corrected
        Of the two-tailed paired t-test, and times the number of comparisons of the same figure
        (Bonferroni); None with fewer than two pairs.
    significant
        Whether ``p_corrected`` is below 0.05.
    """

    figure: str
    panel: str
    system: str
    baseline: str
    n_pairs: int
    difference: float
    low: float | None
    high: float | None
    p_value: float | None
    p_corrected: float | None
    significant: bool


class _Pairs(NamedTuple):
    panel: str
    system: str
    system_runs: list[KeptRun]
    baseline_runs: list[KeptRun]


def compare_systems(
    runs: Sequence[KeptRun],
    *,
    baseline: str = "",
    panel: str = "click_model",
    figures: Sequence[str] = COMPARED,
) -> list[SystemComparison]:
    """Compare every system with a baseline, in each panel, on each figure.

    Runs of the same fold and seed make a pair. Each p-value is corrected for all comparisons of
    its figure, over systems and panels. Folds share training queries, so pairs of several folds
    are not independent, and true p-values are somewhat larger.

    Parameters
    ----------
    runs
        Of all systems.
    baseline
        A system's name; the first system unless given.
    panel
        The setting within whose values systems are compared.
    figures
        Names of figures in the runs' summaries.
    """
    panels = by_panel_and_system(runs, panel)
    baseline = find_baseline(panels, baseline)
    pairs = [
        _paired(value, name, systems[name], systems[baseline])
        for value, systems in panels.items()
        if baseline in systems
        for name in systems
        if name != baseline
    ]
    compared = [pair for pair in pairs if pair.system_runs]
    rows = (
        _compare(figure, pair, baseline, n_comparisons=len(compared))
        for figure in figures
        for pair in compared
    )
    return [row for row in rows if row is not None]


def _paired(
    panel: str, name: str, system: Sequence[KeptRun], baseline: Sequence[KeptRun]
) -> _Pairs:
    """Find the folds and seeds that both have."""
    of_system = {(run.settings.fold, run.settings.seed): run for run in system}
    of_baseline = {(run.settings.fold, run.settings.seed): run for run in baseline}
    both = sorted(of_system.keys() & of_baseline.keys())
    return _Pairs(panel, name, [of_system[key] for key in both], [of_baseline[key] for key in both])


def _compare(
    figure: str, pairs: _Pairs, baseline: str, *, n_comparisons: int
) -> SystemComparison | None:
    """Compare one system on one figure; None where no pair has it."""
    told = [
        (run.summary.get(figure), other.summary.get(figure))
        for run, other in zip(pairs.system_runs, pairs.baseline_runs, strict=True)
    ]
    kept = [(value, base) for value, base in told if value is not None and base is not None]
    if not kept:
        return None
    values, bases = zip(*kept, strict=True)
    names = (figure, pairs.panel, pairs.system, baseline, len(kept))
    if len(kept) < 2:
        return SystemComparison(*names, values[0] - bases[0], None, None, None, None, False)
    test = paired_t_test(values, bases, n_comparisons=n_comparisons)
    low, high = None, None
    if len(kept) >= FEWEST_PAIRS:
        rng = stream(0, "comparison", figure, pairs.panel, pairs.system, baseline)
        interval = mean_difference_interval(values, bases, rng=rng)
        low, high = interval.low, interval.high
    return SystemComparison(
        *names, test.mean_difference, low, high, test.p_value, test.p_corrected, test.significant
    )
