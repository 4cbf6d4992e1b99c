"""Figures beyond the paper: forms of word vectors by access, and what published tables cost."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from cloister.lab.espresso.mean_ndcg import mean_ndcg
from cloister.lab.espresso.spread_collection import beir_words
from cloister.lab.espresso.statistics_cost import StatisticsCostSettings
from cloister.lab.espresso.vector_curve import CurveSettings
from cloister.lab.reproduce import figures_of
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.espresso import low_access_trial, statistics_trial
from cloister.lab.reproduce.espresso.level_lines_image import LinesPanel, lines_png
from cloister.lab.reproduce.espresso.low_access_trial import LowAccessSettings, at_level
from cloister.lab.reproduce.espresso.statistics_shown import statistics_csv, statistics_png
from cloister.lab.reproduce.espresso.statistics_trial import (
    EXACT,
    NOTHING,
    OWN,
    StatisticsTrialSettings,
    at_access,
    noisy_name,
    threshold_name,
)
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.rows import rows_of
from cloister.lab.reproduce.study import Figures, Study, StudyOutcome
from cloister.search.word_vectors import WordVectorSettings

WORLD = "world:clinic?servers=2&pods=30&queries=8&document_bytes=1500"
COST = StatisticsCostSettings(access=(100,), thresholds=(2, 30), epsilons=(1.0, 8.0))
TRIAL = StatisticsTrialSettings(data=WORLD, cost=COST)


def ignore(done: int, total: int) -> None:
    """Be told how far a trial is."""
    assert 0 < done <= total


def figure_named(key: str, root: Path) -> Figure:
    """Return one figure at its quick size."""
    (found,) = figures_of("espresso", Size("quick"), Collections(root), only=[key])
    return found


@pytest.fixture(scope="module")
def costs() -> dict[int, Figures]:
    """Measure the tables of a small world twice, with different seeds."""
    return {
        seed: statistics_trial.measure(TRIAL.model_copy(update={"seed": seed}), ignore)
        for seed in (1, 2)
    }


def test_a_trial_of_low_access_has_every_form_at_every_level() -> None:
    pytest.importorskip("gensim")
    curve = CurveSettings(levels=(20, 100), base=WordVectorSettings(size=12, epochs=2))
    settings = LowAccessSettings(data=WORLD, seed=3, curve=curve)
    found = low_access_trial.measure(settings, ignore)
    names = ("BM25", "base", "paper's form", "backed off")
    assert set(found) == {at_level(name, level) for name in names for level in (20, 100)}
    for level in (20, 100):
        assert found[at_level("BM25", level)]["agreement"] == 1.0
        assert found[at_level("base", level)]["n_documents"] == 48 * level // 100  # a fifth public
    other = low_access_trial.measure(settings.model_copy(update={"seed": 4}), ignore)
    assert other[at_level("base", 100)] != found[at_level("base", 100)]


def test_claims_of_low_access_follow_what_was_measured(tmp_path: Path) -> None:
    figure = figure_named("low-access", tmp_path)
    part = figure.parts[1]
    assert isinstance(part, Study)
    values = {"BM25": 0.4, "base": 0.2, "paper's form": 0.1, "backed off": 0.3}
    outcomes = {
        (part.name, at_level(form, level)): [
            StudyOutcome(
                job.settings,
                {"agreement": 1 - value, "relevance": value + 0.001 * i, "chance": 0.1},
            )
            for i, job in enumerate(part.jobs)
        ]
        for form, value in values.items()
        for level in (5, 10, 25, 50, 100)
    }
    rows = [r for r in rows_of(figure, Evidence(outcomes)) if r["data"] == part.name]
    verdicts = {(r["statement"][:16], "relevance" in r["compared"]): r["verdict"] for r in rows}
    assert verdicts["the paper's form", True] == "agrees"
    assert verdicts["the paper's form", False] == "differs"
    assert verdicts["the mended form ", True] == "agrees"
    assert verdicts["the mended form ", False] == "differs"
    assert verdicts["BM25 is above th", True] == "agrees"
    assert figure.pictures is not None
    assert figure.pictures(Evidence(outcomes))["curve.png"].startswith(b"\x89PNG")
    assert figure.pictures(Evidence({})) == {}


def test_a_trial_of_statistics_names_every_table(costs: dict[int, Figures]) -> None:
    names = [OWN, EXACT, NOTHING]
    for each in (False, True):
        names += [threshold_name(t, each=each) for t in (2, 30)]
        names += [noisy_name(epsilon, "found terms", each=each) for epsilon in (1.0, 8.0)]
    assert set(costs[1]) == {at_access(name, 100) for name in names}
    for found in costs.values():
        assert found[at_access(OWN, 100)]["agreement@10"] == 1.0
        assert found[at_access(EXACT, 100)]["agreement@10"] == 1.0
        assert found[at_access(NOTHING, 100)]["agreement@10"] < 1.0  # type: ignore[operator]
        assert found[at_access(NOTHING, 100)]["listed"] == 0.0


def test_another_seed_has_another_world_and_other_noise(costs: dict[int, Figures]) -> None:
    name = at_access(noisy_name(8.0, "found terms"), 100)
    assert costs[1][name] != costs[2][name]


def test_the_table_has_means_with_intervals(costs: dict[int, Figures]) -> None:
    part = figure_of_costs(costs)
    text = statistics_csv(*part).decode()
    rows = {row["tables"]: row for row in csv.DictReader(io.StringIO(text))}
    row = rows[NOTHING]
    found = [float(one[at_access(NOTHING, 100)]["agreement@10"]) for one in costs.values()]  # type: ignore[arg-type]
    assert float(row["agreement@10 mean"]) == pytest.approx(sum(found) / 2, abs=1e-4)
    assert float(row["agreement@10 low"]) < min(found)
    assert row["judged@10 mean"] == ""
    assert row["repetitions"] == "2"
    parts, cost, evidence = part
    assert statistics_png(parts[0].name, cost, evidence, "tables").startswith(b"\x89PNG")


def figure_of_costs(
    costs: dict[int, Figures],
) -> tuple[tuple[Study, ...], StatisticsCostSettings, Evidence]:
    """Return what was measured as evidence of one part."""
    study = next(
        part
        for part in figure_named("statistics", Path("nowhere")).parts
        if isinstance(part, Study) and part.name == "clinic world"
    )
    outcomes: dict[tuple[str, str], list[StudyOutcome]] = {}
    for seed, found in costs.items():
        settings = TRIAL.model_copy(update={"seed": seed})
        for system, values in found.items():
            outcomes.setdefault((study.name, system), []).append(StudyOutcome(settings, values))
    return (study,), COST, Evidence(outcomes)


def test_no_claim_is_made_of_a_word_list_that_is_not_there(tmp_path: Path) -> None:
    assert not any("word list" in c.compared for c in figure_named("statistics", tmp_path).claims)
    (tmp_path / "text" / "medquad").mkdir(parents=True)
    claims = figure_named("statistics", tmp_path).claims
    assert any("word list" in claim.compared for claim in claims)


def test_a_word_list_has_the_words_of_another_collection(real_data: Callable[[str], Path]) -> None:
    words = beir_words(real_data("text/medquad"))
    assert len(words) == 31_328
    assert list(words) == sorted(set(words))


def test_mean_ndcg_takes_names_of_any_kind() -> None:
    assert mean_ndcg([["a"], ["b"]], [{"a": 1}, {"c": 3}], 5) == 0.5


def test_places_with_nothing_measured_are_left_out_of_a_picture() -> None:
    lines: dict[str, list[list[float]]] = {"one": [[0.1, 0.2], []], "none": [[], []]}
    panel = LinesPanel("data", "nDCG", "access", ["5 %", "10 %"], lines, {"exact": [1.0], "no": []})
    assert lines_png([[panel]], "title").startswith(b"\x89PNG")
