"""What pods with Web Access Control share: who may read is changed by changing rules.

A document's index resource (`cloister.pods.index_resource`) follows its document. Where a right is
taken away, the index resource is first made readable to nobody, then the document's rules change,
then the index resource gets them too. Who loses a right loses it for the index resource first. A
crash in between leaves an index resource that fewer may read than the document, till the next sync.
Another program that changes a document's own list does not know of the index resource: it keeps the
old rules until the next sync.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable
from contextlib import AbstractContextManager, suppress
from typing import Final

from cloister.core.deadline import time_left
from cloister.core.errors import AccessDenied, DataError, SettingsError, StoreError
from cloister.core.ids import AgentId, DocId, GroupId, PodId
from cloister.core.rights import NOBODY, Reader, Rights
from cloister.pods.datastore import RightsMoment, checked_read, refused
from cloister.pods.extraction.pool import SEARCH_DEADLINE_S, RawDocument, extraction_pool
from cloister.pods.index_resource import terms_id
from cloister.pods.web_access_control import AccessRules, Authorization, Mode

__all__ = ["PodReaders", "RuledPod"]

RuleChange = Callable[[AccessRules], AccessRules]
MAX_POD_READERS: Final = 250_000


class PodReaders:
    """Counts the readers that a pod's documents name together. Threads may share it.

    An index keeps them all, and writes them with each change of a right in any pod.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[DocId, int] = {}
        self._n = 0

    def require_room(self, doc_id: DocId, rights: Rights) -> None:
        """Count a document's readers in the place of its earlier ones; raise if there is no room.

        Examples
        --------
        >>> readers = PodReaders()
        >>> readers.require_room(DocId("ann/a.txt"), Rights(agents=frozenset({AgentId("bob")})))
        """
        n = len(rights.agents) + len(rights.groups)
        with self._lock:
            self._n -= self._counts.pop(doc_id, 0)
            if self._n + n > MAX_POD_READERS:
                raise DataError(f"the pod's documents name more than {MAX_POD_READERS:,} readers")
            self._counts[doc_id] = n
            self._n += n

    def retain(self, doc_ids: Container[DocId]) -> None:
        """Forget all other documents."""
        with self._lock:
            self._counts = {name: n for name, n in self._counts.items() if name in doc_ids}
            self._n = sum(self._counts.values())


class RuledPod(ABC):
    """A pod whose documents have access control lists."""

    def text(self, doc_id: DocId) -> str:
        """Return the words of a document, whoever may read it; a child process reads it."""
        return self._extracted(self.content(doc_id))

    def read(self, doc_id: DocId, reader: Reader) -> str:
        """Return the words of a document if this reader may read it now, else raise."""
        return checked_read(lambda: self.now().may_read(doc_id, reader), lambda: self.text(doc_id))

    def confirm(self, doc_id: DocId, reader: Reader) -> str:
        """Return the ETag of a document if this reader may read it now, else raise."""
        found = self.version(doc_id)
        if not self.now().may_read(doc_id, reader) or self.version(doc_id) != found:
            raise refused()
        return found

    def now(self) -> RightsMoment:
        """Begin a look at the rights."""
        return _EachAnew(self)

    def set_rights(self, doc_id: DocId, rights: Rights) -> None:
        """Let just these read a document; who may write or control it stays as it is.

        On a server, without Read for whom the client acts for, it can no longer be indexed.
        """
        self._change(doc_id, lambda rules: rules.with_readers(rights), takes=True)

    def grant(
        self,
        doc_id: DocId,
        *agents: AgentId,
        groups: Iterable[GroupId] = (),
        public: bool = False,
    ) -> None:
        """Let more agents and groups, or everybody, read a document."""
        named = frozenset(groups)
        self._change(
            doc_id, lambda rules: rules.granting(agents, groups=named, public=public), takes=False
        )

    def revoke(
        self,
        doc_id: DocId,
        *agents: AgentId,
        groups: Iterable[GroupId] = (),
        public: bool = False,
    ) -> None:
        """Let some agents and groups, or everybody, no longer read a document."""
        named = frozenset(groups)
        self._change(
            doc_id, lambda rules: rules.revoking(agents, groups=named, public=public), takes=True
        )

    def read_data(self, data_id: DocId, reader: Reader) -> bytes:
        """Return data if this reader may read it now, else raise."""

        def content() -> bytes:
            found = self.data(data_id)
            if found is None:
                raise refused()
            return found

        return checked_read(lambda: Mode.READ in self.modes(data_id, reader), content)

    def write_data(
        self,
        data_id: DocId,
        content: bytes,
        *,
        rights: Rights | None = None,
        like: DocId | None = None,
    ) -> None:
        """Store data; it is never visible with other rights than asked for."""
        if (rights is None) == (like is None):
            raise SettingsError("either rights, or a document with these", where="write_data")
        with self._changing():
            self._put_data(data_id, content, rights, like)

    def is_alike(self, data_id: DocId, like: DocId) -> bool:
        """Say whether data has the rules of a document in the same container."""
        return _same(self._own_rules(data_id), self._own_rules(like))

    def make_alike(self, data_id: DocId, like: DocId) -> None:
        """Give data the rules of a document in the same container."""
        with self._changing():
            self._copy_rules(like, data_id)

    def _extracted(self, content: RawDocument) -> str:
        deadline_s = min(SEARCH_DEADLINE_S, time_left())
        return extraction_pool().extract(content, pod_id=self.pod_id, deadline_s=deadline_s)

    def _change(self, doc_id: DocId, change: RuleChange, *, takes: bool) -> None:
        """Change a document's rules, and those of its index resource with them.

        Who controls a document controls its index resource. Where that is refused there is none, as
        far as the client can know. Once the document's rules are changed, nothing that fails with
        the index resource makes the change fail: at worst nobody reads it until the next sync.
        """
        terms = terms_id(doc_id)
        with self._changing():
            self._require_document(doc_id)
            with suppress(AccessDenied):
                if takes and self._has_data(terms):
                    self._change_rules(terms, lambda rules: rules.with_readers(NOBODY))
            self._change_rules(doc_id, change)
            with suppress(AccessDenied, StoreError):
                if self._has_data(terms):
                    self._copy_rules(doc_id, terms)

    @property
    @abstractmethod
    def pod_id(self) -> PodId:
        """Name of the pod."""

    @abstractmethod
    def version(self, doc_id: DocId) -> str:
        """Return the ETag of a document, whoever may read it; raise where there is none."""

    @abstractmethod
    def content(self, doc_id: DocId) -> RawDocument:
        """Return a document as it lies in the pod, for the index."""

    @abstractmethod
    def modes(self, doc_id: DocId, reader: Reader) -> frozenset[Mode]:
        """Return what a reader may do with a document, or with data, now."""

    @abstractmethod
    def data(self, data_id: DocId) -> bytes | None:
        """Return data, for the program; None where there is none or it may not be read."""

    @abstractmethod
    def _changing(self) -> AbstractContextManager[None]:
        """Keep other writers out, where that can be had."""

    @abstractmethod
    def _require_document(self, doc_id: DocId) -> None:
        """Raise where an id cannot be that of a document here."""

    @abstractmethod
    def _own_rules(self, doc_id: DocId) -> AccessRules | None:
        """Return the rules of the own list of a document or of data; None where it has none."""

    @abstractmethod
    def _change_rules(self, doc_id: DocId, change: RuleChange) -> None:
        """Give a document, or data, its own list, made of the rules that hold for it now."""

    @abstractmethod
    def _copy_rules(self, source: DocId, target: DocId) -> None:
        """Give data a copy of a document's own list, or none where the document has none."""

    @abstractmethod
    def _has_data(self, data_id: DocId) -> bool:
        """Say whether there is such data, readable or not."""

    @abstractmethod
    def _put_data(
        self, data_id: DocId, content: bytes, rights: Rights | None, like: DocId | None
    ) -> None:
        """Store data in the place of what was there, the list before the content."""


class _EachAnew(RightsMoment):
    """Looks at everything anew for each document: that takes no time in a folder."""

    def __init__(self, pod: RuledPod) -> None:
        self._pod = pod

    def may_read(self, doc_id: DocId, reader: Reader) -> bool:
        return Mode.READ in self._pod.modes(doc_id, reader)


def _same(some: AccessRules | None, others: AccessRules | None) -> bool:
    """Say whether two resources' own rules give the same, in whatever order."""
    if some is None or others is None:
        return some is others
    return _given(some) == _given(others)


def _given(rules: AccessRules) -> frozenset[Authorization]:
    nothing = frozenset[str]()
    return frozenset(
        rule._replace(access_to=nothing, default=nothing) for rule in rules.authorizations
    )
