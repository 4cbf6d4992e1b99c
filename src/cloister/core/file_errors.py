"""Errors of the operating system while a file is read or written, told as ours."""

from __future__ import annotations

import errno
import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cloister.core.errors import CloisterError, DataError, NotFound, SettingsError, StoreError

__all__ = ["explained", "refuse_existing", "refused_remedy", "wrong_place", "writing"]

_WRONG_PLACES: Final = {
    errno.ENOENT: ("no such file or folder", "check the name"),
    errno.ENOTDIR: ("a part of this path is a file, not a folder", "check the path"),
    errno.EISDIR: ("this is a folder, not a file", "name a file"),
    errno.EEXIST: ("this is a file, not a folder", "name a folder"),
    errno.ENAMETOOLONG: ("this name is too long", "check the path"),
    errno.ELOOP: ("this path is a circle of links", "check the path"),
    errno.EINVAL: ("no file can have this name", "check the path"),
}
_RIGHTS: Final = "use another path, or change the rights there with chmod or chown"


def wrong_place(error: OSError, path: str | Path) -> NotFound | None:
    """Return what is wrong with the path itself; None where the path is right.

    Examples
    --------
    >>> import errno
    >>> print(wrong_place(IsADirectoryError(errno.EISDIR, "Is a directory"), "texts"))
    texts: this is a folder, not a file; name a file
    """
    if error.errno not in _WRONG_PLACES:
        return None
    what, remedy = _WRONG_PLACES[error.errno]
    return NotFound(what, where=str(path), remedy=remedy)


def refused_remedy(error: OSError) -> str:
    """Return what to do where the machine refuses a path that is right."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return _RIGHTS
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space there"
    if error.errno == errno.EROFS:
        return "choose a place that can be written"
    return "check the disk and the folder"


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the errors of reading a file into ours, with the file's name.

    Examples
    --------
    >>> with explained(Path("no-such-file")):
    ...     Path("no-such-file").read_bytes()
    Traceback (most recent call last):
    ...
    cloister.core.errors.NotFound: no-such-file: no such file; check the name
    """
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"damaged gzip file ({error})", where=str(path), remedy="fetch the file again"
        ) from None
    except FileNotFoundError:
        raise NotFound("no such file", where=str(path)) from None
    except OSError as error:
        raise wrong_place(error, path) or DataError(
            f"cannot be read: {error.strerror or error}",
            where=str(path),
            remedy=refused_remedy(error),
        ) from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the errors of writing a file into ours, with a remedy.

    Examples
    --------
    >>> with writing(Path("no-such-folder/a.bin")):
    ...     Path("no-such-folder/a.bin").write_bytes(b"")
    Traceback (most recent call last):
    ...
    cloister.core.errors.NotFound: no-such-folder: no such folder; make the folder first
    """
    try:
        yield
    except FileNotFoundError:
        raise NotFound(
            "no such folder", where=str(path.parent), remedy="make the folder first"
        ) from None
    except OSError as error:
        raise wrong_place(error, path) or StoreError(
            f"cannot be written: {error.strerror or error}",
            where=str(path),
            remedy=refused_remedy(error),
        ) from error


def refuse_existing(path: Path, *, force: bool, ours: Callable[[Path], object]) -> None:
    """Refuse to write over anything but a file of the same kind that may be replaced.

    Parameters
    ----------
    force
        Whether a file of the same kind may be replaced.
    ours
        Opens such a file, or raises an error of Cloister's.

    Examples
    --------
    >>> refuse_existing(Path("."), force=True, ours=Path.read_bytes)
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: .: a folder has this name; choose another name
    """
    if not path.absolute().parent.is_dir():
        raise NotFound(
            "no such folder", where=str(path.absolute().parent), remedy="make the folder first"
        )
    if path.is_dir():
        raise SettingsError("a folder has this name", where=str(path), remedy="choose another name")
    if not path.exists():
        return
    if not force:
        raise SettingsError(
            "the file is there already",
            where=str(path),
            remedy="choose another name, or add --force",
        )
    try:
        ours(path)
    except CloisterError:  # a key, a ledger or a part of an index, say
        raise SettingsError(
            "the file that is there is something else, or damaged, and is not replaced",
            where=str(path),
            remedy="choose another name, or remove the file",
        ) from None
