"""The planner keeps to its budget, and its predictions are what comes out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.index.term_counts import count_terms
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.noisy_release import make_release
from cloister.sketch.release_noise import planned_release
from cloister.sketch.release_planner import PlanFacts, dense_bytes, plan_release


@settings(max_examples=25, deadline=None)
@given(
    epsilon=st.sampled_from([1.0, 8.0]),
    documents=st.integers(1, 10**6),
    memory=st.integers(10**5, 10**9),
    k=st.integers(1, 500),
)
def test_a_plan_fits_its_memory_or_says_that_none_does(
    epsilon: float, documents: int, memory: int, k: int
) -> None:
    facts = PlanFacts(epsilon=epsilon, documents=documents, memory_bytes=memory, k=k)
    try:
        plan = plan_release(facts)
    except SettingsError:
        assert memory < 12 * (2 * k + 1) + 4 * documents + 0.02 * memory + 2000
        return
    assert plan.size_bytes <= memory
    assert min(2 * k, documents) <= plan.settings.cell_size <= documents
    assert plan.settings.family == "discrete-laplace"


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
def test_a_release_has_one_row_where_noise_matters(epsilon: float) -> None:
    facts = PlanFacts(epsilon=epsilon, documents=17_896, mean_length=200, memory_bytes=54_000_000)
    settings = plan_release(facts).settings
    assert (settings.n_rows, settings.n_columns, settings.cell_size) == (1, 14_821, 300)


@pytest.mark.parametrize(("epsilon", "n_rows"), [(8, 1), (16, 1), (17, 3), (24, 3), (100, 3)])
def test_three_rows_are_taken_where_their_noise_is_small_beside_collisions(
    epsilon: float, n_rows: int
) -> None:
    facts = PlanFacts(epsilon=epsilon, documents=36_400, memory_bytes=54_600_000)
    plan = plan_release(facts)
    assert plan.settings.n_rows == n_rows
    three = plan.settings.model_copy(update={"n_rows": 3, "family": "narrowest"})
    noise = planned_release(three, n_documents=facts.documents).tables[0].sigma
    assert (noise <= 0.15 * plan.collision_error) == (n_rows == 3)


def test_a_release_has_the_size_and_noise_that_were_planned() -> None:
    facts = PlanFacts(epsilon=2.0, documents=40, mean_length=3, memory_bytes=200_000, k=4)
    plan = plan_release(facts)
    counts = count_terms(["cough fever rash"] * 40)
    release = make_release(counts, HashKey(bytes(32)), plan.settings, words=SeededWords(1))
    assert release.size_bytes == plan.size_bytes
    assert release.cells.sigma == plan.sigma
    assert release.epsilon() <= 2.0


def test_more_epsilon_or_memory_means_less_error() -> None:
    memory = dense_bytes(36_400) // 8
    errors = [
        plan_release(PlanFacts(epsilon=e, documents=36_400, memory_bytes=memory)).error
        for e in (1.0, 2.0, 4.0, 8.0)
    ]
    assert np.all(np.diff(errors) < 0)
    half = plan_release(PlanFacts(epsilon=8.0, documents=36_400, memory_bytes=memory // 2)).error
    assert half > errors[-1]


def test_too_little_memory_is_refused_with_what_would_do() -> None:
    with pytest.raises(SettingsError, match="at least"):
        plan_release(PlanFacts(epsilon=1.0, documents=10**6, memory_bytes=10_000))
