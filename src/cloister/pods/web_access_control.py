"""Web Access Control: who may do what with a resource, as its access control lists say.

The rules, as https://solidproject.org/TR/wac has them:

- a resource's own list replaces the inherited ones entirely, even where it gives nothing;
- without an own list, what the nearest container with a list passes on (``acl:default``) holds;
- an authorization gives modes to agents, to groups, to everybody whose identity was verified, or
  to everybody; there is none that denies, and nothing said means refused;
- a list that cannot be read gives nothing: it does not make room for an inherited one.

The owner of a pod always has Control, so that nobody can lock themselves out, but Read only where
the rules say so. Authorizations under a condition that cannot be checked here (``acl:origin``,
``acl:condition``) give nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from cloister.core.errors import DataError
from cloister.core.ids import AgentId, GroupId
from cloister.core.rights import Reader, Rights

__all__ = [
    "AccessControlList",
    "AccessRules",
    "Authorization",
    "Mode",
    "NO_RULES",
    "containers_of",
    "effective_rules",
    "is_document",
]

Members = Mapping[GroupId, frozenset[AgentId]]
NO_MEMBERS: Final[Members] = {}
MAX_READERS: Final = 2_000  # of one document: an index keeps all, with the members of groups


class Mode(StrEnum):
    """What may be done with a resource."""

    READ = "Read"
    WRITE = "Write"
    APPEND = "Append"
    CONTROL = "Control"


class Authorization(NamedTuple):
    """One statement of a list: these may do this with that.

    Parameters
    ----------
    modes
        What is given.
    agents, groups
        To whom.
    public, authenticated
        To everybody; to everybody whose identity was verified.
    access_to
        Addresses of the resources that it is about.
    default
        Addresses of the containers that pass it on to what they hold.
    """

    modes: frozenset[Mode]
    agents: frozenset[AgentId] = frozenset()
    groups: frozenset[GroupId] = frozenset()
    public: bool = False
    authenticated: bool = False
    access_to: frozenset[str] = frozenset()
    default: frozenset[str] = frozenset()

    @property
    def names_anybody(self) -> bool:
        """Whether the statement is about anybody at all."""
        return bool(self.agents or self.groups or self.public or self.authenticated)

    def names(self, reader: Reader, members: Members = NO_MEMBERS) -> bool:
        """Say whether the statement is about this reader.

        Who belongs to a group in ``members`` is said there alone; to any other group belongs whose
        verified identity says so.
        """
        stated = {group for group in reader.groups if group not in members}
        listed = {group for group in self.groups if reader.agent_id in members.get(group, ())}
        rights = Rights(
            agents=self.agents,
            groups=self.groups,
            public=self.public,
            authenticated=self.authenticated,
        )
        return rights.allow(Reader(reader.agent_id, frozenset(stated | listed)))


class AccessRules(NamedTuple):
    """The authorizations that hold for one resource."""

    authorizations: tuple[Authorization, ...] = ()

    @property
    def groups(self) -> frozenset[GroupId]:
        """All groups that are given anything."""
        return frozenset().union(*(rule.groups for rule in self.authorizations))

    def modes(
        self, reader: Reader, *, owner: AgentId = AgentId(""), members: Members = NO_MEMBERS
    ) -> frozenset[Mode]:
        """Return what a reader may do.

        Examples
        --------
        >>> rule = Authorization(frozenset({Mode.READ}), agents=frozenset({AgentId("bob")}))
        >>> sorted(AccessRules((rule,)).modes(Reader(AgentId("bob"))))
        [<Mode.READ: 'Read'>]
        >>> sorted(AccessRules((rule,)).modes(Reader(AgentId("eve"))))
        []
        """
        given = [rule.modes for rule in self.authorizations if rule.names(reader, members)]
        own = {Mode.CONTROL} if owner and reader.agent_id == owner else set()
        modes = frozenset(own).union(*given)
        return modes | {Mode.APPEND} if Mode.WRITE in modes else modes

    def rights(self, *, owner: AgentId = AgentId(""), members: Members = NO_MEMBERS) -> Rights:
        """Return who may read.

        Parameters
        ----------
        owner
            Named as owner where the rules let them read, and not otherwise.
        members
            The members of those groups that are defined by a list of members. Other groups stay
            groups, to which a reader belongs by a verified statement.

        Raises
        ------
        DataError
            They are more than an index keeps.
        """
        reading = [rule for rule in self.authorizations if Mode.READ in rule.modes]
        groups = frozenset[GroupId]().union(*(rule.groups for rule in reading))
        n_named = sum(len(rule.agents) for rule in reading)
        n_members = sum(len(members[group]) if group in members else 1 for group in groups)
        if n_named + n_members > MAX_READERS:
            raise DataError(f"more than {MAX_READERS:,} readers")
        agents = frozenset[AgentId]().union(
            *(rule.agents for rule in reading), *(members.get(group, ()) for group in groups)
        )
        return Rights(
            owner=owner if owner in agents else AgentId(""),
            agents=agents - {owner},
            groups=groups - frozenset(members),
            public=any(rule.public for rule in reading),
            authenticated=any(rule.authenticated for rule in reading),
        )

    def with_readers(self, rights: Rights) -> AccessRules:
        """Return the rules that let just these read; all other modes stay as they are.

        Groups that documents define are not part of `rights`: they no longer let anybody read.
        """
        others = (rule._replace(modes=rule.modes - {Mode.READ}) for rule in self.authorizations)
        readers = Authorization(
            frozenset({Mode.READ}),
            agents=frozenset(name for name in (rights.owner, *rights.agents) if name),
            groups=rights.groups,
            public=rights.public,
            authenticated=rights.authenticated,
        )
        rules = (*(rule for rule in others if rule.modes), readers)
        return AccessRules(tuple(rule for rule in rules if rule.names_anybody))

    def granting(
        self,
        agents: Iterable[AgentId] = (),
        *,
        groups: Iterable[GroupId] = (),
        public: bool = False,
    ) -> AccessRules:
        """Return the rules that let some agents and groups, or everybody, read, too."""
        rule = Authorization(
            frozenset({Mode.READ}),
            agents=frozenset(filter(None, agents)),
            groups=frozenset(filter(None, groups)),
            public=public,
        )
        return AccessRules((*self.authorizations, rule)) if rule.names_anybody else self

    def revoking(
        self,
        agents: Iterable[AgentId] = (),
        *,
        groups: Iterable[GroupId] = (),
        public: bool = False,
    ) -> AccessRules:
        """Return the rules that no longer let these agents and groups, or everybody, read.

        Their other modes stay. So does what an agent has by a group that is not named here.
        """
        names, named = frozenset(agents), frozenset(groups)
        rules: list[Authorization] = []
        for rule in self.authorizations:
            if Mode.READ not in rule.modes:
                rules.append(rule)
                continue
            taken = Authorization(
                rule.modes - {Mode.READ},
                agents=rule.agents & names,
                groups=rule.groups & named,
                public=rule.public and public,
            )
            kept = rule._replace(
                agents=rule.agents - names,
                groups=rule.groups - named,
                public=rule.public and not public,
            )
            rules += [kept, taken]
        return AccessRules(tuple(rule for rule in rules if rule.modes and rule.names_anybody))

    def bound_to(self, resource: str) -> AccessControlList:
        """Return these rules as a resource's own list; a container passes them on."""
        default = frozenset({resource}) if resource.endswith("/") else frozenset[str]()
        return AccessControlList(
            tuple(
                rule._replace(access_to=frozenset({resource}), default=default)
                for rule in self.authorizations
            )
        )


NO_RULES: Final = AccessRules()  # nothing said


class AccessControlList(NamedTuple):
    """What one ``.acl`` says; with no authorizations it gives nothing to anybody."""

    authorizations: tuple[Authorization, ...] = ()

    def own(self, resource: str) -> AccessRules:
        """Return what holds for the resource whose list this is."""
        return AccessRules(_about(self.authorizations, resource, lambda rule: rule.access_to))

    def passed_on(self, container: str) -> AccessRules:
        """Return what a container whose list this is passes on to what it holds."""
        return AccessRules(_about(self.authorizations, container, lambda rule: rule.default))


def _about(
    authorizations: Iterable[Authorization],
    address: str,
    targets: Callable[[Authorization], frozenset[str]],
) -> tuple[Authorization, ...]:
    return tuple(rule for rule in authorizations if address in targets(rule))


def is_document(group: GroupId) -> bool:
    """Say whether a group is defined by a document at its address, and by nothing else.

    Examples
    --------
    >>> is_document(GroupId("https://a.example/groups#ward")), is_document(GroupId("nurses"))
    (True, False)
    """
    return group.startswith(("https://", "http://"))


def containers_of(resource: str, root: str) -> list[str]:
    """Return the containers that hold a resource, the nearest first, up to the root.

    Examples
    --------
    >>> containers_of("http://a/pod/x/y.txt", "http://a/pod/")
    ['http://a/pod/x/', 'http://a/pod/']
    """
    found = []
    while resource.startswith(root) and resource != root:
        resource = resource.rstrip("/").rpartition("/")[0] + "/"
        found.append(resource)
    return found


def effective_rules(
    resource: str, root: str, list_of: Callable[[str], AccessControlList | None]
) -> AccessRules:
    """Return the rules that hold for a resource.

    Parameters
    ----------
    resource
        Its address; a container's ends in a slash.
    root
        The container at which inheritance ends.
    list_of
        Gives the own list of an address; None where there is none.
    """
    own = list_of(resource)
    if own is not None:
        return own.own(resource)
    for container in containers_of(resource, root):
        inherited = list_of(container)
        if inherited is not None:
            return inherited.passed_on(container)
    return NO_RULES
