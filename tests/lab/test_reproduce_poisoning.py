from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.adversary.poisoning import exposure, highest_in_feature
from cloister.data.letor import LetorSettings
from cloister.data.source import load_fold
from cloister.lab.bench import poisoning as bench
from cloister.lab.reproduce import figures_of
from cloister.lab.reproduce.claim import Above
from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.evidence import Evidence, Sample
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.foltr.setting import CLICKS, Ground
from cloister.lab.reproduce.poisoning.adaptive import FIRST
from cloister.lab.reproduce.poisoning.contrast import (
    Cell,
    averaged,
    difference,
    more_lost,
    recovered,
    summed,
)
from cloister.lab.reproduce.poisoning.matrix import MATRIX_ATTACKS, RULES, is_beyond, losses
from cloister.lab.reproduce.poisoning.promotion import FEATURE, FIRST_PAGE
from cloister.lab.reproduce.poisoning.setting import attacked, honest, part_of, system
from cloister.lab.reproduce.quantity import Outcome
from cloister.lab.reproduce.rows import rows_of
from cloister.lab.reproduce.running import evidence_of, run_missing
from cloister.lab.simulation.grid import planned_runs
from cloister.lab.simulation.heat_map import HeatMap, heat_map_png
from cloister.lab.simulation.run import simulate
from cloister.lab.simulation.settings import SimulationSettings

QUICK, FULL = Size("quick"), Size("full")
WORLD = "world:features?queries=40&documents=15&features=46"
POISON = "poison-clicks"


@dataclass
class MadeRun:
    """What a run leaves behind, without a run."""

    settings: SimulationSettings
    system: str
    summary: dict[str, Any]
    path: Path = field(default=Path("nowhere.json"))


def made(ndcg: float, click: str = "perfect", repeat: int = 1, **figures: float) -> Outcome:
    settings = SimulationSettings(data=WORLD, click_model=click, seed=repeat)
    return Outcome(MadeRun(settings, "", {"offline_ndcg@10": ndcg} | figures))  # type: ignore[arg-type]


def evidence(numbers: dict[tuple[str, str], list[float]], part: str = "here") -> Evidence:
    """Return runs by system and click model, one number for each repetition."""
    outcomes: dict[tuple[str, str], list[Outcome]] = {}
    for (name, click), values in numbers.items():
        found = [made(value, click, repeat) for repeat, value in enumerate(values)]
        outcomes.setdefault((part, name), []).extend(found)
    return Evidence(outcomes)


# Where the collections are does not matter: nothing is run.
@pytest.fixture
def present(tmp_path: Path) -> Collections:
    for name in ("ltr/mq2008", "ltr/mslr-web-sample"):
        (tmp_path / name).mkdir(parents=True)
    return Collections(tmp_path)


# --- claims on cells ------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.floats(-2, 2), st.dictionaries(st.integers(0, 6), st.floats(-1, 1))),
        min_size=1, max_size=5,
    )
)  # fmt: skip
def test_a_weighted_sum_is_over_the_repetitions_that_all_have(
    given_samples: list[tuple[float, dict[int, float]]],
) -> None:
    samples: list[tuple[float, Sample]] = [
        (w, {("", 1, seed): value for seed, value in sample.items()}) for w, sample in given_samples
    ]
    expected = {
        ("", 1, seed): sum(w * sample[seed] for w, sample in given_samples)
        for seed in range(7)
        if all(seed in sample for _, sample in given_samples)
    }
    assert summed(samples) == expected


def test_more_is_lost_where_the_attack_takes_more() -> None:
    names = honest("fedavg"), attacked("fedavg", POISON, 2)
    seen = evidence(
        {
            (names[0], "informational"): [0.7, 0.72],
            (names[1], "informational"): [0.4, 0.41],
            (names[0], "perfect"): [0.75, 0.76],
            (names[1], "perfect"): [0.7, 0.7],
        }
    )
    claim = more_lost("more", "here", 2, ("informational", "perfect"))
    assert claim.estimate(seen).value == pytest.approx((0.3 + 0.31) / 2 - (0.05 + 0.06) / 2)
    other = more_lost("more", "here", 2, ("perfect", "informational"))
    assert other.estimate(seen).value == pytest.approx(-0.25)


def test_a_mean_over_pairs_is_the_mean_of_their_differences() -> None:
    cells = [Cell("here", name, "perfect") for name in "abcd"]
    numbers = {"a": [0.5, 0.6], "b": [0.4, 0.4], "c": [0.3, 0.5], "d": [0.5, 0.1]}
    seen = evidence({(name, "perfect"): values for name, values in numbers.items()})
    claim = averaged("s", "c", [(cells[0], cells[1]), (cells[2], cells[3])], names=("x", "y"))
    assert claim.estimate(seen).value == pytest.approx(
        np.mean([np.subtract(numbers["a"], numbers["b"]), np.subtract(numbers["c"], numbers["d"])])
    )


def shares(floor: float, defended: float) -> Any:
    noise = np.array([0.0, 0.01, -0.01, 0.02, -0.02])
    names = honest("fedavg"), attacked("fedavg", "lie", 2), attacked("adaptive", "lie", 2)
    levels = 0.7, floor, defended
    seen = evidence(
        {(name, "perfect"): list(level + noise) for name, level in zip(names, levels, strict=True)}
    )
    return recovered("here", names[2], names[1], "perfect", least=0.9).estimate(seen)


def test_the_share_recovered_is_of_what_fedavg_lost() -> None:
    found = shares(0.5, 0.68)
    assert found.value == pytest.approx(0.18 / 0.2)
    assert found.low == pytest.approx(0.9)
    assert shares(0.5, 0.4).value == pytest.approx(-0.5)


def test_nothing_is_said_to_be_recovered_where_little_was_lost() -> None:
    found = shares(0.685, 0.7)
    assert found.value is None
    assert "less than 0.02" in found.note
    assert Above(0.9).verdict(found) == "undecided"
    assert shares(0.7, 0.7).value is None


# --- figures --------------------------------------------------------------------------------


def made_evidence(figure: Figure) -> Evidence:
    """Return an outcome for every run that a figure plans, all different."""
    outcomes: dict[tuple[str, str], list[Outcome]] = {}
    more = ("suspensions", "unused_honest", "unused_attackers", "first_suspension", "rounds")
    for part in figure.parts:
        assert isinstance(part, Part)
        for run in planned_runs(part.experiment):
            rng = np.random.default_rng(int(run.settings.digest()[:8], 16))
            summary = {"offline_ndcg@10": rng.uniform(), "target_on_first_page": rng.uniform()}
            summary |= dict.fromkeys(more, rng.uniform())
            outcome = Outcome(MadeRun(run.settings, run.system, summary))  # type: ignore[arg-type]
            outcomes.setdefault((part.name, run.system), []).append(outcome)
    return Evidence(outcomes)


def test_every_claim_finds_its_runs_in_full(present: Collections) -> None:
    for figure in figures_of("poisoning", QUICK, present):
        for row in rows_of(figure, made_evidence(figure)):
            enough = row["n"] >= 2
            assert enough, (row["figure"], row["compared"], row["note"])


def test_the_figures_are_those_of_the_thesis_and_what_it_leaves_open(present: Collections) -> None:
    figures = figures_of("poisoning", QUICK, present)
    assert [figure.key for figure in figures] == [
        "figure-5.2", "figure-5.3", "figure-5.4", "figure-5.5",
        "matrix", "adaptive", "cross-device", "promotion",
    ]  # fmt: skip
    for figure in figures[:4]:
        assert not all(claim.beyond for claim in figure.claims)
    for figure in figures[4:]:
        assert all(claim.beyond for claim in figure.claims)


def test_without_collections_only_worlds_are_judged() -> None:
    for figure in figures_of("poisoning", QUICK, Collections(Path("nowhere"))):
        for row in rows_of(figure, Evidence({})):
            assert (row["verdict"] == "skipped") == ("world" not in row["data"])


def test_the_figures_of_the_thesis_share_runs(present: Collections) -> None:
    figures = {figure.key: figure for figure in figures_of("poisoning", FULL, present)}

    def digests(key: str) -> set[str]:
        parts = figures[key].parts
        runs = (planned_runs(part.experiment) for part in parts if isinstance(part, Part))
        return {run.settings.digest() for found in runs for run in found}

    assert len(digests("figure-5.2") & digests("figure-5.3")) >= 100
    assert len(digests("figure-5.5") & digests("figure-5.3")) >= 100


def test_where_nobody_was_suspended_the_first_suspension_is_the_end() -> None:
    assert FIRST.of(made(0.5, rounds=100.0, first_suspension=23.0)) == 23
    assert FIRST.of(made(0.5, rounds=100.0)) == 100


# --- the matrix -----------------------------------------------------------------------------


@cache
def the_matrix(size: Size) -> Figure:
    return figures_of("poisoning", size, Collections(Path("nowhere")), only=["matrix"])[0]


def cells_of(figure: Figure) -> Iterator[SimulationSettings]:
    for part in figure.parts:
        assert isinstance(part, Part)
        for run in planned_runs(part.experiment):
            yield run.settings


@pytest.mark.parametrize("size", [QUICK, FULL])
def test_the_matrix_has_every_cell_that_has_an_outcome(size: Size) -> None:
    found = {
        (run.attack, run.rule, run.attackers, run.click_model) for run in cells_of(the_matrix(size))
    }
    expected = {
        (attack, rule, m, click)
        for attack in MATRIX_ATTACKS
        for rule in RULES
        for m in (1, 2, 3, 4)
        for click in CLICKS
        if rule != "bulyan" or m <= 2
    }
    assert expected <= found
    assert found - expected == {("none", rule, 0, click) for rule in RULES for click in CLICKS}


def test_bounds_are_those_that_the_papers_prove() -> None:
    expected = {"krum": 3, "multi-krum": 3, "trimmed-mean": 4, "median": 4, "bulyan": 1}
    for rule, most in expected.items():
        assert [is_beyond(rule, m) for m in (1, 2, 3, 4)] == [m > most for m in (1, 2, 3, 4)]
    assert not any(is_beyond(rule, 4) for rule in ("fedavg", "norm-bounding", "fldetector"))


def matrix_evidence(part: str, clicks: tuple[str, ...] = CLICKS) -> Evidence:
    """Return a matrix in which each attack costs its place times a hundredth of nDCG."""
    numbers: dict[tuple[str, str], list[float]] = {}
    for click in clicks:
        for rule in RULES:
            numbers[honest(rule), click] = [0.7, 0.71]
            for place, attack in enumerate(MATRIX_ATTACKS):
                for m in (1, 2, 3, 4):
                    if rule != "bulyan" or m <= 2:
                        lost = 0.01 * place * m
                        numbers[attacked(rule, attack, m), click] = [0.7 - lost, 0.71 - lost]
    return evidence(numbers, part)


def test_a_row_of_the_matrix_names_the_worst_attack_and_all_losses() -> None:
    figure = the_matrix(QUICK)
    seen = matrix_evidence("features world")
    rows = [row for row in rows_of(figure, seen) if row["data"] == "features world"]
    krum = {row["compared"].split(", ")[1]: row for row in rows if row["compared"][:5] == "krum,"}
    four = krum["4 of 10 attack"]
    assert four["note"] == f"worst: {MATRIX_ATTACKS[-1]}, beyond its bound"
    assert four["ours"] == pytest.approx(0.04 * (len(MATRIX_ATTACKS) - 1))
    assert four["means"] == {
        attack: pytest.approx(0.04 * place) for place, attack in enumerate(MATRIX_ATTACKS)
    }
    assert "bound" not in krum["3 of 10 attack"]["note"]
    assert four["verdict"] == "differs"


def test_the_matrix_is_drawn_for_each_click_model_and_written_as_a_table() -> None:
    figure = the_matrix(QUICK)
    assert figure.pictures is not None
    files = figure.pictures(matrix_evidence("features world", ("perfect",)))
    assert set(files) == {"features-world.csv", "features-world-perfect.png"}
    table = list(csv.DictReader(io.StringIO(files["features-world.csv"].decode())))
    n_rules = len(RULES)  # nobody attacks; Bulyan faces two attackers at most
    assert len(table) == n_rules + len(MATRIX_ATTACKS) * ((n_rules - 1) * 4 + 2)
    (chosen,) = (
        row
        for row in table
        if (row["rule"], row["attack"], row["attackers"]) == ("krum", "lie", "4")
    )
    assert (chosen["lost"], chosen["beyond"]) == ("0.0400", "True")
    assert figure.pictures(Evidence({})) == {}


def test_a_cell_counts_what_is_lost_beside_honest_fedavg() -> None:
    seen = evidence(
        {
            (honest("fedavg"), "perfect"): [0.7, 0.8],
            (honest("krum"), "perfect"): [0.65, 0.7],
            (attacked("krum", "lie", 2), "perfect"): [0.6, 0.6],
        }
    )
    found = {(cell.rule, cell.attack): cell.lost for cell in losses("here", seen)}
    expected = {("fedavg", "none"): 0.0, ("krum", "none"): 0.075, ("krum", "lie"): 0.15}
    assert found == pytest.approx(expected)


# --- the picture ----------------------------------------------------------------------------


def pixels(shown: HeatMap) -> np.ndarray:
    from matplotlib.image import imread

    return np.asarray(imread(io.BytesIO(heat_map_png(shown)), format="png"))


def small_map(value: float, *, marked: bool = False) -> HeatMap:
    values = np.array([[value, 0.2], [0.1, np.nan]])
    marks = np.array([[marked, False], [False, False]])
    groups = (("lie", ("10",)), ("dyn-opt", ("10",)))
    return HeatMap("title", "lost", ("krum", "median"), groups, values, marks, 0.4, "note")


def test_a_larger_loss_is_redder_and_a_mark_can_be_seen() -> None:
    light, dark, hatched = (
        pixels(shown) for shown in (small_map(0.0), small_map(0.4), small_map(0.0, marked=True))
    )
    assert dark[..., 1].mean() < light[..., 1].mean()  # less green is more red
    assert (hatched != light).any()
    assert np.array_equal(light, pixels(small_map(0.0)))


# --- runs -----------------------------------------------------------------------------------


def test_runs_of_attacks_are_made_kept_and_compared(tmp_path: Path) -> None:
    ground = Ground(Collection("small", WORLD), {"data": WORLD})
    systems = [system("fedavg"), system("fedavg", POISON, 3), system("adaptive", POISON, 3)]
    systems.append(system("krum", "promote-clicks", 3, target_feature=FEATURE))
    part = part_of(ground, systems, rounds=60, repeats=2, clicks=("informational",))
    names = [str(made["name"]) for made in systems]
    cells = [Cell("small", name, "informational") for name in names]
    claims = (
        difference("attackers do harm", cells[0], cells[1]),
        difference("the rule helps", cells[2], cells[1]),
        difference("shown", cells[3], cells[0], quantity=FIRST_PAGE),
    )
    figure = Figure("figure", "title", "none", (part,), claims)
    outcome = run_missing([figure], tmp_path, workers=1)
    assert (outcome.n_done, outcome.failures) == (8, ())
    seen = evidence_of(figure, tmp_path)
    rows = rows_of(figure, seen)
    assert rows[0]["ours"] > 0.05
    assert rows[1]["ours"] > 0.05
    assert rows[0]["n"] == 2


def test_exposure_without_attackers_is_read_off_the_kept_ranker(tmp_path: Path) -> None:
    ground = Ground(Collection("small", WORLD), {"data": WORLD})
    part = part_of(ground, [system("fedavg")], rounds=30, repeats=1, clicks=("perfect",))
    figure = Figure("figure", "title", "none", (part,), ())
    run_missing([figure], tmp_path, workers=1)
    (outcome,) = evidence_of(figure, tmp_path).runs("small", honest("fedavg"))
    ranker = simulate(outcome.run.settings).learner.ranker
    reading = LetorSettings(normalise="query_minmax", null="zero")
    target = highest_in_feature(load_fold(WORLD, 1, reading).test, FEATURE)
    assert FIRST_PAGE.of(outcome) == exposure(ranker, target, seed=1).top_share


def test_a_cell_of_the_matrix_is_timed_for_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "DATA", WORLD)
    monkeypatch.setattr(bench, "WARM", 1)
    told: list[tuple[int, int]] = []
    figures = bench.run(lambda done, total: told.append((done, total)), rounds=20)
    assert all(
        f"poison_clicks_{rule.replace('-', '_')}_10000_rounds_cpu_s" in figures for rule in RULES
    )
    assert figures["slowest_cell_cpu_s"] == max(v for k, v in figures.items() if "rounds" in k)
    assert told[-1] == (len(RULES) + 3, len(RULES) + 3)
