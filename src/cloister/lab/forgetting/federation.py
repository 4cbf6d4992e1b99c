"""A stored federation: what a simulated training leaves, so that clients can be forgotten later.

A folder holds ``federation.db`` (settings, kept updates or lengths, the ranker, who was forgotten,
certificates), the federation's signing key, and for readers ``ranker.safetensors`` and
``certificates/``. The database decides: each change is one transaction in it, and the files beside
it are written again from it whenever the folder is opened.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import sqlalchemy as sa

from cloister.core.errors import CloisterError, Conflict, NotFound, SettingsError, StoreError
from cloister.federate.database_update_store import DatabaseUpdateStore, overwrite_deleted
from cloister.federate.update_store import Keep
from cloister.lab.forgetting.certificate import Certificate
from cloister.lab.forgetting.state import STATE, State, put_certificate, put_state, read_state
from cloister.lab.simulation.run_files import write_aside
from cloister.lab.simulation.settings import SimulationSettings
from cloister.privacy.identity import SigningIdentity
from cloister.rank.ranker import Ranker
from cloister.rank.saving import load_ranker, save_ranker
from cloister.store.database import Database
from cloister.store.keyed_state import KeyedState

__all__ = ["StoredFederation", "client_name", "refuse_unless_forgettable"]

FORMAT: Final = 1  # change it when the layout of the records changes
_DATABASE: Final = "federation.db"
_KEY: Final = "signing-key.pem"


def client_name(number: int) -> str:
    """Return what a client is called.

    Examples
    --------
    >>> client_name(9)
    'client-9'
    """
    return f"client-{number}"


def refuse_unless_forgettable(settings: SimulationSettings) -> None:
    """Raise where a training's clients cannot be forgotten from what the server saw."""
    if settings.epsilon is not None:
        raise SettingsError(
            "in private training the server never sees a single update, so there is none to keep",
            where="epsilon",
            remedy="train again without the client; what its rankers tell of it is bounded by "
            "epsilon",
        )
    if settings.method != "fpdgd" or settings.private_layer or settings.paper_epsilon is not None:
        raise SettingsError(
            "updates are kept of plain FPDGD only",
            where="keep updates",
            remedy="use the method fpdgd without a private layer and without noise",
        )


class StoredFederation:
    """An open folder of a federation. One process changes it at a time; others are refused.

    Parameters
    ----------
    folder
        Where it is.
    database
        Its open database.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cloister.rank.ranker import RankerSettings
    >>> settings = SimulationSettings(data="world:features?queries=9&features=5", clients=3)
    >>> with TemporaryDirectory() as folder:
    ...     with StoredFederation.create(folder, settings, keep_every=5) as federation:
    ...         federation.finish(Ranker.initial(RankerSettings(n_features=5)))
    ...     with StoredFederation.open(folder) as federation:
    ...         federation.settings == settings, federation.state().forgotten
    (True, ())
    """

    def __init__(self, folder: str | Path, database: Database) -> None:
        self.folder = Path(folder)
        self.database = database
        about = database.run(lambda connection: STATE.get(connection, "about"), read_only=True)
        if about is None or about.value.get("format") != FORMAT:
            raise _no_federation(self.folder)
        self.settings = SimulationSettings(**about.value["settings"])
        self.store = DatabaseUpdateStore(
            database, keep_every=about.value["keep_every"], keep=about.value["keep"]
        )

    @classmethod
    def create(
        cls,
        folder: str | Path,
        settings: SimulationSettings,
        *,
        keep_every: int = 10,
        keep: Keep = "lengths",
    ) -> Self:
        """Make a folder ready for a training: ``store`` observes it, `finish` ends it.

        What a training that was killed has left there is cleared; a finished one is not touched.

        Parameters
        ----------
        folder
            Where; made if it is missing.
        settings
            Of the training.
        keep_every, keep
            As for :class:`cloister.federate.update_store.UpdateStore`.
        """
        refuse_unless_forgettable(settings)
        path = Path(folder)
        for inner in (path, path / "incoming", path / "certificates"):
            inner.mkdir(parents=True, exist_ok=True)
        database = Database.open(path / _DATABASE)
        try:
            database.migrate(KeyedState.schema)
            store = DatabaseUpdateStore(database, keep_every=keep_every, keep=keep)
            database.run(lambda connection: _begin(connection, path, settings, store))
            if not (path / _KEY).exists():
                SigningIdentity.generate().save(path / _KEY)
            return cls(path, database)
        except BaseException:
            database.close()
            raise

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open the folder of a federation whose training has come to its end."""
        path = Path(folder)
        if not (path / _DATABASE).is_file():
            raise _no_federation(path)
        database = Database.open(path / _DATABASE)
        try:
            database.migrate(KeyedState.schema)
            federation = cls(path, database)
            federation.write_files()
            return federation
        except BaseException:
            database.close()
            raise

    @property
    def identity(self) -> SigningIdentity:
        """The key that signs certificates."""
        return SigningIdentity.load(self.folder / _KEY)

    @property
    def ranker_file(self) -> Path:
        """Where readers find the ranker."""
        return self.folder / "ranker.safetensors"

    def certificate_file(self, number: int) -> Path:
        """Return where readers find a certificate."""
        return self.folder / "certificates" / f"{number:04d}.json"

    @property
    def size_bytes(self) -> int:
        """What the database takes on the disk."""
        return sum(path.stat().st_size for path in self.folder.glob(f"{_DATABASE}*"))

    def state(self) -> State:
        """Return the ranker, who was forgotten, and the certificates, all of one time."""
        found = self.database.run(read_state, read_only=True)
        if found is None:
            raise StoreError(
                "the training has not come to its end",
                where=str(self.folder),
                remedy="train again with the same folder",
            )
        return found

    def numbers(self, clients: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of clients given by name, ascending; refuse unknown names."""
        known = {client_name(number): number for number in range(self.settings.clients)}
        for name in clients:
            if name not in known:
                raise NotFound(
                    "no such client",
                    where=name,
                    remedy=f"there are client-0 to client-{self.settings.clients - 1}",
                )
        if len(set(clients)) < len(clients):
            raise SettingsError("a client is named twice", where="clients")
        return tuple(sorted(known[name] for name in clients))

    def finish(self, ranker: Ranker) -> None:
        """Store the ranker at the end of the training."""

        def work(connection: sa.Connection) -> None:
            put_state(connection, ranker, (), expected_version=0)

        self.database.run(work)
        self.write_files()

    def change(
        self,
        before: State,
        work: Callable[[sa.Connection], tuple[Ranker, Sequence[int], Certificate]],
    ) -> Certificate:
        """Replace the ranker, who was forgotten, and add a certificate, in one transaction.

        Parameters
        ----------
        before
            What the change rests on; refused where it is no longer so.
        work
            Changes what is kept, through the connection, and returns what is new. It may be called
            again, and must change nothing but the database.
        """

        def whole(connection: sa.Connection) -> Certificate:
            overwrite_deleted(connection)
            ranker, forgotten, certificate = work(connection)
            put_state(connection, ranker, forgotten, expected_version=before.version)
            put_certificate(connection, certificate, number=len(before.certificates) + 1)
            return certificate

        certificate = self.database.run(whole)
        self.write_files()
        return certificate

    def write_files(self) -> None:
        """Write the files for readers again, where they are not as the database has them."""
        try:
            state = self.state()
        except StoreError:
            return  # not trained yet
        if not _holds(self.ranker_file, state.ranker):
            extra = {"settings": self.settings.model_dump(mode="json")}
            save_ranker(state.ranker, self.ranker_file, extra=extra)
        for number, certificate in enumerate(state.certificates, 1):
            target = self.certificate_file(number)
            content = (json.dumps(certificate, indent=1) + "\n").encode()
            if not target.is_file() or target.read_bytes() != content:
                write_aside(self.folder, target, content)

    def close(self) -> None:
        """Close the database; what was deleted is then gone from its files."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _begin(
    connection: sa.Connection,
    folder: Path,
    settings: SimulationSettings,
    store: DatabaseUpdateStore,
) -> None:
    """Write what the federation is about; clear what a killed training has left."""
    if read_state(connection) is not None:
        raise Conflict(
            "a trained federation is stored here",
            where=str(folder),
            remedy="name another folder, or remove this one",
        )
    about: dict[str, Any] = {
        "format": FORMAT,
        "settings": settings.model_dump(mode="json"),
        "keep_every": store.keep_every,
        "keep": store.keep,
    }
    STATE.put(connection, "about", about)
    store.replace_in(connection, ())


def _holds(path: Path, ranker: Ranker) -> bool:
    """Say whether a file is there, sound, and of this ranker."""
    try:
        return np.array_equal(load_ranker(path).parameters, ranker.parameters)
    except CloisterError:
        return False


def _no_federation(folder: Path) -> NotFound:
    return NotFound(
        "no federation is stored here",
        where=str(folder),
        remedy="run `cloister simulate ... --keep-updates FOLDER` first",
    )
