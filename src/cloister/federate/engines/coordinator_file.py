"""The coordinator's side of a training from its own file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field

from cloister.core.settings import Settings
from cloister.federate.database_update_store import DatabaseUpdateStore
from cloister.federate.engines.engine import Engine
from cloister.federate.engines.federation import SiteFederation
from cloister.federate.engines.roster import FederationRoster
from cloister.federate.engines.site_file import placed
from cloister.store.database import Database

__all__ = ["CoordinatorFile", "opened_federation"]


class CoordinatorFile(Settings):
    """What a coordinator is opened from. Paths are as seen from the file's folder.

    Parameters
    ----------
    roster
        The federation's file.
    state
        Its database: a path, or an address of PostgreSQL.
    n_rounds
        Rounds of the training; a coordinator that is started again goes on up to there.
    timeout_s
        How long it waits for sites at each stage.
    keep_every
        Keep sites' updates of every so many rounds for unlearning; none unless given. Not with
        secure aggregation, where no update is seen.
    """

    roster: Path
    state: str
    n_rounds: int = Field(ge=1)
    timeout_s: float = Field(default=30.0, gt=0)
    keep_every: int | None = Field(default=None, ge=1)


@contextmanager
def opened_federation(path: str | Path, engine: Engine) -> Iterator[SiteFederation]:
    """Give the training that a file describes, on an engine; it goes on where it stood."""
    file, folder = CoordinatorFile.from_toml(path), Path(path).parent
    roster = FederationRoster.from_json(folder / file.roster)
    with Database.open(placed(folder, file.state)) as database:
        kept = None
        if file.keep_every is not None:
            kept = DatabaseUpdateStore(database, keep_every=file.keep_every)
        yield SiteFederation(
            engine,
            database,
            roster.agreement,
            directory=roster.directory(),
            kept_updates=kept,
            timeout_s=file.timeout_s,
        )
