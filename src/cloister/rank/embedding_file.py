r"""Word vectors from files that others wrote: word2vec's text and binary formats, GloVe's text.

``word2vec-text``
    A line with the number of words and the size of a vector, then a line for each word: the word
    and its numbers, with blanks between.
``word2vec-binary``
    The same first line; then for each word its bytes in UTF-8, a blank, and its numbers as
    little-endian 32-bit floats. A line end may stand before a word.
``glove``
    Lines as in ``word2vec-text``, with no line before them. A word may hold blanks.

Each may be compressed by gzip. Files from others are checked: every line has as many numbers as the
first, all of them finite, and there are as many words as announced. Of a word that occurs twice the
first vector counts. A word with a vector of zeros is left out: it has no direction.
"""

from __future__ import annotations

import gzip
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.core.file_errors import explained
from cloister.data.text_file import GZIP_MAGIC, read_lines, shortened
from cloister.rank.embedding import Embedding

__all__ = ["EmbeddingFormat", "read_embedding"]

EmbeddingFormat = Literal["word2vec-text", "word2vec-binary", "glove"]

_LONGEST_WORD_BYTES: Final = 4096
_LARGEST_SIZE: Final = 65_536  # numbers of a vector; more is no vector file
_AGAIN: Final = "fetch the file again, or name its format"
_FLOAT: Final = np.dtype("<f4")


class _Announced(NamedTuple):
    """What the first line of a word2vec file says."""

    n_words: int
    size: int


def read_embedding(
    path: str | Path,
    *,
    file_format: EmbeddingFormat | None = None,
    words: Collection[str] | None = None,
) -> Embedding:
    r"""Read word vectors from a file.

    Parameters
    ----------
    path
        The file, plain or gzip.
    file_format
        Which of the three; found by its first two lines where not given.
    words
        The words to keep, say those of a collection; all where not given. Numbers of other words
        are counted, not read.

    Raises
    ------
    NotFound
        There is no such file.
    DataError
        The file is damaged, or holds none of the words.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "vectors.txt")
    ...     _ = path.write_text("cough 3 4\nfever 0 2\n")
    ...     read_embedding(path).vectors.round(1).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """
    path = Path(path)
    if file_format is not None and file_format not in get_args(EmbeddingFormat):
        raise SettingsError(
            f"unknown format {file_format!r}",
            where="file_format",
            remedy=f"use one of {', '.join(get_args(EmbeddingFormat))}",
        )
    wanted = None if words is None else frozenset(words)
    file_format = file_format or _found_format(path)
    readers = {"word2vec-text": _text, "word2vec-binary": _binary, "glove": _glove}
    found: dict[str, NDArray[np.float32]] = {}
    for where, word, vector in readers[file_format](path, wanted):
        if not np.isfinite(vector).all():
            raise DataError(f"a number of {word!r} is not finite", where=where, remedy=_AGAIN)
        if vector.any():
            found.setdefault(word, vector)
    if not found:
        raise DataError("there is no vector for any word", where=str(path))
    return Embedding(tuple(found), np.stack(list(found.values())))


_Entries = Iterator[tuple[str, str, NDArray[np.float32]]]


def _found_format(path: Path) -> EmbeddingFormat:
    """Tell the formats apart: only word2vec announces its size, and only text has it in a line."""
    with explained(path), _opened(path) as stream:
        first = stream.readline(_LONGEST_WORD_BYTES)
        announced = _announcement(first)
        if announced is None:
            return "glove"
        second = stream.readline(_LONGEST_WORD_BYTES + 32 * announced.size)
    try:
        parts = second.decode().split()
        floats = [float(part) for part in parts[-announced.size :]]
    except ValueError:
        return "word2vec-binary"
    text = len(parts) > announced.size == len(floats)
    return "word2vec-text" if text else "word2vec-binary"


def _announcement(line: bytes) -> _Announced | None:
    parts = line.split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        return None
    n_words, size = int(parts[0]), int(parts[1])
    return _Announced(n_words, size) if 1 <= size <= _LARGEST_SIZE else None


def _required(line: bytes, path: Path) -> _Announced:
    announced = _announcement(line)
    if announced is None:
        raise DataError(
            "the first line does not give the number of words and the size of a vector",
            where=f"{path}:1",
            remedy=_AGAIN,
        )
    return announced


def _text(path: Path, wanted: frozenset[str] | None) -> _Entries:
    lines = read_lines(path)
    announced = _required(next(lines, (1, ""))[1].encode(), path)
    n_found = 0
    for number, line in lines:
        n_found += 1
        if entry := _entry(line, announced.size, f"{path}:{number}", wanted):
            yield entry
    _require_all(n_found, announced, path)


def _glove(path: Path, wanted: frozenset[str] | None) -> _Entries:
    size = 0
    for number, line in read_lines(path):
        # A first word with a blank in it would be taken for a number and is told as an error.
        size = size or len(line.split()) - 1
        if entry := _entry(line, size, f"{path}:{number}", wanted):
            yield entry


def _entry(
    line: str, size: int, where: str, wanted: frozenset[str] | None
) -> tuple[str, str, NDArray[np.float32]] | None:
    """Return the word and the vector of a line, or None for a word that is not wanted."""
    parts = line.rstrip().rsplit(" ", size) if size > 0 else []
    if not parts or len(parts) != size + 1 or not parts[0]:
        raise DataError(
            f"not a word and {max(size, 1)} numbers: {shortened(line)}",
            where=where,
            remedy=_AGAIN,
        )
    if wanted is not None and parts[0] not in wanted:
        return None
    try:
        return where, parts[0], np.array([float(part) for part in parts[1:]], np.float32)
    except ValueError:
        raise DataError(
            f"not a word and {size} numbers: {shortened(line)}", where=where, remedy=_AGAIN
        ) from None


def _binary(path: Path, wanted: frozenset[str] | None) -> _Entries:
    with explained(path), _opened(path) as stream:
        announced = _required(stream.readline(_LONGEST_WORD_BYTES), path)
        for number in range(1, announced.n_words + 1):
            where = f"{path}, word {number}"
            word = _word(stream, where)
            content = stream.read(announced.size * _FLOAT.itemsize)
            if len(content) < announced.size * _FLOAT.itemsize:
                raise DataError("the file ends within a vector", where=where, remedy=_AGAIN)
            if wanted is None or word in wanted:
                yield where, word, np.frombuffer(content, _FLOAT).astype(np.float32)
        if stream.read().strip():
            raise DataError(
                f"more follows after the {announced.n_words} words", where=str(path), remedy=_AGAIN
            )


def _word(stream: BinaryIO, where: str) -> str:
    letters = bytearray()
    while (letter := stream.read(1)) != b" ":
        if not letter or len(letters) > _LONGEST_WORD_BYTES:
            raise DataError("no word is found", where=where, remedy=_AGAIN)
        if letter != b"\n" or letters:
            letters += letter
    try:
        word = letters.decode()
    except UnicodeDecodeError:
        raise DataError("the word is not UTF-8", where=where, remedy=_AGAIN) from None
    if not word:
        raise DataError("no word is found", where=where, remedy=_AGAIN)
    return word


def _require_all(n_found: int, announced: _Announced, path: Path) -> None:
    if n_found != announced.n_words:
        raise DataError(
            f"{announced.n_words} words are announced, {n_found} are there",
            where=str(path),
            remedy=_AGAIN,
        )


def _opened(path: Path) -> BinaryIO:
    """Open a file for reading bytes; gzip is known by its first bytes."""
    with path.open("rb") as stream:
        compressed = stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return cast(BinaryIO, gzip.open(path, "rb")) if compressed else path.open("rb")
