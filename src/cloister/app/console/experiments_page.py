"""Experiments: runs and their curves side by side, and papers' figures beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

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
    SimulationForm,
    run_simulation,
    simulation_settings,
)
from cloister.core.errors import NotFound, SettingsError
from cloister.data.clicks import CLICK_MODEL_NAMES
from cloister.lab.reproduce.collection import data_folder
from cloister.lab.reproduce.report import interval_text, number_text
from cloister.lab.reproduce.rows import counted

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
        the working directory.
    """
    own = scene.home / "results"
    finder = RunFinder(results if results is not None else [own, Path("results").absolute()])
    kept = Reproductions(scene.home / "reproductions")
    router = APIRouter()

    @router.get("/experiments")
    def show(request: Request, run: RunIds = [], job: JobId = "") -> Response:  # noqa: B006
        return render(
            request, "experiments.html", title="Experiments", places=finder.places,
            papers=_papers(kept), form=SimulationForm(), click_models=CLICK_MODEL_NAMES,
            **_runs(finder, run), **_at_work(scene, finder, job),
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
    @router.get("/experiments/reproductions/{name}")
    def paper(request: Request, name: str) -> Response:
        seen, found = known_paper(name), kept.of_paper(name)
        figures = [(figure, newest_with(found, figure.key)) for figure in seen.figures]
        return render(
            request, "experiments_paper.html", title=seen.title, paper=seen, figures=figures,
            try_first=TRY_FIRST, data=data_folder(), counted=counted, number_text=number_text,
            interval_text=interval_text,
        )  # fmt: skip

    @router.post("/experiments/reproductions/{name}")
    def run(
        name: str,
        only: Annotated[str, Form(max_length=80)] = "",
        worlds: Annotated[bool, Form()] = False,
    ) -> Response:
        seen = known_paper(name)
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
            remedy=f"let CLOISTER_DATA name the folder that holds it; now it is {data_folder()}",
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


def _papers(kept: Reproductions) -> list[dict[str, Any]]:
    """Return each paper with what there is of it."""
    rows = []
    for paper in known_papers():
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
    run = next((one.run_id for one in runs if str(one.run.path) == file), None)
    return {"job": told, "job_chart": job_chart(offline) if offline else None, "job_run": run}
