"""``cloister pods add``, ``sync``, ``list`` and ``remove``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cloister.app.output import JsonFlag, command_result, say, table
from cloister.app.pods_options import HomeOption, open_home

__all__ = ["app"]

Result = dict[str, Any]

app = typer.Typer(
    help="The pods that can be searched here: folders, and pods on Solid servers.",
    no_args_is_help=True,
)
PodNames = Annotated[
    list[str] | None, typer.Argument(metavar="[POD]...", help="All pods unless named.")
]


def _show_synced(result: Result) -> None:
    columns = ["pod", "added", "changed", "deleted", "rights", "unchanged", "left out"]
    keys = ("pod", "added", "changed", "deleted", "rights_changed", "unchanged", "left_out")
    table("", columns, [[one[key] for key in keys] for one in result["synced"]])
    for one in result["failed"]:
        say(f"{one['pod']}: {one['error']}; {one['remedy']}")


def _show_listed(result: Result) -> None:
    rows = [
        [one["pod"], one["server"], one["owner"], one["kind"], one["documents"], one["address"]]
        for one in result["pods"]
    ]
    table("", ["pod", "server", "owner", "kind", "documents", "address"], rows)


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
    credentials: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Of a Solid pod: JSON with issuer, client_id, client_secret, web_id.",
        ),
    ] = None,
    home: HomeOption = None,
    as_json: JsonFlag = False,
) -> Result:
    """Add a pod and index it.

    A folder becomes a pod that only its owner may read, unless it is one already; grant others
    access with `cloister grant`, or by .acl files (Web Access Control).
    """
    from cloister.app.pods_adding import registered_pod
    from cloister.pods.registry import RegisteredPod

    with open_home(home) as registry:
        found: RegisteredPod = registered_pod(
            address, pod=pod, owner=owner, server=server, credentials=credentials
        )
        registry.add(found)
        return _synced(registry, [found])


@app.command("sync")
@command_result(_show_synced)
def sync(pods: PodNames = None, home: HomeOption = None, as_json: JsonFlag = False) -> Result:
    """Bring the indexes up to date with the pods: texts, and who may read them.

    A pod that does not answer keeps what was indexed, and is named.
    """
    with open_home(home) as registry:
        chosen = [registry.pod(name) for name in pods or registry.pods]
        return _synced(registry, chosen)


@app.command("list")
@command_result(_show_listed)
def list_pods(home: HomeOption = None, as_json: JsonFlag = False) -> Result:
    """List the pods."""
    with open_home(home) as registry:
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
                }
                for pod in registry.pods.values()
            ],
        }


@app.command("remove")
@command_result(lambda result: say(f"{result['removed']} documents are no longer indexed"))
def remove(
    pod: Annotated[str, typer.Argument(metavar="POD", help="Its name.")],
    home: HomeOption = None,
    as_json: JsonFlag = False,
) -> Result:
    """Take a pod out of the index; the pod itself stays as it is."""
    with open_home(home) as registry:
        return {"pod": pod, "removed": registry.remove(pod)}


def _synced(registry: Any, pods: list[Any]) -> Result:
    """Sync pods one after the other; one that fails does not keep the others from it."""
    from cloister.core.errors import CloisterError
    from cloister.pods.sync import sync as sync_pod

    done, failed = [], []
    for pod in pods:
        try:
            counts = sync_pod(registry.datastore(pod), registry.shard(pod.server_id))
        except CloisterError as error:
            failed.append({"pod": pod.pod_id, "error": error.message, "remedy": error.remedy})
        else:
            done.append({"pod": pod.pod_id} | counts._asdict())
    if failed and not done:
        raise CloisterError(failed[0]["error"], where=failed[0]["pod"], remedy=failed[0]["remedy"])
    return {"synced": done, "failed": failed}
