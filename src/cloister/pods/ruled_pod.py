"""What pods with Web Access Control share: who may read is changed by changing rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from cloister.core.ids import AgentId, DocId, GroupId
from cloister.core.rights import Rights
from cloister.pods.web_access_control import AccessRules

__all__ = ["RuledPod"]


class RuledPod(ABC):
    """A pod whose documents have access control lists."""

    def set_rights(self, doc_id: DocId, rights: Rights) -> None:
        """Let just these read a document; who may write or control it stays as it is.

        On a server, without Read for whom the client acts for, it can no longer be indexed.
        """
        self._change_rules(doc_id, lambda rules: rules.with_readers(rights))

    def grant(
        self,
        doc_id: DocId,
        *agents: AgentId,
        groups: Iterable[GroupId] = (),
        public: bool = False,
    ) -> None:
        """Let more agents and groups, or everybody, read a document."""
        named = frozenset(groups)
        self._change_rules(
            doc_id, lambda rules: rules.granting(agents, groups=named, public=public)
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
        self._change_rules(
            doc_id, lambda rules: rules.revoking(agents, groups=named, public=public)
        )

    @abstractmethod
    def _change_rules(self, doc_id: DocId, change: Callable[[AccessRules], AccessRules]) -> None:
        """Give a document its own list, made of the rules that hold for it now."""
