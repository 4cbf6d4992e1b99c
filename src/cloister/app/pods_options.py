"""Options that the commands about pods share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["HomeOption", "open_home"]

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


def open_home(home: Path | None) -> Any:
    """Open the registry of a home folder; imported late, since it costs start-up time."""
    from cloister.pods.registry import PodRegistry

    if home is None:
        from platformdirs import user_data_path

        home = user_data_path("cloister", appauthor=False)
    return PodRegistry(home)
