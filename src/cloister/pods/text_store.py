"""Texts of documents, kept beside the index, and which documents could not be read.

A search that shows a document takes its text from here, if the pod confirms at that moment that the
reader may read it and that it is of this version (`Datastore.confirm`). Documents that failed are
not tried again until they change.

One SQLite file and one key file (mode 0600) in a folder of the home. Texts and reasons are sealed
by AES-256-GCM, bound to their document and version; ids are there as keyed hashes. That protects a
copy of the file without the key, and nothing from whoever reads the whole home. How many documents
there are, and how long each is, can be seen.

What is erased is overwritten with zeros in the file (SQLite's ``secure_delete``) before the call
returns. Blocks that the file system or the disk keeps are beyond that. The folder is never part of
a backup; after a restore, or where it is damaged or lost, the next sync makes it anew.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cloister.core.errors import Damaged, NotFound, StoreError
from cloister.core.file_errors import writing
from cloister.core.ids import DocId, PodId
from cloister.pods.datastore import Resource
from cloister.privacy.private_file import read_private_file, write_private_file
from cloister.search.snippet import SEARCHED_CHARACTERS

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["TEXTS", "KnownText", "PodTexts", "TextStore"]

TEXTS: Final = "texts"  # the folder in a home
KEY: Final = "key"
FILE: Final = "texts.sqlite"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
BEGINNING_CHARACTERS: Final = SEARCHED_CHARACTERS + 1  # one more shows that there is more
WAIT_S: Final = 10.0  # for another process that writes
READ_WAIT_S: Final = 0.5  # for a step of whoever writes; a search reads the document otherwise
STEP_BYTES: Final = 1_000_000  # that are written at a time: nobody can read meanwhile
STEP_ROWS: Final = 100  # that are erased at a time
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS text (
    document BLOB PRIMARY KEY, pod BLOB NOT NULL, version BLOB NOT NULL,
    failed INTEGER NOT NULL, sealed BLOB NOT NULL, rest BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS text_of_pod ON text (pod);
"""
_WANTED: Final = " FROM text WHERE document = ? AND version = ? AND failed = ?"
_Row = tuple[bytes, bytes, bytes, bool, bytes, bytes]


class KnownText(NamedTuple):
    """A document of one version: its text, or why it has none."""

    doc_id: DocId
    etag: str
    text: str = ""
    failure: str = ""


class TextStore:
    """The texts of a home; threads and processes may share it.

    Parameters
    ----------
    folder
        Made when something is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()  # of who writes
        self._open: sqlite3.Connection | None = None
        self._reading = threading.Lock()
        self._reader: sqlite3.Connection | None = None

    def text(self, doc_id: DocId, etag: str) -> str | None:
        """Return a document's text of this version; None where it is not kept or damaged."""
        return self._content(doc_id, etag, "SELECT sealed, rest" + _WANTED)

    def beginning(self, doc_id: DocId, etag: str) -> str | None:
        """Return as much of a text as passages are made of; a long one takes no longer."""
        return self._content(doc_id, etag, "SELECT sealed" + _WANTED)

    def failure(self, doc_id: DocId, etag: str) -> str | None:
        """Return why a document of this version could not be read; None where nothing is known."""
        return self._content(doc_id, etag, "SELECT sealed" + _WANTED, failed=True)

    def keep(self, pod_id: PodId, known: Iterable[KnownText]) -> None:
        """Keep what is known of documents in the place of what was; not without an ETag."""
        rows = [self._row(pod_id, one) for one in known if one.etag]
        if not rows:
            return
        with self._lock, _explained(self._folder):
            connection = self._connected()
            for step in _steps(rows):
                with connection:
                    connection.executemany(
                        "INSERT OR REPLACE INTO text VALUES (?, ?, ?, ?, ?, ?)", step
                    )

    def retain(self, pod_id: PodId, etags: Mapping[DocId, str], *, texts: bool = True) -> None:
        """Erase all that is kept of a pod, but of these documents in these versions.

        Parameters
        ----------
        texts
            Whether texts may stay; failures may in any case.
        """
        if not self._is_there():
            return
        wanted = {self._version(doc_id, etag) for doc_id, etag in etags.items()}
        with self._lock, _explained(self._folder):
            connection = self._connected()
            query = "SELECT document, version, failed FROM text WHERE pod = ?"
            gone = [
                (document,)
                for document, version, failed in connection.execute(query, (self._name(pod_id),))
                if version not in wanted or not (failed or texts)
            ]
            for begin in range(0, len(gone), STEP_ROWS):
                with connection:
                    connection.executemany(
                        "DELETE FROM text WHERE document = ?", gone[begin : begin + STEP_ROWS]
                    )

    def missing(self, pod_id: PodId, etags: Mapping[DocId, str]) -> set[DocId]:
        """Return which of a pod's documents have neither a text here nor a failure."""
        kept: set[bytes] = set()
        if self._is_there():
            with self._lock, _explained(self._folder):
                query = "SELECT version FROM text WHERE pod = ?"
                rows = self._connected().execute(query, (self._name(pod_id),))
                kept = {version for (version,) in rows}
        return {
            doc_id
            for doc_id, etag in etags.items()
            if etag and self._version(doc_id, etag) not in kept
        }

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None
        self._close_reader()

    def _content(self, doc_id: DocId, etag: str, query: str, *, failed: bool = False) -> str | None:
        if not etag or not self._is_there():
            return None
        from cryptography.exceptions import InvalidTag

        version = self._version(doc_id, etag)
        try:
            with self._reading:  # whoever writes holds up no search
                if self._reader is None:
                    self._reader = self._connection(READ_WAIT_S)
                wanted = self._name(doc_id), version, failed
                rows = self._reader.execute(query, wanted).fetchall()
            if not rows:
                return None
            return "".join(
                self._opened_part(sealed, version, part) for part, sealed in enumerate(rows[0])
            )
        except (sqlite3.Error, InvalidTag, ValueError):
            return None

    def _row(self, pod_id: PodId, one: KnownText) -> _Row:
        version = self._version(one.doc_id, one.etag)
        text = one.failure or one.text
        parts = text[:BEGINNING_CHARACTERS], text[BEGINNING_CHARACTERS:]
        first, rest = (self._sealed(text, version, part) for part, text in enumerate(parts))
        return self._name(one.doc_id), self._name(pod_id), version, bool(one.failure), first, rest

    def _sealed(self, text: str, version: bytes, part: int) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, text.encode(), version + bytes([part]))

    def _opened_part(self, sealed: bytes, version: bytes, part: int) -> str:
        nonce, content = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        return self._cipher.decrypt(nonce, content, version + bytes([part])).decode("utf-8")

    def _name(self, name: str) -> bytes:
        return hashlib.blake2b(name.encode(), key=self._key, digest_size=16).digest()

    def _version(self, doc_id: DocId, etag: str) -> bytes:
        return self._name(f"{doc_id}\0{etag}")

    @cached_property
    def _key(self) -> bytes:
        file = self._folder / KEY
        try:
            key = read_private_file(file)
        except NotFound:
            with writing(self._folder):
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._remove_file()  # nobody can read it, or find what to erase in it
            with suppress(StoreError):  # another process may have made it just now
                write_private_file(file, os.urandom(KEY_BYTES))
            key = read_private_file(file)
        if len(key) != KEY_BYTES:
            raise Damaged(
                "not the key of kept texts",
                where=str(file),
                remedy=f"remove the folder {self._folder}: the next sync makes it anew",
            )
        return key

    @cached_property
    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._key)

    def _is_there(self) -> bool:
        return (self._folder / FILE).exists() and (self._folder / KEY).exists()

    def _connected(self) -> sqlite3.Connection:
        """Return the open file; one that is no database any more is made anew."""
        if self._open is None:
            try:
                self._open = self._opened()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                self._remove_file()
                self._open = self._opened()
        return self._open

    def _remove_file(self) -> None:
        self._close_reader()
        for ending in ("", "-journal"):
            (self._folder / f"{FILE}{ending}").unlink(missing_ok=True)

    def _opened(self) -> sqlite3.Connection:
        file = self._folder / FILE
        if not file.exists():
            file.touch(mode=0o600)
        connection = self._connection(WAIT_S)
        try:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA journal_mode = TRUNCATE")
            connection.executescript(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _connection(self, timeout_s: float) -> sqlite3.Connection:
        return sqlite3.connect(self._folder / FILE, timeout=timeout_s, check_same_thread=False)

    def _close_reader(self) -> None:
        with self._reading:
            if self._reader is not None:
                self._reader.close()
                self._reader = None


class PodTexts(NamedTuple):
    """What is known of one pod's texts, as a sync sees it.

    Parameters
    ----------
    is_keeping
        Whether texts are kept; failures are in any case.
    """

    store: TextStore
    pod_id: PodId
    is_keeping: bool

    def failure(self, resource: Resource) -> str | None:
        """Return why a document of this version could not be read; None if nothing is known."""
        return self.store.failure(resource.doc_id, resource.etag)

    def retain(self, etags: Mapping[DocId, str]) -> None:
        """Erase all but these documents in these versions."""
        self.store.retain(self.pod_id, etags, texts=self.is_keeping)

    def missing(self, etags: Mapping[DocId, str]) -> set[DocId]:
        """Return the documents whose texts are to be kept and are not."""
        return self.store.missing(self.pod_id, etags) if self.is_keeping else set()

    def keep(self, known: Iterable[KnownText]) -> None:
        """Keep failures, and texts where they are kept."""
        self.store.keep(self.pod_id, (one for one in known if one.failure or self.is_keeping))


def _steps(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    """Cut rows into steps that take a moment each."""
    step: list[_Row] = []
    n_bytes = 0
    for row in rows:
        step.append(row)
        n_bytes += len(row[-2]) + len(row[-1])
        if n_bytes >= STEP_BYTES:
            yield step
            step, n_bytes = [], 0
    yield step


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn what SQLite says into an error that names the folder."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(
            f"kept texts cannot be changed: {error}",
            where=str(folder),
            remedy="look at the disk's room; with nothing running, the folder can be removed",
        ) from None
