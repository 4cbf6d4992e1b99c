"""The addresses of a broker.

====  ==================  =========================================  ==================
POST  ``/v1/statistics``  a node's published tables                  node
GET   ``/v1/statistics``  the sum of all tables                      node
POST  ``/v1/selection``   nodes chosen for a query's terms           node
GET   ``/v1/form``        in which form nodes publish                node
GET   ``/v1/status``      which tables are held                      operator, officer
====  ==================  =========================================  ==================
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from cloister.core.ids import ServerId
from cloister.services.broker.messages import (
    AcceptedForm,
    BrokerStatus,
    Chosen,
    ChosenNode,
    HeldTable,
    SelectionRequest,
)
from cloister.services.broker.published_tables import HeldTables, PublishedTables
from cloister.web.admission import allowed
from cloister.web.callers import Caller, Role
from cloister.web.messages import BinaryAnswer, BinaryBody, binary_answer, binary_body

__all__ = ["broker_router"]

FromNode = Annotated[Caller, allowed(Role.NODE)]
FromOffice = Annotated[Caller, allowed(Role.OPERATOR, Role.OFFICER)]


def broker_router(tables: PublishedTables) -> APIRouter:
    """Return the routes of a broker.

    Parameters
    ----------
    tables
        What nodes have published.
    """
    router = APIRouter(prefix="/v1")

    @router.post("/statistics", **binary_body("published tables of the node that calls"))
    def publish(content: BinaryBody, caller: FromNode) -> HeldTable:
        return _told(caller.name, tables.put(ServerId(caller.name), content))

    @router.get("/statistics", **binary_answer("the sum of all published tables"))
    def total(caller: FromNode) -> BinaryAnswer:
        return BinaryAnswer(tables.total().to_bytes())

    @router.post("/selection")
    def select(wanted: SelectionRequest, caller: FromNode) -> Chosen:
        ranked = tables.ranked(wanted.terms)[: wanted.n_nodes]
        return Chosen(nodes=[ChosenNode(name=one.server_id, score=one.score) for one in ranked])

    @router.get("/form")
    def form(caller: FromNode) -> AcceptedForm:
        return AcceptedForm(form=tables.form)

    @router.get("/status")
    def status(caller: FromOffice) -> BrokerStatus:
        held = tables.held()
        return BrokerStatus(form=tables.form, tables=[_told(name, held[name]) for name in held])

    return router


def _told(node: str, held: HeldTables) -> HeldTable:
    return HeldTable(node=node, digest=held.digest, received_at=held.received_at)
