"""The experiments page: runs beside each other, simulations and reproductions begun from it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from app.console.browser import Browser
from app.console.job_waiting import ended, refused
from cloister.app.console import lab_world, reproductions
from cloister.app.console.console import make_console
from cloister.app.console.found_runs import RunFinder, labels, setting_rows
from cloister.app.console.reproductions import Reproductions, Wish, known_papers, newest_with
from cloister.app.console.scene import Scene
from cloister.app.console.simulation_job import METHODS
from cloister.app.demo.clinic_life import ClinicLife
from cloister.core.errors import CloisterError
from cloister.lab.reproduce import NAMES
from cloister.lab.simulation.run import simulate
from cloister.lab.simulation.run_files import load_runs, prepare_folder, write_run
from cloister.lab.simulation.settings import AttackName, Method, RuleName, SimulationSettings

WORLD = "world:features?queries=30&documents=10&features=6"
RESULT = {
    "size": "quick",
    "verdicts": {},
    "figures": {"figure-5.4": "Defences when nobody attacks"},
    "rows": [
        {"figure": "figure-5.4", "statement": "Krum costs", "beyond": False, "data": "world",
         "compared": "krum less <fedavg>", "paper": "lower", "ours": -0.0123, "low": -0.02,
         "high": -0.01, "n": 5, "difference": None, "verdict": "agrees", "rule": "below 0",
         "setting": "10 clients", "note": ""},
        {"figure": "figure-5.4", "statement": "Krum costs", "beyond": False, "data": "MQ2008",
         "compared": "krum less fedavg", "paper": 0.7, "ours": None, "low": None,
         "high": None, "n": 0, "difference": None, "verdict": "skipped", "rule": "below 0",
         "setting": "10 clients", "note": "MQ2008 is not here: nowhere"},
    ],
    "runs": 4,
    "done": 3,
}  # fmt: skip


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no results of the working directory be found, and worlds be small."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lab_world, "WORLD", WORLD)


def kept_run(folder: Path, **fields: Any) -> Path:
    usual: dict[str, Any] = {"data": WORLD, "clients": 3, "rounds": 4}
    prepare_folder(folder)
    return write_run(folder, simulate(SimulationSettings(**usual | fields))).path


@pytest.fixture
def two_runs(scene: Scene) -> tuple[Path, Path]:
    """Keep two runs, one of them in a folder below."""
    first = kept_run(scene.home / "results", click_model="navigational")
    second = kept_run(scene.home / "results" / "more", method="pdgd", seed=2)
    os.utime(first, (1, 1))
    return first, second


def test_without_runs_the_page_says_where_it_looked(browser: Browser, scene: Scene) -> None:
    page = browser.get("/experiments").text
    assert f"--out {scene.home / 'results'}" in page
    assert "in <code>results</code> of the directory that it was started in" in page
    assert "Side by side" not in page


@pytest.fixture
def demo(scene: Scene, tmp_path: Path) -> Iterator[Browser]:
    """Return the console of a demo, with a run in its folder and one in the working directory."""
    kept_run(scene.home / "results")
    kept_run(tmp_path / "results", seed=7)
    scene.life = cast(ClinicLife, object())
    yield Browser(make_console(scene))
    scene.life = None


def test_the_demo_shows_runs_of_its_own_folder_only(
    demo: Browser, browser: Browser, tmp_path: Path
) -> None:
    page = demo.get("/experiments").text
    assert "1 run, " in page
    assert str(tmp_path) not in page
    (tmp_path / "home" / "results").rename(tmp_path / "gone")
    page = demo.get("/experiments").text
    assert "No run lies in" in page
    assert str(tmp_path) not in page


def test_the_demo_reproduces_on_built_in_worlds_only(
    demo: Browser, scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Sequence[str]] = []

    def instead(arguments: Sequence[str], told: object) -> dict[str, Any]:
        asked.append(arguments)
        return RESULT

    monkeypatch.setattr(reproductions, "run_command", instead)
    path = "/experiments/reproductions/poisoning"
    assert ended(demo, scene, path, only="figure-5.4").state == "done"
    assert asked[0][-2:] == ["--data", str(scene.home / "reproductions" / "no-data-sets")]
    page = demo.get(path).text
    assert "on built-in worlds only: the demo reads no data sets" in page
    assert 'name="worlds"' not in page
    assert str(tmp_path) not in page
    for one in known_papers():
        assert "CLOISTER_DATA" not in demo.get(f"/experiments/reproductions/{one.name}").text
    path = "/experiments/reproductions/unlearning"
    refused(demo.post(path, data={"only": "figure-6.2"}), 400, "no built-in world")


def test_the_form_offers_all_that_can_be_simulated(browser: Browser) -> None:
    page = browser.get("/experiments").text
    assert set(METHODS) == set(get_args(Method))
    for name in (*get_args(RuleName), *get_args(AttackName)):
        assert f"<option>{name}</option>" in page
    assert all(f'<option value="{name}">' in page for name in METHODS)


def test_runs_and_kept_files_are_named_without_their_place(
    browser: Browser, scene: Scene, two_runs: tuple[Path, Path], tmp_path: Path
) -> None:
    Reproductions(scene.home / "reproductions").keep(Wish("poisoning", "", False), 9.0, RESULT)
    page = browser.get("/experiments").text
    assert f"results/more/runs/{two_runs[1].name}" in page
    paper = browser.get("/experiments/reproductions/poisoning").text
    assert "reproductions/poisoning.json" in paper
    assert "not here: MQ2008." in paper
    assert "nowhere" not in paper, "where a data set was looked for"
    assert str(tmp_path) not in page + paper


def test_runs_are_listed_and_compared(
    browser: Browser, scene: Scene, two_runs: tuple[Path, Path]
) -> None:
    page = browser.get("/experiments").text
    for words in ("2 runs", "click model navigational", "offline-ndcg", "online-ndcg", "no noise"):
        assert words in page
    first, second = RunFinder([scene.home / "results"]).find()
    assert first.run.path == two_runs[1], "the newest first"
    alone = browser.get("/experiments", params={"run": [second.run_id]}).text
    assert alone.count(" checked") == 1
    assert "1. fpdgd" in alone
    assert "2. " not in alone
    assert f"{second.run.summary['offline_ndcg@10']:.4g}" in alone


def test_a_run_that_does_not_exist_is_passed_over(
    browser: Browser, two_runs: tuple[Path, Path]
) -> None:
    page = browser.get("/experiments", params={"run": ["../../etc/passwd", "x"]})
    assert page.status_code == 200
    assert "Side by side" not in page.text
    assert "passwd" not in page.text


def test_settings_that_differ_are_told_apart_from_those_shared(
    scene: Scene, two_runs: tuple[Path, Path]
) -> None:
    runs = RunFinder([scene.home]).find()
    differ, common = setting_rows(runs)
    assert [row.name for row in differ] == ["method", "click model", "seed"]
    assert differ[0].values == ["pdgd", "fpdgd"]
    assert len(differ) + len(common) == len(SimulationSettings.model_fields)
    assert labels(runs) == ["1. pdgd, seed 2", "2. fpdgd, click model navigational"]


def test_what_was_read_is_read_again_when_it_changed(tmp_path: Path) -> None:
    finder = RunFinder([tmp_path / "results", tmp_path / "nowhere"])
    assert finder.find() == []
    path = kept_run(tmp_path / "results")
    assert [one.run.path for one in finder.find()] == [path]
    path.write_text("{}")
    assert finder.find() == [], "a damaged run is none"


def test_seeds_of_two_systems_are_tested_for_chance(browser: Browser, scene: Scene) -> None:
    for seed in (1, 2):
        kept_run(scene.home / "results", seed=seed)
        kept_run(scene.home / "results", seed=seed, method="pdgd")
    assert "more than chance" in browser.get("/experiments").text


def test_a_simulation_is_run_from_the_page(browser: Browser, scene: Scene) -> None:
    job = ended(
        browser, scene, "/experiments/simulations", method="fpdgd", clients=4, rounds=6,
        epsilon="", click_model="perfect",
    )  # fmt: skip
    assert job.state == "done", job.error
    (run,) = load_runs(scene.home / "results")
    assert (run.settings.clients, run.settings.rounds, run.settings.epsilon) == (4, 6, None)
    offline = job.snapshot()["found"]["offline"]
    assert offline[-1] == (6, run.summary["offline_ndcg@10"])
    page = browser.get(f"/experiments?job={job.job_id}").text
    assert "Look at this run alone" in page
    assert f"results/runs/{run.path.name}" in page


def test_a_private_simulation_tells_its_epsilon(browser: Browser, scene: Scene) -> None:
    job = ended(browser, scene, "/experiments/simulations", clients=4, rounds=5, epsilon="8")
    assert job.state == "done", job.error
    (run,) = load_runs(scene.home / "results")
    assert f"{run.summary['epsilon']:.4g}" in browser.get("/experiments").text


@pytest.mark.parametrize(
    ("form", "status", "words"),
    [
        ({"clients": "1"}, 422, "clients"),
        ({"rounds": "100000"}, 422, "rounds"),
        ({"click_model": "careless"}, 422, "click_model"),
        ({"method": "magic"}, 422, "method"),
        ({"data": "/etc/passwd"}, 422, "data"),
        ({"epsilon": "-1"}, 422, "epsilon"),
        ({"method": "es", "epsilon": "3"}, 400, "epsilon needs the method fpdgd"),
        ({"attack": "lie"}, 400, "an attack needs attackers"),
    ],
)
def test_wrong_settings_are_refused(
    browser: Browser, scene: Scene, form: dict[str, str], status: int, words: str
) -> None:
    refused(browser.post("/experiments/simulations", data=form), status, words)
    assert scene.jobs.of_kind("experiments") == []


def test_all_papers_are_listed_and_have_pages(browser: Browser) -> None:
    page = browser.get("/experiments").text
    for paper in known_papers():
        assert f'href="/experiments/reproductions/{paper.name}"' in page
    assert [paper.name for paper in known_papers()] == list(NAMES)
    shown = browser.get("/experiments/reproductions/poisoning").text
    assert "figure-5.4: Defences when nobody attacks" in shown
    assert "try this first" in shown
    assert browser.get("/experiments/reproductions/nobody").status_code == 404
    assert browser.get("/experiments/reproductions/..%2f..%2fx").status_code == 404


def test_a_reproduction_is_run_as_a_child_and_kept(
    browser: Browser, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[str]] = []

    def instead(arguments: Sequence[str], told: Callable[[str, int, int], None]) -> dict[str, Any]:
        asked.append(arguments)
        told("interactions", 1, 2)
        return RESULT

    monkeypatch.setattr(reproductions, "run_command", instead)
    path = "/experiments/reproductions/poisoning"
    job = ended(browser, scene, path, only="figure-5.4", worlds="true")
    assert job.state == "done", job.error
    (arguments,) = asked
    assert arguments[:3] == ["reproduce", "poisoning", "--quick"]
    assert arguments[-4:-1] == ["--only", "figure-5.4", "--data"]
    file = scene.home / "reproductions" / "poisoning.figure-5.4.json"
    assert json.loads(file.read_text())["result"] == RESULT
    page = browser.get(path).text
    for words in (
        "reproductions/poisoning.figure-5.4.json", "krum less &lt;fedavg&gt;", "lower",
        "-0.0123", "-0.0200 to -0.0100", ">agrees<", "1 more rows are skipped", "3 of 4 runs",
    ):  # fmt: skip
        assert words in page
    assert "1 agrees" in browser.get("/experiments").text


def test_a_failed_reproduction_tells_why(
    browser: Browser, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def instead(arguments: Sequence[str], told: object) -> dict[str, Any]:
        raise CloisterError("torch is missing", remedy="install cloister[neural]")

    monkeypatch.setattr(reproductions, "run_command", instead)
    job = ended(browser, scene, "/experiments/reproductions/poisoning", only="figure-5.4")
    assert job.state == "failed"
    assert "install cloister[neural]" in browser.get(f"/experiments?job={job.job_id}").text


def test_without_data_sets_the_page_says_what_is_missing_and_what_to_do(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOISTER_DATA", str(tmp_path / "nothing"))
    page = browser.get("/experiments/reproductions/unlearning").text
    assert "Not here: MQ2008" in page
    assert "CLOISTER_DATA" in page
    path = "/experiments/reproductions/unlearning"
    refused(browser.post(path, data={"only": "figure-6.2"}), 400, "needs MQ2008", "CLOISTER_DATA")
    refused(browser.post(path, data={"only": "figure-9"}), 404, "no such figure")
    answer = browser.post(path, data={"only": "figure-6.2", "worlds": "true"})
    refused(answer, 400, "no built-in world")


def test_the_newest_result_of_a_figure_counts_and_damaged_files_do_not(tmp_path: Path) -> None:
    kept = Reproductions(tmp_path)
    kept.keep(Wish("poisoning", "", False), 9.0, RESULT)
    newer = kept.keep(Wish("poisoning", "figure-5.4", True), 1.0, RESULT)
    content = json.loads(newer.read_text()) | {"at": "2999-01-01T00:00:00+00:00"}
    newer.write_text(json.dumps(content))
    (tmp_path / "poisoning.figure-5.5.json").write_text('{"format": 1, "result"')
    found = kept.of_paper("poisoning")
    assert [one.wish.only for one in found] == ["figure-5.4", ""]
    chosen = newest_with(found, "figure-5.4")
    assert chosen is not None
    assert chosen.seconds == 1.0
    assert newest_with(found, "figure-5.5") is None
    assert kept.of_paper("foltr") == []
