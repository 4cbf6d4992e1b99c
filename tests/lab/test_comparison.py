from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cloister.core.errors import SettingsError
from cloister.lab.simulation.comparison import compare_systems
from cloister.lab.simulation.run_files import KeptRun
from cloister.lab.simulation.settings import SimulationSettings
from cloister.lab.simulation.summary import run_rows, system_summaries
from cloister.lab.simulation.systems import by_panel_and_system

FIGURE = "offline_ndcg@10"


def kept(value: float | None, system: str = "", **fields: Any) -> KeptRun:
    settings = SimulationSettings(data="somewhere", **fields)
    summary = {FIGURE: value, "online_ndcg@10": value}
    return KeptRun(Path(settings.digest()), settings, system, 0, summary, np.empty(0), {})


def some(system: str, values: list[float | None], **fields: Any) -> list[KeptRun]:
    return [kept(value, system, seed=seed, **fields) for seed, value in enumerate(values)]


A = [0.50, 0.52, 0.47, 0.55, 0.51, 0.49]
B = [0.53, 0.56, 0.48, 0.56, 0.55, 0.52]
C = [0.50, 0.51, 0.48, 0.54, 0.52, 0.49]


def test_p_values_are_those_of_scipy_times_the_comparisons() -> None:
    runs = some("a", A) + some("b", B) + some("c", C)
    found = {one.system: one for one in compare_systems(runs, figures=[FIGURE])}
    assert set(found) == {"b", "c"}
    for name, values in (("b", B), ("c", C)):
        wanted = stats.ttest_rel(values, A).pvalue
        one = found[name]
        assert one.baseline == "a"
        assert one.n_pairs == 6
        assert one.difference == pytest.approx(np.mean(values) - np.mean(A))
        assert one.p_value == pytest.approx(wanted)
        assert one.p_corrected == pytest.approx(min(1.0, 2 * wanted))
        assert one.significant == (min(1.0, 2 * wanted) < 0.05)
        assert one.low is not None
        assert one.high is not None
        assert one.low <= one.difference <= one.high


def test_pairs_are_matched_by_fold_and_seed_not_by_order() -> None:
    runs = some("a", A) + list(reversed(some("b", [value + 0.01 for value in A])))
    runs += [kept(0.9, "b", seed=99), kept(0.1, "a", seed=98, fold=2)]
    (one,) = compare_systems(runs, figures=[FIGURE])
    assert one.n_pairs == 6
    assert one.difference == pytest.approx(0.01)
    assert one.p_value == pytest.approx(0, abs=1e-12)


def test_each_panel_is_compared_and_counted_in_the_correction() -> None:
    runs = [
        run
        for model in ("perfect", "informational", "navigational")
        for run in some("a", A, click_model=model) + some("b", B, click_model=model)
    ]
    found = compare_systems(runs)
    assert len(found) == 6
    assert {(one.panel, one.figure) for one in found} == {
        (model, figure)
        for model in ("perfect", "informational", "navigational")
        for figure in (FIGURE, "online_ndcg@10")
    }
    wanted = stats.ttest_rel(B, A).pvalue
    assert all(one.p_corrected == pytest.approx(3 * wanted) for one in found)


def test_few_pairs_get_no_interval_and_one_no_p_value() -> None:
    (three,) = compare_systems(some("a", A[:3]) + some("b", B[:3]), figures=[FIGURE])
    assert three.p_value is not None
    assert three.low is None
    (one,) = compare_systems(some("a", A[:1]) + some("b", B[:1]), figures=[FIGURE])
    assert (one.n_pairs, one.p_value, one.low, one.significant) == (1, None, None, False)
    assert one.difference == pytest.approx(0.03)
    assert compare_systems(some("a", A[:1]) + some("b", B[1:3]), figures=[FIGURE])
    assert not compare_systems([*some("a", A[:1]), kept(0.5, "b", seed=7)])


def test_a_figure_that_is_missing_drops_its_pair() -> None:
    (one,) = compare_systems(some("a", [*A, None]) + some("b", [*B, 0.9]), figures=[FIGURE])
    assert one.n_pairs == 6
    assert not compare_systems(some("a", [None, None]) + some("b", [0.1, 0.2]))


def test_a_baseline_can_be_named() -> None:
    runs = some("a", A) + some("b", B)
    (one,) = compare_systems(runs, baseline="b", figures=[FIGURE])
    assert (one.system, one.baseline) == ("a", "b")
    assert one.difference < 0
    with pytest.raises(SettingsError, match="no system 'x'; there are: a; b"):
        compare_systems(runs, baseline="x")


def test_the_same_runs_give_the_same_intervals() -> None:
    runs = some("a", A) + some("b", B)
    assert compare_systems(runs) == compare_systems(runs)


def test_systems_are_named_by_what_tells_them_apart() -> None:
    def names(*runs: KeptRun) -> list[str]:
        (systems,) = by_panel_and_system(runs).values()
        return list(systems)

    assert names(kept(0, seed=1), kept(0, seed=2)) == ["fpdgd"]
    assert names(kept(0, method="pdgd"), kept(0, method="es")) == ["pdgd", "es"]
    assert names(kept(0, learning_rate=0.1), kept(0)) == [
        "learning rate 0.1", "learning rate unset",
    ]  # fmt: skip
    assert names(kept(0, method="pdgd", clients=3), kept(0, clients=5)) == [
        "pdgd, clients 3", "fpdgd, clients 5",
    ]  # fmt: skip
    assert names(kept(0, "a", clients=3), kept(0, "b", clients=5)) == ["a", "b"]
    assert names(kept(0, "a", clients=3), kept(0, "a", clients=5), kept(0, "b")) == [
        "a, clients 3", "a, clients 5", "b",
    ]  # fmt: skip


def test_summaries_are_means_and_deviations() -> None:
    runs = some("a", A) + some("b", B[:1])
    one, two = system_summaries(runs, figures=[FIGURE])
    assert (one.system, one.n_runs) == ("a", 6)
    assert one.means[FIGURE] == pytest.approx(np.mean(A))
    assert one.deviations[FIGURE] == pytest.approx(np.std(A, ddof=1))
    assert np.isnan(two.deviations[FIGURE])


def test_a_row_has_what_varies_and_every_figure() -> None:
    first, second = kept(0.1, intents=(1, 2)), kept(0.2, intents=())
    second.summary["epsilon"] = 3.0
    rows = run_rows([first, second])
    assert rows[0] == {
        "run": first.path.stem, "system": "", "intents": "1,2", FIGURE: 0.1,
        "online_ndcg@10": 0.1, "epsilon": None,
    }  # fmt: skip
    assert rows[1]["epsilon"] == 3.0
