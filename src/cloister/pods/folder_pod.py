"""Pods as folders of text files, with Web Access Control beside them: the embedded default.

``notes.txt`` has its rules in ``notes.txt.acl``; a folder has what it passes on in its ``.acl``;
both are Turtle, with addresses relative to themselves. ``.groups.ttl`` at the top lists the
members of groups (vCard), ``.pod.json`` names the pod and its owner. Files whose names begin with a
dot are never documents.

The rules bind whoever asks through this code. They do not bind somebody who can open the folder
itself: keep it readable to the keeping program alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from cloister.core.errors import DataError, NotFound, SettingsError
from cloister.core.file_errors import writing
from cloister.core.ids import MAX_ID_LENGTH, AgentId, DocId, GroupId, PodId, checked_id
from cloister.core.rights import NOBODY, Reader, Rights
from cloister.pods.acl_turtle import MAX_TURTLE_BYTES, read_acl, read_groups, write_acl
from cloister.pods.datastore import Resource, checked_read, refused, rights_tag
from cloister.pods.document_text import MAX_DOCUMENT_BYTES, media_type_of, text_of
from cloister.pods.pod_files import PodFiles, checked_name
from cloister.pods.ruled_pod import RuledPod
from cloister.pods.web_access_control import (
    AccessControlList,
    AccessRules,
    Authorization,
    Mode,
    effective_rules,
    is_document,
)

__all__ = ["FolderPod"]

ListOf = Callable[[str], AccessControlList | None]

BASE: Final = "https://pod.invalid/"  # addresses inside a pod are relative: this never shows
ACL_ENDING: Final = ".acl"
GROUPS: Final = ".groups.ttl"
DESCRIPTION: Final = ".pod.json"
MAX_DESCRIPTION_BYTES: Final = 10_000


class FolderPod(RuledPod):
    """A folder of text files that belongs to somebody.

    Parameters
    ----------
    folder
        Where the files are.
    pod_id
        Name of the pod; a document's id begins with it.
    owner
        Who always has Control.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> pod = FolderPod.create(Path(folder.name, "pod"), PodId("ann"), AgentId("ann"))
    >>> doc_id = pod.write("visits/2024.txt", "cough and fever")
    >>> pod.read(doc_id, Reader(AgentId("ann")))
    'cough and fever'
    >>> pod.grant(doc_id, AgentId("bob"))
    >>> pod.read(doc_id, Reader(AgentId("bob")))
    'cough and fever'
    >>> pod.read(doc_id, Reader(AgentId("eve")))
    Traceback (most recent call last):
    ...
    cloister.core.errors.AccessDenied: not allowed, or no such resource; ask the owner for access
    >>> folder.cleanup()
    """

    def __init__(self, folder: str | Path, pod_id: PodId, owner: AgentId) -> None:
        self._files = PodFiles(folder)
        self._pod_id = PodId(checked_id(pod_id))
        self.owner = AgentId(checked_id(owner))

    @classmethod
    def create(cls, folder: str | Path, pod_id: PodId, owner: AgentId) -> FolderPod:
        """Make a folder a pod in which the owner may do everything and nobody else anything."""
        folder = Path(folder)
        with writing(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        pod = cls(folder, pod_id, owner)
        described = json.dumps({"pod": pod_id, "owner": owner}) + "\n"
        with pod._files.changing():
            if pod._there(DESCRIPTION):
                raise SettingsError("this folder is a pod already", where=str(folder))
            if not pod._there(ACL_ENDING):
                rule = Authorization(frozenset(Mode), agents=frozenset({owner}))
                pod._put_acl("", AccessRules((rule,)))
            pod._files.write(DESCRIPTION, described.encode())
        return pod

    @classmethod
    def open(cls, folder: str | Path) -> FolderPod:
        """Open a pod that was made before."""
        content = PodFiles(folder).read(DESCRIPTION, max_bytes=MAX_DESCRIPTION_BYTES)
        if content is None:
            raise NotFound("not a pod", where=str(folder), remedy="make it one first")
        try:
            fields = json.loads(content)
            return cls(folder, PodId(fields["pod"]), AgentId(fields["owner"]))
        except (ValueError, KeyError, TypeError):
            raise DataError("cannot be read", where=str(Path(folder, DESCRIPTION))) from None

    @property
    def pod_id(self) -> PodId:
        """Name of the pod."""
        return self._pod_id

    def resources(self) -> Iterator[Resource]:
        """Give all documents that can be indexed, in the order of their names."""
        lists = lru_cache(maxsize=None)(self._acl)  # a list is read once for one listing
        groups = self._groups()
        for folder in self._files.walk():
            for name in folder.files():
                if not media_type_of(name):
                    continue
                content = folder.read(name, max_bytes=MAX_DOCUMENT_BYTES)
                own = name + ACL_ENDING in folder.names
                path = folder.prefix + name
                found = self._resource(
                    path, content, lists if own else _except(lists, path), groups
                )
                if found is not None:
                    yield found

    def resource(self, doc_id: DocId) -> Resource | None:
        """Return one document as it is now; None where it is not there or cannot be indexed."""
        name = self._name(doc_id)
        if name is None:
            return None
        return self._resource(name, self._content(name), self._acl, self._groups())

    def text(self, doc_id: DocId) -> str:
        """Return the words of a document, for the index."""
        name = self._name(doc_id)
        content = None if name is None else self._content(name)
        if name is None or content is None:
            raise refused()
        return text_of(content, media_type_of(name))

    def read(self, doc_id: DocId, reader: Reader) -> str:
        """Return the words of a document if this reader may read it now, else raise."""
        return checked_read(self, doc_id, reader)

    def modes(self, doc_id: DocId, reader: Reader) -> frozenset[Mode]:
        """Return what a reader may do with a document now; nothing where there is none."""
        name = self._name(doc_id)
        if name is None or self._content(name) is None:
            return frozenset()
        rules = self._rules(name)
        members = _members(rules, self._groups())
        return rules.modes(reader, owner=self.owner, members=members)

    def write(self, name: str, text: str, *, rights: Rights | None = None) -> DocId:
        """Store a text; it is never there with other rights than these."""
        doc_id = DocId(checked_id(self._doc_id(_document_name(name))))
        with self._files.changing():
            there = self._there(name)
            if rights is not None:  # the old text was not meant for the new readers
                self._put_rights(name, NOBODY if there else rights)
            self._files.write(name, text.encode())
            if rights is not None and there:
                self._put_rights(name, rights)
        return doc_id

    def delete(self, doc_id: DocId) -> None:
        """Remove a document, then its list: it is never there with the inherited rules alone."""
        name = self._name(doc_id)
        with self._files.changing():
            if name is None or not self._files.delete(name):
                raise refused()
            self._files.delete(name + ACL_ENDING)

    def _change_rules(self, doc_id: DocId, change: Callable[[AccessRules], AccessRules]) -> None:
        name = self._name(doc_id)
        with self._files.changing():
            if name is None or self._content(name) is None:
                raise refused()
            self._put_acl(name, change(self._rules(name)))

    def _put_rights(self, name: str, rights: Rights) -> None:
        self._put_acl(name, self._rules(name).with_readers(rights))

    def _rules(self, name: str) -> AccessRules:
        return effective_rules(_address(name), BASE, self._acl)

    def _put_acl(self, name: str, rules: AccessRules) -> None:
        relative = "./" + quote(name.rpartition("/")[2])
        text = write_acl(rules.bound_to(relative))
        self._files.write(name + ACL_ENDING, text.encode())

    def _acl(self, address: str) -> AccessControlList | None:
        """Return an address's own list; one that is there and cannot be read gives nothing."""
        name = unquote(address.removeprefix(BASE)) + ACL_ENDING
        there, content = self._files.find(name, max_bytes=MAX_TURTLE_BYTES)
        if content is not None:
            return _parsed_acl(content, address + ACL_ENDING)
        return AccessControlList() if there else None

    def _groups(self) -> dict[GroupId, frozenset[AgentId]]:
        content = self._files.read(GROUPS, max_bytes=MAX_TURTLE_BYTES)
        return {} if content is None else read_groups(content, BASE + GROUPS)

    def _resource(
        self,
        name: str,
        content: bytes | None,
        list_of: ListOf,
        groups: dict[GroupId, frozenset[AgentId]],
    ) -> Resource | None:
        doc_id = self._doc_id(name)
        if content is None or len(doc_id) > MAX_ID_LENGTH:
            return None
        rules = effective_rules(_address(name), BASE, list_of)
        rights = rules.rights(owner=self.owner, members=_members(rules, groups))
        return Resource(doc_id, _digest(content), rights_tag(rights), rights)

    def _content(self, name: str) -> bytes | None:
        if not media_type_of(name):
            return None
        return self._files.read(name, max_bytes=MAX_DOCUMENT_BYTES)

    def _there(self, name: str) -> bool:
        return self._files.find(name, max_bytes=0).there

    def _doc_id(self, name: str) -> DocId:
        return DocId(f"{self._pod_id}/{quote(name)}")

    def _name(self, doc_id: DocId) -> str | None:
        """Return the name that a document's id stands for; None where it is not of this pod."""
        name = unquote(doc_id.removeprefix(f"{self._pod_id}/"))
        try:
            return name if self._doc_id(_document_name(name)) == doc_id else None
        except SettingsError:
            return None


def _except(list_of: ListOf, name: str) -> ListOf:
    """Return the lists, for a document of which it is known that it has none of its own."""
    address = _address(name)
    return lambda wanted: None if wanted == address else list_of(wanted)


def _document_name(name: str) -> str:
    """Return a name that a document may have, or raise."""
    if any(step.startswith(".") for step in checked_name(name)) or not media_type_of(name):
        raise SettingsError(
            "not a document's name",
            where=repr(name[:80]),
            remedy="end it in .txt, .md, .html or .json, and begin no part with a dot",
        )
    return name


def _address(name: str) -> str:
    return BASE + quote(name)


def _members(
    rules: AccessRules, groups: dict[GroupId, frozenset[AgentId]]
) -> dict[GroupId, frozenset[AgentId]]:
    """Return who belongs to the groups that rules name; an address without a list has nobody."""
    return {
        group: groups.get(group, frozenset())
        for group in rules.groups
        if group in groups or is_document(group)
    }


@lru_cache(maxsize=4096)
def _parsed_acl(content: bytes, address: str) -> AccessControlList:
    return read_acl(content, address)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
