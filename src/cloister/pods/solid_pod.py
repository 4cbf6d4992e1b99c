"""Pods on Solid servers as datastores.

The client acts for somebody who may read the documents and control their access control lists: the
owner, or a program to which the owner gave Read and Control. A document whose list the client may
not see is not listed, since nobody knows who may read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from cloister.core.errors import (
    AccessDenied,
    CloisterError,
    Conflict,
    DataError,
    SettingsError,
    StoreError,
)
from cloister.core.ids import MAX_ID_LENGTH, AgentId, DocId, PodId, checked_id
from cloister.core.rights import NOBODY, Reader, Rights
from cloister.pods.datastore import (
    DATA_ENDING,
    Dropped,
    LeftOut,
    Resource,
    RightsMoment,
    refused,
    rights_tag,
)
from cloister.pods.document_text import MAX_DOCUMENT_BYTES, MEDIA_TYPES, media_type_of
from cloister.pods.extraction.pool import RawDocument
from cloister.pods.index_resource import terms_id
from cloister.pods.pod_files import checked_name
from cloister.pods.pod_gate import PodAway
from cloister.pods.ruled_pod import PodReaders, RuledPod
from cloister.pods.solid_access import AccessMoment, SolidAccess
from cloister.pods.solid_client import SolidClient
from cloister.pods.solid_http import ABSENT, REFUSED, SolidResponse, checked_address
from cloister.pods.solid_listing import (
    N_THREADS,
    ListingLimits,
    in_threads,
    listed_addresses,
)
from cloister.pods.web_access_control import AccessRules, Mode

__all__ = ["SolidPod"]

DATA_TYPE: Final = "application/octet-stream"
TEXT_TYPES: Final = frozenset(MEDIA_TYPES.values())
MAX_SHOWN_BYTES: Final = 2_000_000  # of a document that is fetched while somebody waits for it
N_TRIES: Final = 4  # to change a list that others are just changing


class _Known(NamedTuple):
    """A document as it was when its headers were asked for last.

    While its container says the same of it, they need not be asked for again.
    """

    said: str
    etag: str
    media_type: str


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
    limits
        How much of the pod is looked at.
    """

    n_readers = N_THREADS

    def __init__(
        self,
        client: SolidClient,
        root: str,
        *,
        owner: AgentId,
        group_servers: Iterable[str] = (),
        limits: ListingLimits | None = None,
    ) -> None:
        if not root.endswith("/"):
            raise SettingsError("a pod's address ends in a slash", where=root)
        self._root = checked_address(root)
        self._client = client
        self.owner = AgentId(checked_id(owner))
        self._access = SolidAccess(client, root, group_servers)
        self._limits = limits or ListingLimits()
        self._known: dict[str, _Known] = {}
        self._readers = PodReaders()

    @property
    def pod_id(self) -> PodId:
        """Address of the pod."""
        return PodId(self._root)

    def resources(self, left_out: list[LeftOut] | None = None) -> Iterator[Resource]:
        """Give all documents that can be indexed, in the order of their addresses."""
        dropped, limits = Dropped(), self._limits
        room = limits.room()

        def look(listed: tuple[str, str]) -> Resource | None:
            try:
                return self._resource(*listed, moment)
            except PodAway:
                raise
            except CloisterError as error:
                dropped.add(listed[0], error.what)
                return None
            except Exception as error:  # what a hostile answer makes a library raise
                dropped.add(listed[0], f"cannot be looked at ({type(error).__name__})")
                return None

        with ThreadPoolExecutor(N_THREADS, thread_name_prefix="pod-listing") as pool:
            listed = listed_addresses(self._client, pool, self._root, limits, room, dropped)
            moment = self._access.now(room.n_turtle_bytes)
            documents = sorted(one for one in listed.items() if self._holds_document(one[0]))
            for address, _ in documents[limits.n_documents :]:
                dropped.add(address, f"more than {limits.n_documents} documents")
            del documents[limits.n_documents :]
            self._known = {one: self._known[one] for one, _ in documents if one in self._known}
            self._readers.retain({DocId(one) for one, _ in documents})
            for found in in_threads(pool, look, documents):
                if found is not None:
                    yield found
        if left_out is not None:
            left_out.extend(dropped.named())

    def resource(self, doc_id: DocId) -> Resource | None:
        """Return one document as it is now; None where it is not there or cannot be indexed."""
        if not self._holds_document(doc_id):
            return None
        try:
            return self._resource(doc_id, "", self._access.now())
        except DataError:
            return None

    def content(self, doc_id: DocId, *, max_bytes: int = MAX_DOCUMENT_BYTES) -> RawDocument:
        """Return a document as the server gives it, for the index."""
        self._require_document(doc_id)
        response = self._client.get(doc_id, max_bytes=max_bytes)
        return RawDocument(response.content, response.media_type)

    def text(self, doc_id: DocId) -> str:
        """Return the words of a document that is not too long to be read while somebody waits."""
        return self._extracted(self.content(doc_id, max_bytes=MAX_SHOWN_BYTES))

    def version(self, doc_id: DocId) -> str:
        """Return the ETag of a document, whoever may read it; raise where there is none."""
        self._require_document(doc_id)
        response = self._client.head(doc_id)
        with suppress(DataError, StoreError):  # it need not be asked for again
            self._access.list_address(doc_id, response)
        return response.etag

    def now(self) -> RightsMoment:
        """Begin a look at the rights, in which each inherited list is fetched once.

        Where the client acts for the reader, the server itself decides.
        """
        return _ReadersMoment(self, self._access.now())

    def modes(self, doc_id: DocId, reader: Reader) -> frozenset[Mode]:
        """Return what a reader may do with a document or data; nothing where there is none."""
        if not self._holds(doc_id):
            return frozenset()
        try:
            response = self._client.head(doc_id)
        except AccessDenied:
            return frozenset()
        return self._modes(doc_id, reader, self._access.now(), response)

    def _modes(
        self,
        doc_id: DocId,
        reader: Reader,
        moment: AccessMoment,
        response: SolidResponse | None = None,
    ) -> frozenset[Mode]:
        try:
            rules = moment.rules(doc_id, response)
        except AccessDenied:
            return frozenset()
        return rules.modes(reader, owner=self.owner, members=moment.members(rules))

    def _acts_for(self, reader: Reader) -> bool:
        return bool(reader.agent_id) and reader.agent_id == self._client.web_id

    def write(self, name: str, text: str, *, rights: Rights | None = None) -> DocId:
        """Store a text; it is never there with other rights than these.

        A new document is made empty before its rights are set: that it exists shows to whom the
        inherited rules let read.
        """
        address = self._root + quote("/".join(checked_name(name)))
        media_type = media_type_of(name)
        if not media_type or not self._holds_document(address):
            raise SettingsError("not a document's name", where=repr(name[:80]))
        self._drop(terms_id(DocId(address)))  # it tells of the old text
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
        """Remove a document, its index resource first; the server removes lists with them."""
        self._require_document(doc_id)
        self._drop(terms_id(doc_id))
        self._client.delete(doc_id)

    def data_id(self, name: str) -> DocId:
        """Return the address of data with this name."""
        address = DocId(self._root + quote("/".join(checked_name(name))))
        if not self._holds_data(address):
            raise SettingsError(
                "not a name of data", where=repr(name[:80]), remedy=f"end it in {DATA_ENDING}"
            )
        return address

    def data_ids(self) -> Iterator[DocId]:
        """Give the addresses of all data, in order."""
        limits = self._limits
        with ThreadPoolExecutor(N_THREADS) as pool:
            found = listed_addresses(
                self._client, pool, self._root, limits, limits.room(), Dropped()
            )
        yield from (DocId(address) for address in sorted(found) if self._holds_data(address))

    def data(self, data_id: DocId) -> bytes | None:
        """Return data, for the program; None where there is none or it may not be read."""
        if not self._holds_data(data_id):
            return None
        response = self._client.request("GET", data_id, expected=REFUSED)
        return None if response.status in REFUSED else response.content

    def read_data(self, data_id: DocId, reader: Reader) -> bytes:
        """Return data if this reader may read it now, else raise.

        Where the client acts for the reader, the server itself decides.
        """
        if not self._acts_for(reader):
            return super().read_data(data_id, reader)
        found = self.data(data_id)
        if found is None:
            raise refused()
        return found

    def delete_data(self, data_id: DocId) -> None:
        """Remove data; the server removes its list with it."""
        if not self._holds_data(data_id):
            raise refused()
        self._client.delete(data_id)

    def _changing(self) -> AbstractContextManager[None]:
        """Nobody can be kept out of a server: changes go by tags."""
        return nullcontext()

    def _require_document(self, doc_id: DocId) -> None:
        if not self._holds_document(doc_id):
            raise refused()

    def _own_rules(self, doc_id: DocId) -> AccessRules | None:
        own = self._access.fetch_list(doc_id).acl
        return None if own is None else own.own(doc_id)

    def _copy_rules(self, source: DocId, target: DocId) -> None:
        if not self._holds_document(source) or not self._holds_data(target):
            raise refused()
        self._repeated(lambda: self._access.copy_list(source, target))

    def _has_data(self, data_id: DocId) -> bool:
        if not self._holds_data(data_id):
            return False
        return self._client.request("HEAD", data_id, expected=REFUSED).status not in ABSENT

    def _put_data(
        self, data_id: DocId, content: bytes, rights: Rights | None, like: DocId | None
    ) -> None:
        """Make it empty, set its rules, then fill it, unless it was removed meanwhile."""
        if not self._holds_data(data_id):
            raise SettingsError("not the address of data in this pod", where=repr(data_id[:80]))
        self._client.request("DELETE", data_id, expected=ABSENT)
        self._client.put(data_id, b"", DATA_TYPE, new=True)
        if like is not None:
            self._copy_rules(like, data_id)
        elif rights is not None:
            self._put_rights(data_id, rights)
        self._client.put(data_id, content, DATA_TYPE, etag="*")

    def _drop(self, data_id: DocId) -> None:
        """Remove data if it is there and the client may."""
        self._client.request("DELETE", data_id, expected=REFUSED)

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

        def changed() -> None:
            fetched = self._access.fetch_list(address)
            moment = self._access.now()
            moment.keep(address, fetched.acl)
            rules = change(moment.rules(address))
            self._access.store_list(address, rules.bound_to(address), fetched.etag)

        self._repeated(changed)

    def _repeated(self, change: Callable[[], None]) -> None:
        """Try again where somebody else was faster."""
        for n_left in reversed(range(N_TRIES)):
            try:
                change()
                return
            except Conflict:
                if not n_left:
                    raise

    def _resource(self, address: str, said: str, moment: AccessMoment) -> Resource | None:
        """Return a document as it is now.

        Parameters
        ----------
        said
            What its container says of it now; empty where nobody asked.
        """
        try:
            known = self._known.get(address)
            if known is None or not said or known.said != said:
                known = self._looked_up(address, said)
            if known.media_type not in TEXT_TYPES or len(address) > MAX_ID_LENGTH:
                return None
            rules = moment.rules(address)
        except AccessDenied:
            return None
        rights = rules.rights(owner=self.owner, members=moment.members(rules))
        self._readers.require_room(DocId(address), rights)
        return Resource(DocId(address), known.etag, rights_tag(rights), rights)

    def _looked_up(self, address: str, said: str) -> _Known:
        response = self._client.head(address)
        if response.media_type in TEXT_TYPES:
            self._access.list_address(address, response)
        found = _Known(said, response.etag, response.media_type)
        if said and response.is_settled:
            self._known[address] = found
        elif said:
            self._known.pop(address, None)
        return found

    def _holds_document(self, address: str) -> bool:
        return not address.endswith(DATA_ENDING) and self._holds(address)

    def _holds_data(self, address: str) -> bool:
        return address.endswith(DATA_ENDING) and self._holds(address)

    def _holds(self, address: str) -> bool:
        """Say whether an address can be of something in this pod, however it is written."""
        rest = address.removeprefix(self._root)
        return rest != address and not any(
            step in ("", ".", "..")
            or step.endswith((".acl", ".meta"))
            or any(character in step for character in "/\\?#\0")
            for step in map(unquote, rest.split("/"))
        )


class _ReadersMoment(RightsMoment):
    def __init__(self, pod: SolidPod, moment: AccessMoment) -> None:
        self._pod, self._moment = pod, moment

    def may_read(self, doc_id: DocId, reader: Reader) -> bool:
        self._pod._require_document(doc_id)
        return self._pod._acts_for(reader) or Mode.READ in self._pod._modes(
            doc_id, reader, self._moment
        )
