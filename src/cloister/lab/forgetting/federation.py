"""A stored federation: what a simulated training leaves, so that clients can be forgotten later.

A folder holds ``federation.db`` (settings, kept updates or lengths, the ranker, who was forgotten,
certificates), the federation's signing key, and for readers ``ranker.safetensors`` and
``certificates/``. The database decides: each change is one transaction in it, and the files beside
it are written again from it whenever the folder is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import sqlalchemy as sa

from cloister.core.errors import CloisterError, Conflict, NotFound, SettingsError, StoreError
from cloister.federate.database_update_store import DatabaseUpdateStore, overwrite_deleted
from cloister.federate.update_store import Keep
from cloister.lab.forgetting.about import begin_training, no_federation, read_about
from cloister.lab.forgetting.certificate import Certificate
from cloister.lab.forgetting.folder import DATABASE, WriterLock, log_is_worked_in, make_places
from cloister.lab.forgetting.forgettable import refuse_unless_forgettable
from cloister.lab.forgetting.reader_files import certificate_path, ranker_path, write_reader_files
from cloister.lab.forgetting.state import State, put_certificate, put_state, read_state
from cloister.lab.simulation.settings import SimulationSettings
from cloister.privacy.identity import SigningIdentity
from cloister.rank.ranker import Ranker
from cloister.store.database import Database
from cloister.store.keyed_state import KeyedState

__all__ = ["StoredFederation", "client_name", "refuse_unless_forgettable"]

_KEY: Final = "signing-key.pem"


def client_name(number: int) -> str:
    """Return what a client is called.

    Examples
    --------
    >>> client_name(9)
    'client-9'
    """
    return f"client-{number}"


class StoredFederation:
    """An open folder of a federation.

    One process at a time trains into it or makes it forget (a lock in the folder); others wait,
    with a time limit, and may read.

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
        self._lock = WriterLock(self.folder)
        self.settings, keep_every, keep = database.run(
            lambda connection: read_about(connection, self.folder), read_only=True
        )
        self.store = DatabaseUpdateStore(database, keep_every=keep_every, keep=keep)

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
        Until `close` nobody else can train into the folder.

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
        make_places(path)
        lock = WriterLock(path)
        lock.take()
        try:
            federation = cls._begun(path, settings, keep_every, keep)
        except BaseException:
            lock.let_go()
            raise
        federation._lock = lock
        return federation

    @classmethod
    def _begun(cls, path: Path, settings: SimulationSettings, keep_every: int, keep: Keep) -> Self:
        database = Database.open(path / DATABASE)
        try:
            database.migrate(KeyedState.schema)
            store = DatabaseUpdateStore(database, keep_every=keep_every, keep=keep)
            database.run(lambda connection: begin_training(connection, path, settings, store))
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
        if not (path / DATABASE).is_file():
            raise no_federation(path)
        make_places(path)
        database = Database.open(path / DATABASE)
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
        return ranker_path(self.folder)

    def certificate_file(self, number: int) -> Path:
        """Return where readers find a certificate."""
        return certificate_path(self.folder, number)

    @property
    def size_bytes(self) -> int:
        """What the database takes on the disk."""
        return sum(path.stat().st_size for path in self.folder.glob(f"{DATABASE}*"))

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

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other writers away, and see before the work that its outcome can be written."""
        make_places(self.folder)
        is_new = self._lock.take()
        try:
            _ = self.identity
            yield
        finally:
            if is_new:
                self._lock.let_go()

    def change(
        self,
        before: State,
        work: Callable[[sa.Connection], tuple[Ranker, Sequence[int], Certificate]],
    ) -> Certificate:
        """Replace the ranker, who was forgotten, and add a certificate, in one transaction.

        Parameters
        ----------
        before
            What the change rests on; refused where somebody has changed it since.
        work
            Changes what is kept, through the connection, and returns what is new. It may be called
            again, and must change nothing but the database.

        Raises `StoreError` also where the change is made and something is left to do after it; the
        message says which.
        """

        def whole(connection: sa.Connection) -> Certificate:
            now = read_state(connection)
            if now is None or now.version != before.version:
                raise Conflict(
                    "somebody else was forgotten here meanwhile, and this forgetting was not done",
                    where=str(self.folder),
                    remedy="forget again: it begins from what there is now",
                )
            overwrite_deleted(connection)
            ranker, forgotten, certificate = work(connection)
            put_state(connection, ranker, forgotten, expected_version=before.version)
            put_certificate(connection, certificate, number=len(before.certificates) + 1)
            return certificate

        certificate = self.database.run(whole)
        self._settle()
        return certificate

    def _settle(self) -> None:
        """Empty the log and write files after a change, which stands whatever comes of that."""
        left = []
        if not log_is_worked_in(self.folder):
            left.append(
                f"deleted bytes may remain in {DATABASE} and its log until others who read it "
                "close it"
            )
        try:
            self.write_files()
        except (OSError, CloisterError) as error:
            left.append(f"the ranker's and certificates' files could not be written ({error})")
        if left:
            raise StoreError(
                f"the forgetting is done and certified in the database, but {'; '.join(left)}",
                where=str(self.folder),
                remedy="do not forget again; mend what is in the way, then open the folder once "
                "more and close it",
            )

    def write_files(self) -> None:
        """Write the files for readers again, where they are not as the database has them."""
        found = self.database.run(read_state, read_only=True)
        if found is not None:
            write_reader_files(self.folder, found, self.settings)

    def close(self) -> None:
        """Close the database, and let other writers in."""
        self.database.close()
        self._lock.let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
