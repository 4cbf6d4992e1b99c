"""The attack lab: trainings side by side, live, kept as results; what cannot be run is refused."""

from __future__ import annotations

import re
from typing import get_args

import numpy as np
import pytest

from app.console.browser import Browser
from app.console.job_waiting import begun, ended, refused
from app.console.test_ledger_page import seen
from cloister.app.console.attack_choices import (
    ATTACKS,
    BOUNDS,
    CLICK_MODELS,
    GUESSING,
    RULES,
    LabChoice,
)
from cloister.app.console.attack_lab import trials_of
from cloister.app.console.attack_outcome import lab_outcome
from cloister.app.console.click_reading import (
    MOST_SUMMED,
    N_ROUNDS,
    PROTECTIONS,
    ReadingChoice,
    reading_chart,
)
from cloister.app.console.scene import Scene
from cloister.core.errors import SettingsError
from cloister.data.clicks import click_model
from cloister.federate.rules import make_rule
from cloister.lab.reproduce.click_inference.setting import Protection
from cloister.lab.simulation.run_files import load_runs
from cloister.lab.simulation.settings import AttackName, RuleName

QUICK = {"attack": "poison-clicks", "rule": "median", "share": 30, "click_model": "perfect",
         "clients": 10, "rounds": 20, "seed": 3}  # fmt: skip
READING = {"protections": ["none", "sum"], "click_model": "perfect", "clients": 10,
           "epsilon": 4.5, "seed": 1}  # fmt: skip


def figures(ndcg: float, **more: object) -> dict[str, object]:
    return {"offline_ndcg@10": ndcg, "offline_max_rr": 0.5, "seconds": 1.0, **more}


def told(choice: LabChoice, **ndcg: float) -> str:
    found = {f"figures {name}": figures(value) for name, value in ndcg.items()}
    return " ".join(one.text for one in lab_outcome(choice, found).verdicts)


def test_every_attack_defence_and_click_model_is_offered_in_words(browser: Browser) -> None:
    assert set(ATTACKS) == set(get_args(AttackName))
    assert set(RULES) == set(BOUNDS) == set(get_args(RuleName))
    assert set(PROTECTIONS) == set(get_args(Protection))
    words = seen(browser.get("/attack-lab").text)
    for text in (*ATTACKS.values(), *RULES.values(), *BOUNDS.values(), *CLICK_MODELS.values()):
        assert text in words
    assert all(click_model(name, 5).name == name for name in CLICK_MODELS)


def test_an_attacked_training_is_run_four_times_and_kept(browser: Browser, scene: Scene) -> None:
    job = ended(browser, scene, "/attack-lab", **QUICK)
    assert (job.state, job.error) == ("done", "")
    runs = load_runs(scene.home / "results")
    systems = ["fedavg", "fedavg, poison-clicks by 3 of 10", "median, poison-clicks by 3 of 10",
               "median"]  # fmt: skip
    assert [run.system for run in runs] == systems
    page = browser.get(f"/attack-lab?job={job.job_id}").text
    for run in runs:
        assert f"{run.summary['offline_ndcg@10']:.4f}" in page
        curve = run.curves()["offline_ndcg"]
        assert str(curve[~(curve != curve)][0]) in page  # the first point, as it was told
    assert "data-live=" not in page
    assert "Loss recovered" in page


def test_curves_are_there_while_it_runs_and_it_can_be_stopped(
    browser: Browser, scene: Scene
) -> None:
    job = begun(browser, scene, "/attack-lab", **(QUICK | {"rounds": 1000, "clients": 50}))
    page = browser.get(f"/attack-lab?job={job.job_id}").text
    assert f'data-live="/attack-lab/live/{job.job_id}"' in page
    again = browser.post("/attack-lab", data=QUICK)
    refused(again, 409, "one is under way")
    browser.post(f"/jobs/{job.job_id}/stop")
    scene.jobs.close()
    assert job.state == "stopped"
    part = browser.get(f"/attack-lab/live/{job.job_id}").text
    assert "data-live-end" in part
    assert "not done" in part


def test_earlier_experiments_stay_listed_newest_first(browser: Browser, scene: Scene) -> None:
    honest = QUICK | {"attack": "none"}
    first = ended(browser, scene, "/attack-lab", **honest)
    second = ended(browser, scene, "/attack-lab", **(honest | {"rule": "krum"}))
    page = browser.get("/attack-lab").text
    links = re.findall(r'href="/attack-lab\?job=([0-9a-f]+)"', page)
    assert links == [second.job_id, first.job_id]
    assert "krum, nobody attacks" in page
    earlier = browser.get(f"/attack-lab?job={first.job_id}").text
    assert "nobody attacks, median" in earlier
    refused(browser.get("/attack-lab?job=nothing"), 404, "no such job")


def test_who_was_suspended_is_told_apart(browser: Browser, scene: Scene) -> None:
    wanted = QUICK | {
        "rule": "adaptive",
        "clients": 20,
        "rounds": 60,
        "click_model": "navigational",
    }
    job = ended(browser, scene, "/attack-lab", **wanted)
    outcome = lab_outcome(LabChoice(**wanted), job.snapshot()["found"])
    defended = {row.name: row for row in outcome.rows}["defended"]
    assert defended.suspended is not None
    assert (defended.suspended.n_attackers, defended.suspended.n_honest) == (6, 0)
    assert "6 attackers, 0 honest" in browser.get("/attack-lab").text
    assert outcome.recovered is not None
    assert outcome.recovered > 0.5


def test_a_promoted_target_is_measured_with_and_without(browser: Browser, scene: Scene) -> None:
    job = ended(browser, scene, "/attack-lab", **(QUICK | {"attack": "promote-model"}))
    page = seen(browser.get(f"/attack-lab?job={job.job_id}").text)
    assert "the target is on the first page of" in page
    found = job.snapshot()["found"]
    shares = {
        name: found[f"figures {name}"]["target_on_first_page"] for name in ("honest", "attacked")
    }
    assert shares["attacked"] > shares["honest"]


@pytest.mark.parametrize(
    ("wrong", "status", "words"),
    [
        ({"attack": "magic"}, 422, ("attack",)),
        ({"rule": "magic"}, 422, ("rule",)),
        ({"share": 41}, 422, ("share", "40")),
        ({"clients": 9}, 422, ("clients", "10")),
        ({"rounds": 5000}, 422, ("rounds",)),
        ({"seed": -1}, 422, ("seed",)),
        ({"click_model": "poison"}, 400, ("click model",)),
        ({"rule": "bulyan", "share": 40}, 400, ("bulyan tolerates 1 attackers among 10",)),
        (
            {"rule": "krum", "expected": 9},
            400,
            ("krum tolerates 3 attackers among 10", "9 are to be"),
        ),
        ({"expected": 21}, 422, ("expected", "20")),
    ],
)
def test_wrong_choices_are_refused_with_a_remedy(
    browser: Browser, scene: Scene, wrong: dict[str, object], status: int, words: tuple[str, ...]
) -> None:
    refused(browser.post("/attack-lab", data=QUICK | wrong), status, *words)
    assert scene.jobs.of_kind("attack-lab") == []


def test_choices_beyond_a_rules_bound_are_marked(browser: Browser, scene: Scene) -> None:
    job = ended(browser, scene, "/attack-lab", **(QUICK | {"rule": "norm-bounding"}))
    page = seen(browser.get(f"/attack-lab?job={job.job_id}").text)
    assert "Beyond its bound: norm-bounding tolerates no attackers among 10 clients, and 3" in page
    assert "too many attack" in page


@pytest.mark.parametrize("rule", RULES)
def test_bounds_are_those_of_the_rules(rule: RuleName) -> None:
    choice = LabChoice(rule=rule, clients=20, share=40)
    assert choice.most_attackers == make_rule(rule).most_attackers(20)
    assert choice.within_bound == (choice.n_attackers <= choice.most_attackers)


def test_some_attackers_are_there_wherever_a_share_is_given() -> None:
    assert LabChoice(share=1, clients=10).n_attackers == 1
    assert LabChoice(share=0).n_attackers == 0
    assert LabChoice(attack="none", share=40).n_attackers == 0
    assert [one.name for one in trials_of(LabChoice(share=0))] == ["honest", "insured"]
    assert [one.name for one in trials_of(LabChoice(share=0, rule="fedavg"))] == ["honest"]


def test_a_defence_expects_as_many_attackers_where_nobody_attacks() -> None:
    trials = {one.name: one.settings for one in trials_of(LabChoice(rule="krum"))}
    assert trials["insured"].expected_attackers == trials["defended"].attackers == 9


def test_a_defence_may_be_told_another_number_than_attack(browser: Browser, scene: Scene) -> None:
    wanted = QUICK | {"rule": "trimmed-mean", "expected": 1}
    job = ended(browser, scene, "/attack-lab", **wanted)
    runs = {run.system: run.settings for run in load_runs(scene.home / "results")}
    defended = runs["trimmed-mean expecting 1, poison-clicks by 3 of 10"]
    assert (defended.attackers, defended.expected_attackers) == (3, 1)
    assert runs["trimmed-mean expecting 1"].expected_attackers == 1
    page = browser.get(f"/attack-lab?job={job.job_id}").text
    assert "Told too few: trimmed-mean expects 1 attacker, and 3 attack." in seen(page)
    assert re.search(r'name="expected"[^>]* value="1"', page)


def test_without_a_guess_the_page_says_that_the_defence_knows(browser: Browser) -> None:
    page = browser.get("/attack-lab").text
    assert re.search(r'name="expected"[^>]* value=""', page)
    assert "told the true number of attackers, which in reality nobody knows" in seen(page)
    assert f"noise on sums, for {N_ROUNDS} rounds" in page
    assert f"(10 to {MOST_SUMMED})" in page


@pytest.mark.parametrize("rule", RULES)
def test_the_number_expected_matters_to_the_rules_that_are_named(rule: RuleName) -> None:
    rounds = np.random.default_rng(1).normal(size=(20, 15, 4))

    def outcomes(n_attackers: int) -> list[list[float]]:
        made = make_rule(rule, n_attackers=n_attackers, beyond="mark")
        return [
            made.aggregate(updates, clients=range(15), round=number).update.tolist()
            for number, updates in enumerate(rounds)
        ]

    assert (outcomes(1) != outcomes(3)) == (rule in GUESSING)
    choice = LabChoice(rule=rule, share=30, clients=10, expected=2)
    assert choice.too_few_expected == (rule in GUESSING)


def test_verdicts_say_it_honestly() -> None:
    choice = LabChoice(rule="krum")
    holds = told(choice, honest=0.7, attacked=0.3, defended=0.69, insured=0.699)
    assert "take 0.400 of nDCG@10 away" in holds
    assert "krum holds: it gives back 98 % of the loss" in holds
    assert "costs next to nothing (nDCG@10 -0.001)" in holds
    vain = told(choice, honest=0.7, attacked=0.3, defended=0.308, insured=0.2)
    assert "krum does not help: it gives back 2 % of the loss" in vain
    assert "costs 0.500 of nDCG@10: more than the attack takes without it" in vain
    assert "helps in part: it gives back 50 %" in told(
        choice, honest=0.7, attacked=0.3, defended=0.5
    )
    worse = told(choice, honest=0.7, attacked=0.699, defended=0.1)
    assert "next to no harm" in worse
    assert "krum makes it worse than no defence: nDCG@10 -0.599" in worse
    assert told(choice, honest=0.7) == ""


def test_clicks_are_read_off_updates_by_protection(browser: Browser, scene: Scene) -> None:
    job = ended(browser, scene, "/attack-lab/clicks", **READING)
    assert (job.state, job.error) == ("done", "")
    none, summed = job.snapshot()["found"]["readings"]
    assert none["best"]["auc"] > 0.95 > summed["best"]["auc"]
    assert none["best"]["auc"] > none["guess"]["auc"]
    chart = reading_chart([none, summed])
    assert chart.series[0].y == [none["best"]["auc"], summed["best"]["auc"]]
    page = seen(browser.get("/attack-lab").text)
    assert f"{none['best']['auc']:.3f} AUC of the best of" in page
    assert "best guess (no update seen)" in page
    assert "(no update seen)" in page


@pytest.mark.parametrize(
    ("wrong", "status", "words"),
    [
        ({"protections": []}, 422, ("protections",)),
        ({"protections": ["magic"]}, 422, ("Input should be",)),
        ({"clients": 1}, 422, ("clients",)),
        ({"epsilon": 0}, 422, ("epsilon",)),
        ({"click_model": "poison"}, 400, ("no such click model",)),
    ],
)
def test_wrong_readings_are_refused(
    browser: Browser, wrong: dict[str, object], status: int, words: tuple[str, ...]
) -> None:
    refused(browser.post("/attack-lab/clicks", data=READING | wrong), status, *words)


def test_a_reading_without_a_protection_is_refused() -> None:
    with pytest.raises(SettingsError, match="nothing was chosen"):
        ReadingChoice(protections=()).check()
