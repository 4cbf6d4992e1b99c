"""The folder in which a server keeps private indexes, one file each, named by the index's id.

A file is received in ``.incoming``, brought to the disk, checked, and only then renamed to its
place: a crash, a lost connection or a damaged upload leaves the index that was there. Of two
uploads at once the one that ends last stays, whole. What dead writers left is swept away at the
next start and before each upload. Several processes may share the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.server import PrivateIndexServer
from cloister.core.errors import CloisterError, DataError, NotFound, StoreError
from cloister.core.file_errors import writing
from cloister.store.incoming import Incoming, incoming_file, sweep, sync_folder

__all__ = ["IndexFolder", "IndexUpload", "checked_index_id"]

_INDEX_ID: Final = re.compile(r"[0-9a-f]{32}")
_ENDING: Final = ".private-index"


def checked_index_id(index_id: str) -> str:
    """Return an index's id as it stands in addresses, 32 hexadecimal digits, or raise `NotFound`.

    Examples
    --------
    >>> checked_index_id("../secret")
    Traceback (most recent call last):
    ...
    cloister.core.errors.NotFound: no such index; check the id: 32 hexadecimal digits
    """
    if not _INDEX_ID.fullmatch(index_id):
        raise NotFound("no such index", remedy="check the id: 32 hexadecimal digits")
    return index_id


class _OpenIndex(NamedTuple):
    """An index that is being served, and which file it was made from."""

    file: tuple[int, ...]
    server: PrivateIndexServer


class IndexUpload(NamedTuple):
    """A file on its way in.

    Parameters
    ----------
    incoming
        The temporary file.
    target
        Its place.
    """

    incoming: Incoming
    target: Path

    def write(self, content: bytes) -> None:
        """Take the next bytes."""
        with writing(self.target):
            self.incoming.stream.write(content)

    def settle(self) -> None:
        """Bring the bytes to the disk, check them, and give them their place.

        Raises
        ------
        DataError
            If they are not a whole private index of this id.
        """
        with writing(self.target):
            self.incoming.stream.flush()
            os.fsync(self.incoming.stream.fileno())
        try:
            index = PrivateIndex.open(self.incoming.path)
        except CloisterError as error:
            raise DataError(
                f"the upload is not a whole private index: {error.what}",
                remedy="send the index again",
            ) from None
        if index.index_id.hex() != self.target.name.removesuffix(_ENDING):
            raise DataError("the index has another id", remedy="send it to its own address")
        with writing(self.target):
            self.incoming.path.replace(self.target)
            sync_folder(self.target.parent)


class IndexFolder:
    """Private indexes on a disk.

    Parameters
    ----------
    root
        The folder; made if it is not there, for its owner only.
    max_indexes
        How many it may hold.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     IndexFolder(folder).index_ids()
    []
    """

    def __init__(self, root: str | Path, *, max_indexes: int = 100) -> None:
        self.root = Path(root).absolute()
        self.max_indexes = max_indexes
        self._incoming = self.root / ".incoming"
        self._open: dict[str, _OpenIndex] = {}
        with writing(self.root):
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._incoming.mkdir(mode=0o700, exist_ok=True)
            sweep(self._incoming)

    def index_ids(self) -> list[str]:
        """Return the ids of all indexes, in order."""
        names = (path.name.removesuffix(_ENDING) for path in self.root.glob(f"*{_ENDING}"))
        return sorted(name for name in names if _INDEX_ID.fullmatch(name))

    @contextmanager
    def upload(self, index_id: str) -> Iterator[IndexUpload]:
        """Receive an index; without a call of `IndexUpload.settle` nothing changes."""
        target = self._path(index_id)
        present = self.index_ids()
        if index_id not in present and len(present) >= self.max_indexes:
            raise StoreError("there is no room for another index", remedy="remove one first")
        with ExitStack() as stack:
            with writing(target):
                sweep(self._incoming)
                incoming = stack.enter_context(incoming_file(self._incoming))
            yield IndexUpload(incoming, target)

    def server(self, index_id: str) -> PrivateIndexServer:
        """Return what answers for an index; it is opened again when its file was replaced."""
        path = self._path(index_id)
        try:
            state = path.stat()
        except FileNotFoundError:
            self._open.pop(index_id, None)
            raise NotFound("no such index", remedy="upload it first") from None
        file = (state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size)
        found = self._open.get(index_id)
        if found is None or found.file != file:
            found = _OpenIndex(file, PrivateIndexServer(PrivateIndex.open(path)))
            self._open[index_id] = found  # of two threads that open it, one had no need to
        return found.server

    def remove(self, index_id: str) -> None:
        """Remove an index. Copies that a server or its operator made stay."""
        path = self._path(index_id)
        self._open.pop(index_id, None)
        try:
            with writing(path):
                path.unlink()
                sync_folder(self.root)
        except NotFound:
            raise NotFound("no such index") from None

    def _path(self, index_id: str) -> Path:
        return self.root / f"{checked_index_id(index_id)}{_ENDING}"
