"""ESPRESSO done again: printed tables, claims, selectors and what their tables take."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloister.core.errors import SettingsError
from cloister.lab.bench import pods as bench_pods
from cloister.lab.bench.process_memory import family_memory_mb
from cloister.lab.espresso.agreement import at
from cloister.lab.espresso.federation_contents import ACCESS, FederationSettings
from cloister.lab.reproduce import figures_of
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.espresso import selector_trial
from cloister.lab.reproduce.espresso.figure_6 import averaged
from cloister.lab.reproduce.espresso.paper_tables import COLUMNS, TABLE_3, TABLE_4, printed
from cloister.lab.reproduce.espresso.selector_trial import SelectorSettings, with_lists
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.rows import rows_of
from cloister.lab.reproduce.study import Study, StudyOutcome, StudySettings

NOWHERE = Collections(Path("nowhere"))
SERVERS = (1, 2, 3, 4, 5)


def figures(size: str = "quick") -> list[Figure]:
    """Return all figures of the paper."""
    return figures_of("espresso", Size("full" if size == "full" else "quick"), NOWHERE)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep federations in a folder of one test."""
    monkeypatch.setenv("CLOISTER_CACHE", str(tmp_path))
    return tmp_path


def test_printed_tables_have_every_model_access_and_number_of_servers() -> None:
    assert len(TABLE_3) == 2 * len(ACCESS)
    assert len(TABLE_4) == 4 * len(ACCESS)
    assert all(len(rows) == 5 for rows in (*TABLE_3.values(), *TABLE_4.values()))
    # The numbers that the paper's text names.
    assert printed("BM25 global", 5, 5, "ndcg@5") == 0.915
    assert printed("BM25 global", 100, 5, "ndcg@5") == 0.780


@pytest.mark.parametrize("key", [*TABLE_3, *TABLE_4])
def test_one_server_gives_five_documents_in_the_printed_tables(key: tuple[str, int]) -> None:
    """Five pods with one document: P@10 is half of P@5, P@20 a quarter, but for rounding."""
    row = dict(zip(COLUMNS, (TABLE_3 | TABLE_4)[key][0], strict=True))
    assert row["p@10"] == pytest.approx(row["p@5"] / 2, abs=0.0015)
    assert row["p@20"] == pytest.approx(row["p@5"] / 4, abs=0.0015)


def test_all_models_choose_as_many_gold_documents_at_one_server_in_the_printed_tables() -> None:
    """What one reads off the paper; rows put under a wrong model or access would break it."""
    for access in ACCESS:
        found = {rows[0][1] for (_, level), rows in (TABLE_3 | TABLE_4).items() if level == access}
        assert len(found) == 1


def test_every_printed_number_is_held_against_ours() -> None:
    by_key = {figure.key: figure for figure in figures()}
    for key, printed_table in (("table-3", TABLE_3), ("table-4", TABLE_4)):
        claims = [c for c in by_key[key].claims if "numbers of the table" in c.statement]
        expected = [v for rows in printed_table.values() for row in rows for v in row]
        assert sorted(c.paper for c in claims if c.paper is not None) == sorted(expected)


@pytest.mark.parametrize("size", ["quick", "full"])
def test_figures_have_parts_of_their_own_and_claims_that_name_them(size: str) -> None:
    for figure in figures(size):
        names = [part.name for part in figure.parts]
        assert len(set(names)) == len(names)
        assert figure.claims
        assert all(part in names for claim in figure.claims for part in claim.parts)


def test_systems_of_claims_are_measured_by_the_jobs_of_their_part() -> None:
    """Made-up outcomes for what each job says it measures: no claim may find nothing."""
    for figure in figures():
        evidence = made_up(figure)
        for row in rows_of(figure, evidence):
            if row["verdict"] != "skipped":
                assert row["ours"] is not None, row["compared"]


def made_up(figure: Figure) -> Evidence:
    """Return outcomes with all measures at 0.5 for every system that a part's jobs have."""
    outcomes: dict[tuple[str, str], list[StudyOutcome]] = {}
    for part in figure.parts:
        assert isinstance(part, Study)
        for job in part.jobs:
            for system in systems_of(job.function, job.settings):
                values = dict.fromkeys(measures(), 0.5)
                found = outcomes.setdefault((part.name, system), [])
                found.append(StudyOutcome(job.settings, values))
    return Evidence(outcomes)


def measures() -> list[str]:
    """Return the names of all figures."""
    names = [*COLUMNS, "overlap@5"]
    groups = ("short", "medium", "long")
    return [
        *names,
        *(f"{name} {group}" for name, group in itertools.product(names, groups)),
        *("table_share", "largest_share", "most_contacted"),
        *("agreement", "relevance", "chance", "agreement@10", "judged@10"),
    ]


def systems_of(function: str, settings: StudySettings) -> list[str]:
    """Return the systems that a trial measures."""
    from cloister.lab.reproduce.espresso.judged_trial import JUDGED
    from cloister.lab.reproduce.espresso.low_access_trial import FORMS, LowAccessSettings, at_level
    from cloister.lab.reproduce.espresso.statistics_shown import table_names
    from cloister.lab.reproduce.espresso.statistics_trial import StatisticsTrialSettings, at_access
    from cloister.lab.reproduce.espresso.vector_trial import SYSTEMS as VECTORS

    if function.endswith("judged_trial:measure"):
        return list(JUDGED)
    if isinstance(settings, LowAccessSettings):
        return [at_level(form, n) for form in FORMS.values() for n in settings.curve.levels]
    if isinstance(settings, StatisticsTrialSettings):
        named = table_names(settings.cost)
        return [at_access(name, n) for name in named for n in settings.cost.access]
    if function.endswith("vector_trial:measure"):
        names = list(VECTORS)
    elif isinstance(settings, SelectorSettings):
        names = [selector_trial.RANDOM, selector_trial.BEST_IMPACT, selector_trial.LEARNED]
        names += [with_lists(n) for n in settings.list_lengths]
    else:
        names = list(settings.systems)  # type: ignore[attr-defined]
    return [at(name, n) for name in names for n in SERVERS]


def test_gaps_by_length_are_averaged_over_access_levels() -> None:
    outcomes = {
        (part, "BM25 global, S=1"): [StudyOutcome(StudySettings(data="w"), {"map short": value})]
        for part, value in (("low", 0.2), ("high", 0.6))
    }
    found = averaged(Evidence(outcomes), ("low", "high"), "BM25 global, S=1", "map short")
    assert list(found.values()) == [pytest.approx(0.4)]


def test_with_all_servers_asked_every_selector_finds_the_centralised_first_five(
    cache: Path,
) -> None:
    pytest.importorskip("lightgbm")
    settings = SelectorSettings(
        data="world:clinic",
        federation=FederationSettings(servers=3, pods=40),
        access=100,
        n_queries=6,
        n_sample=60,
        n_servers=3,
        list_lengths=(3, 1),
        n_training=6,
        share=0.5,
    )
    found = selector_trial.measure(settings, lambda done, total: None)
    for name in ("best impact, tables", "learned, tables", "random servers"):
        assert found[at(name, 3)]["overlap@5"] == pytest.approx(1.0)
        assert found[at(name, 1)]["overlap@5"] < 1.0  # type: ignore[operator]
    assert found[at("best impact, tables", 2)]["most_contacted"] == 2
    assert found[at(with_lists(1), 3)]["most_contacted"] == 3
    assert 0 < found[at("best impact, tables", 3)]["largest_share"] <= 0.5  # type: ignore[operator]


def test_memory_of_processes_that_were_started_counts() -> None:
    code = "b = bytearray(200_000_000); print(len(b), flush=True); input()"
    before = family_memory_mb(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        during = family_memory_mb(os.getpid())
        child.communicate(b"\n")
    assert during - before > 150


def test_a_size_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOISTER_BENCH_PODS", "many")
    with pytest.raises(SettingsError, match="no number of pods"):
        bench_pods._pods()
