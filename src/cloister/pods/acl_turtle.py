"""Access control lists and groups as RDF, in Turtle."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from cloister.core.errors import DataError, SettingsError
from cloister.core.ids import AgentId, GroupId
from cloister.pods.web_access_control import AccessControlList, Authorization, Mode

if TYPE_CHECKING:
    from rdflib import Graph
    from rdflib.term import Node

__all__ = ["MAX_TURTLE_BYTES", "parse_turtle", "read_acl", "read_groups", "write_acl"]

MAX_TURTLE_BYTES: Final = 1_000_000  # a longer list is refused, not read
ACL: Final = "http://www.w3.org/ns/auth/acl#"
FOAF_AGENT: Final = "http://xmlns.com/foaf/0.1/Agent"
VCARD_MEMBER: Final = "http://www.w3.org/2006/vcard/ns#hasMember"
VCARD_GROUP: Final = "http://www.w3.org/2006/vcard/ns#Group"
RDF_TYPE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
CONDITIONS: Final = ("origin", "condition")  # what this code cannot check, it does not grant

AGENT_NAME: Final = "urn:cloister:agent:"  # before names that are no addresses
GROUP_NAME: Final = "urn:cloister:group:"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NOT_IN_ADDRESS: Final = re.compile(r"[\x00-\x20<>\"{}|^`\\\x7f]")


def parse_turtle(text: str | bytes, base: str) -> Graph:
    """Read Turtle; addresses in it are relative to ``base``."""
    if len(text) > MAX_TURTLE_BYTES:
        raise DataError(f"longer than {MAX_TURTLE_BYTES:,} bytes", where=base)
    graph: Graph = _rdflib().Graph()
    try:
        graph.parse(data=text, format="turtle", publicID=base)
    except Exception:  # the parser raises what it likes, with pieces of the text in it
        raise DataError("cannot be read as Turtle", where=base) from None
    return graph


def read_acl(text: str | bytes, base: str) -> AccessControlList:
    """Read a list. One that cannot be read gives nothing to anybody.

    Parameters
    ----------
    text
        Turtle.
    base
        Address of the list itself.

    Examples
    --------
    >>> acl = read_acl('''@prefix acl: <http://www.w3.org/ns/auth/acl#>.
    ... <#r> a acl:Authorization; acl:agent <urn:cloister:agent:bob>;
    ...     acl:accessTo <notes.txt>; acl:mode acl:Read.''', "http://a/notes.txt.acl")
    >>> acl.own("http://a/notes.txt").rights().agents
    frozenset({'bob'})
    """
    try:
        graph = parse_turtle(text, base)
    except DataError:
        return AccessControlList()
    uri = _rdflib().URIRef
    subjects = sorted(set(graph.subjects(uri(RDF_TYPE), uri(ACL + "Authorization"))), key=str)
    return AccessControlList(tuple(_authorizations(graph, subjects)))


def _authorizations(graph: Graph, subjects: Iterable[Node]) -> Iterable[Authorization]:
    uri = _rdflib().URIRef
    for subject in subjects:
        if any((subject, uri(ACL + name), None) in graph for name in CONDITIONS):
            continue
        classes = _objects(graph, subject, ACL + "agentClass")
        modes = {mode.removeprefix(ACL) for mode in _objects(graph, subject, ACL + "mode")}
        yield Authorization(
            modes=frozenset(mode for mode in Mode if mode.value in modes),
            agents=frozenset(map(_agent, _objects(graph, subject, ACL + "agent"))),
            groups=frozenset(map(_group, _objects(graph, subject, ACL + "agentGroup"))),
            public=FOAF_AGENT in classes,
            authenticated=ACL + "AuthenticatedAgent" in classes,
            access_to=_objects(graph, subject, ACL + "accessTo"),
            default=_objects(graph, subject, ACL + "default"),
        )


def read_groups(text: str | bytes, base: str) -> dict[GroupId, frozenset[AgentId]]:
    """Read the members of the vCard groups that a document defines.

    A group that is said to be one (``a vcard:Group``) and has no members is defined, too. Where the
    document is damaged `DataError` is raised: nobody knows which groups it defines.

    Examples
    --------
    >>> read_groups('''@prefix vcard: <http://www.w3.org/2006/vcard/ns#>.
    ... <#ward> a vcard:Group; vcard:hasMember <http://b/card#me>.''', "http://a/groups")
    {'http://a/groups#ward': frozenset({'http://b/card#me'})}
    """
    graph = parse_turtle(text, base)
    uri = _rdflib().URIRef
    named = set(graph.subjects(uri(RDF_TYPE), uri(VCARD_GROUP)))
    subjects = sorted(named.union(graph.subjects(uri(VCARD_MEMBER), None)), key=str)
    return {
        _group(str(subject)): frozenset(map(_agent, _objects(graph, subject, VCARD_MEMBER)))
        for subject in subjects
    }


def write_acl(acl: AccessControlList) -> str:
    """Return a list as Turtle; addresses are written as they are given.

    Examples
    --------
    >>> rule = Authorization(frozenset({Mode.READ}), public=True, access_to=frozenset({"./a.txt"}))
    >>> print(write_acl(AccessControlList((rule,))))
    @prefix acl: <http://www.w3.org/ns/auth/acl#> .
    <BLANKLINE>
    <#rule-1> a acl:Authorization ;
        acl:accessTo <./a.txt> ;
        acl:agentClass <http://xmlns.com/foaf/0.1/Agent> ;
        acl:mode acl:Read .
    <BLANKLINE>
    <BLANKLINE>
    """
    rdflib = _rdflib()
    graph = rdflib.Graph(bind_namespaces="none")
    graph.bind("acl", rdflib.Namespace(ACL))
    for number, rule in enumerate(acl.authorizations, 1):
        subject = rdflib.URIRef(f"#rule-{number}")
        for predicate, value in _statements(rule):
            graph.add((subject, rdflib.URIRef(predicate), rdflib.URIRef(value)))
    return str(graph.serialize(format="turtle"))


def _statements(rule: Authorization) -> Iterable[tuple[str, str]]:
    yield RDF_TYPE, ACL + "Authorization"
    yield from ((ACL + "mode", ACL + mode.value) for mode in rule.modes)
    yield from ((ACL + "agent", _address(name, AGENT_NAME)) for name in rule.agents)
    yield from ((ACL + "agentGroup", _address(name, GROUP_NAME)) for name in rule.groups)
    if rule.public:
        yield ACL + "agentClass", FOAF_AGENT
    if rule.authenticated:
        yield ACL + "agentClass", ACL + "AuthenticatedAgent"
    yield from ((ACL + "accessTo", _checked(target)) for target in rule.access_to)
    yield from ((ACL + "default", _checked(target)) for target in rule.default)


def _objects(graph: Graph, subject: Node, predicate: str) -> frozenset[str]:
    """Return the addresses that a subject has for a predicate; literals are no addresses."""
    uri = _rdflib().URIRef
    found = graph.objects(subject, uri(predicate))
    return frozenset(str(value) for value in found if isinstance(value, uri))


def _address(name: str, prefix: str) -> str:
    """Return a name as an address: itself where it is one, unless it could be taken for ours."""
    if _SCHEME.match(name) and not name.startswith(prefix):
        return _checked(name)
    return prefix + quote(name, safe="")


def _agent(address: str) -> AgentId:
    return AgentId(_name(address, AGENT_NAME))


def _group(address: str) -> GroupId:
    return GroupId(_name(address, GROUP_NAME))


def _name(address: str, prefix: str) -> str:
    """Return the name that an address stands for; no two addresses stand for one name."""
    name = unquote(address.removeprefix(prefix)) if address.startswith(prefix) else ""
    return name if name and _address(name, prefix) == address else address


def _checked(address: str) -> str:
    if _NOT_IN_ADDRESS.search(address):
        raise SettingsError("not an address that a list can name", where=repr(address[:80]))
    return address


def _rdflib() -> Any:
    """Import late: it costs start-up time."""
    import rdflib

    return rdflib
