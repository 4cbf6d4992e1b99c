"""The addresses of a node.

======  ==============================  ===================================  ==================
POST    ``/v1/search``                  a result page                        user
POST    ``/v1/pages/{page_id}/clicks``  a click on it                        user
POST    ``/v1/pages/{page_id}/end``     it was left, and takes no more       user
GET     ``/v1/me``                      how many pages are kept of the user  user
DELETE  ``/v1/me``                      delete them                          user
POST    ``/v1/ask``                     another node asks for its user       node
POST    ``/v1/round``                   a stage of a round                   coordinator
GET     ``/v1/status``                  how the node stands                  operator, officer
POST    ``/v1/publications``            publish new statistics               operator
POST    ``/v1/syncs``                   look at the pods for changes         operator
GET     ``/v1/ledger``                  what left the node                   operator, officer
======  ==============================  ===================================  ==================
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import unquote

from fastapi import APIRouter, Path

from cloister.core.ids import AgentId, GroupId
from cloister.core.rights import Reader
from cloister.search.node import Hit
from cloister.services.node.at_once import AtOnce
from cloister.services.node.messages import (
    ClickRequest,
    KeptOfUser,
    NodeStatus,
    Published,
    SearchAnswer,
    SearchRequest,
    SearchResult,
    Synced,
)
from cloister.services.node.node import Node
from cloister.services.node.user_search import FoundPage
from cloister.web.admission import allowed
from cloister.web.callers import Caller, Role
from cloister.web.messages import BinaryAnswer, BinaryBody, binary_answer, binary_body

__all__ = ["node_router"]

MOST_SEARCHES: Final = 16  # at a time; each may wait for other nodes
MOST_WAITING: Final = 64  # more are told to come later

FromUser = Annotated[Caller, allowed(Role.USER)]
FromNode = Annotated[Caller, allowed(Role.NODE)]
FromCoordinator = Annotated[Caller, allowed(Role.COORDINATOR)]
FromOperator = Annotated[Caller, allowed(Role.OPERATOR)]
FromOffice = Annotated[Caller, allowed(Role.OPERATOR, Role.OFFICER)]
PageId = Annotated[str, Path(max_length=64)]


def node_router(node: Node) -> APIRouter:
    """Return the routes of a node."""
    router = APIRouter(prefix="/v1")
    _add_user_routes(router, node)
    _add_peer_routes(router, node)
    _add_office_routes(router, node)
    return router


def _add_user_routes(router: APIRouter, node: Node) -> None:
    searches = AtOnce(MOST_SEARCHES, MOST_WAITING)

    @router.post("/search")
    async def search(wanted: SearchRequest, caller: FromUser) -> SearchAnswer:
        found = await searches.run(
            lambda: node.search.search(
                _reader(caller), wanted.query, with_explanations=wanted.explain
            )
        )
        return _told(found)

    @router.post("/pages/{page_id}/clicks", status_code=204)
    def click(page_id: PageId, clicked: ClickRequest, caller: FromUser) -> None:
        node.log.click(page_id, AgentId(caller.name), clicked.rank)

    @router.post("/pages/{page_id}/end", status_code=204)
    def leave(page_id: PageId, caller: FromUser) -> None:
        node.log.leave(page_id, AgentId(caller.name))

    @router.get("/me")
    def kept(caller: FromUser) -> KeptOfUser:
        return KeptOfUser(n_pages=node.log.count_user(AgentId(caller.name)))

    @router.delete("/me")
    def forget(caller: FromUser) -> KeptOfUser:
        return KeptOfUser(n_pages=node.log.forget_user(AgentId(caller.name)))


def _add_peer_routes(router: APIRouter, node: Node) -> None:
    @router.post("/ask", **binary_body("a signed question"), **binary_answer("its answer"))
    def ask(content: BinaryBody, caller: FromNode) -> BinaryAnswer:
        return BinaryAnswer(node.answer_peer(caller, content))

    @router.post("/round", **binary_body("a call of a round"), **binary_answer("the reply"))
    def take_part(content: BinaryBody, caller: FromCoordinator) -> BinaryAnswer:
        return BinaryAnswer(node.take_part(content))


def _add_office_routes(router: APIRouter, node: Node) -> None:
    @router.get("/status")
    def status(caller: FromOffice) -> NodeStatus:
        return node.status()

    @router.post("/publications")
    def publish(caller: FromOperator) -> Published:
        return node.publish()

    @router.post("/syncs")
    def sync(caller: FromOperator) -> Synced:
        return Synced(n_changed=node.sync_pods())


def _reader(caller: Caller) -> Reader:
    return Reader(AgentId(caller.name), frozenset(map(GroupId, caller.groups)))


def _told(found: FoundPage) -> SearchAnswer:
    lines = found.explanations or ((),) * len(found.shown)
    whys = found.whys or (None,) * len(found.shown)
    return SearchAnswer(
        page_id=found.page_id,
        n_found=found.n_found,
        may_be_more=found.may_be_more,
        results=[
            SearchResult(
                rank=rank,
                title=one.hit.title or _name(one.hit),
                doc_id=one.hit.doc_id,
                pod=one.hit.pod_id,
                server=one.server_id,
                snippet=one.hit.snippet,
                score=one.score,
                explanation=list(explained),
                why=why,
            )
            for rank, (one, explained, why) in enumerate(
                zip(found.shown, lines, whys, strict=True), 1
            )
        ],
        missing_nodes=list(found.missing),
        missing_pods=list(found.missing_pods),
    )


def _name(hit: Hit) -> str:
    """Return what a document is called in its pod."""
    inside = hit.doc_id.removeprefix(hit.pod_id).lstrip("/")
    return unquote(inside) if hit.doc_id.startswith(("https:", "http:")) else inside or hit.doc_id
