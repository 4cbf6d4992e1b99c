"""``cloister serve FILE``: a node, a broker or a coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cloister.app.output import JsonFlag, print_json, say

__all__ = ["serve"]


def serve(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The service's TOML file.")],
    as_json: JsonFlag = False,
) -> None:
    """Run a node, a broker or a coordinator of a federation, until told to end.

    The file says which it is. Needs the extra `services`.
    """
    from cloister.core.errors import MissingDependency

    def listening(address: str) -> None:
        if as_json:
            print_json({"file": str(file), "address": address})
        else:
            say(f"serving {file} at {address}; end it with Ctrl-C")

    try:
        from cloister.services.running import run_service
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"services need the package {error.name}",
            remedy="pip install 'cloister[services]'",
        ) from None
    run_service(file, listening=listening)
