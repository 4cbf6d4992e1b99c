"""The attack lab: what attackers do to a training, what a defence saves, what updates give away."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from cloister.app.console.attack_choices import (
    ATTACKS,
    BOUNDS,
    CLICK_MODELS,
    FEWEST_CLIENTS,
    FEWEST_ROUNDS,
    GUESSING,
    MOST_CLIENTS,
    MOST_EXPECTED,
    MOST_ROUNDS,
    MOST_SEED,
    MOST_SHARE,
    RULES,
    LabChoice,
)
from cloister.app.console.attack_lab import run_lab
from cloister.app.console.attack_outcome import lab_outcome
from cloister.app.console.click_reading import (
    FEWEST_SUMMED,
    LEAST_EPSILON,
    MOST_EPSILON,
    MOST_SUMMED,
    N_ROUNDS,
    PROTECTIONS,
    ReadingChoice,
    read_clicks,
    reading_chart,
)
from cloister.app.console.jobs import Job
from cloister.app.console.page import render
from cloister.app.console.scene import Scene
from cloister.core.errors import NotFound
from cloister.federate.rules import make_rule
from cloister.lab.reproduce.click_inference.setting import Protection
from cloister.lab.simulation.settings import AttackName, RuleName

__all__ = ["attack_router"]

KIND: Final = "attack-lab"
RESULTS: Final = "results"  # the folder of the console's home that the experiments page lists
_LAB, _READING = "lab", "reading"


def attack_router(scene: Scene) -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()

    @router.get("/attack-lab")
    def show(request: Request, job: str = "") -> Response:
        jobs = scene.jobs.of_kind(KIND)
        chosen = _found(scene, job) if job else (jobs[0] if jobs else None)
        return render(
            request,
            "attack.html",
            title="Attack lab",
            jobs=jobs,
            **_forms(chosen),
            **(_shown(chosen) if chosen else {"job": None}),
        )

    @router.get("/attack-lab/live/{job_id}")
    def live(request: Request, job_id: str) -> Response:
        jobs = scene.jobs.of_kind(KIND)
        shown = _shown(_found(scene, job_id))
        return render(request, "attack_live.html", title="", jobs=jobs, **shown)

    _add_starts(router, scene)
    return router


def _add_starts(router: APIRouter, scene: Scene) -> None:
    @router.post("/attack-lab")
    def start(
        attack: Annotated[AttackName, Form()],
        rule: Annotated[RuleName, Form()],
        share: Annotated[int, Form(ge=0, le=MOST_SHARE)],
        click_model: Annotated[str, Form(max_length=50)],
        clients: Annotated[int, Form(ge=FEWEST_CLIENTS, le=MOST_CLIENTS)],
        rounds: Annotated[int, Form(ge=FEWEST_ROUNDS, le=MOST_ROUNDS)],
        seed: Annotated[int, Form(ge=0, le=MOST_SEED)],
        expected: Annotated[int | None, Form(ge=0, le=MOST_EXPECTED)] = None,
    ) -> Response:
        choice = LabChoice(
            attack=attack, rule=rule, share=share, expected=expected, click_model=click_model,
            clients=clients, rounds=rounds, seed=seed,
        )  # fmt: skip
        choice.check()
        who = f"{choice.n_attackers} of {clients} clients attack" if choice.n_attackers else ""
        title = f"{attack} against {rule}: {who}" if who else f"{rule}, nobody attacks"
        work = partial(run_lab, choice, scene.home / RESULTS)
        return _started(scene, _LAB, title, work, choice.model_dump(mode="json"))

    @router.post("/attack-lab/clicks")
    def read(
        protections: Annotated[list[Protection], Form(max_length=4)],
        click_model: Annotated[str, Form(max_length=50)],
        clients: Annotated[int, Form(ge=FEWEST_SUMMED, le=MOST_SUMMED)],
        epsilon: Annotated[float, Form(ge=LEAST_EPSILON, le=MOST_EPSILON)],
        seed: Annotated[int, Form(ge=0, le=MOST_SEED)],
    ) -> Response:
        choice = ReadingChoice(
            protections=tuple(dict.fromkeys(protections)), click_model=click_model,
            clients=clients, epsilon=epsilon, seed=seed,
        )  # fmt: skip
        choice.check()
        title = f"Clicks read off updates, protection: {', '.join(choice.protections)}"
        work = partial(read_clicks, choice)
        return _started(scene, _READING, title, work, choice.model_dump(mode="json"))


def _started(scene: Scene, form: str, title: str, work: Any, asked: dict[str, Any]) -> Response:
    job = scene.jobs.start(KIND, title, lambda job: work(job), {"form": form, **asked})
    return RedirectResponse(f"/attack-lab?job={job.job_id}", 303)


def _found(scene: Scene, job_id: str) -> Job:
    """Return a job of this page."""
    job = scene.jobs.get(job_id)
    if job.kind != KIND:
        raise NotFound("no such experiment", remedy="begin one")
    return job


def _shown(job: Job) -> dict[str, Any]:
    """Return what a template shows of an experiment."""
    seen = job.snapshot()
    asked = {name: value for name, value in seen["asked"].items() if name != "form"}
    if seen["asked"]["form"] == _LAB:
        outcome = lab_outcome(LabChoice(**asked), seen["found"])
        return {"job": seen, "outcome": outcome, "readings": None}
    readings = seen["found"].get("readings", [])
    chart = reading_chart(readings) if readings else None
    return {"job": seen, "outcome": None, "readings": readings, "reading_chart": chart,
            "protection_words": PROTECTIONS}  # fmt: skip


def _forms(chosen: Job | None) -> dict[str, Any]:
    """Return what the forms offer, filled with what was chosen last."""
    asked = dict(chosen.asked) if chosen else {}
    form = asked.pop("form", "")
    lab = LabChoice(**asked) if form == _LAB else LabChoice()
    return {
        "attacks": ATTACKS,
        "rules": RULES,
        "bounds": BOUNDS,
        "guessing": GUESSING,
        "tolerates": {name: make_rule(name).most_attackers(lab.clients) for name in RULES},
        "click_models": CLICK_MODELS,
        "lab": lab,
        "reading_form": ReadingChoice(**asked) if form == _READING else ReadingChoice(),
        "protections": PROTECTIONS,
        "most": {"share": MOST_SHARE, "clients": MOST_CLIENTS, "rounds": MOST_ROUNDS,
                 "expected": MOST_EXPECTED, "seed": MOST_SEED},
        "fewest": {"clients": FEWEST_CLIENTS, "rounds": FEWEST_ROUNDS},
        "summed": (FEWEST_SUMMED, MOST_SUMMED),
        "epsilons": (LEAST_EPSILON, MOST_EPSILON),
        "noisy_rounds": N_ROUNDS,
    }  # fmt: skip
