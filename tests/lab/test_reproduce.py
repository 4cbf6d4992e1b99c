from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cloister.core.errors import SettingsError
from cloister.lab.reproduce import figures_of
from cloister.lab.reproduce.claim import Above, Below, Claim, Estimate, Near, Within
from cloister.lab.reproduce.collection import Collection, Collections, data_folder
from cloister.lab.reproduce.comparing import alone, between_clicks, larger_gap, versus
from cloister.lab.reproduce.evidence import Evidence, gap_difference, paired, student_interval
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.foltr.document_preference import best_of
from cloister.lab.reproduce.gap import share_of_gap
from cloister.lab.reproduce.quantity import (
    NDCG,
    ONLINE_LESS_OFFLINE,
    Outcome,
    Quantity,
    gain,
    late,
    trend,
    unsteadiness,
    until,
)
from cloister.lab.reproduce.report import write_curves, write_report
from cloister.lab.reproduce.rows import counted, rows_of
from cloister.lab.reproduce.running import evidence_of, run_missing
from cloister.lab.simulation.experiment import Experiment
from cloister.lab.simulation.grid import planned_runs
from cloister.lab.simulation.settings import SimulationSettings

WORLD = "world:features?queries=20&documents=10&features=5"
SIZES = (Size("quick"), Size("full"))
FINITE = st.floats(-10, 10)


@dataclass
class MadeRun:
    """What a run leaves behind, without a run."""

    settings: SimulationSettings
    system: str
    summary: dict[str, Any]
    by_query: np.ndarray
    made: dict[str, np.ndarray]

    def curves(self) -> dict[str, np.ndarray]:
        return self.made


def made_outcome(
    values: float = 0.5, *, system: str = "", rounds: int = 50, **fields: Any
) -> Outcome:
    settings = SimulationSettings(**({"data": WORLD, "rounds": rounds} | fields))
    level = np.full(rounds, values) + 0.001 * np.arange(rounds)
    curves = {"interactions": np.arange(1.0, rounds + 1) * 4}
    curves |= {f"{side}_{m}": level for side in ("online", "offline") for m in ("ndcg", "max_rr")}
    figures = ["offline_ndcg@10", "offline_max_rr", "online_ndcg@10"]
    figures += ["epsilon", "epsilon_of_server_if_sums_are_secure"]  # where noise was added
    summary = dict.fromkeys(figures, values)
    return Outcome(MadeRun(settings, system, summary, np.array([values, np.nan]), curves))  # type: ignore[arg-type]


# --- verdicts -------------------------------------------------------------------------------


@given(FINITE, FINITE, FINITE)
def test_a_claim_of_less_is_the_mirror_of_a_claim_of_more(
    one: float, other: float, threshold: float
) -> None:
    low, high = sorted((one, other))
    more = Above(threshold).verdict(Estimate((low + high) / 2, low, high))
    less = Below(-threshold).verdict(Estimate(-(low + high) / 2, -high, -low))
    assert more == less


@given(FINITE, FINITE, st.floats(0.001, 5))
def test_no_difference_is_decided_only_by_an_interval_on_one_side_of_the_margin(
    one: float, other: float, margin: float
) -> None:
    low, high = sorted((one, other))
    inside = [abs(x) < margin for x in np.linspace(low, high, 101)]
    verdict = Near(margin).verdict(Estimate(0.0, low, high))
    if verdict == "agrees":
        assert all(inside)
    elif verdict == "differs":
        assert not any(inside)
    else:
        assert abs(low) >= margin or abs(high) >= margin


@pytest.mark.parametrize("rule", [Above(), Below(), Near(0.1)])
def test_without_an_interval_nothing_is_decided(rule: Above | Below | Near) -> None:
    assert rule.verdict(Estimate(5.0)) == "undecided"
    assert rule.verdict(Estimate(None)) == "undecided"


def test_a_number_agrees_within_its_tolerance_and_not_beyond() -> None:
    verdicts = [Within(0.7, 0.01).verdict(Estimate(value)) for value in (0.7099, 0.6901, 0.711)]
    assert verdicts == ["agrees", "agrees", "differs"]
    assert Within(0.7, 0.01).verdict(Estimate(None)) == "undecided"


# --- estimates ------------------------------------------------------------------------------


@given(st.lists(FINITE, min_size=2, max_size=12))
def test_the_interval_of_a_mean_is_students(values: list[float]) -> None:
    low, high = student_interval(values)
    assert low is not None
    assert high is not None
    if np.std(values) < 1e-9:
        return
    wanted = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert low == pytest.approx(wanted.low, rel=1e-6, abs=1e-9)
    assert high == pytest.approx(wanted.high, rel=1e-6, abs=1e-9)


def test_one_value_has_no_interval() -> None:
    assert student_interval([1.0]) == (None, None)


def test_pairs_are_runs_of_the_same_data_fold_and_seed() -> None:
    system = {("a", 1, 1): 3.0, ("a", 1, 2): 5.0, ("b", 1, 1): 100.0, ("a", 2, 1): float("nan")}
    baseline = {("a", 1, 1): 1.0, ("a", 1, 2): 2.0, ("b", 2, 1): -100.0, ("a", 2, 1): 0.0}
    estimate = paired(system, baseline, ("x", "y"))
    assert (estimate.value, estimate.n) == (2.5, 2)
    assert estimate.means == {"x": 4.0, "y": 1.5}
    assert paired({}, baseline, ("x", "y")).value is None


def test_gaps_on_two_collections_are_compared_by_welch() -> None:
    rng = np.random.default_rng(4)
    one, other = rng.normal(0.3, 0.1, 9), rng.normal(0.1, 0.02, 5)
    zeros = {("", 1, i): 0.0 for i in range(9)}
    samples = [{("", 1, i): float(v) for i, v in enumerate(values)} for values in (one, other)]
    found = gap_difference((samples[0], zeros), (samples[1], zeros), ("a", "b"))
    wanted = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    assert found.value == pytest.approx(one.mean() - other.mean())
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_the_share_of_a_gap_lies_where_resamples_put_it() -> None:
    rng = np.random.default_rng(7)
    n = 60
    keys = [("", 1, i) for i in range(n)]
    floor = rng.normal(0.4, 0.05, n)
    gap = rng.normal(0.2, 0.05, n)
    closed = 0.75 * gap + rng.normal(0, 0.05, n)
    samples = [
        dict(zip(keys, values.tolist(), strict=True))
        for values in (floor, floor + closed, floor + gap)
    ]
    found = share_of_gap(*samples, names=("one", "ours", "each"), purpose="test")
    assert found.value == pytest.approx(closed.mean() / gap.mean())

    def ratio(part: np.ndarray, whole: np.ndarray, axis: int = -1) -> np.ndarray:
        return part.mean(axis=axis) / whole.mean(axis=axis)

    wanted = stats.bootstrap(
        (closed, gap), ratio, paired=True, vectorized=True, method="percentile", rng=1
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=0.01)


def test_where_there_is_no_gap_nothing_is_divided_by_it() -> None:
    rng = np.random.default_rng(8)
    keys = [("", 1, i) for i in range(10)]
    floor, ceiling = (dict(zip(keys, rng.normal(0.5, 0.1, 10), strict=True)) for _ in range(2))
    found = share_of_gap(floor, floor, ceiling, names=("one", "ours", "each"), purpose="test")
    assert found.value is None
    assert "no gap to close: each less one" in found.note
    assert Above(0.5).verdict(found) == "undecided"


# --- quantities -----------------------------------------------------------------------------


def outcome_of(values: list[float]) -> Outcome:
    outcome = made_outcome(rounds=len(values))
    outcome.curves["online_ndcg"] = np.array(values)
    return outcome


@pytest.mark.parametrize(
    ("quantity", "wanted"),
    [
        (late("online_ndcg"), 99.5),  # rounds 91 to 100 of 1 to 100, with 4 added to the last 2
        (until(0.1, "online_ndcg"), 5.5),
        (gain("online_ndcg"), 99.5 - 1.5),
        (trend("online_ndcg"), 99.5 - 50.5),
    ],
)
def test_quantities_are_means_over_shares_of_the_interactions(
    quantity: Quantity, wanted: float
) -> None:
    values = [float(i) for i in range(1, 101)]
    values[-1] += 20
    values[-2] += 20
    assert quantity.of(outcome_of(values)) == pytest.approx(wanted)


def test_points_that_were_not_measured_are_passed_over() -> None:
    values = [float("nan")] * 100
    values[49], values[99] = 1.0, 3.0
    assert until(0.1, "online_ndcg").of(outcome_of(values)) == 1.0  # the nearest there is
    assert late("online_ndcg").of(outcome_of(values)) == 3.0


def test_a_steady_rise_is_steady_and_noise_is_not() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.3, 4000)
    quantity = unsteadiness("online_ndcg")
    assert quantity.of(outcome_of(np.linspace(0, 1, 100).tolist())) == pytest.approx(0, abs=1e-9)
    assert quantity.of(outcome_of(noise.tolist())) == pytest.approx(0.3, rel=0.05)


# --- claims ---------------------------------------------------------------------------------


def evidence_with(levels: dict[tuple[str, str, str], float], repeats: int = 5) -> Evidence:
    """Make outcomes by part, system and click model, slightly different for each seed."""
    found: dict[tuple[str, str], list[Outcome]] = {}
    for (part, system, click), level in levels.items():
        for seed in range(repeats):
            outcome = made_outcome(level + 1e-4 * (seed % 2), click_model=click, seed=seed)
            found.setdefault((part, system), []).append(outcome)
    return Evidence(found)


def judged(claim: Claim, evidence: Evidence) -> str:
    return claim.expects.verdict(claim.estimate(evidence))


def test_comparisons_look_at_the_system_and_click_model_they_name() -> None:
    evidence = evidence_with({
        ("p", "a", "perfect"): 0.7, ("p", "b", "perfect"): 0.6,
        ("p", "a", "informational"): 0.4, ("p", "b", "informational"): 0.6,
        ("q", "a", "perfect"): 0.9, ("q", "b", "perfect"): 0.6,
    })  # fmt: skip
    two: dict[str, Any] = {"system": "a", "baseline": "b"}
    assert judged(versus("", part="p", click="perfect", **two), evidence) == "agrees"
    assert judged(versus("", part="p", click="informational", **two), evidence) == "differs"
    clicks = between_clicks("", part="p", system="a", clicks=("perfect", "informational"))
    assert clicks.estimate(evidence).value == pytest.approx(0.3)
    wider = larger_gap("", parts=("q", "p"), click="perfect", **two)
    assert wider.estimate(evidence).value == pytest.approx(0.2)
    assert judged(wider, evidence) == "agrees"
    one = alone("", part="p", system="a", click="perfect", quantity=NDCG, expects=Within(0.7, 0.01))
    assert judged(one, evidence) == "agrees"
    assert judged(versus("", part="p", click="navigational", **two), evidence) == "undecided"


def test_of_several_systems_the_best_is_held_against_the_claim() -> None:
    levels = {("p", name, "perfect"): v for name, v in (("x", 0.5), ("y", 0.6), ("base", 0.55))}
    claim = best_of("", part="p", systems=["x", "y"], baseline="base", click="perfect")
    estimate = claim.estimate(evidence_with(levels))
    assert estimate.means == {
        "y": pytest.approx(0.6, abs=1e-3),
        "base": pytest.approx(0.55, abs=1e-3),
    }
    assert claim.expects.verdict(estimate) == "differs"


def test_online_less_offline_takes_both_from_the_same_run() -> None:
    assert ONLINE_LESS_OFFLINE.of(made_outcome(0.5)) == pytest.approx(0.047, abs=1e-3)


# --- the figures of the thesis ----------------------------------------------------------------


def all_figures(size: Size) -> list[Figure]:
    return figures_of("foltr", size, Collections(Path("nowhere")))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_every_claim_finds_the_runs_that_it_speaks_of(size: Size) -> None:
    for figure in all_figures(size):
        outcomes: dict[tuple[str, str], list[Outcome]] = {}
        for part in figure.parts:
            for run in planned_runs(part.experiment):
                level = 0.5 + 0.01 * (len(run.system) % 7) + 0.001 * run.settings.seed
                outcome = made_outcome(level, system=run.system)
                outcome.run.settings = run.settings  # type: ignore[misc]
                outcomes.setdefault((part.name, run.system), []).append(outcome)
        evidence = Evidence(outcomes)
        for claim in figure.claims:
            estimate = claim.estimate(evidence)
            told = f"{figure.key}: {claim.compared}: {estimate}"
            assert estimate.value is not None or "no gap" in estimate.note, told
            if "share of the gap" not in claim.compared:
                assert estimate.n >= 5, told


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_figures_are_told_apart_and_have_claims(size: Size) -> None:
    figures = all_figures(size)
    keys = [figure.key for figure in figures]
    assert len(set(keys)) == len(keys)
    wanted = {f"figure-3.{i}" for i in range(1, 11)} | {f"figure-4.{i}" for i in range(3, 10)}
    assert wanted | {"table-3.1", "table-4.2", "table-4.3"} <= set(keys)
    for figure in figures:
        assert figure.claims
        names = [part.name for part in figure.parts]
        assert len(set(names)) == len(names)
        assert {name for claim in figure.claims for name in claim.parts} <= set(names)


def test_the_full_size_is_the_settings_of_the_thesis() -> None:
    figures = {figure.key: figure for figure in all_figures(Size("full"))}
    (mq, mslr, *_) = (part.experiment.base for part in figures["figure-3.6"].parts)
    sizes = ("clients", "queries_per_round", "rounds")
    assert [mq[name] for name in sizes] == [1000, 4, 1000]
    assert [mslr[name] for name in sizes] == [1000, 2, 200]
    es = figures["figure-3.1"].parts[0].experiment
    assert [es.base[name] for name in sizes] == [2000, 4, 250]
    for key in ("figure-4.3", "figure-4.5", "figure-4.8", "figure-4.9"):
        assert {part.experiment.base["rounds"] for part in figures[key].parts} == {10_000}
    runs = planned_runs(figures["published-run"].parts[0].experiment)
    assert {run.settings.clients * run.settings.rounds for run in runs} == {2_000_000}
    assert {run.settings.normalise for run in runs} == {"none"}


def test_names_that_are_not_known_are_refused() -> None:
    with pytest.raises(SettingsError, match="no paper 'bert'"):
        figures_of("bert", Size("quick"), Collections(Path("nowhere")))
    with pytest.raises(SettingsError, match=r"no figure 'figure-9.9'"):
        figures_of("foltr", Size("quick"), Collections(Path("nowhere")), ["figure-9.9"])


def test_where_a_collection_is_missing_its_rows_are_skipped_and_say_so(tmp_path: Path) -> None:
    for figure in figures_of("foltr", Size("quick"), Collections(tmp_path)):
        for row in rows_of(figure, Evidence({})):
            if "world" in row["data"] and " and " not in row["data"]:
                assert row["verdict"] == "undecided"  # it was only not run
            else:
                assert row["verdict"] == "skipped"
                assert str(tmp_path) in row["note"]


def test_data_is_looked_for_where_the_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOISTER_DATA", "/somewhere")
    assert data_folder() == Path("/somewhere")
    assert data_folder(Path("/else")) == Path("/else")
    monkeypatch.delenv("CLOISTER_DATA")
    assert data_folder().parts[-2:] == ("shared", "data")


# --- from runs to a report --------------------------------------------------------------------


def tiny(key: str, systems: list[dict[str, Any]]) -> Figure:
    experiment = Experiment(
        base={"data": WORLD, "clients": 4, "rounds": 3, "queries_per_round": 2},
        vary={"click_model": ("perfect",)},
        variant=tuple(systems),
        seeds=2,
    )
    here = Part("world", Collection("world", WORLD), experiment, "MQ2007")
    away = Part("away", Collection("away", "/no/such/place"), experiment)
    two: dict[str, Any] = {"system": "FPDGD", "baseline": str(systems[-1]["name"])}
    return Figure(
        key, f"About {key}", "1,000 clients", (here, away),
        (versus("More is more.", part="world", paper=0.25, **two),
         versus("Less is less.", part="away", **two)),
    )  # fmt: skip


FPDGD = {"name": "FPDGD"}
ES = {"name": "ES", "method": "es"}
PDGD = {"name": "PDGD", "method": "pdgd"}


@pytest.fixture
def figures() -> list[Figure]:
    return [tiny("figure-1", [FPDGD, ES]), tiny("figure-2", [FPDGD, PDGD])]


def test_runs_are_done_once_and_shared_between_figures(
    figures: list[Figure], tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    first = run_missing(figures[:1], tmp_path, workers=1, advance=lambda *at: told.append(at))
    assert (first.n_done, first.n_skipped, first.failures) == (4, 0, ())
    assert told[-1] == (4 * 4 * 2 * 3, 4 * 4 * 2 * 3)
    both = run_missing(figures, tmp_path, workers=1)
    assert (both.n_done, both.n_skipped) == (2, 4)
    outcomes = evidence_of(figures[1], tmp_path).outcomes("world", "FPDGD", "perfect")
    assert [outcome.run.settings.seed for outcome in outcomes] == [1, 2]
    assert {outcome.run.system for outcome in outcomes} == {"FPDGD"}


def test_a_run_that_fails_is_told_and_stops_no_other(tmp_path: Path) -> None:
    broken = tiny("figure-1", [FPDGD, {"name": "labels", "partition": "intents"}])
    outcome = run_missing([broken], tmp_path, workers=1)
    assert outcome.n_done == 2
    assert len(outcome.failures) == 2
    assert "no intents" in outcome.failures[0].error


def test_the_report_puts_the_paper_beside_what_came_out(
    figures: list[Figure], tmp_path: Path
) -> None:
    run_missing(figures, tmp_path, workers=1)
    rows, curves = [], []
    for figure in figures:
        evidence = evidence_of(figure, tmp_path)
        rows += rows_of(figure, evidence)
        curves += write_curves(tmp_path, figure, evidence)
    write_report(tmp_path, figures, rows, size=Size("quick"), curves=curves)
    kept = json.loads((tmp_path / "report.json").read_text())
    assert kept["rows"] == rows
    assert kept["verdicts"] == counted(rows)
    first, second = rows[:2]
    means = first["means"]
    assert first["ours"] == pytest.approx(means["FPDGD"] - means["ES"])
    assert first["difference"] == pytest.approx(first["ours"] - 0.25)
    assert (first["paper"], first["paper_data"], first["n"]) == (0.25, "MQ2007", 2)
    assert first["setting"] == "4 clients x 2 queries x 3 rounds, 2 repetitions"
    assert (second["verdict"], second["ours"], second["paper"]) == ("skipped", None, "higher")
    text = (tmp_path / "report.md").read_text()
    assert "## figure-1: About figure-1" in text
    assert "More is more." in text
    assert [path.name for path in curves] == [
        "figure-1-world.png", "figure-1-world.html", "figure-2-world.png", "figure-2-world.html",
    ]  # fmt: skip
    assert (tmp_path / "curves" / "figure-1-world.png").read_bytes()[:4] == b"\x89PNG"
    page = (tmp_path / "curves" / "figure-1-world.html").read_text()
    assert '<script src="plotly.min.js"></script>' in page
    assert len(page) < 100_000
    assert (tmp_path / "curves" / "plotly.min.js").stat().st_size > 1_000_000
