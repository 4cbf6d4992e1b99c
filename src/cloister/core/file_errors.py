"""Errors of the operating system while a file is read or written, told as ours."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cloister.core.errors import DataError, NotFound, StoreError

__all__ = ["explained", "writing"]


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
        raise DataError(f"cannot be read: {error.strerror or error}", where=str(path)) from None


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
        raise StoreError(
            f"cannot be written: {error.strerror or error}",
            where=str(path),
            remedy="check the folder, who may write there, and its free space",
        ) from error
