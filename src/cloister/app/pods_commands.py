"""``cloister pods add``, ``sync``, ``list``, ``remove`` and ``server-pod``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cloister.app.output import JsonFlag, checked_usage, command_result, say, table
from cloister.app.pods_options import HomeOption, open_home

__all__ = ["app"]

Result = dict[str, Any]
N_LEFT_OUT = 20  # files that are named for each pod

app = typer.Typer(
    help="The pods that can be searched here: folders, and pods on Solid servers.",
    no_args_is_help=True,
)
PodNames = Annotated[
    list[str] | None, typer.Argument(metavar="[POD]...", help="All pods unless named.")
]


Credentials = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Of a Solid pod: JSON with issuer, client_id, client_secret, web_id.",
    ),
]


def _show_synced(result: Result) -> None:
    columns = ["pod", "added", "changed", "deleted", "rights", "unchanged", "left out"]
    keys = ("pod", "added", "changed", "deleted", "rights_changed", "unchanged", "left_out")
    table("", columns, [[one[key] for key in keys] for one in result["synced"]])
    for one in result["synced"]:
        if one["pod_index_failed"]:
            say(f"{one['pod']}: {one['pod_index_failed']} changes of index resources were refused")
        _show_left_out(one)
    for one in result["failed"]:
        say(f"{one['pod']}: {one['error']}; {one['remedy']}")
    _show_tables(result)


def _show_left_out(synced: Result) -> None:
    from rich.markup import escape

    from cloister.index.analysis import MAX_WORD_CHARACTERS

    why = f"words of more than {MAX_WORD_CHARACTERS} letters are not indexed"
    long_words = [{"name": name, "reason": why} for name in synced["long_words"]]
    for what, files in (("left out", synced["left_out_files"]), ("indexed in part", long_words)):
        for one in files[:N_LEFT_OUT]:
            name = "".join(sign if sign.isprintable() else "?" for sign in one["name"])
            say(f"{what}: {escape(name)}: {escape(one['reason'])}")
        if len(files) > N_LEFT_OUT:
            n_more = len(files) - N_LEFT_OUT
            say(f"{synced['pod']}: {n_more} more are {what}; --json names all")


def _show_tables(result: Result) -> None:
    keys = ("server", "made", "unchanged", "removed")
    if result["tables"]:
        columns = ["server", "tables made", "unchanged", "removed"]
        table("", columns, [[one[key] for key in keys] for one in result["tables"]])
    for one in result["tables_failed"]:
        say(f"{one['server']}: {one['error']}; {one['remedy']}")


def _show_server_pod(result: Result) -> None:
    if result.get("tables_left"):
        say("the server keeps no tables any more; its pod does not answer: remove those in it")
    elif "removed" in result:
        say(f"the server keeps no tables any more; {result['removed']} were removed")
    _show_tables(result)


def _show_listed(result: Result) -> None:
    keys = ("pod", "server", "owner", "kind", "documents", "kept", "address")
    kept = ({"kept": "yes" if one["index_in_pod"] else "no"} | one for one in result["pods"])
    rows = [[one[key] for key in keys] for one in kept]
    columns = ["pod", "server", "owner", "kind", "documents", "index in pod", "address"]
    table("", columns, rows)
    for one in result["server_pods"]:
        say(f"{one['server']} keeps its tables in {one['address']}")


def _show_removed(result: Result) -> None:
    say(f"{result['removed']} documents are no longer indexed")
    if result["index_left"]:
        say("index resources may still be in the pod: remove files that end in .terms.bin there")


def _check_server_pod(options: Mapping[str, Any]) -> None:
    if options["remove"] is (options["address"] is not None):
        raise typer.BadParameter("name a folder or a Solid pod, or --remove")


@app.command("add")
@command_result(_show_synced)
def add(
    address: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER|URL",
            help="A folder of texts, or a pod on a Solid server (https://...).",
        ),
    ],
    pod: Annotated[str | None, typer.Option(help="Its name; the folder's unless given.")] = None,
    owner: Annotated[
        str | None, typer.Option(help="Who owns it: a name, or a WebID for a Solid pod.")
    ] = None,
    server: Annotated[str, typer.Option(help="In which server's index it is to be.")] = "home",
    credentials: Credentials = None,
    index_in_pod: Annotated[
        bool,
        typer.Option(
            "--index-in-pod",
            help="Keep an index resource beside each document, with the document's rights.",
        ),
    ] = False,
    keep_text: Annotated[
        bool,
        typer.Option(
            "--keep-text",
            help="Of a Solid pod, with its owner's consent: keep the texts of documents here,"
            " encrypted, for results. Of a folder they are kept.",
        ),
    ] = False,
    home: HomeOption = None,
    as_json: JsonFlag = False,
) -> Result:
    """Add a pod and index it.

    A folder becomes a pod that only its owner may read, unless it is one already; grant others
    access with `cloister grant`, or by .acl files (Web Access Control).
    """
    from cloister.app.pods_adding import registered_pod
    from cloister.app.pods_syncing import added

    with open_home(home, needs="home") as registry:
        found = registered_pod(
            registry,
            address,
            pod=pod,
            owner=owner,
            server=server,
            credentials=credentials,
            index_in_pod=index_in_pod,
            keep_text=keep_text,
        )
        return added(registry, found)


@app.command("sync")
@command_result(_show_synced)
def sync(pods: PodNames = None, home: HomeOption = None, as_json: JsonFlag = False) -> Result:
    """Bring the indexes up to date with the pods: texts, and who may read them.

    A pod that does not answer keeps what was indexed, and is named.
    """
    from cloister.app.pods_syncing import synced

    with open_home(home) as registry:
        return synced(registry, [registry.pod(name) for name in pods or registry.pods])


@app.command("list")
@command_result(_show_listed)
def list_pods(home: HomeOption = None, as_json: JsonFlag = False) -> Result:
    """List the pods."""
    with open_home(home, needs="home") as registry:
        return {
            "home": str(registry.home),
            "pods": [
                {
                    "pod": pod.pod_id,
                    "server": pod.server_id,
                    "owner": pod.owner,
                    "kind": pod.kind,
                    "address": pod.address,
                    "documents": len(registry.shard(pod.server_id).etags(pod.pod_id)),
                    "index_in_pod": pod.index_in_pod,
                }
                for pod in registry.pods.values()
            ],
            "server_pods": [
                {"server": pod.server_id, "kind": pod.kind, "address": pod.address}
                for pod in registry.server_pods.values()
            ],
        }


@app.command("remove")
@command_result(_show_removed)
def remove(
    pod: Annotated[str, typer.Argument(metavar="POD", help="Its name.")],
    home: HomeOption = None,
    as_json: JsonFlag = False,
) -> Result:
    """Take a pod out of the index, and index resources out of the pod; its documents stay."""
    from cloister.app.pods_syncing import removed

    with open_home(home) as registry:
        return removed(registry, pod)


@app.command("server-pod")
@checked_usage(_check_server_pod)
@command_result(_show_server_pod)
def server_pod(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="Its name.")],
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="[FOLDER|URL]", help="A folder, made where there is none, or a Solid pod."
        ),
    ] = None,
    owner: Annotated[
        str | None, typer.Option(help="Who keeps it.", show_default="the server")
    ] = None,
    credentials: Credentials = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Take it from the server, with all tables in it.")
    ] = False,
    home: HomeOption = None,
    as_json: JsonFlag = False,
) -> Result:
    """Give a server a pod of its own, in which it keeps a table for each user.

    A table tells its user how often each word occurs in what the user may read on that server. With
    it `cloister search --from-pods` chooses servers without asking them.
    """
    from cloister.app.pods_adding import add_server_pod
    from cloister.app.pods_syncing import refreshed_tables
    from cloister.core.ids import ServerId
    from cloister.pods.server_tables import ServerTables

    with open_home(home) as registry:
        if remove:
            n_removed = ServerTables(registry).remove(ServerId(server))
            left = {"removed": n_removed or 0, "tables_left": n_removed is None}
            return {"tables": [], "tables_failed": []} | left
        add_server_pod(registry, server, address or "", owner=owner, credentials=credentials)
        return refreshed_tables(registry, [ServerId(server)])
