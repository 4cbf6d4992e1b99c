from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from app.outcome import Run
from cloister.lab.reproduce import foltr
from cloister.lab.reproduce.claim import Above
from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.simulation.experiment import Experiment

WORLD = "world:features?queries=20&documents=10&features=5"


@pytest.fixture
def run(call: Run) -> Run:
    """Run the command as a user would, in this process."""
    return functools.partial(call, "reproduce")


def made_figure(size: Size, collections: Collections, **own: Any) -> Figure:
    experiment = Experiment(
        base={"data": WORLD, "clients": 4, "rounds": size.of(quick=2, full=4)} | own,
        variant=({"name": "FPDGD"}, {"name": "ES", "method": "es"}),
        seeds=2,
    )
    away = collections["MQ2008"]
    parts = (
        Part("world", Collection("world", WORLD), experiment),
        Part("MQ2008", away, experiment),
    )
    claims = tuple(
        versus("More is more.", part=part.name, system="FPDGD", baseline="ES", expects=Above())
        for part in parts
    )
    return Figure("figure-0", "A small one", "1,000 clients", parts, claims, measures=())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put one small figure in the place of the thesis's."""
    monkeypatch.setattr(foltr, "_FIGURES", (made_figure,))


def test_rows_put_the_paper_beside_ours(run: Run, small: None, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    options = ("foltr", "--quick", "--data", str(tmp_path / "none"), "--workers", "1")
    outcome = run(*options, "--out", str(tmp_path / "out"), "--json")
    assert outcome.code == 0
    found = outcome.json
    assert found["size"] == "quick"
    assert (found["runs"], found["done"]) == (4, 4)
    world, away = found["rows"]
    assert {"paper", "ours", "difference", "verdict"} <= world.keys()
    assert world["paper"] == "higher"
    assert world["low"] <= world["ours"] <= world["high"]
    assert away["verdict"] == "skipped"
    assert [Path(file).name for file in found["files"]] == ["report.md", "report.json"]
    again = run(*options, "--out", str(tmp_path / "out"), "--json").json
    assert again["done"] == 0
    assert again["rows"] == found["rows"]


def test_people_see_a_table_and_the_count_of_verdicts(
    run: Run, small: None, tmp_path: Path
) -> None:
    outcome = run("foltr", "--data", str(tmp_path), "--out", str(tmp_path), "--workers", "1")
    assert outcome.code == 0
    assert "figure-0: A small one" in outcome.out
    assert "1 skipped" in outcome.out
    assert "(full)" in outcome.out


def test_without_a_folder_runs_are_kept_in_the_cache(
    run: Run, small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOISTER_CACHE", str(tmp_path / "cache"))
    assert run("foltr", "--quick", "--data", str(tmp_path), "--workers", "1").code == 0
    (folder,) = (tmp_path / "cache" / "reproduce").iterdir()
    assert folder.name.startswith("foltr-quick-")
    assert len(list((folder / "runs").glob("*.json"))) == 4


def test_a_failed_run_gives_exit_code_one_and_what_to_do(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(size: Size, collections: Collections) -> Figure:
        return made_figure(size, collections, partition="intents")

    monkeypatch.setattr(foltr, "_FIGURES", (broken,))
    arguments = ("foltr", "--data", str(tmp_path), "--out", str(tmp_path), "--workers", "1")
    outcome = run(*arguments, "--json")
    assert outcome.code == 1
    assert "4 runs failed" in outcome.json["error"]
    assert outcome.json["remedy"]
    assert (tmp_path / "report.md").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("bert",),
        ("foltr", "--only", "figure-9.9"),
        ("--only", "figure-9.9", "foltr"),
        ("foltr", "--workers", "0"),
    ],
)
def test_wrong_usage_has_exit_code_two(run: Run, arguments: tuple[str, ...]) -> None:
    outcome = run(*arguments)
    assert outcome.code == 2
    assert "see `cloister reproduce --help`" in outcome.err
    assert outcome.out == ""
