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
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from cloister.core.deadline import time_left
from cloister.core.errors import DataError, NotFound, SettingsError, StoreError
from cloister.core.file_errors import writing
from cloister.core.ids import MAX_ID_LENGTH, AgentId, DocId, GroupId, PodId, checked_id
from cloister.core.rights import NOBODY, Reader, Rights
from cloister.pods.datastore import DATA_ENDING, Dropped, LeftOut, Resource, refused, rights_tag
from cloister.pods.document_text import MAX_DOCUMENT_BYTES, media_type_of
from cloister.pods.extraction.pool import RawDocument
from cloister.pods.folder_access import (
    ACL_ENDING,
    FolderAccess,
    ListOf,
    address_of,
    members_of,
)
from cloister.pods.folder_names import FolderNames, data_name, document_name
from cloister.pods.index_resource import terms_id
from cloister.pods.pod_files import FileState, FoundFile, PodFiles
from cloister.pods.ruled_pod import PodReaders, RuledPod
from cloister.pods.web_access_control import AccessControlList, AccessRules, Authorization, Mode

__all__ = ["FolderPod"]

DESCRIPTION: Final = ".pod.json"
MAX_DOCUMENTS: Final = 20_000
MAX_DESCRIPTION_BYTES: Final = 10_000
NO_READER: Final = "no text of a kind that is read"
KNOWN_NS: Final = 3_600_000_000_000  # after an hour each file is read again
GONE: Final = "deleted meanwhile"
LONG_NAME: Final = f"its name has more than {MAX_ID_LENGTH:,} characters"


class _Version(NamedTuple):
    """A document's tag, empty with a reason where it cannot be read, and how the file looked."""

    etag: str
    why: str = ""
    state: FileState | None = None
    until_ns: int = 0


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
        self._access = FolderAccess(self._files)
        self._pod_id = PodId(checked_id(pod_id))
        self.owner = AgentId(checked_id(owner))
        self._names = FolderNames(self._pod_id)
        self._digests: dict[str, _Version] = {}
        self._readers = PodReaders()

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
                pod._access.put_rules("", AccessRules((rule,)))
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

    def resources(self, left_out: list[LeftOut] | None = None) -> Iterator[Resource]:
        """Give all documents that can be indexed, in the order of their names."""
        dropped = Dropped()

        def drop(name: str, why: str) -> None:
            dropped.add(self._names.doc_id(name), why)

        def list_of(address: str) -> AccessControlList | None:
            try:
                return self._access.checked_list(address)
            except DataError as error:
                drop(error.where, f"{error.what}: it lets nobody read")
                return AccessControlList()

        lists = lru_cache(maxsize=None)(list_of)  # each is read once for one listing
        groups = self._access.groups()
        listed: set[str] = set()
        n_documents = 0
        for folder in self._files.walk(drop):
            for name in folder.files():
                if not time_left():
                    raise StoreError("not listed in time", where=str(self._files.root))
                path = folder.prefix + name
                listed.add(path)
                if not media_type_of(name):
                    if not name.endswith((ACL_ENDING, DATA_ENDING)):
                        drop(path, NO_READER)
                    continue
                n_documents += 1
                if n_documents > MAX_DOCUMENTS:
                    drop(path, f"more than {MAX_DOCUMENTS:,} documents")
                    continue
                there = self._version(
                    path,
                    partial(folder.state, name),
                    partial(folder.find, name, max_bytes=MAX_DOCUMENT_BYTES),
                )
                own = name + ACL_ENDING in folder.names
                reason = LONG_NAME if there.etag else there.why or GONE
                try:
                    found = self._resource(
                        path, there.etag, lists if own else _except(lists, path), groups
                    )
                except DataError as error:
                    found, reason = None, error.what
                if found is not None:
                    yield found
                else:
                    drop(path, reason)
        for path in list(self._digests.keys() - listed):
            self._digests.pop(path, None)
        self._readers.retain({self._names.doc_id(path) for path in listed})
        if left_out is not None:
            left_out.extend(dropped.named())

    def resource(self, doc_id: DocId) -> Resource | None:
        """Return one document as it is now; None where it is not there or cannot be indexed."""
        name = self._names.document(doc_id)
        if name is None:
            return None
        etag = self._etag(name)
        try:
            return self._resource(name, etag, self._access.own_list, self._access.groups())
        except DataError:
            return None

    def content(self, doc_id: DocId) -> RawDocument:
        """Return a document as it lies in the folder, for the index."""
        name = self._names.document(doc_id)
        content = None if name is None else self._content(name)
        if name is None or content is None:
            raise refused()
        return RawDocument(content, media_type_of(name))

    def version(self, doc_id: DocId) -> str:
        """Return the ETag of a document, whoever may read it; raise where there is none."""
        name = self._names.document(doc_id)
        etag = "" if name is None else self._etag(name)
        if not etag:
            raise refused()
        return etag

    def modes(self, doc_id: DocId, reader: Reader) -> frozenset[Mode]:
        """Return what a reader may do with a document or data; nothing where there is none."""
        name = self._names.either(doc_id)
        if name is None or not self._is_file(name):
            return frozenset()
        rules = self._access.rules(name)
        members = members_of(rules, self._access.groups())
        return rules.modes(reader, owner=self.owner, members=members)

    def write(self, name: str, text: str, *, rights: Rights | None = None) -> DocId:
        """Store a text; it is never there with other rights than these."""
        doc_id = DocId(checked_id(self._names.doc_id(document_name(name))))
        with self._files.changing():
            self._drop(terms_id(doc_id))  # it tells of the old text
            there = self._there(name)
            if rights is not None:  # the old text was not meant for the new readers
                self._put_rights(name, NOBODY if there else rights)
            self._files.write(name, text.encode())
            if rights is not None and there:
                self._put_rights(name, rights)
        return doc_id

    def delete(self, doc_id: DocId) -> None:
        """Remove a document, then its list: it is never there with the inherited rules alone."""
        name = self._names.document(doc_id)
        with self._files.changing():
            self._drop(terms_id(doc_id))
            if name is None or not self._files.delete(name):
                raise refused()
            self._files.delete(name + ACL_ENDING)

    def data_id(self, name: str) -> DocId:
        """Return the id of data with this name."""
        return DocId(checked_id(self._names.doc_id(data_name(name))))

    def data_ids(self) -> Iterator[DocId]:
        """Give the ids of all data, in the order of folders and names."""
        for folder in self._files.walk():
            for name in folder.files():
                doc_id = self._names.doc_id(folder.prefix + name)
                if name.endswith(DATA_ENDING) and self._names.data(doc_id) is not None:
                    yield doc_id

    def data(self, data_id: DocId) -> bytes | None:
        """Return data, for the program; None where there is none."""
        name = self._names.data(data_id)
        return None if name is None else self._files.read(name, max_bytes=MAX_DOCUMENT_BYTES)

    def delete_data(self, data_id: DocId) -> None:
        """Remove data, then its list."""
        with self._files.changing():
            if not self._drop(data_id):
                raise refused()

    def _changing(self) -> AbstractContextManager[None]:
        return self._files.changing()

    def _require_document(self, doc_id: DocId) -> None:
        name = self._names.document(doc_id)
        if name is None or self._content(name) is None:
            raise refused()

    def _own_rules(self, doc_id: DocId) -> AccessRules | None:
        name = self._names.either(doc_id)
        if name is None:
            raise refused()
        return self._access.own_rules(name)

    def _change_rules(self, doc_id: DocId, change: Callable[[AccessRules], AccessRules]) -> None:
        name = self._names.either(doc_id)
        if name is None or not self._is_file(name):
            raise refused()
        self._access.put_rules(name, change(self._access.rules(name)))

    def _copy_rules(self, source: DocId, target: DocId) -> None:
        document, data = self._names.document(source), self._names.data(target)
        if document is None or data is None or not self._is_file(document):
            raise refused()
        self._access.copy_rules(document, data)

    def _has_data(self, data_id: DocId) -> bool:
        name = self._names.data(data_id)
        return name is not None and self._is_file(name)

    def _put_data(
        self, data_id: DocId, content: bytes, rights: Rights | None, like: DocId | None
    ) -> None:
        name = self._names.data(data_id)
        if name is None:
            raise SettingsError("not the id of data in this pod", where=repr(data_id[:80]))
        self._files.delete(name)
        if like is not None:
            self._copy_rules(like, data_id)
        elif rights is not None:
            self._put_rights(name, rights)
        self._files.write(name, content)

    def _drop(self, data_id: DocId) -> bool:
        name = self._names.data(data_id)
        if name is None or not self._files.delete(name):
            return False
        self._files.delete(name + ACL_ENDING)
        return True

    def _put_rights(self, name: str, rights: Rights) -> None:
        self._access.put_rules(name, self._access.rules(name).with_readers(rights))

    def _resource(
        self,
        name: str,
        etag: str,
        list_of: ListOf,
        groups: dict[GroupId, frozenset[AgentId]] | None,
    ) -> Resource | None:
        doc_id = self._names.doc_id(name)
        if not etag or len(doc_id) > MAX_ID_LENGTH:
            return None
        rules = self._access.rules(name, list_of)
        rights = rules.rights(owner=self.owner, members=members_of(rules, groups))
        self._readers.require_room(doc_id, rights)
        return Resource(doc_id, etag, rights_tag(rights), rights)

    def _etag(self, name: str) -> str:
        """Return the tag of a document as it is now; empty where there is none."""
        if not media_type_of(name):
            return ""
        find = partial(self._files.find, name, max_bytes=MAX_DOCUMENT_BYTES)
        return self._version(name, partial(self._files.state, name), find).etag

    def _version(
        self,
        name: str,
        state_of: Callable[[], FileState | None],
        find: Callable[[], FoundFile],
    ) -> _Version:
        """Return a document's tag, a digest of its bytes, which are read if they may have changed.

        A digest is kept where the file had been left alone for a while before it was read. Then
        whatever changes it changes its state, too. What a memory map changed may not show there:
        so each file is read again from time to time.
        """
        now_ns, before = time.time_ns(), state_of()
        known = self._digests.get(name)
        if known is not None and known.state == before and now_ns < known.until_ns:
            return known
        found = find()
        etag = "" if found.content is None else _digest(found.content)
        made = _Version(etag, found.why, before, now_ns + KNOWN_NS)
        if before is not None and before.is_settled(now_ns) and before == state_of():
            self._digests[name] = made
        else:
            self._digests.pop(name, None)
        return made

    def _content(self, name: str) -> bytes | None:
        if not media_type_of(name):
            return None
        return self._files.read(name, max_bytes=MAX_DOCUMENT_BYTES)

    def _is_file(self, name: str) -> bool:
        state = self._files.state(name)
        return state is not None and state.size_bytes <= MAX_DOCUMENT_BYTES

    def _there(self, name: str) -> bool:
        return self._files.find(name, max_bytes=0).there


def _except(list_of: ListOf, name: str) -> ListOf:
    """Return the lists, for a document of which it is known that it has none of its own."""
    address = address_of(name)
    return lambda wanted: None if wanted == address else list_of(wanted)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
