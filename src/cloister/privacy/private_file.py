"""Small files with key material: readable by their owner only, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cloister.core.errors import AccessDenied, CloisterError, NotFound, SettingsError, StoreError
from cloister.core.file_errors import refused_remedy, wrong_place
from cloister.store.incoming import incoming_file, sweep, sync_folder

__all__ = ["read_private_file", "remove_private_file", "write_private_file"]

OTHERS: Final = 0o077  # the mode bits of the group and of everybody else


def write_private_file(path: str | Path, content: bytes) -> None:
    """Write a new file with mode 0600; a file that is there already is not overwritten.

    A crash leaves either no file of this name or the whole one, which is on the disk when this
    returns. It is written in the folder ``.incoming`` beside its place, which is cleared of what a
    crash left there. Needs a file system with hard links.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_private_file(Path(folder, "key"), b"secret")
    ...     read_private_file(Path(folder, "key"))
    b'secret'
    """
    path = Path(path)
    try:
        with incoming_file(_swept(path)) as incoming:  # made with mode 0600
            incoming.stream.write(content)
            incoming.stream.flush()
            os.fsync(incoming.stream.fileno())
            path.hardlink_to(incoming.path)  # unlike a rename, never replaces a file
        sync_folder(path.parent)
    except FileExistsError:
        raise SettingsError(
            "there is a key file already", where=str(path), remedy="choose another name"
        ) from None
    except OSError as error:
        raise _refused(error, "written", path) from None


def read_private_file(path: str | Path) -> bytes:
    """Return the content of a file that nobody but its owner may read or write."""
    path = Path(path)
    try:
        with path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_mode & OTHERS:
                raise AccessDenied(
                    "others may read or write this key file",
                    where=str(path),
                    remedy=f"chmod 600 {path}, and replace the key if somebody may have read it",
                )
            return stream.read()
    except FileNotFoundError:
        raise NotFound("no such key file", where=str(path)) from None
    except OSError as error:
        raise _refused(error, "read", path) from None


def remove_private_file(path: str | Path) -> None:
    """Remove a file; its name is gone from the disk when this returns.

    The bytes may stay in blocks that the file system or the disk has not written over yet, in
    snapshots and in backups.
    """
    path = Path(path)
    try:
        path.unlink(missing_ok=True)
        _swept(path)
        sync_folder(path.parent)
    except OSError as error:
        raise _refused(error, "removed", path) from None


def _refused(error: OSError, done: str, path: Path) -> CloisterError:
    return wrong_place(error, path) or StoreError(
        f"cannot be {done}: {error.strerror}", where=str(path), remedy=refused_remedy(error)
    )


def _swept(path: Path) -> Path:
    """Return the folder for half-written files beside a path, without those of dead writers."""
    folder = path.parent / ".incoming"
    folder.mkdir(mode=0o700, exist_ok=True)
    sweep(folder)
    return folder
