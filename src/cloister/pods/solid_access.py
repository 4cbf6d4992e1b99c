"""Who may do what with the resources of a Solid pod, as its lists and groups say now.

Groups are looked up as the Community Solid Server does it: the group's document is fetched by
nobody in particular, so that only public documents define groups. It is fetched only from servers
that are named here, so that a list cannot make this program call any address; a group that lies
elsewhere has no members.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cloister.core.errors import AccessDenied, DataError, StoreError
from cloister.core.ids import AgentId, GroupId
from cloister.pods.acl_turtle import read_acl, read_groups, write_acl
from cloister.pods.solid_client import TURTLE, SolidClient
from cloister.pods.solid_http import ABSENT, SolidResponse, origin
from cloister.pods.web_access_control import (
    AccessControlList,
    AccessRules,
    effective_rules,
    is_document,
)

__all__ = ["AccessMoment", "FetchedList", "SolidAccess"]

GroupMembers = dict[GroupId, frozenset[AgentId]]


class FetchedList(NamedTuple):
    """A list, None where there is none, and its tag."""

    acl: AccessControlList | None
    etag: str


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
        self._addresses: dict[str, str] = {}  # of lists: servers do not move them

    def now(self) -> AccessMoment:
        """Return a look at the pod, in which each list is fetched once."""
        return AccessMoment(self)

    def list_address(self, resource: str, response: SolidResponse | None = None) -> str:
        """Return where a resource's list is, whether it exists or not."""
        if resource not in self._addresses:
            self._addresses[resource] = self.client.acl_address(resource, response)
        return self._addresses[resource]

    def fetch_list(self, resource: str) -> FetchedList:
        """Return a resource's own list.

        A list that the client may not see is an error: nobody knows what it says.
        """
        address = self.list_address(resource)
        headers = {"accept": TURTLE}
        response = self.client.request("GET", address, headers=headers, expected=ABSENT)
        if response.status in ABSENT:
            return FetchedList(None, "")
        return FetchedList(read_acl(response.content, address), response.etag)

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
        if origin(document) not in self._group_servers:
            return {}
        try:
            with SolidClient() as nobody:
                response = nobody.get(document, accept=TURTLE)
            return read_groups(response.content, document)
        except (AccessDenied, StoreError, DataError):
            return {}


class AccessMoment:
    """Rules as they are at one time; several threads may ask."""

    def __init__(self, access: SolidAccess) -> None:
        self._access = access
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
            self._lists[resource] = self._access.fetch_list(resource).acl
        return self._lists[resource]

    def _document(self, address: str) -> GroupMembers:
        if address not in self._groups:
            self._groups[address] = self._access.fetch_groups(address)
        return self._groups[address]
