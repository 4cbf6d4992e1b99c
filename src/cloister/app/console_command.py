"""``cloister console``: the pages of a federation for its operator and its officer."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Final

import typer

from cloister.app.console_packages import require_console_packages
from cloister.app.output import JsonFlag, print_json, say

__all__ = ["console"]

PORT: Final = 8400
_KEY_BYTES: Final = 24


def console(
    folder: Annotated[Path, typer.Argument(help="Made by `cloister federation init`.")],
    home: Annotated[
        Path | None,
        typer.Option(
            help="Where the console keeps trainings and results.", show_default="FOLDER/console"
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = PORT,
    as_json: JsonFlag = False,
) -> None:
    """Serve the console of a federation on this machine: pages for its operator and officer.

    It asks the services with the operator's and the officer's certificates, and searches as users
    of the nodes' own issuers. So it asks browsers for a key, which is in the address that it
    prints; whoever has that address has the rights of both.
    """
    require_console_packages("cloister console")
    from cloister.app.console.console import serve_console
    from cloister.app.console.scene import Scene
    from cloister.services.federation_folder import FederationFolder

    made, key = FederationFolder(folder), secrets.token_urlsafe(_KEY_BYTES)

    def listening(address: str) -> None:
        keyed = f"{address}/?key={key}"
        if as_json:
            print_json({"address": keyed})
        else:
            typer.echo(keyed)
        say(
            "[dim]This address is a key: keep it to yourself. Ctrl-C ends the console.[/dim]",
            marked=True,
        )

    with Scene(made, home or made.folder / "console") as scene:
        serve_console(scene, port=port, key=key, listening=listening)
