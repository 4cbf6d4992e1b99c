"""The posterior count: against a literal sum, and that reading a release uses it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.index.term_counts import count_terms
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.privacy.releases.noisy_tables import NoiseFamily, NoisyTable
from cloister.sketch.count_posterior import CountPosterior
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.noisy_release import NoisyReleaseSettings, make_release
from cloister.sketch.sketched_counts import SketchedCounts

MOST = 300


def literal_mean(table: NoisyTable, value: int, likely: float) -> float:
    """Sum over counts, one by one."""

    def noise(x: int) -> float:
        if table.family == "discrete-laplace":
            return math.exp(-abs(x) / table.width)
        return math.exp(-0.5 * (x / table.width) ** 2)

    counts = range(1, 2 * MOST)
    size = sum(c**-2.0 for c in counts)
    weights = [likely * c**-2.0 / size * noise(value - c) for c in counts]
    total = sum(weights) + (1 - likely) * noise(value)
    return sum(c * weight for c, weight in zip(counts, weights, strict=True)) / total


@settings(max_examples=20, deadline=None)
@given(
    family=st.sampled_from(["discrete-laplace", "discrete-gaussian"]),
    width=st.floats(0.2, 3.0),
    value=st.integers(-3, 60),
    likely=st.floats(1e-4, 0.98),
)
def test_means_are_what_a_literal_sum_says(
    family: NoiseFamily, width: float, value: int, likely: float
) -> None:
    table = NoisyTable(name="cells", family=family, width=width, n_moved=1)
    posterior = CountPosterior.of(table, most=MOST)
    one = np.array([likely])
    literal = literal_mean(table, value, likely)
    assert posterior.means(np.array([value]), one)[0] == pytest.approx(literal, rel=0.02, abs=1e-6)


def test_of_equal_cells_the_longer_document_comes_first_and_counts_are_shrunk() -> None:
    texts = ["cough " + "word " * 400, "cough " + "word " * 4] + ["word " * 100] * 60
    counts = count_terms(texts)
    chosen = NoisyReleaseSettings(n_rows=1, n_columns=50, cell_size=62, epsilon=8.0)
    key = HashKey(bytes(32))
    source = SketchedCounts(make_release(counts, key, chosen, words=SeededWords(3)), key)
    found = source.top("cough", k=62)
    assert found.documents[0, :2].tolist() == [0, 1]
    assert (np.diff(found.counts[0]) <= 0).all()
    assert found.counts[0, 0] < 1.0 < source.top("word", k=1).counts[0, 0]
