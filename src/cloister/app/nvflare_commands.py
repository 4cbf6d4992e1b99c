"""``cloister nvflare``: ``provision``, ``start``, ``train``, ``status`` and ``stop``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cloister.app.output import JsonFlag, command_result, table

__all__ = ["app"]

Result = dict[str, Any]

app = typer.Typer(
    help="A federation of sites over NVFlare: startup kits, processes, trainings.",
    no_args_is_help=True,
)

KitsFolder = Annotated[Path, typer.Argument(metavar="KITS", help="A folder for all kits.")]
Roster = Annotated[
    Path, typer.Option(metavar="FILE", help="The federation's roster, as all members have it.")
]
Places = Annotated[
    list[Path],
    typer.Argument(metavar="KIT...", help="Startup kits, or a folder with several of them."),
]


def _show_kits(result: Result) -> None:
    table("startup kits", ["whose", "folder"], [[n, p] for n, p in result["kits"].items()])
    typer.echo(f"The authority's private key is in {result['authority']}: put it away.")


def _show_processes(result: Result) -> None:
    rows = [
        [one["name"], one["role"], str(one["keeper"] or "-"), str(one["process"] or "-")]
        for one in result["kits"]
    ]
    table("processes", ["whose", "role", "keeper", "process"], rows)
    if sites := result.get("sites"):
        typer.echo(f"connected sites: {', '.join(sites)}")
    for job in result.get("jobs", []):
        typer.echo(f"{job['training']}: {job['state']} {job['progress'] or ''}")


def _show_trained(result: Result) -> None:
    typer.echo(
        f"{result['training']}: {result['done']} rounds; {result['jobs']} jobs, "
        f"{result['pauses']} pauses, {result['seconds']:.0f} s"
    )


@app.command("provision")
@command_result(_show_kits)
def provision(
    folder: KitsFolder,
    roster: Roster,
    server: Annotated[
        str, typer.Option(help="The name by which sites and operator reach the server.")
    ] = "localhost",
    port: Annotated[int, typer.Option(help="Where the server listens.", min=1, max=65535)] = 8002,
    files: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            help="All on one machine: link coordinator.toml and SITE.toml of this folder.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> Result:
    """Make startup kits with certificates for the server, the operator and all sites of a roster.

    Needs the extra `engines`. Whoever runs this holds all private keys until kits are handed out.
    """
    from cloister.federate.engines.nvflare.kits import AUTHORITY, KitProject, link_files, make_kits
    from cloister.federate.engines.roster import FederationRoster

    read = FederationRoster.from_json(roster)
    names = tuple(member.name for member in read.members)
    project = KitProject(name=read.name, sites=names, server=server, port=port)
    kits = make_kits(folder, project)
    if files is not None:
        link_files(kits, files)
    made = {"server": kits.server, "operator": kits.operator, **kits.sites}
    return {
        "kits": {name: str(path) for name, path in made.items()},
        "authority": str(folder / AUTHORITY),
        "port": port,
    }


@app.command("start")
@command_result(_show_processes)
def start(places: Places, as_json: JsonFlag = False) -> Result:
    """Start the processes of kits on this machine; each is kept alive by a keeper.

    A killed process is started again at once. The keepers go on when this command has ended.
    """
    from cloister.federate.engines.nvflare.kit_processes import start_kit
    from cloister.federate.engines.nvflare.kits import kits_with_processes

    kits = kits_with_processes(places)
    for kit in kits:
        start_kit(kit)
    return {"kits": [_described(kit) for kit in kits]}


@app.command("stop")
@command_result(_show_processes)
def stop(places: Places, as_json: JsonFlag = False) -> Result:
    """Stop the processes of kits on this machine, sites before the server.

    A training under way goes on without a stopped site, and waits without the server.
    """
    from cloister.federate.engines.nvflare.kit_processes import stop_kit
    from cloister.federate.engines.nvflare.kits import kits_with_processes

    kits = kits_with_processes(places)
    for kit in reversed(kits):
        stop_kit(kit)
    return {"kits": [_described(kit) for kit in kits]}


@app.command("status")
@command_result(_show_processes)
def status(
    places: Places,
    operator: Annotated[
        Path | None,
        typer.Option(metavar="KIT", help="Ask the server, too, with the operator's kit."),
    ] = None,
    as_json: JsonFlag = False,
) -> Result:
    """Say which kits run here; with the operator's kit also who is connected, and what runs."""
    from cloister.federate.engines.nvflare.kits import kits_with_processes

    result: Result = {"kits": [_described(kit) for kit in kits_with_processes(places)]}
    if operator is None:
        return result
    from cloister.federate.engines.nvflare.operator_session import opened_session

    with opened_session(operator) as session:
        result["sites"] = sorted(session.sites())
        result["jobs"] = session.live_jobs()
    return result


@app.command("train")
@command_result(_show_trained)
def train(
    operator: Annotated[Path, typer.Argument(metavar="KIT", help="The operator's kit.")],
    roster: Roster,
    patience: Annotated[
        float, typer.Option(help="Seconds that the server may be away.", min=1.0)
    ] = 600.0,
    gather: Annotated[
        float, typer.Option(help="Seconds to wait for all sites before a job begins.", min=0.0)
    ] = 20.0,
    rejoin: Annotated[
        float,
        typer.Option(help="Shortest time between two pauses for sites that came back.", min=0.0),
    ] = 30.0,
    as_json: JsonFlag = False,
) -> Result:
    """Train until all rounds of the coordinator's file are done, whatever is killed meanwhile.

    Submits the training as a job, watches it, and submits it again when it was killed, when the
    server was, or when a site came back. Started again, it goes on with what runs.
    """
    from cloister.federate.engines.nvflare.supervisor import Supervision, TrainingSupervisor
    from cloister.federate.engines.roster import FederationRoster

    read = FederationRoster.from_json(roster)
    supervisor = TrainingSupervisor(
        operator,
        read.agreement.name,
        tuple(read.site_ids),
        min_sites=read.agreement.min_sites,
        supervision=Supervision(patience_s=patience, gather_s=gather, rejoin_s=rejoin),
        tell=lambda news: typer.echo(json.dumps(news), err=True),
    )
    done = supervisor.run()
    return {
        "training": read.agreement.name,
        "done": done.progress.get("done"),
        "jobs": done.n_jobs,
        "pauses": done.n_pauses,
        "server_away": done.n_away,
        "seconds": done.seconds,
    }


def _described(kit: Path) -> Result:
    from cloister.federate.engines.nvflare.kit_processes import kit_process
    from cloister.federate.engines.nvflare.kits import read_kit

    whose, running = read_kit(kit), kit_process(kit)
    return {
        "name": whose.name,
        "role": whose.role,
        "folder": str(kit),
        "keeper": running.keeper,
        "process": running.process,
    }
