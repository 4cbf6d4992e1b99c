"""The search page names what gave no answer, and so does the command."""

from __future__ import annotations

import re

import pytest

from app.console.browser import Browser
from cloister.app.console.console import make_console
from cloister.app.console.scene import Scene
from cloister.app.federation_output import show_found
from cloister.services.node.messages import SearchAnswer


@pytest.mark.parametrize(
    ("nodes", "pods"), [([], []), (["clinic-b"], []), ([], ["bob"]), (["clinic-b"], ["bob"])]
)
def test_what_gave_no_answer_is_named(
    scene: Scene,
    nodes: list[str],
    pods: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = SearchAnswer(
        page_id="", n_found=0, may_be_more=bool(nodes), results=[],
        missing_nodes=nodes, missing_pods=pods,
    )  # fmt: skip
    monkeypatch.setattr(scene.sessions, "call", lambda *_: found)
    page = Browser(make_console(scene)).get("/search?as=clinic-a:ann&q=cough").text
    text = " ".join(re.sub(r"<[^>]+>", "", page).split())
    assert ("from: clinic-b." in text) == bool(nodes)
    assert ("from the pods: bob." in text) == bool(pods)
    assert ("at the nodes and pods that answered" in text) == bool(nodes or pods)
    show_found(found.model_dump() | {"query": "cough", "user": "ann", "not_clicked": []})
    said = capsys.readouterr().out
    assert ("from: clinic-b" in said) == bool(nodes)
    assert ("from the pods: bob" in said) == bool(pods)
