"""Who may do what with the resources of a Solid pod, as its lists and groups say now.

Groups are looked up as the Community Solid Server does it: the group's document is fetched by
nobody in particular, so that only public documents define groups. It is fetched only from servers
that are named here, so that a list cannot make this program call any address; a group that lies
elsewhere has no members.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from cloister.core.errors import AccessDenied, DataError, StoreError
from cloister.core.ids import AgentId, GroupId
from cloister.pods.acl_turtle import (
    MAX_GROUPS_BYTES,
    MAX_LIST_BYTES,
    read_acl,
    read_groups,
    write_acl,
)
from cloister.pods.solid_client import TURTLE, SolidClient
from cloister.pods.solid_http import ABSENT, NOT_MODIFIED, SolidResponse, origin
from cloister.pods.web_access_control import (
    AccessControlList,
    AccessRules,
    effective_rules,
    is_document,
)

__all__ = ["AccessMoment", "FetchedList", "SolidAccess"]

T = TypeVar("T")
GroupMembers = dict[GroupId, frozenset[AgentId]]
MAX_KEPT_BYTES: Final = 64_000_000  # of memory, for what a pod's lists said; one takes about 2 KB
NAME_BYTES: Final = 150  # of memory for a name in a list or a group, besides its letters


class FetchedList(NamedTuple):
    """A list, None where there is none, its tag, and how many bytes had to be read for it.

    Where a server sends the same bytes again, by their ``digest``, they are not read again.
    """

    acl: AccessControlList | None
    etag: str
    n_read: int = 0
    digest: bytes = b""


class _Groups(NamedTuple):
    members: GroupMembers
    etag: str
    n_read: int = 0


class SolidAccess:
    """Fetches access control lists and groups.

    Parameters
    ----------
    client
        Acts for somebody with Control.
    root
        The container at which inheritance ends: the pod.
    group_servers
        Addresses of servers from which groups may be fetched, besides the pod's own.
    """

    def __init__(self, client: SolidClient, root: str, group_servers: Iterable[str] = ()) -> None:
        self.client = client
        self.root = root
        self._group_servers = {origin(root), *map(origin, group_servers)}
        self._addresses = _Kept[str]()  # of lists: servers do not move them
        self._lists = _Kept[FetchedList]()  # as read last, by address, with reliable tags
        self._groups = _Kept[_Groups]()
        self._nobody = client.as_nobody()

    def now(self, max_bytes: int | None = None) -> AccessMoment:
        """Return a look at the pod, in which each list is fetched once.

        Parameters
        ----------
        max_bytes
            Of lists and groups that may be read in all; what did not change costs nothing.
        """
        return AccessMoment(self, max_bytes)

    def list_address(self, resource: str, response: SolidResponse | None = None) -> str:
        """Return where a resource's list is, whether it exists or not."""
        found = self._addresses.get(resource)
        if found is None:
            found = self.client.acl_address(resource, response)
            self._addresses.keep(resource, found, len(found))
        return found

    def fetch_list(self, resource: str) -> FetchedList:
        """Return a resource's own list.

        A list that the client may not see is an error: nobody knows what it says.
        """
        address = self.list_address(resource)
        known = self._lists.get(address)
        response = self.client.get(
            address,
            accept=TURTLE,
            etag="" if known is None else known.etag,
            expected=ABSENT,
            max_bytes=MAX_LIST_BYTES,
        )
        if response.status in ABSENT:
            self._lists.forget(address)
            return FetchedList(None, "")
        digest = hashlib.blake2b(response.content, digest_size=32).digest()
        if known is not None and (response.status == NOT_MODIFIED or digest == known.digest):
            return known._replace(etag=response.etag or known.etag)
        self._lists.forget(address)
        acl = read_acl(response.content, address)
        found = FetchedList(acl, response.etag, digest=digest)
        if response.is_settled:
            self._lists.keep(address, found, _list_bytes(acl))
        return found._replace(n_read=len(response.content))

    def store_list(self, resource: str, acl: AccessControlList, etag: str) -> None:
        """Store a resource's own list in place of the one with that tag; empty where it had none.

        Where somebody else changed it meanwhile, `Conflict` is raised.
        """
        content = write_acl(acl).encode()
        self.client.put(self.list_address(resource), content, TURTLE, etag=etag, new=not etag)

    def copy_list(self, source: str, target: str) -> None:
        """Give a resource the rules of another one's own list, or no own list where it has none.

        The target's list is looked at before the source's: where somebody else changes the source
        meanwhile and then copies, one of the two finds the target changed (`Conflict`), or comes
        last.
        """
        before = self.fetch_list(target)
        wanted = self.fetch_list(source).acl
        if wanted is not None:
            self.store_list(target, wanted.own(source).bound_to(target), before.etag)
        elif before.acl is not None:
            self.client.delete(self.list_address(target), etag=before.etag)

    def fetch_groups(self, document: str) -> GroupMembers:
        """Return the groups that a public document defines; none where it cannot be had."""
        return self.read_groups(document).members

    def read_groups(self, document: str) -> _Groups:
        """Return the groups that a public document defines, and what it took to read them."""
        if origin(document) not in self._group_servers:
            return _Groups({}, "")
        known = self._groups.get(document)
        try:
            response = self._nobody.get(
                document,
                accept=TURTLE,
                etag="" if known is None else known.etag,
                max_bytes=MAX_GROUPS_BYTES,
            )
            if response.status == NOT_MODIFIED and known is not None:
                return known
            self._groups.forget(document)
            found = _Groups(read_groups(response.content, document), response.etag)
        except (AccessDenied, StoreError, DataError):
            return _Groups({}, "")
        if response.is_settled:
            self._groups.keep(document, found, _groups_bytes(found.members))
        return found._replace(n_read=len(response.content))


class AccessMoment:
    """Rules as they are at one time; several threads may ask."""

    def __init__(self, access: SolidAccess, max_bytes: int | None = None) -> None:
        self._access = access
        self._room = max_bytes
        self._lists: dict[str, AccessControlList | None] = {}
        self._groups: dict[str, GroupMembers] = {}

    def keep(self, resource: str, acl: AccessControlList | None) -> None:
        """Take a list as fetched."""
        self._lists[resource] = acl

    def rules(self, resource: str, response: SolidResponse | None = None) -> AccessRules:
        """Return the rules that hold for a resource.

        Parameters
        ----------
        response
            An answer about the resource, if there is one: it says where the list is.
        """
        if response is not None:
            self._access.list_address(resource, response)
        return effective_rules(resource, self._access.root, self._list)

    def members(self, rules: AccessRules) -> GroupMembers:
        """Return who belongs to the groups that rules name and that documents define."""
        return {
            group: self._document(group.partition("#")[0]).get(group, frozenset())
            for group in rules.groups
            if is_document(group)
        }

    def _list(self, resource: str) -> AccessControlList | None:
        if resource not in self._lists:
            self._require_room(resource)
            fetched = self._access.fetch_list(resource)
            self._take(fetched.n_read)
            self._lists[resource] = fetched.acl
        return self._lists[resource]

    def _document(self, address: str) -> GroupMembers:
        if address not in self._groups:
            self._require_room(address)
            fetched = self._access.read_groups(address)
            self._take(fetched.n_read)
            self._groups[address] = fetched.members
        return self._groups[address]

    def _take(self, n_bytes: int) -> None:
        if self._room is not None:
            self._room -= n_bytes

    def _require_room(self, where: str) -> None:
        if self._room is not None and self._room <= 0:
            raise DataError("the pod's access control lists are too long", where=where)


class _Kept(Generic[T]):
    """Remembers values by name; where they take too much memory it begins again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[T, int]] = {}
        self._n_bytes = 0

    def get(self, name: str) -> T | None:
        found = self._kept.get(name)
        return None if found is None else found[0]

    def keep(self, name: str, value: T, n_bytes: int) -> None:
        n_bytes += len(name) + NAME_BYTES
        self.forget(name)
        if self._n_bytes + n_bytes > MAX_KEPT_BYTES:
            self.clear()
        with self._lock:
            self._kept[name] = value, n_bytes
            self._n_bytes += n_bytes

    def forget(self, name: str) -> None:
        with self._lock:
            self._n_bytes -= self._kept.pop(name, (None, 0))[1]

    def clear(self) -> None:
        with self._lock:
            self._kept, self._n_bytes = {}, 0


def _list_bytes(acl: AccessControlList) -> int:
    """Return how much memory a list takes, roughly."""
    rules = acl.authorizations
    return 1_000 + sum(
        _names_bytes((*rule.agents, *rule.groups, *rule.access_to, *rule.default)) for rule in rules
    )


def _groups_bytes(members: GroupMembers) -> int:
    return _names_bytes(members) + sum(map(_names_bytes, members.values()))


def _names_bytes(names: Iterable[str]) -> int:
    return sum(len(name) + NAME_BYTES for name in names)
