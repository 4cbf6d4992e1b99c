"""What share of a gap between two systems a third one closes, with bootstrap intervals."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.random import stream
from cloister.lab.reproduce.claim import Estimate
from cloister.lab.reproduce.evidence import Sample, paired
from cloister.measure.bootstrap import N_RESAMPLES

__all__ = ["share_of_gap"]

Floats = NDArray[np.float64]

FEWEST: Final = 5  # repetitions for an interval


def share_of_gap(
    floor: Sample, system: Sample, ceiling: Sample, *, names: tuple[str, str, str], purpose: str
) -> Estimate:
    """Return (system - floor) / (ceiling - floor), of means over what all three have.

    Where the gap's own interval (Student's) reaches to 0 or below there is nothing to divide by:
    then there is no share, and the note says how large the gap is.

    Parameters
    ----------
    floor, system, ceiling
        One number for each repetition, or for each query.
    names
        What they are called.
    purpose
        Names the random stream of the bootstrap.

    Examples
    --------
    >>> repeats = [("", 1, seed) for seed in range(6)]
    >>> low = {r: 0.5 + 0.01 * i for i, r in enumerate(repeats)}
    >>> mid = {r: value + 0.1 for r, value in low.items()}
    >>> high = {r: value + 0.125 for r, value in low.items()}
    >>> estimate = share_of_gap(low, mid, high, names=("one", "ours", "each"), purpose="example")
    >>> round(estimate.value, 3), round(estimate.low, 3), round(estimate.high, 3)
    (0.8, 0.8, 0.8)
    >>> share_of_gap(high, mid, low, names=("one", "ours", "each"), purpose="example").note
    'there is no gap to close: each less one is -0.1250 (-0.1250 to -0.1250)'
    """
    both = sorted(floor.keys() & system.keys() & ceiling.keys())
    if len(both) < FEWEST:
        return Estimate(None, note=f"fewer than {FEWEST} repetitions", n=len(both))
    lows, values, highs = (
        np.array([sample[key] for key in both]) for sample in (floor, system, ceiling)
    )
    means = dict(zip(names, (float(a.mean()) for a in (lows, values, highs)), strict=True))
    gap = paired(ceiling, floor, (names[2], names[0]))
    told = f"{gap.value or 0.0:.4f} ({gap.low or 0.0:.4f} to {gap.high or 0.0:.4f})"
    if gap.low is None or gap.low <= 0:
        note = f"there is no gap to close: {names[2]} less {names[0]} is {told}"
        return Estimate(None, n=len(both), means=means, note=note)
    shares = _resampled(values - lows, highs - lows, stream(0, "share of gap", purpose))
    low, high = np.percentile(shares, [2.5, 97.5])
    value = float((values - lows).mean() / (highs - lows).mean())
    return Estimate(value, float(low), float(high), len(both), means, f"gap {told}")


def _resampled(closed: Floats, gap: Floats, rng: np.random.Generator) -> Floats:
    """Return the share in each of many resamples of the repetitions."""
    chosen = rng.integers(len(gap), size=(N_RESAMPLES, len(gap)))
    wholes = gap[chosen].mean(axis=1)
    shares = closed[chosen].mean(axis=1)[wholes > 0] / wholes[wholes > 0]
    return np.asarray(shares, np.float64)
