"""One repetition end to end, on a tiny clinic world."""

from __future__ import annotations

import numpy as np
import pytest

from cloister.lab.silos.experiment import (
    MEASURES,
    SYSTEMS,
    Figures,
    compare_systems,
    measure_silos,
)
from cloister.lab.silos.rows import make_rows
from cloister.lab.silos.settings import SilosSettings
from cloister.lab.silos.training import n_passes, narrowed
from cloister.measure.named import evaluate

TINY = "world:clinic?servers=4&organisations=4&pods=40&queries=80&document_bytes=0&staff=8"
PARTIES = tuple(f"party-{letter}" for letter in "abcd")


def tiny(**fields: object) -> SilosSettings:
    given = {"counts": "exact", "epochs": 3, "n_others": 10, **fields}
    return SilosSettings(collection="clinic", data=TINY, **given)


@pytest.fixture(scope="module")
def figures() -> Figures:
    return measure_silos(tiny())


def test_every_system_has_every_figure_of_every_party(figures: Figures) -> None:
    assert set(figures) == set(SYSTEMS)
    for system in SYSTEMS:
        for name in MEASURES:
            for kind in (name, f"own_{name}"):
                each = [figures[system][f"{kind} {party}"] for party in PARTIES]
                assert figures[system][kind] == pytest.approx(np.mean(each))
                assert all(0.0 < value <= 1.0 for value in each)


def test_a_federated_ranker_is_the_same_for_all_parties(figures: Figures) -> None:
    for system in ("global", "cs-f-ltr", "cs-f-ltr-tuned"):
        assert len({figures[system][f"ndcg@10 {party}"] for party in PARTIES}) == 1


def test_a_party_that_keeps_its_own_ranker_has_the_figures_of_local(figures: Figures) -> None:
    alone = measure_silos(tiny(guard=1e9))
    for party in PARTIES:
        assert alone["mixture"][f"share {party}"] == 0.0
        for name in MEASURES:
            assert alone["mixture"][f"own_{name} {party}"] == alone["local"][f"own_{name} {party}"]
    assert alone["local"] == figures["local"]


def test_one_seed_gives_one_result_and_another_gives_another(figures: Figures) -> None:
    make_rows.cache_clear()
    assert measure_silos(tiny()) == figures
    assert measure_silos(tiny(seed=2))["local"] != figures["local"]


def test_the_trained_rankers_beat_chance_by_far(figures: Figures) -> None:
    rows = make_rows(narrowed(tiny()))
    rng = np.random.default_rng(1)
    tests = [own["test"] for own in rows.own.values()]
    chance = np.mean(
        [np.nanmean(evaluate(rng.random(t.n_rows), t, ["nDCG@10"])["nDCG@10"]) for t in tests]
    )
    for system in SYSTEMS:
        assert figures[system]["own_ndcg@10"] > chance + 0.1


def test_every_run_takes_as_many_steps() -> None:
    settings = tiny()
    rows = make_rows(narrowed(settings))
    own = {party: one["training"].n_rows for party, one in rows.own.items()}
    augmented = {party: one.n_rows for party, one in rows.augmented["pooled"].items()}
    everything = sum(own.values()) + sum(augmented.values())
    assert n_passes(everything, rows, settings) == settings.epochs
    for n_rows in (*own.values(), sum(own.values())):
        steps = n_passes(n_rows, rows, settings) * n_rows
        assert abs(steps - settings.epochs * everything) <= n_rows / 2


def test_a_ranker_without_an_opinion_gets_what_chance_gives() -> None:
    data = make_rows(narrowed(tiny())).own["party-a"]["test"]  # type: ignore[index]
    equal = np.nanmean(evaluate(np.zeros(data.n_rows), data, ["nDCG@10"])["nDCG@10"])
    rng = np.random.default_rng(1)
    drawn = [
        np.nanmean(evaluate(rng.random(data.n_rows), data, ["nDCG@10"])["nDCG@10"])
        for _ in range(50)
    ]
    assert abs(equal - np.mean(drawn)) < 6 * np.std(drawn)


def test_rankers_share_the_rows_of_a_repetition() -> None:
    assert narrowed(tiny(ranker="pairwise")) == narrowed(tiny(ranker="pointwise", guard=2.0))


@pytest.mark.parametrize("ranker", ["pairwise", "forest"])
def test_other_rankers_run_too(ranker: str) -> None:
    found = measure_silos(tiny(ranker=ranker, n_trees=10))
    assert all(found[system]["own_ndcg@10"] > 0.3 for system in SYSTEMS)


def test_pooled_statistics_leave_local_and_augmented_runs_the_same_features() -> None:
    rows = make_rows(narrowed(tiny(local_statistics="pooled")))
    for party, own in rows.own.items():
        assert np.array_equal(own["test"].features, rows.pooled[party]["test"].features)
    apart = make_rows(narrowed(tiny()))
    party = next(iter(apart.own))
    assert not np.array_equal(
        apart.own[party]["test"].features, apart.pooled[party]["test"].features
    )
    assert np.array_equal(apart.own[party]["test"].labels, apart.pooled[party]["test"].labels)


def test_augmented_rows_are_of_other_parties_documents_only() -> None:
    rows = make_rows(narrowed(tiny()))
    for data in (*rows.augmented["pooled"].values(), *rows.augmented["own"].values()):
        assert data.n_queries > 0
        assert set(np.unique(data.labels)) <= {0, 1, 2}
        assert np.isfinite(data.features).all()


def test_a_system_is_compared_over_repetitions_with_correction() -> None:
    rng = np.random.default_rng(1)
    made: list[Figures] = []
    for _ in range(10):
        base = {"x": float(rng.random()), "y": float(rng.random())}
        better = {"x": base["x"] + 0.1 + 0.01 * float(rng.random()), "y": base["y"]}
        made.append({"local": base, "cs-f-ltr": better})
    found = compare_systems(made, ["x", "y"])
    assert found["x"].significant
    assert found["x"].p_corrected == pytest.approx(2 * found["x"].p_value)
    assert not found["y"].significant


def test_a_noisy_release_serves_in_the_place_of_exact_counts() -> None:
    pytest.importorskip("cloister.sketch.sketched_counts")
    settings = tiny(counts="release", epsilon=8.0)
    rows = make_rows(narrowed(settings))
    assert rows.releases is not None
    assert all(one.simulated for party in rows.releases.values() for one in party)
    found = measure_silos(settings)
    assert found["cs-f-ltr"]["own_ndcg@10"] > 0.3
