"""Options that the commands about pods share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

__all__ = ["HomeOption", "open_home"]

CONFIRM_S: Final = 5.0  # a command has yet to sign in, and nobody else waits
MOST_SYNC_S: Final = 3600.0  # of one pod: a command has to list it from the beginning

HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="FOLDER",
        envvar="CLOISTER_HOME",
        help="Where the list of pods and the indexes are.",
        show_default="your data folder",
    ),
]


def open_home(home: Path | None, *, needs: Literal["pods", "home"] = "pods") -> Any:
    """Open the registry of a home folder; imported late, since it costs start-up time.

    Parameters
    ----------
    needs
        What must be there: pods; or a home, or a place where one can be made.
    """
    from cloister.core.errors import NotFound
    from cloister.pods.registry import PodRegistry

    if home is None:
        from platformdirs import user_data_path

        home = user_data_path("cloister", appauthor=False)
    if home.exists() and not home.is_dir():
        raise NotFound("this is a file, not a folder", where=str(home), remedy="name a folder")
    registry = PodRegistry(home, confirm_s=CONFIRM_S, most_sync_s=MOST_SYNC_S)
    registry.finish_what_died()
    if needs == "pods" and not (registry.pods or registry.server_pods):
        raise NotFound(
            "no pod was added here yet",
            where=str(home),
            remedy="add one with `cloister pods add FOLDER --owner NAME`, or check --home",
        )
    if needs == "home" and not registry.is_home and home.exists() and any(home.iterdir()):
        raise NotFound(
            "this folder is not empty, and no home of pods",
            where=str(home),
            remedy="check --home, or name a new folder",
        )
    return registry
