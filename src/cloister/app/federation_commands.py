"""``cloister federation``: make one, run it, search in it, look after it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cloister.app.federation_output import (
    show_done,
    show_ended,
    show_found,
    show_made,
    show_published,
    show_round,
    show_serving,
    show_status,
)
from cloister.app.output import JsonFlag, command_result
from cloister.core.deadline import LONGEST_S

__all__ = ["app"]

Result = dict[str, Any]

app = typer.Typer(
    help="Federations of a coordinator, a broker and nodes: make, run, search, look after.",
    no_args_is_help=True,
)
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Made by `federation init`.")]
Training = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help="Made by `federation init`; or a coordinator's file, as NVFlare and Flower have it.",
    ),
]


@app.command("init")
@command_result(show_made)
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="New, or empty.")],
    nodes: Annotated[
        str, typer.Option(metavar="NAME,NAME,NAME", help="The nodes; three or more.")
    ] = "clinic-a,clinic-b,clinic-c",
    name: Annotated[str, typer.Option(help="Of the federation.")] = "clinics",
    training: Annotated[str, typer.Option(help="Name of the training.")] = "pilot",
    world: Annotated[
        bool, typer.Option("--world", help="Fill the nodes with an invented clinic each.")
    ] = False,
    pods: Annotated[int, typer.Option(help="Patients of each clinic, with --world.", min=1)] = 20,
    host: Annotated[str, typer.Option(help="Where all services listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The first port; the next ones follow.")] = 8440,
    round_every: Annotated[
        float, typer.Option(help="Seconds between rounds.", min=0.1, max=LONGEST_S)
    ] = 3600.0,
    settle: Annotated[
        float, typer.Option(help="Seconds for which a page takes clicks.", min=0, max=LONGEST_S)
    ] = 1800.0,
    min_nodes: Annotated[
        int | None,
        typer.Option(
            help="A round needs so many nodes, more than half. Of a sum of two without --epsilon, "
            "each node can tell the other's part.",
            min=2,
            show_default="just more than half",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="What all rankers of the training may reveal of a user.", min=1e-6),
    ] = None,
    delta: Annotated[float, typer.Option(help="With --epsilon.")] = 1e-6,
    rounds: Annotated[int, typer.Option(help="With --epsilon: rounds in all.", min=1)] = 100,
    users: Annotated[int, typer.Option(help="With --epsilon: users in all.", min=1)] = 1000,
    limit: Annotated[
        float | None,
        typer.Option(
            help="What all releases of a node may cost a user: rounds, votes, tables.",
            min=1e-6,
            show_default="10",
        ),
    ] = None,
    consent_unprotected: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Who agreed to releases that have no bound: rounds without --epsilon, tables "
            "without noise. It goes into each node's file and onto its ledger. With --world "
            "nobody need agree: all data are invented.",
        ),
    ] = "",
    as_json: JsonFlag = False,
) -> Result:
    """Make a federation in one folder: authority, certificates, keys, roster, a file a service.

    On one machine it is ready to start. Between organisations each party makes its own keys and
    asks the authority to sign them: see `cloister certs request`.
    """
    from cloister.app.federation_making import make_federation
    from cloister.federate.engines.agreement import SitePrivacy

    if epsilon is None and not world and not consent_unprotected:
        raise typer.BadParameter(
            "without --epsilon rounds release what has no bound, and somebody must agree to that. "
            "Give --epsilon E, or name who agreed: --consent-unprotected NAME.",
            param_hint="--consent-unprotected",
        )
    privacy = None
    if epsilon is not None:
        privacy = SitePrivacy(epsilon=epsilon, delta=delta, n_rounds=rounds, n_users=users)
    return make_federation(
        folder,
        [one.strip() for one in nodes.split(",") if one.strip()],
        name=name,
        training=training,
        world=world,
        pods=pods,
        host=host,
        port=port,
        round_every_s=round_every,
        settle_s=settle,
        privacy=privacy,
        min_nodes=min_nodes,
        limit=limit,
        consent=consent_unprotected,
    )


@app.command("up")
def up(folder: Folder, as_json: JsonFlag = False) -> None:
    """Start the services of a folder, and start again what dies, until told to end.

    Members of the roster whose files are not in the folder run elsewhere: their owners start them
    with `cloister serve`.
    """
    from cloister.app.federation_running import run_federation

    run_federation(folder, as_json=as_json)


@app.command("down")
@command_result(show_ended)
def down(folder: Folder, as_json: JsonFlag = False) -> Result:
    """End all services of a folder, whoever started them."""
    from cloister.app.federation_operating import ended

    return ended(folder)


@app.command("status")
@command_result(show_status)
def status(folder: Training, as_json: JsonFlag = False) -> Result:
    """Say how the services stand: rounds, trials, nodes, what is published."""
    from cloister.app.federation_operating import status_of

    return status_of(folder)


@app.command("round")
@command_result(show_round)
def run_round(folder: Folder, as_json: JsonFlag = False) -> Result:
    """Run a round now, also while the schedule is paused.

    Each node that takes part releases what it learnt, which its ledger records.
    """
    from cloister.app.federation_operating import asked

    return asked(folder, "POST", "/v1/rounds")


@app.command("pause")
@command_result(show_done)
def pause(folder: Folder, as_json: JsonFlag = False) -> Result:
    """Stop the schedule of rounds; a round under way is finished."""
    from cloister.app.federation_operating import paused

    return paused(folder, True)


@app.command("resume")
@command_result(show_done)
def resume(folder: Training, as_json: JsonFlag = False) -> Result:
    """Let the schedule of rounds go on, also after spoilt sums stopped it; no round begins at once.

    The next round begins one interval from now (`round_every_s` of the coordinator's file). To run
    one now, use `cloister federation round`.
    """
    from cloister.app.federation_operating import paused

    return paused(folder, False)


@app.command("exclude")
@command_result(show_done)
def exclude(
    folder: Training,
    node: Annotated[str, typer.Argument(help="Which node no round asks any more.")],
    as_json: JsonFlag = False,
) -> Result:
    """Ask a node in no round any more: it misbehaves. Searches still ask it."""
    from cloister.app.federation_operating import excluded

    return excluded(folder, node, True)


@app.command("readmit")
@command_result(show_done)
def readmit(
    folder: Training,
    node: Annotated[str, typer.Argument(help="A node that is excluded, named or suspected.")],
    as_json: JsonFlag = False,
) -> Result:
    """Ask a node in rounds again, and suspect it no more."""
    from cloister.app.federation_operating import excluded

    return excluded(folder, node, False)


@app.command("try")
@command_result(show_serving)
def try_newest(
    folder: Folder,
    share: Annotated[
        float,
        typer.Option(help="Of searches on which both rankers are compared.", min=0.001, max=1),
    ] = 0.2,
    as_json: JsonFlag = False,
) -> Result:
    """Try the newest ranker on a share of searches, by interleaving with the serving one."""
    from cloister.app.federation_operating import asked

    return asked(folder, "POST", "/v1/trials", {"share": share})


@app.command("decide")
@command_result(show_done)
def decide(folder: Folder, as_json: JsonFlag = False) -> Result:
    """Call the votes of the trial under way; called again, decide it by those that came."""
    from cloister.app.federation_operating import asked

    return asked(folder, "POST", "/v1/decisions")


@app.command("rollback")
@command_result(show_serving)
def rollback(folder: Folder, as_json: JsonFlag = False) -> Result:
    """Let the ranker serve again that served before; the one taken back is not tried again."""
    from cloister.app.federation_operating import asked

    return asked(folder, "POST", "/v1/rollbacks")


@app.command("publish")
@command_result(show_published)
def publish(
    folder: Folder,
    node: Annotated[str, typer.Argument(help="Whose statistics; each version costs anew.")],
    as_json: JsonFlag = False,
) -> Result:
    """Have a node publish new statistics of its documents' terms through the broker.

    Where the broker takes another form than the node publishes, nothing is made. Where the broker
    does not answer, the node sends what it made until the broker has it.
    """
    from cloister.app.federation_operating import published

    return published(folder, node)


@app.command("search")
@command_result(show_found)
def search(
    folder: Folder,
    query: Annotated[str, typer.Argument(help="What to search for.")],
    user: Annotated[
        str, typer.Option("--as", metavar="NODE:USER", help="Who searches: clinic-a:staff-000.")
    ],
    group: Annotated[
        list[str] | None, typer.Option(help="A group of the user's, NODE:GROUP; may be repeated.")
    ] = None,
    click: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Click the result at this rank; may be repeated."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Take scores apart.")] = False,
    as_json: JsonFlag = False,
) -> Result:
    """Search at a user's home node, with a token of the node's built-in issuer.

    Whoever can read the folder can be any user of its nodes. Users elsewhere come with a token of
    their OpenID provider, or of `cloister token issue`.
    """
    from cloister.app.federation_operating import searched

    return searched(folder, query, user, group or [], click or [], explain=explain)
