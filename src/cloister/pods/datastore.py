"""What every kind of pod can do: list its documents, show one to a reader, change, share.

Besides documents a pod holds *data*: bytes that are no document and are never indexed, such as the
index resource of a document. Names of data end in ``.bin``, which no document's name does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol, TypeVar

from cloister.core.errors import AccessDenied
from cloister.core.ids import MAX_ID_LENGTH, AgentId, DocId, GroupId, PodId
from cloister.core.rights import Reader, Rights
from cloister.pods.extraction.pool import RawDocument
from cloister.pods.web_access_control import Mode

__all__ = [
    "Datastore",
    "Dropped",
    "LeftOut",
    "Resource",
    "RightsMoment",
    "checked_read",
    "refused",
    "rights_tag",
]

REFUSAL: Final = "not allowed, or no such resource"
DATA_ENDING: Final = ".bin"
N_NAMED: Final = 1_000  # of what was left out; the rest is counted
T = TypeVar("T")


class Resource(NamedTuple):
    """A document of a pod as it is now.

    Parameters
    ----------
    etag
        Changes with the document.
    rights_etag
        Changes with who may read it, by its access control list or an inherited one or by a group;
        a document's own tag does not.
    rights
        Who may read it.
    """

    doc_id: DocId
    etag: str
    rights_etag: str
    rights: Rights


class LeftOut(NamedTuple):
    """A file of a pod that is not indexed, and why."""

    name: str
    reason: str


class Dropped:
    """Names what one sync leaves out of a pod, and why. Threads may share it."""

    def __init__(self) -> None:
        self._named: list[LeftOut] = []
        self._n = 0

    def add(self, name: str, why: str) -> None:
        """Note something that is left out."""
        self._n += 1
        if len(self._named) < N_NAMED:
            self._named.append(LeftOut(name[:MAX_ID_LENGTH], why))

    def named(self) -> list[LeftOut]:
        """Return what was left out; of very many the first, and how many there are besides.

        Examples
        --------
        >>> dropped = Dropped()
        >>> dropped.add("https://pods.example/ann/a/", "too deep")
        >>> dropped.named()
        [LeftOut(name='https://pods.example/ann/a/', reason='too deep')]
        """
        more = self._n - len(self._named)
        return [*self._named, *([LeftOut("", f"and {more} more")] if more else [])]


class RightsMoment(Protocol):
    """A look at a pod's rights that begins now. What documents inherit is looked at once."""

    def may_read(self, doc_id: DocId, reader: Reader) -> bool:
        """Say whether a reader may read a document."""


class Datastore(Protocol):
    """A pod, as the program sees it that keeps or indexes the pod.

    Who holds this object can read and change the pod. A text may be shown to somebody only after
    `read` or `confirm`, or by `now` before and after it was read: these look at the reader's rights
    as they are at the pod at that moment, not at what an index remembers.
    """

    @property
    def pod_id(self) -> PodId:
        """Name of the pod."""

    def resources(self, left_out: list[LeftOut] | None = None) -> Iterator[Resource]:
        """Give all documents that can be indexed.

        Parameters
        ----------
        left_out
            Gets the files that cannot, as they are found.
        """

    def resource(self, doc_id: DocId) -> Resource | None:
        """Return one document as it is now; None where it is not there or cannot be indexed."""

    def content(self, doc_id: DocId) -> RawDocument:
        """Return a document as it lies in the pod, for the index."""

    def text(self, doc_id: DocId) -> str:
        """Return the words of a document, whoever may read it."""

    def read(self, doc_id: DocId, reader: Reader) -> str:
        """Return the words of a document if this reader may read it now, else raise."""

    def version(self, doc_id: DocId) -> str:
        """Return the ETag of a document, whoever may read it; raise where there is none."""

    def confirm(self, doc_id: DocId, reader: Reader) -> str:
        """Return the ETag of a document if this reader may read it now, else raise.

        The document has this ETag before and after its rights are looked at: no reader is shown a
        text that was replaced before they got the right.
        """

    def now(self) -> RightsMoment:
        """Begin a look at the rights."""

    def modes(self, doc_id: DocId, reader: Reader) -> frozenset[Mode]:
        """Return what a reader may do with a document, or with data, now."""

    def write(self, name: str, text: str, *, rights: Rights | None = None) -> DocId:
        """Store a text under a name; it is never visible with other rights than these.

        Where no rights are given, those hold that hold already or are inherited.
        """

    def delete(self, doc_id: DocId) -> None:
        """Remove a document with its access control list, its index resource first."""

    def set_rights(self, doc_id: DocId, rights: Rights) -> None:
        """Let just these read a document; who may write or control it stays as it is.

        What a group gave whose members a document lists is replaced, too. To add or to take away
        single readers and leave groups as they are, use `grant` and `revoke`.
        """

    def grant(
        self,
        doc_id: DocId,
        *agents: AgentId,
        groups: Iterable[GroupId] = (),
        public: bool = False,
    ) -> None:
        """Let more agents and groups, or everybody, read a document."""

    def revoke(
        self,
        doc_id: DocId,
        *agents: AgentId,
        groups: Iterable[GroupId] = (),
        public: bool = False,
    ) -> None:
        """Let some agents and groups, or everybody, no longer read a document.

        What an agent has by a group that is not named stays: `modes` says what is left.
        """

    def data_id(self, name: str) -> DocId:
        """Return the id of data with this name; raise `SettingsError` where it cannot be one."""

    def data_ids(self) -> Iterator[DocId]:
        """Give the ids of all data, in order."""

    def data(self, data_id: DocId) -> bytes | None:
        """Return data, for the program; None where there is none or it may not be read."""

    def read_data(self, data_id: DocId, reader: Reader) -> bytes:
        """Return data if this reader may read it now, else raise."""

    def write_data(
        self,
        data_id: DocId,
        content: bytes,
        *,
        rights: Rights | None = None,
        like: DocId | None = None,
    ) -> None:
        """Store data; it is never visible with other rights than asked for.

        What was there before is removed first: a crash leaves the new data, or none.

        Parameters
        ----------
        rights
            Who may read it.
        like
            A document in the same container whose rules are to hold: those of its own list, or the
            inherited ones where it has none. Exactly one of the two is given.
        """

    def delete_data(self, data_id: DocId) -> None:
        """Remove data with its access control list."""

    def is_alike(self, data_id: DocId, like: DocId) -> bool:
        """Say whether data has the rules of a document in the same container."""

    def make_alike(self, data_id: DocId, like: DocId) -> None:
        """Give data the rules of a document in the same container."""


def refused() -> AccessDenied:
    """Return the error for what may not be read and for what is not there: it is the same."""
    return AccessDenied(REFUSAL)


def checked_read(may_read: Callable[[], bool], content: Callable[[], T]) -> T:
    """Return a content if its reader may read it, before it is read and after.

    What was made private while it was read is not shown.

    Parameters
    ----------
    may_read
        Says whether the reader may read it now.
    content
        Reads it.
    """
    if not may_read():
        raise refused()
    found = content()
    if not may_read():
        raise refused()
    return found


def rights_tag(rights: Rights) -> str:
    """Return a tag that equal rights share, and others do not."""
    parts = (
        rights.owner,
        sorted(rights.agents),
        sorted(rights.groups),
        rights.public,
        rights.authenticated,
    )
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
