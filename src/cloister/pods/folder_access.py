"""Access control lists and groups of a folder pod, as its files say now."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, Generic, TypeVar
from urllib.parse import quote, unquote

from cloister.core.errors import DataError, SettingsError
from cloister.core.ids import AgentId, GroupId
from cloister.pods.acl_turtle import (
    MAX_GROUPS_BYTES,
    MAX_LIST_BYTES,
    checked_acl,
    read_groups,
    write_acl,
)
from cloister.pods.pod_files import PodFiles
from cloister.pods.web_access_control import (
    AccessControlList,
    AccessRules,
    effective_rules,
    is_document,
)

__all__ = ["FolderAccess", "ListOf"]

T = TypeVar("T")
ListOf = Callable[[str], AccessControlList | None]
GroupMembers = dict[GroupId, frozenset[AgentId]]

BASE: Final = "https://pod.invalid/"  # addresses inside a pod are relative: this never shows
ACL_ENDING: Final = ".acl"
GROUPS: Final = ".groups.ttl"
MAX_KNOWN_BYTES: Final = 8_000_000  # of files of which this program remembers what they say


class FolderAccess:
    """The lists beside the files of a folder.

    Parameters
    ----------
    files
        The folder. Whoever changes a list holds its lock.
    """

    def __init__(self, files: PodFiles) -> None:
        self._files = files

    def rules(self, name: str, list_of: ListOf | None = None) -> AccessRules:
        """Return the rules that hold for a file.

        Parameters
        ----------
        list_of
            Gives the own list of an address, where it is not to be read from its file.
        """
        return effective_rules(address_of(name), BASE, list_of or self.own_list)

    def own_list(self, address: str) -> AccessControlList | None:
        """Return an address's own list; one that is there and cannot be read gives nothing."""
        try:
            return self.checked_list(address)
        except DataError:
            return AccessControlList()

    def checked_list(self, address: str) -> AccessControlList | None:
        """Return an address's own list; raise where one is there and cannot be read."""
        name = unquote(address.removeprefix(BASE)) + ACL_ENDING
        found = self._files.find(name, max_bytes=MAX_LIST_BYTES)
        if found.content is None:
            if found.there:
                raise DataError(found.why, where=name)
            return None
        acl = _LISTS.read(found.content, address + ACL_ENDING)
        if acl is None:
            raise DataError("cannot be read as Turtle", where=name)
        return acl

    def own_rules(self, name: str) -> AccessRules | None:
        """Return the rules of a file's own list; None where it has none."""
        own = self.own_list(address_of(name))
        return None if own is None else own.own(address_of(name))

    def put_rules(self, name: str, rules: AccessRules) -> None:
        """Give a file its own list; of the pod itself the name is empty."""
        relative = "./" + quote(name.rpartition("/")[2])
        content = write_acl(rules.bound_to(relative)).encode()
        if len(content) > MAX_LIST_BYTES:  # it would be refused when it is read
            raise SettingsError(
                f"an access control list would have more than {MAX_LIST_BYTES:,} bytes",
                where=name or ACL_ENDING,
                remedy="name a group in the place of many agents",
            )
        self._files.write(name + ACL_ENDING, content)

    def copy_rules(self, source: str, target: str) -> None:
        """Give a file the own list of another one in the same folder, or none."""
        rules = self.own_rules(source)
        if rules is None:
            self._files.delete(target + ACL_ENDING)
        else:
            self.put_rules(target, rules)

    def groups(self) -> GroupMembers | None:
        """Return the members of groups; None where the file is there and cannot be read."""
        found = self._files.find(GROUPS, max_bytes=MAX_GROUPS_BYTES)
        if found.content is None:
            return None if found.there else {}
        return _GROUPS.read(found.content, BASE + GROUPS)


def address_of(name: str) -> str:
    """Return what stands for a file in its rules."""
    return BASE + quote(name)


def members_of(rules: AccessRules, groups: GroupMembers | None) -> GroupMembers:
    """Return who belongs to the groups that rules name; an address without a list has nobody.

    Where nobody knows which groups are listed (None), all of them have nobody.
    """
    if groups is None:
        return dict.fromkeys(rules.groups, frozenset())
    return {
        group: groups.get(group, frozenset())
        for group in rules.groups
        if group in groups or is_document(group)
    }


class _Read(Generic[T]):
    """Remembers what files said, by digests of their bytes: a search asks for them again and again.

    Threads may share it. Of too many bytes it begins again.
    """

    def __init__(self, read: Callable[[bytes, str], T]) -> None:
        self._read = read
        self._known: dict[bytes, tuple[T]] = {}
        self._n_bytes = 0

    def read(self, content: bytes, address: str) -> T:
        """Return what the content says of addresses that are relative to this one."""
        name = hashlib.blake2b(address.encode(), digest_size=32).digest()
        digest = hashlib.blake2b(content, digest_size=32, key=name).digest()
        known = self._known.get(digest)
        if known is None:
            known = (self._read(content, address),)
            if self._n_bytes > MAX_KNOWN_BYTES:
                self._known, self._n_bytes = {}, 0
            self._known[digest] = known
            self._n_bytes += len(content)
        return known[0]


def _groups_or_none(content: bytes, address: str) -> GroupMembers | None:
    try:
        return read_groups(content, address)
    except DataError:
        return None


def _list_or_none(content: bytes, address: str) -> AccessControlList | None:
    try:
        return checked_acl(content, address)
    except DataError:
        return None


_LISTS: Final = _Read(_list_or_none)
_GROUPS: Final = _Read(_groups_or_none)
