"""Clicks drawn from the click models: pages a second, and the sampler against exact chances."""

from __future__ import annotations

from typing import Final

import numba
import numpy as np

from cloister.core.random import stream
from cloister.data.clicks import click_model, click_probabilities, sample_clicks
from cloister.lab.bench import Advance, Figures, timed

__all__ = ["run"]

N_PAGES: Final = 1_000_000
MODELS: Final = ("perfect", "navigational", "informational", "pbm-1")


def run(advance: Advance) -> Figures:
    """Draw clicks on a million pages of ten documents, five grades."""
    shares = (0.52, 0.32, 0.13, 0.02, 0.01)
    pages = stream(1, "bench clicks").choice(5, (N_PAGES, 10), p=shares).astype(np.int8)
    figures: Figures = {}
    largest = 0.0
    threads = numba.get_num_threads()
    for done, name in enumerate(MODELS, 1):
        model = click_model(name, 5)
        sample_clicks(model, pages[:10], seed=1)
        numba.set_num_threads(1)
        try:
            with timed() as timing:
                clicks = sample_clicks(model, pages, seed=1)
        finally:
            numba.set_num_threads(threads)
        figures[f"{name}_pages_per_core_s"] = N_PAGES / timing.cpu_s
        chances = click_probabilities(model, pages).mean(axis=0)
        largest = max(largest, float(np.abs(clicks.mean(axis=0) - chances).max()))
        advance(done, len(MODELS))
    return figures | {"largest_difference_of_click_rate_from_exact": largest}
