"""Pods on Solid servers as datastores.

The client acts for somebody who may read the documents and control their access control lists: the
owner, or a program to which the owner gave Read and Control. A document whose list the client may
not see is not listed, since nobody knows who may read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import quote, unquote

from cloister.core.errors import AccessDenied, Conflict, DataError, SettingsError
from cloister.core.ids import MAX_ID_LENGTH, AgentId, DocId, PodId, checked_id
from cloister.core.rights import NOBODY, Reader, Rights
from cloister.pods.datastore import Resource, checked_read, refused, rights_tag
from cloister.pods.document_text import MEDIA_TYPES, media_type_of, text_of
from cloister.pods.pod_files import checked_name
from cloister.pods.ruled_pod import RuledPod
from cloister.pods.solid_access import AccessMoment, SolidAccess
from cloister.pods.solid_client import SolidClient
from cloister.pods.solid_http import checked_address
from cloister.pods.web_access_control import AccessRules, Mode

__all__ = ["SolidPod"]

TEXT_TYPES: Final = frozenset(MEDIA_TYPES.values())
MAX_DEPTH: Final = 32  # of containers in containers
N_TRIES: Final = 4  # to change a list that others are just changing
N_THREADS: Final = 4  # that ask one server at a time


class SolidPod(RuledPod):
    """A pod on a Solid server. A document's id is its address.

    Parameters
    ----------
    client
        Acts for the owner, or for somebody with Read and Control.
    root
        Address of the pod; it ends in a slash.
    owner
        WebID of the owner, who always has Control.
    group_servers
        Addresses of servers from which groups may be fetched, besides the pod's own.
    """

    def __init__(
        self,
        client: SolidClient,
        root: str,
        *,
        owner: AgentId,
        group_servers: Iterable[str] = (),
    ) -> None:
        if not root.endswith("/"):
            raise SettingsError("a pod's address ends in a slash", where=root)
        self._root = checked_address(root)
        self._client = client
        self.owner = AgentId(checked_id(owner))
        self._access = SolidAccess(client, root, group_servers)

    @property
    def pod_id(self) -> PodId:
        """Address of the pod."""
        return PodId(self._root)

    def resources(self) -> Iterator[Resource]:
        """Give all documents that can be indexed, in the order of their addresses."""
        moment = self._access.now()
        with ThreadPoolExecutor(N_THREADS) as pool:
            addresses = sorted(self._addresses(self._root, MAX_DEPTH))
            for found in pool.map(lambda address: self._resource(address, moment), addresses):
                if found is not None:
                    yield found

    def resource(self, doc_id: DocId) -> Resource | None:
        """Return one document as it is now; None where it is not there or cannot be indexed."""
        return self._resource(doc_id, self._access.now()) if self._holds(doc_id) else None

    def text(self, doc_id: DocId) -> str:
        """Return the words of a document, for the index."""
        if not self._holds(doc_id):
            raise refused()
        response = self._client.get(doc_id)
        if response.media_type not in TEXT_TYPES:
            raise DataError("not a text", where=doc_id)
        return text_of(response.content, response.media_type)

    def read(self, doc_id: DocId, reader: Reader) -> str:
        """Return the words of a document if this reader may read it now, else raise.

        Where the client acts for the reader, the server itself decides.
        """
        if reader.agent_id and reader.agent_id == self._client.web_id:
            return self.text(doc_id)
        return checked_read(self, doc_id, reader)

    def modes(self, doc_id: DocId, reader: Reader) -> frozenset[Mode]:
        """Return what a reader may do with a document now; nothing where there is none."""
        if not self._holds(doc_id):
            return frozenset()
        try:
            response = self._client.head(doc_id)
            moment = self._access.now()
            rules = moment.rules(doc_id, response)
        except AccessDenied:
            return frozenset()
        return rules.modes(reader, owner=self.owner, members=moment.members(rules))

    def write(self, name: str, text: str, *, rights: Rights | None = None) -> DocId:
        """Store a text; it is never there with other rights than these.

        A new document is made empty before its rights are set: that it exists shows to whom the
        inherited rules let read.
        """
        address = self._root + quote("/".join(checked_name(name)))
        media_type = media_type_of(name)
        if not media_type or not self._holds(address):
            raise SettingsError("not a document's name", where=repr(name[:80]))
        if rights is None:
            self._client.put(address, text.encode(), media_type)
            return DocId(address)
        if self._create(address, media_type):
            self._put_rights(address, rights)
            self._client.put(address, text.encode(), media_type)
        else:
            self._put_rights(address, NOBODY)  # the old text was not meant for the new readers
            self._client.put(address, text.encode(), media_type)
            self._put_rights(address, rights)
        return DocId(address)

    def delete(self, doc_id: DocId) -> None:
        """Remove a document; the server removes its list with it."""
        if not self._holds(doc_id):
            raise refused()
        self._client.delete(doc_id)

    def _create(self, address: str, media_type: str) -> bool:
        """Make an empty document; say whether there was none."""
        try:
            self._client.put(address, b"", media_type, new=True)
        except Conflict:
            return False
        return True

    def _put_rights(self, address: str, rights: Rights) -> None:
        self._change_rules(address, lambda rules: rules.with_readers(rights))

    def _change_rules(self, address: str, change: Callable[[AccessRules], AccessRules]) -> None:
        """Change the rules as they are now; whoever changes them meanwhile is not overwritten."""
        if not self._holds(address):
            raise refused()
        for n_left in reversed(range(N_TRIES)):
            acl, etag = self._access.fetch_list(address)
            moment = self._access.now()
            moment.keep(address, acl)
            changed = change(moment.rules(address)).bound_to(address)
            try:
                self._access.store_list(address, changed, etag)
                return
            except Conflict:
                if not n_left:
                    raise

    def _addresses(self, container: str, depth: int) -> Iterator[str]:
        """Give what is in a container and in those within; what may not be listed is left out."""
        try:
            members = self._client.members(container)
        except AccessDenied:
            return
        for address in members:
            if not address.endswith("/"):
                yield address
            elif depth:
                yield from self._addresses(address, depth - 1)

    def _resource(self, address: str, moment: AccessMoment) -> Resource | None:
        try:
            response = self._client.head(address)
            if response.media_type not in TEXT_TYPES or len(address) > MAX_ID_LENGTH:
                return None
            rules = moment.rules(address, response)
        except AccessDenied:
            return None
        rights = rules.rights(owner=self.owner, members=moment.members(rules))
        return Resource(DocId(address), response.etag, rights_tag(rights), rights)

    def _holds(self, address: str) -> bool:
        """Say whether an address can be a document of this pod, however it is written."""
        rest = address.removeprefix(self._root)
        return rest != address and not any(
            step in ("", ".", "..")
            or step.endswith((".acl", ".meta"))
            or any(character in step for character in "/\\?#\0")
            for step in map(unquote, rest.split("/"))
        )
