"""Access control lists and groups as RDF, in Turtle."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from cloister.core.errors import DataError, SettingsError
from cloister.core.ids import AgentId, GroupId
from cloister.pods.web_access_control import AccessControlList, Authorization, Mode

__all__ = [
    "MAX_GROUPS_BYTES",
    "MAX_LIST_BYTES",
    "Triple",
    "checked_acl",
    "parse_turtle",
    "read_acl",
    "read_groups",
    "write_acl",
]

MAX_TURTLE_BYTES: Final = 1_000_000  # of anything, such as a listing
MAX_LIST_BYTES: Final = 16_000  # of an access control list; a usual one has 500
MAX_GROUPS_BYTES: Final = 64_000  # of a document of groups, about a thousand members
MAX_ESCAPES: Final = 2_000  # backslashes, and "../" in addresses
MAX_GROWTH: Final = 32  # characters of addresses for one of a text
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


class Address(str):
    """An address in RDF; what is none is a plain string."""

    __slots__ = ()


class Triple(NamedTuple):
    """A statement of RDF. Literals are as they are written, blank nodes have made-up names."""

    subject: str
    predicate: str
    value: str


def parse_turtle(text: str | bytes, base: str) -> list[Triple]:
    """Read Turtle; addresses in it are relative to ``base``.

    Time and memory grow with the length alone. So of rdflib only the grammar is used. Its graphs
    take quadratic time for prefixes, parse XML in literals, and log what they do not like.
    """
    from rdflib.plugins.parsers.notation3 import SinkParser

    content = text.encode() if isinstance(text, str) else text
    if len(content) > MAX_TURTLE_BYTES:
        raise DataError(f"longer than {MAX_TURTLE_BYTES:,} bytes", where=base)
    if max(content.count(b"\\"), content.count(b"../")) > MAX_ESCAPES:  # quadratic in one string
        raise DataError(f"more than {MAX_ESCAPES:,} escapes or steps upwards", where=base)
    found = _Statements(MAX_GROWTH * (len(content) + len(base)))
    try:
        SinkParser(found, baseURI=base, turtle=True).loadBuf(content)  # type: ignore[arg-type]
    except Exception:  # the parser raises what it likes, with pieces of the text in it
        raise DataError("cannot be read as Turtle", where=base) from None
    return found.triples


class _Statements:
    """Takes from rdflib's parser what it finds; the names of methods are the parser's.

    A long prefix that is used often would fill the memory: the addresses together have a greatest
    length.
    """

    def __init__(self, max_characters: int) -> None:
        self.triples: list[Triple] = []
        self._room = max_characters
        self._n_blank = 0

    def newSymbol(self, address: str) -> Address:  # noqa: N802
        self._room -= len(address)
        if self._room < 0:
            raise ValueError("addresses are too long")
        return Address(address)

    def newBlankNode(self, *_: object, **__: object) -> str:  # noqa: N802
        self._n_blank += 1
        return f"_:{self._n_blank}"

    def newLiteral(self, text: str, *_: object) -> str:  # noqa: N802
        return str(text)

    def newList(self, *_: object) -> str:  # noqa: N802
        """Return a name for a list. What its members are is of no use here."""
        return self.newBlankNode()

    def makeStatement(self, quadruple: Sequence[object], **_: object) -> None:  # noqa: N802
        predicate, subject, value = map(_term, quadruple[1:])
        self.triples.append(Triple(subject, predicate, value))

    def intern(self, term: object) -> object:
        return term

    def _ignore(self, *_: object) -> None:
        pass

    bind = setDefaultNamespace = startDoc = endDoc = _ignore  # noqa: N815


def _term(term: object) -> str:
    """Return a term: the parser has numbers as they are, and some addresses in pairs."""
    if isinstance(term, tuple):
        return Address(term[1])
    if isinstance(term, bool):
        return str(term).lower()
    return term if isinstance(term, str) else str(term)


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
        return checked_acl(text, base)
    except DataError:
        return AccessControlList()


def checked_acl(text: str | bytes, base: str) -> AccessControlList:
    """Read a list as `read_acl`; raise where it cannot be read."""
    described = _by_subject(parse_turtle(text, base))
    return AccessControlList(
        tuple(
            _authorization(said)
            for _, said in sorted(described.items())
            if ACL + "Authorization" in said.addresses(RDF_TYPE)
            and not any(ACL + name in said for name in CONDITIONS)
        )
    )


def _authorization(said: _Said) -> Authorization:
    classes = said.addresses(ACL + "agentClass")
    modes = {mode.removeprefix(ACL) for mode in said.addresses(ACL + "mode")}
    return Authorization(
        modes=frozenset(mode for mode in Mode if mode.value in modes),
        agents=frozenset(map(_agent, said.addresses(ACL + "agent"))),
        groups=frozenset(map(_group, said.addresses(ACL + "agentGroup"))),
        public=FOAF_AGENT in classes,
        authenticated=ACL + "AuthenticatedAgent" in classes,
        access_to=said.addresses(ACL + "accessTo"),
        default=said.addresses(ACL + "default"),
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
    return {
        _group(subject): frozenset(map(_agent, said.addresses(VCARD_MEMBER)))
        for subject, said in sorted(_by_subject(parse_turtle(text, base)).items())
        if VCARD_MEMBER in said or VCARD_GROUP in said.addresses(RDF_TYPE)
    }


class _Said(dict[str, set[str]]):
    """What a document says of one subject: addresses by predicate; literals are none."""

    def addresses(self, predicate: str) -> frozenset[str]:
        """Return the addresses that a subject has for a predicate."""
        return frozenset(self.get(predicate, ()))


def _by_subject(triples: Iterable[Triple]) -> dict[str, _Said]:
    found: dict[str, _Said] = {}
    for subject, predicate, value in triples:
        addresses = found.setdefault(subject, _Said()).setdefault(predicate, set())
        if isinstance(value, Address):
            addresses.add(str(value))
    return found


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
    import rdflib  # it costs start-up time

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
