"""A federation of servers with pods, indexed on disk: the setting of ESPRESSO's experiments.

What is on the servers, and who may read it: `cloister.lab.espresso.federation_contents`.
"""

from __future__ import annotations

import fcntl
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cloister.core.errors import NotFound
from cloister.core.rights import Reader
from cloister.data.cache import cache_folder
from cloister.index.shard import Shard
from cloister.lab.espresso.federation_contents import (
    ANALYSIS,
    FederationSettings,
    documents_of_server,
    readers_of,
    server_name,
)

__all__ = [
    "Federation",
    "build_federation",
    "federation_folder",
    "n_servers_there",
    "open_federation",
]


class Federation(NamedTuple):
    """The servers' indexes, and who may read 5 to 100 per cent of all."""

    settings: FederationSettings
    shards: Sequence[Shard]
    readers: Mapping[int, Reader]

    @property
    def n_documents(self) -> int:
        """Number of documents on all servers."""
        return sum(shard.n_documents for shard in self.shards)

    def close(self) -> None:
        """Let go of all files."""
        for shard in self.shards:
            shard.close()


def federation_folder(settings: FederationSettings) -> Path:
    """Return where a federation is kept unless somebody says otherwise: in the cache."""
    return cache_folder() / "espresso" / settings.digest()[:32]


def build_federation(
    settings: FederationSettings,
    folder: Path,
    *,
    workers: int = 2,
    advance: Callable[[int, int], None] | None = None,
) -> None:
    """Index all servers that are not indexed yet.

    A build that was stopped goes on where it was: a server is there as a whole or not at all.
    Several processes may build one federation together, each taking servers that no other has.

    Parameters
    ----------
    workers
        Processes; with one, this process does it.
    advance
        Is told how many servers are there.
    """
    (folder / "incoming").mkdir(parents=True, exist_ok=True)
    left = [n for n in range(settings.servers) if not _is_there(folder, n)]
    done = settings.servers - len(left)
    for _ in _built(settings, folder, left, workers):
        done += 1
        if advance is not None:
            advance(done, settings.servers)


def _built(
    settings: FederationSettings, folder: Path, left: Sequence[int], workers: int
) -> Iterator[int]:
    """Build servers, and give the number of each that is there."""
    if workers > 1 and len(left) > 1:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(workers, len(left)), context) as pool:
            jobs = {pool.submit(_build_alone, settings, folder, n): n for n in left}
            for job in as_completed(jobs):
                job.result()
                yield jobs[job]
        return
    taken = []
    for number in left:
        if _build(settings, folder, number, wait=False):
            yield number
        else:
            taken.append(number)
    for number in taken:  # which another process was at
        _build(settings, folder, number, wait=True)
        yield number


def n_servers_there(settings: FederationSettings, folder: Path) -> int:
    """Return how many servers are indexed."""
    return sum(_is_there(folder, number) for number in range(settings.servers))


def open_federation(settings: FederationSettings, folder: Path) -> Federation:
    """Open what `build_federation` made."""
    shards = [
        Shard.open(folder / server_name(n), server_id=server_name(n), create=False)
        for n in range(settings.servers)
    ]
    return Federation(settings, shards, readers_of(settings))


def _is_there(folder: Path, number: int) -> bool:
    name = server_name(number)
    try:
        with Shard.open(folder / name, server_id=name, create=False) as shard:
            return shard.version > 0
    except NotFound:
        return False


def _build_alone(settings: FederationSettings, folder: Path, number: int) -> None:
    """Index one server in a process that does nothing else."""
    import numba

    numba.set_num_threads(1)  # each server has a process
    _build(settings, folder, number, wait=True)


def _build(settings: FederationSettings, folder: Path, number: int, *, wait: bool) -> bool:
    """Index one server, in one commit: a stopped build leaves it empty.

    Returns whether the server is there; False where another process is at it.
    """
    name = server_name(number)
    with _reserved(folder / f"{name}.lock", wait=wait) as reserved:
        if reserved and not _is_there(folder, number):
            with Shard.open(folder / name, server_id=name, analysis=ANALYSIS) as shard:
                shard.add(documents_of_server(settings, number))
                shard.commit()
    return reserved


@contextmanager
def _reserved(path: Path, *, wait: bool) -> Iterator[bool]:
    """Keep other processes from something meanwhile; say whether it is free."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
