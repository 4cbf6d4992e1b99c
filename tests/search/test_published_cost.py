from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cloister.core.ids import DocId
from cloister.data.worlds.clinic import ClinicSettings
from cloister.index.term_counts import count_terms
from cloister.lab.espresso.mean_ndcg import mean_ndcg
from cloister.lab.espresso.spread_collection import SpreadCollection, spread_beir, spread_clinic
from cloister.lab.espresso.statistics_cost import (
    StatisticsCost,
    StatisticsCostSettings,
    statistics_cost,
)

FEW = StatisticsCostSettings(access=(100,), thresholds=(2, 30), epsilons=(2.0,))


def by_form(rows: list[StatisticsCost], made: str = "together") -> dict[str, StatisticsCost]:
    return {
        f"{row.form} {row.parameter:g}": row
        for row in rows
        if row.made in (made, "-") or row.form == "exact"
    }


def small() -> SpreadCollection:
    """Documents of words that get rarer; a query asks for a common and a rarer one."""
    rng = np.random.default_rng(4)
    words = np.array([f"word{i}" for i in range(80)])
    chances = 1 / (1 + np.arange(80))
    texts = [
        " ".join(rng.choice(words, rng.integers(5, 30), p=chances / chances.sum()))
        for _ in range(300)
    ]
    return SpreadCollection(
        count_terms(texts),
        [DocId(f"d{i:03}") for i in range(300)],
        np.arange(300) // 3,
        np.arange(300) // 3 % 4,
        [[f"word{i}", f"word{i + 30}"] for i in range(40)],
        [{i: 1 + i % 2} for i in range(40)],
    )


def test_exact_tables_cost_nothing_to_who_may_read_all() -> None:
    found = by_form(statistics_cost(small(), FEW))
    assert found["user 0"].ndcg_5 == found["user 0"].ndcg_10 == 1
    assert found["exact 0"].ndcg_5 == found["exact 0"].ndcg_10 == 1
    assert found["exact 0"].judged_10 == found["user 0"].judged_10 > 0
    assert found["exact 0"].listed == 1


def test_what_is_left_out_costs_agreement() -> None:
    found = by_form(statistics_cost(small(), FEW, [f"word{i}" for i in range(80)]))
    assert found["threshold 2"].ndcg_10 >= found["threshold 30"].ndcg_10
    assert found["threshold 30"].ndcg_10 < 1
    assert found["threshold 30"].listed < found["threshold 2"].listed
    assert found["noisy 2"].ndcg_10 < 1
    assert found["nothing 0"].listed == 0
    assert found["nothing 0"].ndcg_10 < found["threshold 2"].ndcg_10


def test_the_same_seed_gives_the_same_figures() -> None:
    first, again = (statistics_cost(small(), FEW) for _ in range(2))
    assert first == again


def test_mean_ndcg_is_the_literal_formula() -> None:
    rankings, grades = [[3, 1, 2], [5], [9]], [{1: 2, 7: 1}, {5: 1}, {}]
    first = (3 / math.log2(3)) / (3 + 1 / math.log2(3))
    assert mean_ndcg(rankings, grades, 3) == pytest.approx((first + 1) / 2)
    assert math.isnan(mean_ndcg([[1]], [{}], 3))


def test_a_clinic_world_has_one_document_a_pod_and_no_judges() -> None:
    world = spread_clinic(ClinicSettings(servers=2, pods=20, queries=4, document_bytes=0))
    assert len(world.contents()) == 2
    assert len(set(world.pods.tolist())) == 40
    view = world.view(25, np.random.default_rng(1))
    assert len(view.documents) == 10
    assert not any(world.judged)


def test_nfcorpus_ranks_as_well_with_a_small_threshold_as_without(
    real_data: Callable[[str], Path],
) -> None:
    collection = spread_beir(real_data("text/nfcorpus"), n_servers=5, documents_per_pod=1)
    few = StatisticsCostSettings(access=(100,), thresholds=(5,), epsilons=())
    found = by_form(statistics_cost(collection, few))
    assert found["user 0"].judged_10 == pytest.approx(0.311, abs=0.003)  # plain BM25, as known
    assert abs(found["threshold 5"].judged_10 - found["user 0"].judged_10) < 0.005
    assert found["threshold 5"].ndcg_10 > 0.97
