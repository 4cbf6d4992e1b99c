"""Forgetting: choose a client, watch a federation unlearn it, read the certificate."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from cloister.app.console.charts import Chart, Series
from cloister.app.console.jobs import Job
from cloister.app.console.page import render
from cloister.app.console.scene import Scene
from cloister.app.console.stored_clients import FederationSeen, StoredClients
from cloister.app.console.unlearning_job import (
    KEEP_EVERY,
    N_CLIENTS,
    Wish,
    forget_client,
    train_federation,
    training_settings,
)
from cloister.core.errors import CloisterError, Conflict, NotFound
from cloister.lab.forgetting.statement import Method

__all__ = ["forget_router"]

KIND: Final = "forget"
FOLDER: Final = "forgettable"
FEWEST_ROUNDS, USUAL_ROUNDS, MOST_ROUNDS = 20, 600, 3000
MOST_STEPS: Final = 20

JobId = Annotated[str, Query(alias="job", max_length=64)]
Rounds = Annotated[int, Form(ge=FEWEST_ROUNDS, le=MOST_ROUNDS)]
ClientName = Annotated[str, Form(max_length=40)]
LocalSteps = Annotated[int, Form(ge=1, le=MOST_STEPS)]
Flag = Annotated[bool, Form()]


def forget_router(scene: Scene) -> APIRouter:
    """Return the routes of the page."""
    router, stored = APIRouter(), StoredClients(scene.home / FOLDER)

    @router.get("/forget")
    def show(request: Request, job_id: JobId = "") -> Response:
        return render(request, "forget.html", title="Forget", **_shown(scene, stored, job_id))

    @router.get("/forget/live")
    def live(request: Request, job_id: JobId = "") -> Response:
        return render(request, "forget_live.html", title="", **_shown(scene, stored, job_id))

    @router.get("/forget/certificates/{number}.json")
    def certificate(number: int) -> Response:
        content = _certificate(stored.look(), number)
        name = f"certificate-{number}.json"
        return Response(
            json.dumps(content, indent=1) + "\n",
            media_type="application/json",
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    _add_jobs(router, scene, stored)
    return router


def _add_jobs(router: APIRouter, scene: Scene, stored: StoredClients) -> None:
    @router.post("/forget/training")
    def train(n_rounds: Rounds = USUAL_ROUNDS, aside: Flag = False) -> Response:
        _refuse_while_running(scene)
        if aside:
            stored.put_aside()
        elif stored.look() is not None:
            raise Conflict(
                "a federation is here already", remedy="put it aside first, with the other button"
            )
        settings = training_settings(scene.seed, n_rounds)

        def work(job: Job) -> None:
            train_federation(job, stored.folder, settings)

        title = f"Train {N_CLIENTS} clients, {n_rounds} rounds"
        return _begun(scene.jobs.start(KIND, title, work, {"what": "training"}))

    @router.post("/forget/clients")
    def forget(
        client: ClientName,
        method: Annotated[Method, Form()] = "fed-eraser",
        local_steps: LocalSteps = 3,
        beside: Flag = False,
    ) -> Response:
        _refuse_while_running(scene)
        _refuse_unless_present(stored.look(), client)
        wish = Wish(client, method, local_steps, beside and method != "retrain")
        job = scene.jobs.start(
            KIND,
            f"Forget {client} by {method}",
            lambda job: forget_client(job, stored.folder, wish),
            {"what": "forgetting", **wish._asdict()},
        )
        return _begun(job)


def _begun(job: Job) -> Response:
    return RedirectResponse(f"/{KIND}?job={job.job_id}", 303)


def _refuse_while_running(scene: Scene) -> None:
    if any(job.running for job in scene.jobs.of_kind(KIND)):
        raise Conflict("one is under way", remedy="wait for it, or stop it")


def _refuse_unless_present(seen: FederationSeen | None, client: str) -> None:
    """Refuse before the work begins, where that can be told."""
    if seen is None:
        raise NotFound("no federation is here yet", remedy="train one first")
    found = next((one for one in seen.clients if one.name == client), None)
    if found is None:
        last = seen.clients[-1].name
        raise NotFound(f"no such client: {client}", remedy=f"choose one of client-0 to {last}")
    if found.certificate is not None:
        raise Conflict(
            f"{client} was forgotten already",
            remedy=f"read certificate {found.certificate}, or choose somebody else",
        )


def _certificate(seen: FederationSeen | None, number: int) -> Any:
    certificates = [] if seen is None else seen.certificates
    if not 1 <= number <= len(certificates):
        raise NotFound("no such certificate", where=str(number), remedy="see the list on the page")
    return certificates[number - 1].content


def _shown(scene: Scene, stored: StoredClients, job_id: str) -> dict[str, Any]:
    job = _chosen(scene, job_id)
    problem: CloisterError | None = None
    try:
        seen = stored.last if job is not None and job.running else stored.look()
    except CloisterError as error:
        seen, problem = None, error
    told = None if job is None else job.snapshot()
    return {
        "job": told,
        "charts": [] if told is None else _charts(told["found"]),
        "seen": seen,
        "problem": problem,
        "n_clients": N_CLIENTS,
        "keep_every": KEEP_EVERY,
        "rounds": (FEWEST_ROUNDS, USUAL_ROUNDS, MOST_ROUNDS),
        "most_steps": MOST_STEPS,
    }


def _chosen(scene: Scene, job_id: str) -> Job | None:
    """Return the job that is asked for, or the one at work, or the newest."""
    jobs = scene.jobs.of_kind(KIND)
    if running := [job for job in jobs if job.running]:
        return running[0]
    if job_id:
        job = scene.jobs.get(job_id)
        return job if job.kind == KIND else None
    return jobs[0] if jobs else None


def _charts(found: dict[str, Any]) -> list[Chart]:
    """Draw the rankers on the way; those of a comparison have rounds of their own."""
    beside = [
        (name, found[key])
        for name, key in (("before, with the client", "before"), ("full retraining", "retrained"))
        if key in found
    ]
    charts = [
        _chart(what, found[what], beside) for what in ("training", "forgetting") if what in found
    ]
    if "retraining" in found:
        charts.append(_chart("retraining", found["retraining"], beside[:1]))
    return charts


def _chart(what: str, points: list[tuple[int, float]], beside: list[tuple[str, float]]) -> Chart:
    rounds, values = zip(*points, strict=True)
    colours = {"before, with the client": ("bad", "dash"), "full retraining": ("series-3", "dot")}
    lines = [
        Series(name, [rounds[0], rounds[-1]], [value] * 2, colours[name][0], dash=colours[name][1])
        for name, value in beside
    ]
    return Chart(
        f"{what}-by-round",
        f"nDCG@10 on held-out queries, by round of {what}",
        "round",
        "nDCG@10",
        [Series(what, rounds, values, "series-1", "lines+markers"), *lines],
    )
