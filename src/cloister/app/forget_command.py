"""``cloister forget``: make a stored federation forget clients, with a certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import click
import typer

from cloister.app.output import JsonFlag, command_result, number, progress, say, table
from cloister.app.recording import READERS

if TYPE_CHECKING:
    import sqlalchemy as sa

    from cloister.lab.forgetting.forgetting import Due
    from cloister.lab.forgetting.statement import Method
    from cloister.privacy.ledger.entry import Receipt

__all__ = ["forget"]

Result = dict[str, Any]
Record = Callable[[Sequence["Due"]], None]


def _show(result: Result) -> None:
    certificate = result["certificate"]
    cost, ndcg = certificate["cost"], certificate["ndcg@10"]
    rows = [
        ["nDCG@10", ndcg["before"], ndcg["after"]],
        ["ranker", *(certificate["sha256"][f"ranker_{when}"][:16] for when in ("before", "after"))],
        ["kept", *(certificate["sha256"][f"kept_{when}"][:16] for when in ("before", "after"))],
    ]
    table(f"forgotten: {', '.join(certificate['forgotten'])}", ["", "before", "after"], rows)
    typer.echo(
        f"{certificate['method']['name']}: {number(cost['rounds'])} rounds, "
        f"{number(cost['client_steps'])} client steps; training anew takes "
        f"{number(cost['client_steps_of_retraining'])}"
    )
    typer.echo("What remains:")
    for sentence in certificate["remains"]:
        typer.echo(f"- {sentence}")
    typer.echo(f"{result['file']} (signed with {certificate['public_key']})")


FederationFolder = Annotated[
    Path,
    typer.Option(
        help="The folder that `cloister simulate --keep-updates` wrote.",
        metavar="FOLDER",
        file_okay=False,
    ),
]
ForgettingLedger = Annotated[
    str | None,
    typer.Option(
        help="Record in this ledger what those who stay release anew, under --party, and what "
        "the rankers of before and after reveal of each forgotten client, under its name.",
        metavar="ADDRESS",
    ),
]


@command_result(_show)
def forget(
    clients: Annotated[
        list[str], typer.Argument(help="Who is to be forgotten: client-0, client-1, ...")
    ],
    federation: FederationFolder,
    method: Annotated[
        str,
        typer.Option(
            help="FedEraser from what was kept, or training anew.",
            click_type=click.Choice(["fed-eraser", "retrain"]),
        ),
    ] = "fed-eraser",
    local_steps: Annotated[
        int,
        typer.Option(help="Of fed-eraser: interactions of each client in a round.", min=1),
    ] = 3,
    ledger: ForgettingLedger = None,
    party: Annotated[
        str, typer.Option(help="Whose privacy the new rounds cost.", metavar="NAME")
    ] = "simulated-client",
    threads: Annotated[
        int | None, typer.Option(help="Threads; the result is the same for any.", min=1)
    ] = None,
    as_json: JsonFlag = False,
) -> Result:
    """Make a stored federation forget clients: a new ranker without them, and a certificate.

    What was kept of them is deleted. Rankers released before stay released.
    """
    from cloister.lab.forgetting import forgetting
    from cloister.lab.forgetting.federation import StoredFederation
    from cloister.lab.simulation.run import threads_limited

    with (
        threads_limited(threads),
        StoredFederation.open(federation) as stored,
        _recorder(ledger, party) as record,
        progress("rounds") as advance,
    ):
        if method == "fed-eraser" and local_steps >= stored.settings.queries_per_round:
            say(
                f"note: the training took {stored.settings.queries_per_round} steps of a client a "
                f"round, FedEraser is to take {local_steps} in each kept one"
            )
        done = forgetting.forget(
            stored,
            clients,
            method=cast("Method", method),
            local_steps=local_steps,
            record=record,
            advance=advance,
        )
        n_parameters = len(done.ranker.parameters)
        return {
            "certificate": done.certificate,
            "file": str(stored.certificate_file(done.certificate["number"])),
            "ranker": str(stored.ranker_file),
            "kept": stored.store.size(n_parameters)._asdict(),
        }


@contextmanager
def _recorder(address: str | None, party: str) -> Iterator[Record | None]:
    """Give what records releases, all or none; None without a ledger, which must know the party."""
    if address is None:
        yield None
        return
    from cloister.privacy.ledger.ledger import Ledger

    with Ledger.open(address, create=False) as ledger:
        ledger.require_party(party)

        def record(due: Sequence[Due]) -> None:
            def work(connection: sa.Connection) -> list[Receipt]:
                return [
                    ledger.release_in(
                        connection,
                        release,
                        b"",
                        party_id=forgotten or party,
                        recipient=READERS,
                        purpose="simulated unlearning",
                    )
                    for forgotten, release in due
                ]

            for receipt in ledger.database.run(work):
                ledger.delivered(receipt.number)

        yield record
