"""Search as somebody: results with snippets, scores taken apart, clicks that are learnt from.

What a page shows is the home node's answer to that user, and nothing else: the console adds no
count, no name and no hint of its own.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup, escape

from cloister.app.console.page import render
from cloister.app.console.scene import Scene
from cloister.app.demo.clinic_federation import DemoUser
from cloister.app.federation_output import found_text
from cloister.core.errors import CloisterError, NotFound
from cloister.index.analysis import TextAnalysis
from cloister.services.node.messages import SearchAnswer

__all__ = ["search_router"]

MOST_LENGTH: Final = 500
N_SUGGESTED: Final = 6
_WORD: Final = re.compile(r"\w+")

UserId = Annotated[str, Query(alias="as", max_length=200)]
Groups = Annotated[str, Query(max_length=500)]
Text = Annotated[str, Query(alias="q", max_length=MOST_LENGTH)]
Flag = Annotated[bool, Query()]


class _Who(NamedTuple):
    """Who searches: somebody of the demo, or an account that was typed."""

    agent_id: str
    groups: frozenset[str]


def search_router(scene: Scene) -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()

    @router.get("/search")
    def show(
        request: Request, user: UserId = "", groups: Groups = "", q: Text = "", explain: Flag = True
    ) -> Response:
        who = _who(scene, user, groups)
        answer, refused = _searched(scene, who, q, explain) if q.strip() and who else (None, None)
        return render(
            request,
            "search.html",
            title="Search",
            users=scene.users,
            who=who,
            kept=_kept(scene, who),
            person=_person(scene, who),
            query=q,
            explain=explain,
            answer=answer,
            refused=refused,
            suggestions=_suggestions(scene),
            marked=_marker(q),
            found_text=_found_text(answer),
        )

    @router.post("/search/click")
    def click(
        request: Request,
        agent: Annotated[str, Form(max_length=200)],
        page_id: Annotated[str, Form(max_length=64)],
        rank: Annotated[int, Form(ge=1, le=100)],
        title: Annotated[str, Form(max_length=1000)],
        q: Annotated[str, Form(max_length=MOST_LENGTH)] = "",
        groups: Annotated[str, Form(max_length=500)] = "",
    ) -> Response:
        who = _who(scene, agent, groups)
        if who is None:
            raise NotFound("nobody searches", remedy="choose somebody")
        scene.sessions.call(*who, lambda client: client.click(page_id, rank))
        return render(
            request, "opened.html", title="The click is noted", who=who,
            person=_person(scene, who), rank=rank, document=title, query=q, groups=groups,
            kept=_kept(scene, who),
        )  # fmt: skip

    @router.post("/search/forget-me")
    def forget_me(
        agent: Annotated[str, Form(max_length=200)],
        groups: Annotated[str, Form(max_length=500)] = "",
    ) -> Response:
        who = _who(scene, agent, groups)
        if who is not None:
            scene.sessions.call(*who, lambda client: client.forget_me())
        return RedirectResponse(f"/search?{urlencode({'as': agent, 'groups': groups})}", 303)

    return router


def _who(scene: Scene, agent: str, groups: str) -> _Who | None:
    """Return who searches; in the demo only the people who have accounts."""
    for user in scene.users:
        if user.agent_id == agent:
            return _Who(user.agent_id, user.groups)
    if scene.users:
        return None if agent else _Who(scene.users[0].agent_id, scene.users[0].groups)
    return _Who(agent, frozenset(groups.replace(",", " ").split())) if agent else None


def _person(scene: Scene, who: _Who | None) -> DemoUser | None:
    return next((one for one in scene.users if who and one.agent_id == who.agent_id), None)


def _searched(
    scene: Scene, who: _Who, query: str, explain: bool
) -> tuple[SearchAnswer | None, CloisterError | None]:
    try:
        found = scene.sessions.call(*who, lambda one: one.search(query, explain=explain))
    except CloisterError as error:
        return None, error
    scene.now_looks_at(*who, found.page_id)
    return found, None


def _found_text(answer: SearchAnswer | None) -> str:
    if answer is None:
        return ""
    told = found_text(len(answer.results), answer.n_found, answer.may_be_more)
    return told[:1].upper() + told[1:]


def _kept(scene: Scene, who: _Who | None) -> int | None:
    """Return how many pages the node keeps of the user; None where it does not say."""
    if who is None:
        return None
    try:
        return scene.sessions.call(*who, lambda client: client.kept())
    except CloisterError:
        return None


def _suggestions(scene: Scene) -> list[str]:
    life = scene.life
    return [] if life is None else [query.text for query in life.needs.asked[:N_SUGGESTED]]


def _marker(query: str) -> Any:
    """Return what marks the words of a snippet whose term is one of the query's."""
    analysis = TextAnalysis()
    wanted = set(analysis.terms(query))

    def marked(text: str) -> Markup:
        parts, end = [], 0
        for found in _WORD.finditer(text):
            if wanted.intersection(analysis.terms(found[0])):
                parts += [escape(text[end : found.start()]), Markup("<mark>%s</mark>") % found[0]]
                end = found.end()
        return Markup("").join([*parts, escape(text[end:])])

    return marked
