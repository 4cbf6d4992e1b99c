"""Goes through a Solid pod: containers, documents and who may read them, within limits.

The pod's server is not trusted: it may list containers without end. What exceeds a limit is left
out and named, and the rest of the pod is listed all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from cloister.core.errors import AccessDenied, DataError, SettingsError
from cloister.pods.courtesy import considerate
from cloister.pods.datastore import Dropped
from cloister.pods.solid_client import ListingRoom, SolidClient

__all__ = ["ListingLimits", "N_THREADS", "in_threads", "listed_addresses"]

T = TypeVar("T")
R = TypeVar("R")
N_THREADS: Final = 4  # that ask one server at a time
N_AHEAD: Final = 2 * N_THREADS


class ListingLimits(NamedTuple):
    """How much of one pod is looked at.

    Parameters
    ----------
    n_documents, n_containers, depth
        Documents and containers in all, and containers in containers.
    listing_bytes
        Of all listings together.
    turtle_bytes
        Of listings, access control lists and groups in Turtle that one sync reads; what did not
        change since the last one costs nothing.
    """

    n_documents: int = 20_000
    n_containers: int = 1_000
    depth: int = 32
    listing_bytes: int = 64_000_000
    turtle_bytes: int = 8_000_000

    def room(self) -> ListingRoom:
        """Return the room that the listings of one sync have."""
        return ListingRoom(self.listing_bytes, self.turtle_bytes)


def in_threads(pool: ThreadPoolExecutor, work: Callable[[T], R], given: Iterable[T]) -> Iterator[R]:
    """Do work in a pool's threads, under the deadline of this one; give results in order.

    No more is begun than a few results ahead of the one that is given. Searches go first.
    """
    left = iter(given)
    careful = considerate(work)
    begun: deque[Future[R]] = deque()
    try:
        while True:
            for one in islice(left, N_AHEAD - len(begun)):
                begun.append(pool.submit(copy_context().run, careful, one))
            if not begun:
                return
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()


def listed_addresses(
    client: SolidClient,
    pool: ThreadPoolExecutor,
    root: str,
    limits: ListingLimits,
    room: ListingRoom,
    dropped: Dropped,
) -> dict[str, str]:
    """Return the addresses of all resources in a pod, each with what its container says of it.

    Containers are listed level by level; what may not be listed is left out.
    """

    def listed(container: str) -> dict[str, str]:
        try:
            return client.members(container, room)
        except AccessDenied:
            return {}
        except (DataError, SettingsError) as error:
            dropped.add(container, error.what)
            return {}

    found: dict[str, str] = {}
    level, n_containers = [root], 0
    for _ in range(limits.depth + 1):
        n_left = max(0, limits.n_containers - n_containers)
        _drop(dropped, level[n_left:], f"more than {limits.n_containers} containers")
        level = level[:n_left]
        n_containers += len(level)
        deeper: list[str] = []
        for n_listed, members in enumerate(in_threads(pool, listed, level), 1):
            deeper += (address for address in members if address.endswith("/"))
            found |= {name: said for name, said in members.items() if not name.endswith("/")}
            if len(found) > 2 * limits.n_documents:
                _drop(dropped, [*level[n_listed:], *deeper], "too many documents before it")
                return found
        level = deeper
    _drop(dropped, level, f"more than {limits.depth} containers deep")
    return found


def _drop(dropped: Dropped, names: Iterable[str], why: str) -> None:
    for name in names:
        dropped.add(name, why)
