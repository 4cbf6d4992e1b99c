"""``cloister grant`` and ``cloister revoke``: who may read a document, changed at its pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cloister.app.output import JsonFlag, checked_usage, command_result, say
from cloister.app.pods_options import HomeOption, open_home

__all__ = ["grant", "revoke"]

Result = dict[str, Any]
Documents = Annotated[
    list[str], typer.Argument(metavar="DOCUMENT...", help="Ids, as search shows them.")
]
To = Annotated[
    list[str] | None,
    typer.Option("--to", metavar="AGENT", help="A name or WebID; may be repeated."),
]
From = Annotated[
    list[str] | None,
    typer.Option("--from", metavar="AGENT", help="A name or WebID; may be repeated."),
]
Group = Annotated[
    list[str] | None, typer.Option("--group", metavar="GROUP", help="A group; may be repeated.")
]
Public = Annotated[bool, typer.Option("--public", help="Everybody.")]


def _show(result: Result) -> None:
    for one in result["documents"]:
        say(f"{one['doc_id']}: may be read by {_readers(one)}")
    for server in result["tables_failed"]:
        say(f"{server}: the tables in its own pod could not be brought up to date; sync again")


def _readers(document: Result) -> str:
    if document["public"]:
        return "everybody"
    names = [document["owner"], *document["agents"]]
    names += [f"group {name}" for name in document["groups"]]
    names += ["everybody with a verified identity"] if document["authenticated"] else []
    return ", ".join(filter(None, names)) or "nobody"


def _refuse_nobody(given: Mapping[str, Any]) -> None:
    """Have somebody named."""
    if not any(given.get(name) for name in ("to", "from_", "group", "public")):
        raise typer.BadParameter("name an agent, a group, or --public")


@checked_usage(_refuse_nobody)
@command_result(_show)
def grant(
    documents: Documents,
    to: To = None,
    group: Group = None,
    public: Public = False,
    home: HomeOption = None,
    as_json: JsonFlag = False,
) -> Result:
    """Let others read documents: changes the pod's .acl, and holds for the next search."""
    return _changed(home, documents, to, group, public=public, give=True)


@checked_usage(_refuse_nobody)
@command_result(_show)
def revoke(
    documents: Documents,
    from_: From = None,
    group: Group = None,
    public: Public = False,
    home: HomeOption = None,
    as_json: JsonFlag = False,
) -> Result:
    """Take back what was granted; holds for the next search.

    What an agent may read by a group that is not named stays. An owner who is named no longer
    reads the document, and can grant it again.
    """
    return _changed(home, documents, from_, group, public=public, give=False)


def _changed(
    home: Any,
    documents: list[str],
    agents: list[str] | None,
    groups: list[str] | None,
    *,
    public: bool,
    give: bool,
) -> Result:
    from cloister.app.granting import change_rights

    with open_home(home) as registry:
        return change_rights(
            registry, documents, agents or [], groups or [], public=public, give=give
        )
