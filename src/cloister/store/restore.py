"""Restoring a backup: everything is checked first, then all of it comes back, or nothing.

The rows go into an empty database of either kind in one transaction: the migrations that the backup
names make its tables, rows fill them, later migrations bring them up to date. Files named by their
content are put back before the commit; folders are written aside and renamed before it. A process
that is killed leaves the database empty, and the same command can be given again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import SettingsError
from cloister.core.file_errors import explained, writing
from cloister.store.backup_archive import ArchiveReader, ByteSource, Member, MemberStream, damaged
from cloister.store.backup_manifest import BackupManifest, TreeEntry
from cloister.store.database import Database
from cloister.store.files import Files
from cloister.store.incoming import sync_folder
from cloister.store.migrations import Schema
from cloister.store.restored_tables import RowWriter, restructured
from cloister.store.sealed_stream import MAGIC, OpenedStream

__all__ = ["BackupTarget", "OpenedBackup", "opened_backup", "restore"]

MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 1 << 28


class OpenedBackup:
    """A backup of which every byte was checked: its manifest, and how to read it again."""

    def __init__(
        self, path: Path, manifest: BackupManifest, stream: BinaryIO, passphrase: bytes | None
    ) -> None:
        self.path = path
        self.manifest = manifest
        self._stream = stream
        self._passphrase = passphrase

    def members(self) -> Iterator[MemberStream]:
        """Give the members before the manifest; each is compared with it again."""
        listed = {one[0]: Member(*one) for one in self.manifest.members}
        for member in ArchiveReader(_source(self._stream, self._passphrase, self.path)):
            if member.name.startswith(MANIFEST):
                continue
            yield member
            if member.finish() != listed.get(member.name):
                raise damaged("the backup was changed while it was read", str(self.path))


@contextmanager
def opened_backup(path: str | Path, *, passphrase: bytes | None = None) -> Iterator[OpenedBackup]:
    """Open a backup and check all of it; raise `Damaged` where a byte is not as it was written."""
    path = Path(path)
    with ExitStack() as stack:
        with explained(path):
            stream = stack.enter_context(path.open("rb"))
        manifest = _checked(_source(stream, passphrase, path))
        yield OpenedBackup(path, manifest, stream, passphrase)


def _source(stream: BinaryIO, passphrase: bytes | None, path: Path) -> ByteSource:
    stream.seek(0)
    sealed = stream.read(len(MAGIC)) == MAGIC
    stream.seek(0)
    if sealed and passphrase is None:
        raise SettingsError(
            "the backup is encrypted", where=str(path), remedy="name the file with its passphrase"
        )
    if not sealed and passphrase is not None:
        raise SettingsError(
            "the backup is not encrypted, or no backup",
            where=str(path),
            remedy="leave the passphrase out if you trust whoever had the file",
        )
    return stream if passphrase is None else OpenedStream(stream, passphrase)


def _checked(source: ByteSource) -> BackupManifest:
    """Read a whole archive, and see that the manifest lists just what is in it."""
    members: list[Member] = []
    content = told = b""
    for member in ArchiveReader(source):
        if told or (content and member.name != f"{MANIFEST}.sha256"):
            raise damaged("something follows the manifest", member.name)
        if not member.name.startswith(MANIFEST):
            members.append(member.finish())
        elif member.size_bytes > MAX_MANIFEST_BYTES:
            raise damaged("the manifest is too large", member.name)
        elif member.name == MANIFEST:
            content = b"".join(member.pieces())
        else:
            told = b"".join(member.pieces())
    if told != f"{hashlib.sha256(content).hexdigest()}  {MANIFEST}\n".encode():
        raise damaged("the manifest does not match its checksum", MANIFEST)
    manifest = BackupManifest.from_bytes(content)
    if not manifest.holds(members):
        raise damaged("what is in the archive is not what its manifest lists", MANIFEST)
    return manifest


class BackupTarget(NamedTuple):
    """Where a backup goes.

    Parameters
    ----------
    database
        An empty one.
    schemas
        All components that the program knows.
    files
        Where content-addressed files go; needed where the backup holds any.
    home, included
        Folders that are missing, empty, or hold just what the backup does; what is not named is
        not restored.
    """

    database: Database
    schemas: Sequence[Schema]
    files: Path | None = None
    home: Path | None = None
    included: Path | None = None


def _nothing(connection: sa.Connection) -> None:
    """Write nothing more."""


def restore(
    backup: OpenedBackup,
    target: BackupTarget,
    *,
    also: Callable[[sa.Connection], None] = _nothing,
) -> None:
    """Bring a backup back, in one transaction of its database.

    Parameters
    ----------
    backup
        What was checked.
    target
        Where to.
    also
        Writes what else belongs to the restored state, in the same transaction, after the tables
        were brought up to date.
    """
    manifest = backup.manifest
    _require_places(manifest, target)
    known = {schema.component: schema for schema in target.schemas}
    with ExitStack() as stack:
        trees = {
            kind: stack.enter_context(_Tree.aside(folder, entries, manifest))
            for kind, folder, entries in (
                ("home", target.home, manifest.home),
                ("included", target.included, manifest.included),
            )
            if folder is not None and entries
        }
        with restructured(target.database, manifest, known) as (connection, rows):
            _restore_members(backup, rows, target.files, trees)
            rows.finish()
            also(connection)
            for tree in trees.values():
                tree.settle()


def _require_places(manifest: BackupManifest, target: BackupTarget) -> None:
    if target.files is None and any(name.startswith("files/") for name, _, _ in manifest.members):
        raise SettingsError(
            "the backup holds files that its tables refer to",
            where="files",
            remedy="name the folder for them (--files)",
        )


def _restore_members(
    backup: OpenedBackup, rows: RowWriter, folder: Path | None, trees: Mapping[str, _Tree]
) -> None:
    files = None if folder is None else Files(folder)
    for member in backup.members():
        kind, name = member.name.split("/")[:2]
        if kind == "tables":
            rows.write(name, member)
        elif kind == "files" and files is not None:
            if files.put(_Readable(member)).digest != name:  # type: ignore[arg-type]
                raise damaged("a file's name is not its checksum", member.name)
        elif kind in trees:
            trees[kind].write(member)


class _Readable:
    """A member as a stream that can be read."""

    def __init__(self, member: MemberStream) -> None:
        self._member = member

    def read(self, size: int) -> bytes:
        return self._member.read(size)


class _Tree:
    """A folder while it is written aside."""

    def __init__(self, folder: Path, aside: Path, entries: Sequence[TreeEntry]) -> None:
        self._folder = folder
        self._aside = aside
        self._paths = {one.member: one.path for one in entries}

    @classmethod
    @contextmanager
    def aside(
        cls, folder: Path, entries: Sequence[TreeEntry], manifest: BackupManifest
    ) -> Iterator[_Tree]:
        """Give a tree beside its place; it is gone at the end unless it was settled."""
        _require_free(folder, entries, manifest)
        with writing(folder):
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.restoring-", dir=folder.parent))
        try:
            yield cls(folder, aside, entries)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def write(self, member: MemberStream) -> None:
        """Write one file; only its owner may read it."""
        path = self._aside / self._paths[member.name]
        with writing(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(path, flags, 0o600), "wb") as stream:
                for piece in member.pieces():
                    stream.write(piece)
                stream.flush()
                os.fsync(stream.fileno())

    def settle(self) -> None:
        """Give the folder its name; one that holds the same already is left as it is."""
        with writing(self._folder):
            for folder, _, _ in os.walk(self._aside):
                sync_folder(Path(folder))
            if not self._folder.exists() or not any(self._folder.iterdir()):
                self._aside.rename(self._folder)
            sync_folder(self._folder.parent)


def _require_free(folder: Path, entries: Sequence[TreeEntry], manifest: BackupManifest) -> None:
    """Raise unless a folder is missing, empty, or what an interrupted restore left complete."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    sums = {name: sha256 for name, _, sha256 in manifest.members}
    wanted = {one.path: sums[one.member] for one in entries}
    if not folder.is_dir() or _sums_below(folder) != wanted:
        raise SettingsError(
            "the folder is not empty", where=str(folder), remedy="name a new one, or move it away"
        )


def _sums_below(folder: Path) -> dict[str, str]:
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            found[path.relative_to(folder).as_posix()] = digest
    return found
