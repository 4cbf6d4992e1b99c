"""The federation: nodes, health, rounds, learning curves, rules in force, who was dropped."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from cloister.app.console.charts import Chart, Series
from cloister.app.console.jobs import Job
from cloister.app.console.page import render
from cloister.app.console.scene import Scene
from cloister.app.demo.clinic_federation import VOTES_EPSILON
from cloister.core.errors import BudgetExceeded, CloisterError, Conflict, NotFound, StoreError
from cloister.federate.engines.agreement import FederationAgreement
from cloister.services.federation_folder import COORDINATOR

__all__ = ["federation_router"]

KIND: Final = "federation"
TIMEOUT_S: Final = 2.0  # for a node's word on how it stands
MOST_ROUNDS: Final = 20  # of one press of a button
SEARCHES: Final = 1  # of each researcher before a round
_ACTIONS: Final = {
    "pause": ("PUT", "/v1/pause", {"paused": True}),
    "resume": ("PUT", "/v1/pause", {"paused": False}),
    "try": ("POST", "/v1/trials", {"share": 0.5}),
    "decide": ("POST", "/v1/decisions", None),
    "rollback": ("POST", "/v1/rollbacks", None),
}


class _Node(NamedTuple):
    """How a node stands; without status where it does not answer."""

    name: str
    url: str
    status: dict[str, Any] | None
    error: str


def federation_router(scene: Scene) -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()

    @router.get("/federation")
    def show(request: Request, job: str = "") -> Response:
        return render(request, "federation.html", title="Federation", **_seen(scene))

    @router.get("/federation/live")
    def live(request: Request) -> Response:
        return render(request, "federation_live.html", title="", **_seen(scene))

    @router.post("/federation/rounds")
    def one_round() -> Response:
        scene.leave_pages()
        scene.office.post(COORDINATOR, "/v1/rounds")
        return RedirectResponse("/federation", 303)

    @router.post("/federation/do/{action}")
    def act(action: str) -> Response:
        if action not in _ACTIONS:
            raise NotFound("no such action", where=action)
        scene.leave_pages()
        method, path, body = _ACTIONS[action]
        ask = scene.office.post if method == "POST" else scene.office.put
        ask(COORDINATOR, path, body)
        return RedirectResponse("/federation", 303)

    _add_life(router, scene)
    return router


def _add_life(router: APIRouter, scene: Scene) -> None:
    """Add what only made-up people do: search by themselves, and bear it when a node is killed."""

    @router.post("/federation/days")
    def days(n_rounds: Annotated[int, Form(ge=1, le=MOST_ROUNDS)] = 3) -> Response:
        life = _life(scene)
        left = _rounds_left(scene, life.n_rounds())
        if left is not None and n_rounds > left:
            raise BudgetExceeded(
                f"{left} of the rounds that were agreed on are left", remedy="ask for no more"
            )
        scene.leave_pages()

        def work(job: Job) -> None:
            for done in range(n_rounds):
                job.advance(done, n_rounds)
                life.day(SEARCHES)
                job.advance(done, n_rounds)
                life.run_round()
            job.advance(n_rounds, n_rounds)

        scene.jobs.start(
            KIND, f"Searches, clicks and {n_rounds} round{'' if n_rounds == 1 else 's'}", work
        )
        return RedirectResponse("/federation", 303)

    @router.post("/federation/nodes/{node}/{action}")
    def change(node: str, action: str) -> Response:
        life = _life(scene)
        if node not in scene.folder.services or action not in ("kill", "start"):
            raise NotFound("no such service", where=node)
        try:
            (life.kill if action == "kill" else life.revive)(node)
        except StoreError:  # its log is for the operator's eyes, on the disk
            raise Conflict("the service did not start", where=node, remedy="see its log") from None
        return RedirectResponse("/federation", 303)


def _life(scene: Scene) -> Any:
    if scene.life is None:
        raise NotFound("these people are real", remedy="let them search by themselves")
    return scene.life


def _seen(scene: Scene) -> dict[str, Any]:
    """Ask every service how it stands, all at once."""
    with ThreadPoolExecutor(len(scene.nodes) + 2) as pool:
        coordinator = pool.submit(_coordinator, scene)
        broker = pool.submit(_asked, scene, "broker", "/v1/status")
        nodes = list(pool.map(lambda name: _node(scene, name), scene.nodes))
        status, rounds = coordinator.result()
        tables = broker.result()
    curve = _curve(scene, status)
    jobs = scene.jobs.of_kind(KIND)
    return {
        "nodes": nodes,
        "status": status,
        "rounds": rounds,
        "tables": tables,
        "rules": _rules(scene.folder.roster.agreement),
        "agreement": scene.folder.roster.agreement,
        "curve": curve,
        "charts": _charts(scene, rounds, curve),
        "job": jobs[0].snapshot() if jobs else None,
        "can_live": scene.life is not None,
        "running": _running(scene),
        "served": _served(scene, status),
        "left": None if status is None else _rounds_left(scene, status["n_rounds"]),
        "n_ready": sum(node.status["n_pages_ready"] for node in nodes if node.status),
        "most_rounds": MOST_ROUNDS,
        "votes_epsilon": VOTES_EPSILON if scene.life is not None else None,
    }


def _asked(scene: Scene, service: str, path: str) -> Any:
    try:
        return scene.office.get(service, path, timeout_s=TIMEOUT_S)
    except CloisterError:
        return None


def _coordinator(scene: Scene) -> tuple[Any, list[dict[str, Any]]]:
    status = _asked(scene, COORDINATOR, "/v1/status")
    rounds: list[dict[str, Any]] = []
    while status is not None and len(rounds) < status["n_rounds"]:
        page = _asked(scene, COORDINATOR, f"/v1/rounds?after={len(rounds)}")
        if not page or not page["rounds"]:
            break
        rounds += page["rounds"]
    return status, rounds


def _node(scene: Scene, name: str) -> _Node:
    url = scene.folder.url(name)
    try:
        return _Node(name, url, scene.office.get(name, "/v1/status", timeout_s=TIMEOUT_S), "")
    except CloisterError as error:
        return _Node(name, url, None, error.what)


def _running(scene: Scene) -> dict[str, bool]:
    life = scene.life
    if life is None:
        return {}
    processes = life.federation.processes
    return {service: processes.is_running(service) for service in scene.folder.services}


def _curve(scene: Scene, status: Any) -> list[Any]:
    if scene.life is None or status is None:
        return []
    try:
        return list(scene.life.curve())
    except CloisterError:  # the coordinator is away
        return []


def _served(scene: Scene, status: Any) -> float | None:
    """Return how good the ranker is that nodes serve with; None where nobody can tell."""
    if scene.life is None or status is None:
        return None
    try:
        return float(scene.life.served())
    except CloisterError:
        return None


def _rounds_left(scene: Scene, n_rounds: int) -> int | None:
    """Return how many rounds the agreement still allows; None where it does not say."""
    privacy = scene.folder.roster.agreement.privacy
    return None if privacy is None else max(0, privacy.n_rounds - n_rounds)


def _charts(scene: Scene, rounds: list[dict[str, Any]], curve: list[Any]) -> list[Chart]:
    numbers = [one["round_number"] for one in rounds]
    n_in = [0 if one["spoilt"] else len(one["nodes"]) for one in rounds]
    taking_part = Chart(
        "taking-part",
        "Nodes whose updates are in each round",
        "round",
        "nodes",
        [Series("nodes", numbers, n_in, style="bars")],
        (0.0, len(scene.nodes) + 0.5),
    )
    if not curve:
        return [taking_part]
    learning = Chart(
        "learning",
        "nDCG@10 of the newest ranker after each round, on queries that nobody clicked on",
        "rounds",
        "nDCG@10",
        [Series("nDCG@10", [one.n_rounds for one in curve], [one.ndcg for one in curve],
                style="lines+markers")],
    )  # fmt: skip
    return [learning, taking_part]


def _rules(agreed: FederationAgreement) -> list[tuple[str, str]]:
    """Return what was agreed on, for people."""
    told = [
        ("Training", f"{agreed.name}: PDGD from clicks, {agreed.ranker.kind} ranker of "
                     f"{agreed.ranker.n_features} features"),
        ("Sums", "by secure aggregation: the coordinator sees the sum over nodes alone"
                 if agreed.secure_aggregation else "in the open: the coordinator sees each node's"),
        ("Rule", agreed.rule if agreed.rule != "fedavg" else "mean over users (fedavg)"),
        ("A round needs", f"{agreed.min_sites} nodes; {agreed.n_colluders} of them may collude"),
    ]  # fmt: skip
    privacy = agreed.privacy
    if privacy is None:
        return [*told, ("Privacy", "none agreed: rankers can tell of users' clicks")]
    return [
        *told,
        ("Privacy", f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g} for a user with all "
                    f"clicks, over {privacy.n_rounds} rounds; no more rounds are allowed. "
                    "Words that nodes publish, and votes in trials, cost beside it: see the "
                    "ledger"),
        ("Clipping", f"an update of a user has length {privacy.clip_norm:g} at most; "
                     f"{privacy.n_users} users at all nodes together"),
    ]  # fmt: skip
