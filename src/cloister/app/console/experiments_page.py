"""Experiments: runs and their curves side by side, and papers' figures beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, get_args

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from cloister.app.console.experiment_charts import compared, job_chart
from cloister.app.console.found_runs import RunFinder, told_apart
from cloister.app.console.jobs import Job
from cloister.app.console.page import render
from cloister.app.console.reproductions import (
    TRY_FIRST,
    FigureSeen,
    Reproductions,
    Wish,
    known_paper,
    known_papers,
    newest_with,
    run_quickly,
)
from cloister.app.console.scene import Scene
from cloister.app.console.simulation_job import (
    FEWEST_CLIENTS,
    FEWEST_ROUNDS,
    METHODS,
    MOST_ATTACKERS,
    MOST_CLIENTS,
    MOST_EPSILON,
    MOST_ROUNDS,
    SimulationForm,
    run_simulation,
    simulation_settings,
)
from cloister.core.errors import NotFound, SettingsError
from cloister.data.clicks import CLICK_MODEL_NAMES
from cloister.lab.reproduce.report import interval_text, number_text
from cloister.lab.reproduce.rows import counted
from cloister.lab.simulation.settings import AttackName, RuleName

__all__ = ["experiments_router"]

KIND: Final = "experiments"
MOST_LISTED: Final = 200
MOST_COMPARED: Final = 12
OWN_COLUMNS: Final = ("rule", "attack", "attackers")
N_SHOWN_FIRST: Final = 4  # runs that are compared where none was chosen

JobId = Annotated[str, Query(alias="job", max_length=64)]
RunIds = Annotated[list[str], Query(alias="run", max_length=MOST_LISTED)]


def experiments_router(scene: Scene, results: Sequence[Path] | None = None) -> APIRouter:
    """Return the routes of the page.

    Parameters
    ----------
    scene
        What the console shows; what is run from the page goes to its folder.
    results
        Folders in which runs are looked for; unless given, the console's own and ``results`` in
        the working directory; the latter not in the demo, whose pages need no key.
    """
    own, is_demo = scene.home / "results", scene.life is not None
    usual = [own] if is_demo else [own, Path("results").absolute()]
    finder = RunFinder(results if results is not None else usual)
    kept = Reproductions(scene.home / "reproductions")
    router = APIRouter()

    @router.get("/experiments")
    def show(request: Request, run: RunIds = [], job: JobId = "") -> Response:  # noqa: B006
        return render(
            request, "experiments.html", title="Experiments", papers=_papers(scene, kept),
            home=None if is_demo else scene.home, **_simulation_form(), **_runs(finder, run),
            **_at_work(scene, finder, job),
        )  # fmt: skip

    @router.get("/experiments/live")
    def live(request: Request, job: JobId = "") -> Response:
        return render(request, "experiments_job.html", title="", **_at_work(scene, finder, job))

    @router.post("/experiments/simulations")
    def begin(form: Annotated[SimulationForm, Form()]) -> Response:
        settings = simulation_settings(form, scene.seed)
        title = f"Simulate {form.method}, {form.clients} clients, {form.rounds} rounds"
        job = scene.jobs.start(
            KIND, title, lambda job: run_simulation(job, own, settings), {"what": "simulation"}
        )
        return _begun(job)

    _add_reproductions(router, scene, kept)
    return router


def _add_reproductions(router: APIRouter, scene: Scene, kept: Reproductions) -> None:
    data = _data(scene, kept)

    @router.get("/experiments/reproductions/{name}")
    def paper(request: Request, name: str) -> Response:
        seen, found = known_paper(name, data), kept.of_paper(name)
        figures = [(figure, newest_with(found, figure.key)) for figure in seen.figures]
        return render(
            request, "experiments_paper.html", title=seen.title, paper=seen, figures=figures,
            try_first=TRY_FIRST, counted=counted, number_text=number_text,
            interval_text=interval_text,
        )  # fmt: skip

    @router.post("/experiments/reproductions/{name}")
    def run(
        name: str,
        only: Annotated[str, Form(max_length=80)] = "",
        worlds: Annotated[bool, Form()] = False,
    ) -> Response:
        worlds = worlds or data is not None
        seen = known_paper(name, data)
        chosen = [one for one in seen.figures if only in ("", one.key)]
        if not chosen:
            raise NotFound("no such figure", where=only, remedy="choose one of the list")
        _refuse_without_data(chosen, worlds=worlds)
        title = f"Reproduce {name}{', ' + only if only else ''}, the quick version"
        wish = Wish(name, only, worlds)
        asked = {"what": "reproduction", **wish._asdict()}
        return _begun(
            scene.jobs.start(KIND, title, lambda job: run_quickly(job, kept, wish), asked)
        )


def _refuse_without_data(figures: Sequence[FigureSeen], *, worlds: bool) -> None:
    """Refuse where nothing would be run."""
    if worlds and not any(one.has_world for one in figures):
        raise SettingsError(
            "no built-in world is in it", where=figures[0].key, remedy="run it on the data sets"
        )
    if not any(one.can_run for one in figures):
        missing = sorted({one.name for figure in figures for one in figure.missing})
        raise SettingsError(
            f"needs {', '.join(missing)}, which is not here",
            remedy="let CLOISTER_DATA name the folder that holds it, and start the console again",
        )


def _begun(job: Job) -> Response:
    return RedirectResponse(f"/{KIND}?job={job.job_id}", 303)


def _runs(finder: RunFinder, run_ids: Sequence[str]) -> dict[str, Any]:
    """Return the runs that there are, and those side by side that were chosen."""
    found = finder.find()
    wanted = set(run_ids) or {one.run_id for one in found[:N_SHOWN_FIRST]}
    chosen = [one for one in found if one.run_id in wanted][:MOST_COMPARED]
    listed = found[:MOST_LISTED]
    return {
        "runs": listed,
        "n_found": len(found),
        "chosen": {one.run_id for one in chosen},
        "n_left_out": max(0, len(wanted) - len(chosen)),
        "most_compared": MOST_COMPARED,
        "told_apart": told_apart(listed, beside=OWN_COLUMNS),
        "compared": compared(chosen) if chosen else None,
    }


def _simulation_form() -> dict[str, Any]:
    """Return what can be chosen of a simulation."""
    return {
        "form": SimulationForm(),
        "methods": METHODS,
        "click_models": CLICK_MODEL_NAMES,
        "rules": get_args(RuleName),
        "attacks": get_args(AttackName),
        "fewest": {"clients": FEWEST_CLIENTS, "rounds": FEWEST_ROUNDS},
        "most": {"clients": MOST_CLIENTS, "rounds": MOST_ROUNDS, "epsilon": MOST_EPSILON,
                 "attackers": MOST_ATTACKERS},
    }  # fmt: skip


def _data(scene: Scene, kept: Reproductions) -> Path | None:
    """Return where data sets are looked for, if not in the usual folder: the demo reads none."""
    return None if scene.life is None else kept.no_data_sets


def _papers(scene: Scene, kept: Reproductions) -> list[dict[str, Any]]:
    """Return each paper with what there is of it."""
    rows = []
    for paper in known_papers(_data(scene, kept)):
        found = kept.of_paper(paper.name)
        newest = {figure.key: newest_with(found, figure.key) for figure in paper.figures}
        told = [row for key, one in newest.items() if one for row in one.rows(key)]
        rows.append(
            {
                "paper": paper,
                "n_known": sum(one is not None for one in newest.values()),
                "verdicts": counted(told),
                "seconds": sum(one.seconds for one in found),
                "first": TRY_FIRST[1] if paper.name == TRY_FIRST[0] else "",
            }
        )
    return rows


def _at_work(scene: Scene, finder: RunFinder, job_id: str) -> dict[str, Any]:
    """Return the job that is asked for, or the one at work, and what it has found."""
    jobs = scene.jobs.of_kind(KIND)
    running = next((job for job in jobs if job.running), None)
    job = running or (scene.jobs.get(job_id) if job_id else None)
    if job is None or job.kind != KIND:
        return {"job": None, "job_chart": None, "job_run": None}
    told = job.snapshot()
    offline = told["found"].get("offline")
    file = told["found"].get("file")
    runs = finder.find() if file and told["asked"]["what"] == "simulation" else []
    run = next((one for one in runs if str(one.run.path) == file), None)
    return {"job": told, "job_chart": job_chart(offline) if offline else None, "job_run": run}
