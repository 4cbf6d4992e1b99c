"""Errors of the operating system while a file is written, told as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cloister.core.errors import NotFound, StoreError

__all__ = ["writing"]


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
