"""``cloister flower``: ``provision``, ``start``, ``train``, ``status`` and ``stop``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cloister.app.output import JsonFlag, checked_usage, command_result, number, progress, table
from cloister.core.errors import MissingDependency

__all__ = ["app"]

Result = dict[str, Any]

app = typer.Typer(
    help="A federation of sites on Flower: a SuperLink, SuperNodes, rounds.", no_args_is_help=True
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Of the party, on this machine.")]
Folders = Annotated[
    list[Path], typer.Argument(metavar="FOLDER...", help="Of parties on this machine.")
]


def _check_provision(options: Mapping[str, Any]) -> None:
    """See that a coordinator has an address, a site an invitation, and a renewal neither."""
    given = {name for name in ("coordinator", "address", "site", "invitation") if options[name]}
    wanted = [{"coordinator", "address"}, {"site", "invitation"}]
    if given not in ([set()] if options["renew"] else wanted):
        raise typer.BadParameter(
            "give --coordinator with --address, or --site with --invitation, or --renew"
        )


def _show_provisioned(result: Result) -> None:
    typer.echo(f"{result['folder']}: {result['role']}; {result['next']}")


@app.command("provision")
@checked_usage(_check_provision)
@command_result(_show_provisioned)
def provision(
    folder: Folder,
    coordinator: Annotated[
        Path | None, typer.Option(metavar="TOML", help="The coordinator's own file.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the SuperLink listens.")
    ] = None,
    site: Annotated[
        Path | None, typer.Option(metavar="TOML", help="The site's own file, with its key.")
    ] = None,
    invitation: Annotated[
        Path | None, typer.Option(metavar="JSON", help="From the coordinator's folder.")
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Give the SuperLink a new certificate.")
    ] = False,
    as_json: JsonFlag = False,
) -> Result:
    """Make keys, certificates and settings of one party, in a new folder.

    Each party makes its own: private keys never travel. The invitation and a site's public key are
    public, and must come unaltered.
    """
    from cloister.federate.engines.flower.flower_folder import FlowerFolder
    from cloister.federate.engines.flower.provisioning import (
        provision_coordinator,
        provision_site,
        renew_certificate,
    )

    place = FlowerFolder(folder)
    told = f"give {place.invitation} to all sites"
    if coordinator is not None and address is not None:
        provision_coordinator(place, coordinator, address)
    elif site is not None and invitation is not None:
        told = f"give {provision_site(place, site, invitation)} to the coordinator"
    else:
        renew_certificate(place)
        told = "start the SuperLink again; sites change nothing"
    return {"folder": str(folder), "role": place.settings.role, "next": told}


def _show_started(result: Result) -> None:
    rows = [[one["folder"], name, pid] for one in result["started"] for name, pid in _pids(one)]
    table("", ["folder", "program", "pid"], rows)


def _pids(party: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, "not running" if pid is None else str(pid))
        for name, pid in party["programs"].items()
    ]


@app.command("start")
@command_result(_show_started)
def start(folders: Folders, as_json: JsonFlag = False) -> Result:
    """Start the SuperLink of a coordinator, or a site with its SuperNode, unless they run.

    The coordinator's also makes the SuperNodes known whose public keys lie in its supernodes/.
    """
    _require_flower()
    from cloister.federate.engines.flower import deployment
    from cloister.federate.engines.flower.flower_folder import FlowerFolder

    started = []
    for folder in folders:
        programs = {one.name: one.pid for one in deployment.start(FlowerFolder(folder))}
        started.append({"folder": str(folder), "programs": programs})
    return {"started": started}


def _show_trained(result: Result) -> None:
    rows = [
        [
            str(one["round"]),
            ", ".join(one["sites"]),
            ", ".join(one["silent"]) or "-",
            ", ".join(f"{site}: {kind}" for site, kind in one["faults"].items()) or "-",
            one["seconds"],
        ]
        for one in result["rounds"]
    ]
    if rows:
        table("", ["round", "counted", "silent", "refused", "seconds"], rows)
    there = f"; there: {', '.join(result['met'])}" if result["met"] else ""
    typer.echo(f"{number(result['n_rounds'])} rounds are done{there}")


@app.command("train")
@command_result(_show_trained)
def train(
    folder: Folder,
    sites: Annotated[
        int | None,
        typer.Option(min=1, help="Begin when so many sites are there; all unless given."),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="How long to wait for them.")
    ] = 60.0,
    as_json: JsonFlag = False,
) -> Result:
    """Run the rounds that the coordinator's file asks for; go on where the last call stopped."""
    _require_flower()
    from cloister.federate.engines.flower.coordinator_run import train as run_rounds
    from cloister.federate.engines.flower.flower_folder import FlowerFolder

    with progress("rounds") as advance:
        done = run_rounds(FlowerFolder(folder), n_sites=sites, meet_s=wait, advance=advance)
    rounds = [
        {
            "round": one.round_number + 1,
            "sites": one.sites,
            "silent": one.silent,
            "faults": one.faults,
            "n_interactions": one.n_interactions,
            "seconds": seconds,
        }
        for one, seconds in zip(done.rounds, done.rounds_s, strict=True)
    ]
    return {"met": done.met, "rounds": rounds, "n_rounds": done.n_rounds}


def _show_status(result: Result) -> None:
    for party in result["parties"]:
        rows = [[name, shown] for name, shown in _pids(party)]
        rows += [["rounds done", party["n_rounds"]]] if "n_rounds" in party else []
        rows += [[f"SuperNode {name}", is_] for name, is_ in party.get("supernodes", {}).items()]
        table(f"{party['folder']}: {party['role']}", ["", ""], rows)


@app.command("status")
@command_result(_show_status)
def status(folders: Folders, as_json: JsonFlag = False) -> Result:
    """Say what runs, who is there, and how many rounds are done."""
    _require_flower()
    from cloister.federate.engines.flower import deployment
    from cloister.federate.engines.flower.flower_folder import FlowerFolder

    found = [(folder, deployment.status(FlowerFolder(folder))) for folder in folders]
    return {"parties": [{"folder": str(folder)} | party for folder, party in found]}


def _show_stopped(result: Result) -> None:
    for party in result["stopped"]:
        typer.echo(f"{party['folder']}: {', '.join(party['programs']) or 'nothing ran'}")


@app.command("stop")
@command_result(_show_stopped)
def stop(folders: Folders, as_json: JsonFlag = False) -> Result:
    """Stop what runs. Rounds that are done stay; one under way is begun again."""
    _require_flower()
    from cloister.federate.engines.flower import deployment
    from cloister.federate.engines.flower.flower_folder import FlowerFolder

    stopped = [(folder, deployment.stop(FlowerFolder(folder))) for folder in folders]
    return {"stopped": [{"folder": str(one), "programs": names} for one, names in stopped]}


def _require_flower() -> None:
    try:
        import flwr  # noqa: F401
    except ImportError:
        raise MissingDependency(
            "Flower is not installed", where="flwr", remedy="install cloister[engines]"
        ) from None
