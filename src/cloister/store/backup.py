"""A backup: all of Cloister's tables of one moment, files beside them, in one checked file.

The tables are read in one transaction, which sees one state while others go on writing; on
PostgreSQL it is deferrable, so that it cannot be refused later. Files named by their content are
copied after the tables, and none is removed meanwhile: what a table refers to is there. Rows and
files pass through memory in pieces.

The file is written aside, brought to the disk and then named, readable by its owner only. A process
that is killed leaves no file of that name. A file that is there is never replaced.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import Damaged, NotFound, SettingsError, StoreError
from cloister.core.file_errors import writing
from cloister.store.backup_archive import ArchiveWriter, Member
from cloister.store.backup_manifest import (
    AppliedMigration,
    BackupHead,
    BackupManifest,
    BackupTable,
    TreeEntry,
)
from cloister.store.backup_rows import Column, columns_of, encoded_row, rows_of
from cloister.store.database import Database
from cloister.store.files import Files
from cloister.store.incoming import incoming_file, lock_held, sweep, sync_folder
from cloister.store.sealed_stream import SealingStream

__all__ = ["MAX_ROW_BYTES", "BackupSource", "TreeFile", "backed_up_tables", "write_backup"]

PREFIX: Final = "cloister_"  # of all tables that Cloister makes
PART_BYTES: Final = 1 << 22  # rows of one member, unless one row is longer
MAX_ROW_BYTES: Final = 1 << 30
PIECE_BYTES: Final = 1 << 20
_HISTORY: Final = sa.table(
    "cloister_migration",
    sa.column("component", sa.Text),
    sa.column("number", sa.Integer),
    sa.column("name", sa.Text),
)


class TreeFile(NamedTuple):
    """A file on its way into a backup: where it lies below its folder, and its bytes."""

    path: str
    stream: BinaryIO


def _no_ledger(connection: sa.Connection) -> BackupHead | None:
    return None


class BackupSource(NamedTuple):
    """What goes into a backup.

    Parameters
    ----------
    database
        Its tables.
    files
        Its content-addressed files, all of them.
    home, included
        Files that lie elsewhere; they are asked for after the tables were read.
    ledger_head
        Tells the head of the ledger in a state.
    """

    database: Database
    files: Files | None = None
    home: Iterable[TreeFile] = ()
    included: Iterable[TreeFile] = ()
    ledger_head: Callable[[sa.Connection], BackupHead | None] = _no_ledger


def write_backup(
    source: BackupSource, path: str | Path, *, version: str, passphrase: bytes | None = None
) -> BackupManifest:
    """Write a backup; return what it holds.

    Parameters
    ----------
    source
        What to back up.
    path
        The file to write; there must be none of that name.
    version
        Of the program, for the manifest.
    passphrase
        Encrypt the file with it.
    """
    path = Path(path)
    lock = None if source.files is None else source.files.root / "lock"
    with _named_at_the_end(path) as stream:
        sealing = None if passphrase is None else SealingStream(stream, passphrase)
        archive = ArchiveWriter(sealing or stream)
        with nullcontext() if lock is None else lock_held(lock, exclusive=False):
            manifest = _write_all(source, archive, version)
        _write_manifest(archive, manifest)
        if sealing is not None:
            sealing.finish()
    return manifest


def _write_all(source: BackupSource, archive: ArchiveWriter, version: str) -> BackupManifest:
    members: list[Member] = []
    with source.database.reading() as connection:
        if source.database.kind == "postgresql":
            connection.exec_driver_sql("SET TRANSACTION DEFERRABLE")
        names = backed_up_tables(connection)
        made_at = datetime.now(UTC).isoformat(timespec="seconds")
        if not names:
            raise NotFound("nothing of Cloister's is in this database", where=source.database.shown)
        migrations = _migrations(connection)
        ledger = source.ledger_head(connection)
        tables = tuple(_write_table(connection, name, archive, members) for name in names)
    if source.files is not None:
        members += _write_files(source.files, archive)
    home = _write_tree("home", source.home, archive, members)
    included = _write_tree("included", source.included, archive, members)
    return BackupManifest(
        version=version,
        made_at=made_at,
        database=source.database.kind,
        migrations=migrations,
        tables=tables,
        ledger=ledger,
        home=home,
        included=included,
        members=tuple((one.name, one.size_bytes, one.sha256) for one in members),
    )


def backed_up_tables(connection: sa.Connection) -> list[str]:
    """Return Cloister's tables, those that others refer to first."""
    ordered = sa.inspect(connection).get_sorted_table_and_fkc_names()
    return [name for name, _ in ordered if name is not None and name.startswith(PREFIX)]


def _migrations(connection: sa.Connection) -> tuple[AppliedMigration, ...]:
    columns = _HISTORY.c
    query = sa.select(columns.component, columns.number, columns.name)
    rows = connection.execute(query.order_by(columns.component, columns.number))
    return tuple(AppliedMigration(**row._mapping) for row in rows)


def _write_table(
    connection: sa.Connection, name: str, archive: ArchiveWriter, members: list[Member]
) -> BackupTable:
    columns = columns_of(connection, name)
    n_rows = 0

    def lines() -> Iterator[bytes]:
        nonlocal n_rows
        for row in rows_of(connection, name, columns):
            n_rows += 1
            yield _line(row, columns, name)

    for number, part in enumerate(_parts(lines())):
        members.append(archive.add(f"tables/{name}/{number:06d}", len(part), [part]))
    return BackupTable(name=name, columns=columns, n_rows=n_rows)


def _line(row: tuple[object, ...], columns: tuple[Column, ...], name: str) -> bytes:
    line = encoded_row(row, columns, where=name)
    if len(line) > MAX_ROW_BYTES:
        raise StoreError(f"a row has more than {MAX_ROW_BYTES} bytes", where=name)
    return line


def _parts(lines: Iterable[bytes]) -> Iterator[bytes]:
    part = bytearray()
    for line in lines:
        part += line
        if len(part) >= PART_BYTES:
            yield bytes(part)
            part.clear()
    if part:
        yield bytes(part)


def _write_files(files: Files, archive: ArchiveWriter) -> Iterator[Member]:
    for digest in files.digests():
        with files.path(digest, verify=False).open("rb") as stream:
            member = _write_stream(archive, f"files/{digest}", stream)
        if member.sha256 != digest:
            raise Damaged(
                "the bytes do not match their checksum",
                where=str(files.path(digest, verify=False)),
                remedy="put the same content again, or take it from an older backup",
            )
        yield member


def _write_tree(
    kind: str, tree: Iterable[TreeFile], archive: ArchiveWriter, members: list[Member]
) -> tuple[TreeEntry, ...]:
    entries = []
    for number, file in enumerate(tree):
        members.append(_write_stream(archive, f"{kind}/{number:06d}", file.stream))
        entries.append(TreeEntry(member=members[-1].name, path=file.path))
    return tuple(entries)


def _write_stream(archive: ArchiveWriter, name: str, stream: BinaryIO) -> Member:
    size_bytes = os.fstat(stream.fileno()).st_size
    return archive.add(name, size_bytes, iter(lambda: stream.read(PIECE_BYTES), b""))


def _write_manifest(archive: ArchiveWriter, manifest: BackupManifest) -> None:
    content = manifest.model_dump_json(indent=1).encode()
    archive.add("manifest.json", len(content), [content])
    line = f"{hashlib.sha256(content).hexdigest()}  manifest.json\n".encode()
    archive.add("manifest.json.sha256", len(line), [line])
    archive.finish()


@contextmanager
def _named_at_the_end(path: Path) -> Iterator[BinaryIO]:
    """Give a stream; at the end its bytes are on the disk and have their name, or are gone."""
    if path.exists() or path.is_symlink():
        raise _there_already(path)
    if not path.parent.is_dir():
        raise NotFound("no such folder", where=str(path.parent), remedy="make the folder first")
    aside = path.parent / ".incoming"
    with writing(path):
        aside.mkdir(mode=0o700, exist_ok=True)
        sweep(aside)
        with incoming_file(aside) as incoming:
            yield incoming.stream
            incoming.stream.flush()
            os.fsync(incoming.stream.fileno())
            try:
                os.link(incoming.path, path)  # unlike renaming, it replaces nothing
            except FileExistsError:
                raise _there_already(path) from None
        sync_folder(path.parent)


def _there_already(path: Path) -> SettingsError:
    return SettingsError(
        "there is such a file, and backups are not replaced", where=str(path), remedy="name another"
    )
