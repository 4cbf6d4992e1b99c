"""The files of a shard: segments that never change, and ``CURRENT``, which says what holds.

====================  ====================================================================
file                  content
====================  ====================================================================
``segment-…``         an array file: postings, ids and pods of documents; written once
``CURRENT``           an array file: the commit. It names the segments and says which of
                      their documents are live, who may read each, and their ETags
``LOCK``              held by the one process that is writing
``.incoming``         files on their way in
====================  ====================================================================

A commit writes new segments, and then ``CURRENT`` in the place of the old one: aside, onto the
disk, renamed, and the folder onto the disk. A process that is killed, at any moment, leaves the
last commit. What no commit names is removed after a commit and by the next writer.

Each file is compared with its checksums when it is opened. They find damage, not forgery: whoever
can write in the folder can change the index and who may read it. A file that changes on the disk
while it is open is not noticed.
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.contention import WAIT_S, lock_patiently
from cloister.core.errors import Damaged, DataError, NotFound
from cloister.core.file_errors import explained, writing
from cloister.core.ids import ServerId
from cloister.core.rights import NOBODY
from cloister.index.analysis import TextAnalysis
from cloister.index.postings import Postings
from cloister.index.rights_json import rights_from_json, rights_to_json
from cloister.index.shard_commit import SegmentState, ShardCommit, StoredSegment
from cloister.index.string_table import StringTable
from cloister.store.array_file import StoredArrays, from_bytes, open_arrays, write_arrays
from cloister.store.incoming import sync_folder

__all__ = ["FileIdentity", "ShardFiles"]

CURRENT: Final = "CURRENT"
LOCK: Final = "LOCK"
SEGMENT: Final = "segment-"
SEGMENT_KIND: Final = "shard-segment"
COMMIT_KIND: Final = "shard-commit"
_AGAIN: Final = (
    "restore its folder from a backup, or remove that folder and index the documents again: "
    "cloister pods sync"
)


class FileIdentity(NamedTuple):
    """Tells one ``CURRENT`` from the next."""

    device: int
    inode: int
    time_ns: int
    n_bytes: int

    @classmethod
    def of(cls, state: os.stat_result) -> FileIdentity:
        """Take from what the system says of a file."""
        return cls(state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size)


class ShardFiles:
    """The folder of a shard.

    Parameters
    ----------
    folder
        Where. A folder that is made here is its owner's alone, as is each file in any case.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: IO[bytes] | None = None
        self._n_holds = 0  # of those who stay the writer over several commits
        self._seen: mmap.mmap | None = None  # mapped, so that its inode is not given away

    def exists(self) -> bool:
        """Say whether there is an index; raise where parts of one lie about."""
        if (self.folder / CURRENT).exists():
            return True
        if self.folder.is_dir() and any(self.folder.glob(f"{SEGMENT}*")):
            raise Damaged(
                "there are segments, but no CURRENT", where=str(self.folder), remedy=_AGAIN
            )
        return False

    def create(self, first: ShardCommit) -> None:
        """Make an empty index, unless somebody else made one in the meantime."""
        with writing(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(self.folder.parent)
        with writing(self.folder / LOCK), (self.folder / LOCK).open("ab") as lock:
            lock_patiently(lock, what="this index", where=str(self.folder))
            if not self.exists():
                self.write_commit(first)

    @property
    def locked(self) -> bool:
        """Whether this object is the writer."""
        return self._lock is not None

    def lock(self, timeout_s: float = WAIT_S) -> None:
        """Become the writer, after whoever is at work; raise `Busy` where that takes too long."""
        if self._lock is not None:
            return
        with writing(self.folder / LOCK):
            file = (self.folder / LOCK).open("ab")
        try:
            lock_patiently(file, what="this index", where=str(self.folder), timeout_s=timeout_s)
        except BaseException:
            file.close()
            raise
        self._lock = file

    def hold(self, timeout_s: float = WAIT_S) -> None:
        """Become the writer, and stay it until `release`, whatever is committed meanwhile."""
        self.lock(timeout_s)
        self._n_holds += 1

    def release(self) -> None:
        """Undo one `hold`; `unlock` then lets another one write."""
        self._n_holds -= 1

    def unlock(self) -> None:
        """Let another one write, unless somebody holds the lock."""
        if self._lock is not None and not self._n_holds:
            self._lock.close()
            self._lock = None

    def close(self) -> None:
        """Let go of all files."""
        self._n_holds = 0
        self.unlock()
        self._seen = None

    def identity(self) -> FileIdentity:
        """Say which ``CURRENT`` is there now."""
        try:
            return FileIdentity.of((self.folder / CURRENT).stat())
        except FileNotFoundError:
            raise _no_index(self.folder) from None

    def read_commit(self, known: Mapping[str, StoredSegment]) -> tuple[FileIdentity, ShardCommit]:
        """Read the last commit; segments that are known by name are not opened again."""
        while True:
            identity, content = self._open_current()
            try:
                with _as_damage():
                    stored = from_bytes(
                        bytes(content),
                        COMMIT_KIND,
                        what="the commit of an index",
                        where=self.folder / CURRENT,
                    )
                    return identity, self._commit(stored, known)
            except NotFound as error:  # a writer may have removed it, after another commit
                if identity == self.identity():
                    raise Damaged(
                        "a segment is missing", where=error.where, remedy=_AGAIN
                    ) from None

    def write_segment(self, segment: StoredSegment) -> StoredSegment:
        """Write a new segment, which no commit names yet; return it as it lies in its file."""
        name = SEGMENT + secrets.token_hex(8)
        arrays = segment.postings.arrays()
        arrays |= segment.doc_ids.arrays("doc_id") | segment.pod_ids.arrays("pod_id")
        arrays |= {"pods": segment.pods, "stamps": segment.stamps}
        write_arrays(self.folder / name, SEGMENT_KIND, {"name": name}, arrays)
        with _as_damage():
            return self._segment(name)

    def write_commit(self, commit: ShardCommit) -> FileIdentity:
        """Make a commit the current one, as the writer; after this nothing undoes it."""
        states = commit.segments
        header = {
            "version": commit.version,
            "server_id": commit.server_id,
            "analysis": commit.analysis.model_dump(mode="json"),
            "segments": [[state.stored.name, state.stored.n_documents] for state in states],
        }
        live = np.concatenate([np.empty(0, np.bool_), *(state.live for state in states)])
        rights = np.concatenate([np.empty(0, np.int32), *(state.rights for state in states)])
        arrays = {"live": np.packbits(live), "rights": _narrow(rights, len(commit.rights))}
        arrays["rights_list"] = np.frombuffer(rights_to_json(commit.rights), np.uint8)
        arrays |= StringTable.chained([state.etags for state in states]).arrays("etag")
        write_arrays(self.folder / CURRENT, COMMIT_KIND, header, arrays)
        return self._open_current()[0]

    def sweep(self, named: ShardCommit) -> int:
        """Remove segments that a commit does not name; return how many there were."""
        kept = {state.stored.name for state in named.segments}
        found = [path for path in self.folder.glob(f"{SEGMENT}*") if path.name not in kept]
        with writing(self.folder):
            for path in found:
                path.unlink(missing_ok=True)
            if found:
                sync_folder(self.folder)
        return len(found)

    def _open_current(self) -> tuple[FileIdentity, mmap.mmap | memoryview]:
        """Map ``CURRENT``. Its number cannot go to another file as long as it is mapped."""
        path = self.folder / CURRENT
        try:
            with explained(path), path.open("rb") as file:
                identity = FileIdentity.of(os.fstat(file.fileno()))
                if not identity.n_bytes:
                    return identity, memoryview(b"")
                self._seen = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                return identity, self._seen
        except NotFound:
            raise _no_index(self.folder) from None

    def _commit(self, stored: StoredArrays, known: Mapping[str, StoredSegment]) -> ShardCommit:
        where = str(self.folder / CURRENT)
        header, arrays = stored
        try:
            listed = [(str(name), int(n)) for name, n in header["segments"]]
            analysis = TextAnalysis(**header["analysis"])
            rights = rights_from_json(arrays["rights_list"].tobytes())
            numbers = arrays["rights"].astype(np.int32)
            bits = arrays["live"]
            found = ShardCommit(int(header["version"]), ServerId(header["server_id"]), analysis)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Damaged(
                f"the commit cannot be read ({error})", where=where, remedy=_AGAIN
            ) from None
        etags = StringTable.from_arrays(arrays, "etag", where)
        n = sum(size for _, size in listed)
        sound = (
            len(numbers) == len(etags) == n
            and len(bits) == -(-n // 8)
            and rights[0] == NOBODY
            and (n == 0 or 0 <= int(numbers.min()) <= int(numbers.max()) < len(rights))
        )
        if not sound:
            raise Damaged("the parts of the commit do not fit together", where=where, remedy=_AGAIN)
        live = np.unpackbits(bits, count=n).astype(np.bool_)
        states, first = [], 0
        for name, size in listed:
            part = slice(first, first + size)
            segment = known.get(name) or self._segment(name)
            if segment.n_documents != size:
                raise Damaged("not as long as the commit says", where=name, remedy=_AGAIN)
            states.append(
                SegmentState(
                    segment, live[part], numbers[part], etags.select(np.arange(*part.indices(n)))
                )
            )
            first += size
        return found._replace(rights=rights, segments=tuple(states))

    def _segment(self, name: str) -> StoredSegment:
        path = self.folder / name
        if not name.startswith(SEGMENT) or "/" in name:
            raise Damaged("a segment has a name that cannot be", where=name, remedy=_AGAIN)
        header, arrays = open_arrays(path, SEGMENT_KIND, what="a segment of an index")
        where = str(path)
        postings = Postings.from_arrays(arrays, where)
        doc_ids = StringTable.from_arrays(arrays, "doc_id", where)
        pod_ids = StringTable.from_arrays(arrays, "pod_id", where)
        pods, stamps = arrays.get("pods", np.empty(0)), arrays.get("stamps", np.empty(0))
        n = postings.n_documents
        sound = (
            header.get("name") == name
            and len(doc_ids) == len(pods) == len(stamps) == n
            and pods.dtype == np.int32
            and stamps.dtype == np.uint64
            and (n == 0 or 0 <= int(pods.min()) <= int(pods.max()) < len(pod_ids))
        )
        if not sound:
            raise Damaged(
                "the parts of the segment do not fit together", where=where, remedy=_AGAIN
            )
        return StoredSegment(name, postings, doc_ids, pod_ids, pods, stamps)


@contextmanager
def _as_damage() -> Iterator[None]:
    """Call a file that is something else damaged: these files are nobody else's."""
    try:
        yield
    except DataError as error:
        raise Damaged(error.what, where=error.where, remedy=_AGAIN) from None


def _no_index(folder: Path) -> NotFound:
    return NotFound("no index here", where=str(folder))


def _narrow(numbers: NDArray[np.int32], n_values: int) -> NDArray[Any]:
    """Return numbers below ``n_values`` in the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(max(n_values - 1, 0)))
