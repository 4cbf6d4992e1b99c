"""The addresses of a coordinator.

====  ================================  =====================================  ==================
GET   ``/v1/serving``                   what nodes rank with                   node, operator
GET   ``/v1/rankers/{digest}``          a ranker                               node, operator
POST  ``/v1/trials/{trial_id}/votes``   a node's noisy votes                   node
GET   ``/v1/status``                    how training and trials stand          operator, officer
GET   ``/v1/rounds``                    rounds done, with their nodes          operator, officer
GET   ``/v1/rounds/{n_rounds}/ranker``  the ranker after so many rounds        operator
POST  ``/v1/rounds``                    run a round now                        operator
PUT   ``/v1/pause``                     stop the schedule, or let it go on     operator
PUT   ``/v1/exclusions``                ask a node no more, or again           operator
POST  ``/v1/trials``                    try the newest ranker                  operator
POST  ``/v1/decisions``                 decide the trial under way now         operator
POST  ``/v1/rollbacks``                 let the ranker before serve again      operator
GET   ``/v1/ledger``                    what readers of rankers got            operator, officer
====  ================================  =====================================  ==================
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from cloister.services.coordinator.coordinator import Coordinator, round_done
from cloister.services.coordinator.messages import (
    CoordinatorStatus,
    PauseRequest,
    RoundDone,
    RoundsPage,
    ServingAnswer,
    SiteRequest,
    TrialRequest,
)
from cloister.web.admission import allowed
from cloister.web.callers import Caller, Role
from cloister.web.messages import BinaryAnswer, BinaryBody, binary_answer, binary_body

__all__ = ["coordinator_router"]

FromNode = Annotated[Caller, allowed(Role.NODE)]
FromReader = Annotated[Caller, allowed(Role.NODE, Role.OPERATOR)]
FromOperator = Annotated[Caller, allowed(Role.OPERATOR)]
FromOffice = Annotated[Caller, allowed(Role.OPERATOR, Role.OFFICER)]
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Path(ge=0, le=2**53)]
Known = Annotated[int, Query(ge=0, le=2**53)]  # how many the caller has already
TrialId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]


def coordinator_router(coordinator: Coordinator) -> APIRouter:
    """Return the routes of a coordinator."""
    router = APIRouter(prefix="/v1")
    _add_node_routes(router, coordinator)
    _add_history_routes(router, coordinator)
    _add_operator_routes(router, coordinator)
    return router


def _add_node_routes(router: APIRouter, coordinator: Coordinator) -> None:
    @router.get("/serving")
    def serving(caller: FromReader) -> ServingAnswer:
        return coordinator.serving()

    @router.get("/rankers/{digest}", **binary_answer("a ranker as safetensors"))
    def ranker(digest: Digest, caller: FromReader) -> BinaryAnswer:
        return BinaryAnswer(coordinator.ranker(digest))

    @router.post("/trials/{trial_id}/votes", status_code=204, **binary_body("noisy votes"))
    def votes(trial_id: TrialId, content: BinaryBody, caller: FromNode) -> None:
        coordinator.take_votes(caller, trial_id, content)


def _add_history_routes(router: APIRouter, coordinator: Coordinator) -> None:
    @router.get("/status")
    def status(caller: FromOffice) -> CoordinatorStatus:
        return coordinator.status()

    @router.get("/rounds")
    def rounds(caller: FromOffice, after: Known = 0) -> RoundsPage:
        return coordinator.past_rounds(after)

    @router.get("/rounds/{n_rounds}/ranker", **binary_answer("a ranker as safetensors"))
    def ranker_after(n_rounds: Count, caller: FromOperator) -> BinaryAnswer:
        return BinaryAnswer(coordinator.ranker_after(n_rounds))


def _add_operator_routes(router: APIRouter, coordinator: Coordinator) -> None:
    @router.post("/rounds")
    def run_round(caller: FromOperator) -> RoundDone:
        return round_done(coordinator.rounds.run_round())

    @router.put("/pause")
    def pause(wanted: PauseRequest, caller: FromOperator) -> CoordinatorStatus:
        coordinator.rounds.pause(wanted.paused)
        return coordinator.status()

    @router.put("/exclusions")
    def exclude(wanted: SiteRequest, caller: FromOperator) -> CoordinatorStatus:
        coordinator.set_excluded(wanted.node, wanted.excluded)
        return coordinator.status()

    @router.post("/trials")
    def try_newest(wanted: TrialRequest, caller: FromOperator) -> ServingAnswer:
        coordinator.try_newest(wanted.share)
        return coordinator.serving()

    @router.post("/decisions")
    def decide(caller: FromOperator) -> CoordinatorStatus:
        coordinator.trials.decide_now()
        return coordinator.status()

    @router.post("/rollbacks")
    def roll_back(caller: FromOperator) -> ServingAnswer:
        return coordinator.roll_back()
