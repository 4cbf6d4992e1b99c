"""Rights as values: who may read what.

The rules are those of Web Access Control: access is given to an agent, to a group, to everybody
whose identity was verified, or to everybody; there is no rule that denies, and where nothing is
said the answer is no.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from cloister.core.errors import AccessDenied
from cloister.core.ids import AgentId, GroupId

__all__ = ["NOBODY", "Reader", "Rights", "STRANGER"]


@dataclass(frozen=True)
class Reader:
    """Somebody whose identity was verified, with the groups they belong to."""

    agent_id: AgentId
    groups: frozenset[GroupId] = frozenset()


STRANGER: Final = Reader(AgentId(""))  # nobody in particular: may read what is public


@dataclass(frozen=True)
class Rights:
    """Who may read one resource.

    Examples
    --------
    >>> alice, bob = Reader(AgentId("alice")), Reader(AgentId("bob"))
    >>> rights = Rights(owner=AgentId("alice"))
    >>> rights.allow(alice), rights.allow(bob)
    (True, False)
    >>> rights.grant("bob").allow(bob)
    True
    >>> rights.grant("bob").revoke("bob").allow(bob)
    False
    """

    owner: AgentId = AgentId("")
    agents: frozenset[AgentId] = field(default_factory=frozenset)
    groups: frozenset[GroupId] = field(default_factory=frozenset)
    public: bool = False
    authenticated: bool = False  # everybody whose identity was verified

    def allow(self, reader: Reader) -> bool:
        """Say whether ``reader`` may read; nothing said means no."""
        if self.public:
            return True
        if not reader.agent_id:  # an empty name must never match an empty owner
            return False
        return (
            self.authenticated
            or reader.agent_id == self.owner
            or reader.agent_id in self.agents
            or any(self.groups & reader.groups)  # "" is false: an empty group matches nothing
        )

    def require(self, reader: Reader) -> None:
        """Raise `AccessDenied` unless ``reader`` may read; the text reveals nothing else."""
        if not self.allow(reader):
            raise AccessDenied("not allowed, or no such resource")

    def grant(self, *agents: str) -> Rights:
        """Return these rights with more agents who may read."""
        return replace(self, agents=self.agents | _names(agents))

    def revoke(self, *agents: str) -> Rights:
        """Return these rights without some agents; what they have by a group or as owner stays."""
        return replace(self, agents=self.agents - _names(agents))

    def grant_group(self, *groups: str) -> Rights:
        """Return these rights with more groups that may read."""
        return replace(self, groups=self.groups | _group_names(groups))

    def revoke_group(self, *groups: str) -> Rights:
        """Return these rights without some groups."""
        return replace(self, groups=self.groups - _group_names(groups))


NOBODY: Final = Rights()  # what holds where nothing is said


def _names(agents: Iterable[str]) -> frozenset[AgentId]:
    return frozenset(AgentId(name) for name in agents if name)


def _group_names(groups: Iterable[str]) -> frozenset[GroupId]:
    return frozenset(GroupId(name) for name in groups if name)
