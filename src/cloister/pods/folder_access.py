"""Access control lists and groups of a folder pod, as its files say now."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from cloister.core.errors import DataError
from cloister.core.ids import AgentId, GroupId
from cloister.pods.acl_turtle import MAX_TURTLE_BYTES, read_acl, read_groups, write_acl
from cloister.pods.pod_files import PodFiles
from cloister.pods.web_access_control import (
    AccessControlList,
    AccessRules,
    effective_rules,
    is_document,
)

__all__ = ["FolderAccess", "ListOf"]

ListOf = Callable[[str], AccessControlList | None]
GroupMembers = dict[GroupId, frozenset[AgentId]]

BASE: Final = "https://pod.invalid/"  # addresses inside a pod are relative: this never shows
ACL_ENDING: Final = ".acl"
GROUPS: Final = ".groups.ttl"


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
        name = unquote(address.removeprefix(BASE)) + ACL_ENDING
        found = self._files.find(name, max_bytes=MAX_TURTLE_BYTES)
        if found.content is not None:
            return _parsed_acl(found.content, address + ACL_ENDING)
        return AccessControlList() if found.there else None

    def own_rules(self, name: str) -> AccessRules | None:
        """Return the rules of a file's own list; None where it has none."""
        own = self.own_list(address_of(name))
        return None if own is None else own.own(address_of(name))

    def put_rules(self, name: str, rules: AccessRules) -> None:
        """Give a file its own list; of the pod itself the name is empty."""
        relative = "./" + quote(name.rpartition("/")[2])
        text = write_acl(rules.bound_to(relative))
        self._files.write(name + ACL_ENDING, text.encode())

    def copy_rules(self, source: str, target: str) -> None:
        """Give a file the own list of another one in the same folder, or none."""
        rules = self.own_rules(source)
        if rules is None:
            self._files.delete(target + ACL_ENDING)
        else:
            self.put_rules(target, rules)

    def groups(self) -> GroupMembers | None:
        """Return the members of groups; None where the file is there and cannot be read."""
        found = self._files.find(GROUPS, max_bytes=MAX_TURTLE_BYTES)
        if found.content is None:
            return None if found.there else {}
        try:
            return read_groups(found.content, BASE + GROUPS)
        except DataError:
            return None


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


@lru_cache(maxsize=4096)
def _parsed_acl(content: bytes, address: str) -> AccessControlList:
    return read_acl(content, address)
