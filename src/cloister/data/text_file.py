"""Lines of a text file, plain or gzip, in UTF-8.

Every reader of text collections and records opens its files here, so a damaged file is reported
in the same way everywhere: with its name and, where there is one, the number of the line.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from cloister.core.errors import DataError, NotFound
from cloister.core.file_errors import explained

__all__ = [
    "find_text_file",
    "find_text_files",
    "first_line",
    "read_lines",
    "shortened",
]

GZIP_MAGIC: Final = b"\x1f\x8b"
_BUFFER_BYTES: Final = 1 << 17  # the 8 KiB default costs a call into gzip for every few lines
_SHOWN_CHARACTERS: Final = 80  # of an offending line, in an error


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a file with their numbers, from 1; each keeps its line end.

    A byte order mark at the beginning is left out. Only ``\n`` ends a line.

    Raises
    ------
    NotFound
        There is no such file.
    DataError
        The file is damaged, is not UTF-8, or cannot be read.

    Examples
    --------
    >>> import gzip, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.txt.gz")
    ...     _ = path.write_bytes(gzip.compress("größer\nkleiner".encode()))
    ...     list(read_lines(path))
    [(1, 'größer\n'), (2, 'kleiner')]
    """
    path = Path(path)
    number = 0
    with explained(path):
        try:
            with _opened(path) as stream:
                for number, line in enumerate(stream, 1):
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"not UTF-8: {error.reason} in {shortened(error.object.decode('latin-1'))}",
                where=f"{path}:{number}",
                remedy="convert the file to UTF-8",
            ) from None


def _opened(path: Path) -> BinaryIO:
    """Open a file for reading bytes; gzip is known by its first bytes, not only by its name."""
    with path.open("rb") as stream:
        magic = stream.read(len(GZIP_MAGIC))
    if magic == GZIP_MAGIC:
        return io.BufferedReader(gzip.GzipFile(path), _BUFFER_BYTES)
    if path.suffix == ".gz":
        raise gzip.BadGzipFile("the first bytes are not those of gzip")
    return path.open("rb", buffering=_BUFFER_BYTES)


def first_line(path: str | Path) -> str:
    """Return the first line of a file without its line end; empty for an empty file."""
    return next((line.rstrip("\r\n") for _, line in read_lines(path)), "")


def find_text_file(folder: str | Path, name: str) -> Path | None:
    """Return the file ``name`` of a folder, else ``name.gz``, else None."""
    for path in (Path(folder, name), Path(folder, f"{name}.gz")):
        if path.is_file():
            return path
    return None


def find_text_files(folder: str | Path, *suffixes: str) -> dict[str, Path]:
    """Return the files of a folder by name without suffix, in the order of the names.

    Where a file lies there both plain and compressed, the plain one counts. Hidden files do not.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("train.tsv.gz", "test.tsv", "notes.md"):
    ...         pathlib.Path(folder, name).touch()
    ...     {name: path.name for name, path in find_text_files(folder, ".tsv").items()}
    {'test': 'test.tsv', 'train': 'train.tsv.gz'}
    """
    if not Path(folder).is_dir():
        raise NotFound("no such folder", where=str(folder))
    found: dict[str, Path] = {}
    for path in sorted(Path(folder).iterdir(), key=lambda path: path.name):  # plain before .gz
        plain_name = path.name.removesuffix(".gz")
        suffix = Path(plain_name).suffix
        if suffix in suffixes and not path.name.startswith(".") and path.is_file():
            found.setdefault(plain_name.removesuffix(suffix), path)
    return dict(sorted(found.items()))


def shortened(text: str) -> str:
    """Quote a text for an error, cut to a length that fits a screen.

    Examples
    --------
    >>> shortened("short")
    "'short'"
    >>> len(shortened("long " * 1000))
    82
    """
    text = text.strip()
    if len(text) > _SHOWN_CHARACTERS:
        text = text[: _SHOWN_CHARACTERS - 3] + "..."
    return repr(text)
