"""The files of a backup that lie outside the database: a home folder, and configuration.

Each index in a home folder is copied as of one commit: ``CURRENT`` and the segments that it names
are opened together, and what is open stays as it is, whatever a writer removes meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

from cloister.core.errors import NotFound, SettingsError, StoreError
from cloister.core.file_errors import explained, refused_remedy, wrong_place
from cloister.index.shard_files import COMMIT_KIND, CURRENT, LOCK, SEGMENT
from cloister.pods.registry import LOCK as HOME_LOCK
from cloister.pods.registry import PODS
from cloister.pods.text_store import TEXTS
from cloister.store.array_file import from_bytes
from cloister.store.backup import TreeFile

__all__ = ["home_files", "included_files"]

N_ATTEMPTS: Final = 100  # of opening an index between two commits
INCOMING: Final = ".incoming"  # files that are not there yet
_NOT_COPIED: Final = (LOCK, HOME_LOCK)


def home_files(home: Path) -> Iterator[TreeFile]:
    """Give the files of a home folder: the list of pods, and every index as of one commit.

    Kept texts stay out: what an owner deletes is not to live on in backups.
    """
    if not (home / PODS).exists():
        raise NotFound("no home folder of pods", where=str(home), remedy="see: cloister pods list")
    for folder, paths in _folders(home):
        if folder == home / TEXTS:
            continue
        if (folder / CURRENT).exists():
            yield from _index_files(folder, home)
            paths = [path for path in paths if not _of_index(path)]
        for path in paths:
            yield from _one_file(path, path.relative_to(home).as_posix())


def included_files(paths: Iterable[Path]) -> Iterator[TreeFile]:
    """Give files, and all files below folders, under their whole paths."""
    seen: set[Path] = set()
    for given in paths:
        whole = given.absolute()
        if not whole.exists():
            raise NotFound("no such file or folder", where=str(given))
        folders = _folders(whole) if whole.is_dir() else [(whole.parent, [whole])]
        for path in (path for _, found in folders for path in found):
            clean = Path(os.path.normpath(path))
            if clean not in seen:
                seen.add(clean)
                yield from _one_file(clean, clean.as_posix().lstrip("/"))


def _folders(top: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Walk in the order of names; what cannot be walked through is an error."""
    for folder, inside, names in os.walk(top, onerror=_raise):
        inside[:] = sorted(name for name in inside if name != INCOMING)
        for name in inside:
            if Path(folder, name).is_symlink():
                raise SettingsError(
                    "a link to a folder is not followed",
                    where=str(Path(folder, name)),
                    remedy="name the folder itself",
                )
        yield Path(folder), [Path(folder, name) for name in sorted(names)]


def _raise(error: OSError) -> None:
    raise wrong_place(error, str(error.filename)) or StoreError(
        f"cannot be read: {error.strerror}",
        where=str(error.filename),
        remedy=refused_remedy(error),
    )


def _of_index(path: Path) -> bool:
    return path.name == CURRENT or path.name.startswith(SEGMENT)


def _one_file(path: Path, name: str) -> Iterator[TreeFile]:
    if path.name in _NOT_COPIED:
        return
    if not path.is_file():
        raise SettingsError("not a file", where=str(path), remedy="move it elsewhere")
    with explained(path), path.open("rb") as stream:
        yield TreeFile(name, stream)


def _index_files(folder: Path, home: Path) -> Iterator[TreeFile]:
    with ExitStack() as stack:
        for stream in _opened_index(folder, stack):
            yield TreeFile(Path(stream.name).relative_to(home).as_posix(), stream)


def _opened_index(folder: Path, stack: ExitStack) -> list[BinaryIO]:
    """Open the last commit and its segments; again where a writer has removed one meanwhile."""
    for _ in range(N_ATTEMPTS):
        with ExitStack() as attempt:
            current = attempt.enter_context((folder / CURRENT).open("rb"))
            commit = from_bytes(current.read(), COMMIT_KIND, what="the commit of an index")
            current.seek(0)
            names = [str(name) for name, _ in commit.header["segments"]]
            try:
                segments = [attempt.enter_context((folder / name).open("rb")) for name in names]
            except FileNotFoundError:
                continue
            stack.enter_context(attempt.pop_all())
            return [current, *segments]
    raise StoreError(
        "the index changes faster than it can be read, or a segment is missing",
        where=str(folder),
        remedy="try again when less is written to it",
    )
