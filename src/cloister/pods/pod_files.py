"""The files of a pod's folder: nothing outside is ever opened, and writes are whole or not done.

Each step of a path is opened from the folder before it, without following a symbolic link. A link
that somebody puts in place of a folder while a path is walked is not followed either. A hard link
is a file like any other: who can make one in the folder can share what it links to.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from cloister.core.contention import lock_patiently
from cloister.core.errors import NotFound, SettingsError, StoreError
from cloister.core.file_errors import refused_remedy

__all__ = ["FoundFile", "PodFiles", "PodFolder", "checked_name"]

INCOMING: Final = ".incoming-"  # files on their way in, left behind only by a crash
LOCK: Final = ".lock"
CHUNK_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 32  # of folders in folders
MAX_FOLDERS: Final = 1_000
MAX_NAMES: Final = 200_000  # of all folders; a document may have three files beside it
SETTLED_NS: Final = 3_000_000_000
_NO_SUCH: Final = {errno.ENOENT, errno.ENAMETOOLONG}  # nothing can be there
_ABSENT: Final = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO}


def checked_name(name: str) -> tuple[str, ...]:
    """Return the steps of a path inside a pod, or raise.

    Examples
    --------
    >>> checked_name("visits/2024.txt")
    ('visits', '2024.txt')
    >>> checked_name("../other/secret.txt")
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: '../other/secret.txt': not a name inside a pod; ...
    """
    steps = tuple(name.split("/"))
    if any(step in ("", ".", "..") or "\0" in step for step in steps):
        raise SettingsError("not a name inside a pod", where=repr(name[:80]))
    return steps


class FoundFile(NamedTuple):
    """What there is of a name: nothing, something that is no file to be read, or bytes."""

    there: bool
    content: bytes | None = None
    why: str = ""  # there are no bytes, though it is there


class FileState(NamedTuple):
    """What changes when a file changes: a first look, which takes no reading.

    The time of the last change of its entry cannot be set back by a program that sets its times.
    """

    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int

    def is_settled(self, now_ns: int) -> bool:
        """Say whether a change from ``now_ns`` on would show: some file systems count seconds."""
        return now_ns - max(self.modified_ns, self.changed_ns) >= SETTLED_NS


class PodFolder(NamedTuple):
    """One folder while it is walked through.

    Parameters
    ----------
    prefix
        What its files' names begin with: empty, or a path that ends in a slash.
    names
        Everything in it, of whatever kind.
    """

    prefix: str
    names: frozenset[str]
    descriptor: int

    def files(self) -> Iterator[str]:
        """Give the names of its plain files, in order; hidden ones are left out."""
        for name in sorted(self.names):
            if not name.startswith(".") and _is_plain(self.descriptor, name):
                yield name

    def find(self, name: str, *, max_bytes: int) -> FoundFile:
        """Return the bytes of one of its files, as `PodFiles.find`."""
        return _content(self.descriptor, name, max_bytes)

    def state(self, name: str) -> FileState | None:
        """Return the state of one of its files, as `PodFiles.state`."""
        return _state(self.descriptor, name)


class PodFiles:
    """Bytes by name, in one folder.

    Parameters
    ----------
    root
        The folder; it must exist, and may itself be reached through links.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def read(self, name: str, *, max_bytes: int) -> bytes | None:
        """Return a file's bytes; None where there is none, or what is there is no plain file.

        A file that is longer than ``max_bytes`` is not there either.
        """
        return self.find(name, max_bytes=max_bytes).content

    def find(self, name: str, *, max_bytes: int) -> FoundFile:
        """Return a file's bytes, as `read`, and whether there is anything of that name.

        A file that the system does not let us read is there, without bytes and with the reason.
        """
        *folders, last = checked_name(name)
        with self._folder(folders) as folder:
            return FoundFile(False) if folder is None else _content(folder, last, max_bytes)

    def state(self, name: str) -> FileState | None:
        """Return what can be seen of a plain file that we may read; None where there is none."""
        *folders, last = checked_name(name)
        with self._folder(folders) as folder:
            return None if folder is None else _state(folder, last)

    def walk(self, leave_out: Callable[[str, str], None] | None = None) -> Iterator[PodFolder]:
        """Go through all folders, each while it is open; hidden ones are left out.

        Parameters
        ----------
        leave_out
            Told the names of folders that are left out, and why: the system does not let us open
            them, or there are too many. A folder is left out whole: a file in it could have a list
            that was not seen.
        """
        tell = leave_out or (lambda name, why: None)
        waiting: list[tuple[str, ...]] = [()]
        n_folders = n_names = 0
        while waiting:
            steps = waiting.pop()
            prefix = "".join(f"{step}/" for step in steps)
            if n_folders >= MAX_FOLDERS:
                tell(prefix, f"more than {MAX_FOLDERS:,} folders")
                continue
            n_folders += 1
            try:
                with self._folder(steps) as folder:
                    if folder is None:
                        if not steps:
                            gone = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                            raise _store_error(gone, str(self.root))
                        continue
                    with _explained(prefix):
                        names, inside = _entries(folder, MAX_NAMES - n_names)
                    n_names += len(names)
                    if n_names > MAX_NAMES:
                        tell(prefix, f"more than {MAX_NAMES:,} files")
                        continue
                    if len(steps) < MAX_DEPTH:
                        waiting += ((*steps, name) for name in reversed(inside))
                    else:
                        for name in inside:
                            tell(f"{prefix}{name}/", f"more than {MAX_DEPTH} folders deep")
                    yield PodFolder(prefix, names, folder)
            except StoreError as error:
                if not steps:
                    raise
                tell(prefix, error.what)

    def write(self, name: str, content: bytes) -> None:
        """Put a file in place whole; on return it is on the disk."""
        *folders, last = checked_name(name)
        with self._folder(folders, create=True) as folder:
            if folder is None:
                raise StoreError("a part of the name is no folder", where=name)
            with _explained(name):
                _replace(folder, last, content)

    def delete(self, name: str) -> bool:
        """Remove a file; say whether it was there."""
        *folders, last = checked_name(name)
        with self._folder(folders) as folder:
            if folder is None:
                return False
            try:
                os.unlink(last, dir_fd=folder)
            except OSError as error:
                if error.errno in _NO_SUCH:
                    return False
                raise _store_error(error, name) from None
            os.fsync(folder)
            return True

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep other writers of this pod out, in this process and in others."""
        with self._folder(()) as folder:
            if folder is None:
                raise NotFound("no such folder", where=str(self.root))
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with _explained(LOCK):
                lock = os.open(LOCK, flags, 0o600, dir_fd=folder)
            try:
                lock_patiently(lock, what="this pod", where=str(self.root))
                yield
            finally:
                os.close(lock)

    @contextmanager
    def _folder(
        self, steps: tuple[str, ...] | list[str], *, create: bool = False
    ) -> Iterator[int | None]:
        """Open the folder at the end of a path; None where a step is missing or no folder."""
        opened = None
        try:
            opened = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for step in steps:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(step, 0o700, dir_fd=opened)
                inner = _open(step, os.O_DIRECTORY, opened)
                os.close(opened)
                opened = inner
        except OSError as error:
            if opened is not None:
                os.close(opened)
            if error.errno not in _ABSENT:
                raise _store_error(error, "/".join(steps)) from None
            opened = None
        try:
            yield opened
        finally:
            if opened is not None:
                os.close(opened)


def _open(name: str, flags: int, folder: int) -> int:
    """Open something to read, without following a link and without waiting for a pipe."""
    common = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(name, flags | common, dir_fd=folder)


def _entries(folder: int, most: int) -> tuple[frozenset[str], list[str]]:
    """Return a folder's names, at most one more than ``most``, and which are folders to look in."""
    with os.scandir(folder) as found:
        entries = list(islice(found, most + 1))
    inside = [
        one.name
        for one in entries
        if not one.name.startswith(".") and _is_text(one.name) and one.is_dir(follow_symlinks=False)
    ]
    return frozenset(one.name for one in entries), sorted(inside)


def _is_plain(folder: int, name: str) -> bool:
    with suppress(OSError):
        return _is_text(name) and stat.S_ISREG(
            os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        )
    return False


def _is_text(name: str) -> bool:
    """Say whether a name is UTF-8: no other can be part of an id."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _state(folder: int, name: str) -> FileState | None:
    try:
        file = _open(name, 0, folder)
    except OSError:
        return None
    try:
        found = os.fstat(file)
    finally:
        os.close(file)
    if not stat.S_ISREG(found.st_mode):
        return None
    times = found.st_mtime_ns, found.st_ctime_ns
    return FileState(found.st_dev, found.st_ino, found.st_size, *times)


def _content(folder: int, name: str, max_bytes: int) -> FoundFile:
    try:
        file = _open(name, 0, folder)
    except OSError as error:
        if error.errno in _NO_SUCH:
            return FoundFile(False)
        if error.errno in _ABSENT:
            return FoundFile(True, why="no plain file")
        return FoundFile(True, why=_why(error))
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return FoundFile(True, why="no plain file")
    try:
        with os.fdopen(file, "rb", buffering=0) as stream:
            content = _all_of(stream, max_bytes + 1)
    except OSError as error:
        return FoundFile(True, why=_why(error))
    if len(content) > max_bytes:
        return FoundFile(True, why=f"larger than {max_bytes:,} bytes")
    return FoundFile(True, content)


def _why(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"


def _all_of(stream: FileIO, n_bytes: int) -> bytes:
    """Read to the end, or so many bytes."""
    parts = []
    while n_bytes > 0 and (part := stream.read(min(n_bytes, CHUNK_BYTES))):
        parts.append(part)
        n_bytes -= len(part)
    return b"".join(parts)


def _replace(folder: int, name: str, content: bytes) -> None:
    _sweep(folder)
    incoming = INCOMING + secrets.token_hex(8)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(incoming, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(incoming, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(incoming, dir_fd=folder)
        raise
    os.fsync(folder)


def _sweep(folder: int) -> None:
    """Remove what crashed writers left; `PodFiles.changing` keeps living ones out."""
    for name in os.listdir(folder):
        if name.startswith(INCOMING):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _store_error(error, name) from None


def _store_error(error: OSError, name: str) -> StoreError:
    return StoreError(
        f"the file system refused: {error.strerror or error}",
        where=name,
        remedy=refused_remedy(error),
    )
