"""What nodes have published: the last tables of each, and their sum.

A node's tables are bytes under their SHA-256 in a folder, and a line in the database that names
them. The line is changed once the bytes are on the disk, in one transaction; so a broker that is
killed has the tables of before or of after.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import DataError, NotFound
from cloister.core.ids import ServerId
from cloister.search.published_selection import rank_by_published
from cloister.search.published_statistics import (
    PublishedForm,
    PublishedStatistics,
    added_published,
)
from cloister.search.selection import ServerScore
from cloister.store.database import Database
from cloister.store.files import Files
from cloister.store.keyed_state import KeyedState

__all__ = ["HeldTables", "PublishedTables"]

_TABLES: Final = KeyedState("broker-tables")  # by node: digest and time


class HeldTables(NamedTuple):
    """The last tables of one node: their SHA-256, and when they came."""

    digest: str
    received_at: str


class PublishedTables:
    """All tables that a broker holds. Threads may share it.

    Parameters
    ----------
    database
        Says which tables are the last of each node.
    files
        Holds the tables.
    form
        What is taken: tables of different forms cannot be added up.
    """

    def __init__(self, database: Database, files: Files, *, form: PublishedForm) -> None:
        self._database = database
        self._files = files
        self.form = form
        self._lock = threading.Lock()
        self._read: dict[str, PublishedStatistics] = {}  # by digest, those that are held now
        database.migrate(KeyedState.schema)

    def put(self, node: ServerId, content: bytes) -> HeldTables:
        """Take a node's tables in the place of its last ones; the same again change nothing."""
        tables = PublishedStatistics.from_bytes(content)
        if tables.form != self.form:
            raise DataError(
                f"tables of the form {tables.form}; this federation has {self.form}",
                where=node,
                remedy="let all nodes publish in the federation's form",
            )
        digest = self._files.put(content).digest
        now = datetime.now(UTC).isoformat(timespec="seconds")

        def work(connection: sa.Connection) -> HeldTables:
            known = _TABLES.get(connection, node)
            if known is not None and known.value["digest"] == digest:
                return HeldTables(**known.value)
            held = HeldTables(digest, now)
            _TABLES.put(connection, node, held._asdict())
            return held

        return self._database.run(work)

    def held(self) -> dict[ServerId, HeldTables]:
        """Return which tables of which nodes are held."""

        def work(connection: sa.Connection) -> dict[ServerId, HeldTables]:
            found = {name: _TABLES.get(connection, name) for name in _TABLES.keys(connection)}
            return {ServerId(n): HeldTables(**e.value) for n, e in found.items() if e is not None}

        return self._database.run(work, read_only=True)

    def tables(self) -> Mapping[ServerId, PublishedStatistics]:
        """Return the last tables of each node."""
        held = self.held()
        with self._lock:
            wanted = {one.digest for one in held.values()}
            self._read = {digest: kept for digest, kept in self._read.items() if digest in wanted}
            for digest in wanted - self._read.keys():
                self._read[digest] = PublishedStatistics.from_bytes(self._files.read(digest))
            return {name: self._read[one.digest] for name, one in held.items()}

    def total(self) -> PublishedStatistics:
        """Return the sum of all that is held."""
        tables = self.tables()
        if not tables:
            raise NotFound("nothing was published yet", remedy="ask again when nodes have")
        return added_published([tables[name] for name in sorted(tables)])

    def ranked(self, terms: Sequence[str]) -> list[ServerScore]:
        """Rank nodes for a query's terms, best first; those that published none are left out."""
        return rank_by_published(self.tables(), terms)
