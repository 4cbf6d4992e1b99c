from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.core.ids import AgentId, GroupId
from cloister.core.rights import NOBODY, STRANGER, Reader, Rights
from cloister.pods.acl_turtle import read_acl, read_groups, write_acl
from cloister.pods.web_access_control import (
    AccessControlList,
    AccessRules,
    Authorization,
    Mode,
    containers_of,
    effective_rules,
)

ROOT = "https://a.example/pod/"
DOC = ROOT + "visits/notes.txt"
PREFIXES = """@prefix acl: <http://www.w3.org/ns/auth/acl#>.
@prefix foaf: <http://xmlns.com/foaf/0.1/>.
"""
ALICE, BOB, EVE = (Reader(AgentId(f"https://{name}.example/#me")) for name in ("al", "bob", "eve"))
ALLOWED, REFUSED = True, False


def rules(resource: str = DOC, **lists: str) -> AccessRules:
    """Return what holds, where lists are given as doc=, visits= and root=."""
    addresses = {"doc": DOC, "visits": ROOT + "visits/", "root": ROOT}
    parsed = {
        addresses[name]: read_acl(PREFIXES + text, addresses[name] + ".acl")
        for name, text in lists.items()
    }
    return effective_rules(resource, ROOT, parsed.get)


def allows(reader: Reader, found: AccessRules, owner: AgentId = AgentId("")) -> bool:
    by_modes = Mode.READ in found.modes(reader, owner=owner)
    assert found.rights(owner=owner).allow(reader) is by_modes  # the two ways agree
    return by_modes


BOB_READS_DOC = (
    "<#r> a acl:Authorization; acl:agent <https://bob.example/#me>;"
    "acl:accessTo <notes.txt>; acl:mode acl:Read."
)
BOB_INHERITS = (
    "<#r> a acl:Authorization; acl:agent <https://bob.example/#me>;"
    "acl:default <./>; acl:mode acl:Read."
)
TABLE = [
    ("an own rule", BOB, {"doc": BOB_READS_DOC}, ALLOWED),
    ("somebody else", EVE, {"doc": BOB_READS_DOC}, REFUSED),
    ("nobody", STRANGER, {"doc": BOB_READS_DOC}, REFUSED),
    ("nothing said", BOB, {}, REFUSED),
    ("inherited", BOB, {"visits": BOB_INHERITS}, ALLOWED),
    ("inherited from afar", BOB, {"root": BOB_INHERITS}, ALLOWED),
    ("an empty own list replaces", BOB, {"doc": "", "root": BOB_INHERITS}, REFUSED),
    ("the nearest list replaces", BOB, {"visits": "", "root": BOB_INHERITS}, REFUSED),
    ("a damaged own list gives nothing", BOB, {"doc": "<#r> a", "root": BOB_INHERITS}, REFUSED),
    (
        "accessTo is not passed on",
        BOB,
        {"visits": BOB_READS_DOC.replace("notes.txt", "./")},
        REFUSED,
    ),
    ("default is not about the resource", BOB, {"doc": BOB_INHERITS}, REFUSED),
    (
        "a rule about another resource",
        BOB,
        {"doc": BOB_READS_DOC.replace("notes.txt", "other.txt")},
        REFUSED,
    ),
    ("Write is not Read", BOB, {"doc": BOB_READS_DOC.replace("Read", "Write")}, REFUSED),
    ("Control is not Read", BOB, {"doc": BOB_READS_DOC.replace("Read", "Control")}, REFUSED),
    ("no mode", BOB, {"doc": BOB_READS_DOC.replace("acl:mode acl:Read", "acl:x acl:y")}, REFUSED),
    ("not an authorization", BOB, {"doc": BOB_READS_DOC.replace("Authorization", "X")}, REFUSED),
    (
        "an origin",
        BOB,
        {"doc": BOB_READS_DOC[:-1] + "; acl:origin <https://app.example>."},
        REFUSED,
    ),
    ("a condition", BOB, {"doc": BOB_READS_DOC[:-1] + "; acl:condition [ a acl:X ]."}, REFUSED),
    (
        "a name as text is no agent",
        BOB,
        {"doc": BOB_READS_DOC.replace("<https://bob.example/#me>", '"https://bob.example/#me"')},
        REFUSED,
    ),
]
PUBLIC = BOB_READS_DOC.replace("acl:agent <https://bob.example/#me>", "acl:agentClass foaf:Agent")
VERIFIED = PUBLIC.replace("foaf:Agent", "acl:AuthenticatedAgent")
TABLE += [
    ("public", STRANGER, {"doc": PUBLIC}, ALLOWED),
    ("public for the known", EVE, {"doc": PUBLIC}, ALLOWED),
    ("verified", EVE, {"doc": VERIFIED}, ALLOWED),
    ("not verified", STRANGER, {"doc": VERIFIED}, REFUSED),
    ("an unknown class", EVE, {"doc": PUBLIC.replace("foaf:Agent", "foaf:Person")}, REFUSED),
]


@pytest.mark.parametrize(("why", "reader", "lists", "expected"), TABLE, ids=lambda x: str(x)[:40])
def test_permissions(why: str, reader: Reader, lists: dict[str, str], expected: bool) -> None:
    assert allows(reader, rules(**lists)) is expected


def test_the_owner_has_control_and_reads_only_what_the_rules_say() -> None:
    locked = rules(doc="")
    assert locked.modes(ALICE, owner=ALICE.agent_id) == {Mode.CONTROL}
    assert not allows(ALICE, locked, owner=ALICE.agent_id)
    own = BOB_READS_DOC.replace("bob", "al")
    assert rules(doc=own).rights(owner=ALICE.agent_id) == Rights(owner=ALICE.agent_id)


def test_write_includes_append() -> None:
    found = rules(doc=BOB_READS_DOC.replace("Read", "Write")).modes(BOB)
    assert found == {Mode.WRITE, Mode.APPEND}


def test_members_of_a_listed_group_read_and_a_claim_to_be_one_does_not_help() -> None:
    ward = GroupId("https://a.example/groups#ward")
    found = rules(
        doc=BOB_READS_DOC.replace("agent <https://bob.example/#me>", f"agentGroup <{ward}>")
    )
    listed = {ward: frozenset({BOB.agent_id})}
    claims = Reader(EVE.agent_id, frozenset({ward}))
    assert Mode.READ in found.modes(BOB, members=listed)
    assert not found.modes(claims, members=listed)
    rights = found.rights(members=listed)
    assert rights.allow(BOB)
    assert not rights.allow(claims)
    hash(rights)  # an index numbers rights by value


def test_a_group_without_a_list_is_for_those_whose_identity_says_so() -> None:
    nurses = GroupId("nurses")
    acl = AccessRules((Authorization(frozenset({Mode.READ}), groups=frozenset({nurses})),))
    assert acl.rights() == Rights(groups=frozenset({nurses}))
    assert allows(Reader(BOB.agent_id, frozenset({nurses})), acl)
    assert not allows(BOB, acl)


def test_groups_are_read_from_turtle_and_a_damaged_document_has_none() -> None:
    text = (
        "@prefix v: <http://www.w3.org/2006/vcard/ns#>. <#w> v:hasMember <https://bob.example/#me>"
    )
    assert read_groups(text + ".", ROOT + "g") == {ROOT + "g#w": frozenset({BOB.agent_id})}
    with pytest.raises(DataError):
        read_groups(text + "..;", ROOT + "g")
    empty = "<#w> a <http://www.w3.org/2006/vcard/ns#Group>."
    assert read_groups(empty, ROOT + "g") == {ROOT + "g#w": frozenset()}


@pytest.mark.parametrize("name", ["a> , <x:eve", 'a:b"c', "a:b\\c", "a:{}", "x: y"])
def test_a_name_cannot_smuggle_statements_into_a_list(name: str) -> None:
    rule = Authorization(
        frozenset({Mode.READ}), agents=frozenset({AgentId(name)}), access_to=frozenset({DOC})
    )
    try:
        text = write_acl(AccessControlList((rule,)))
    except SettingsError:
        return
    assert read_acl(text, DOC + ".acl").own(DOC).rights().agents == {name}


NAMES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Zs", "Cc"]), min_size=1, max_size=8),
    st.sampled_from(
        ["https://bob.example/#me", "bob", "nhs:bob", "urn:cloister:agent:bob", "b%6fb"]
    ),
)
TARGETS = frozenset({DOC, ROOT, ROOT + "visits/", ROOT + "a%20b.txt"})
AUTHORIZATIONS = st.builds(
    Authorization,
    modes=st.frozensets(st.sampled_from(Mode)),
    agents=st.frozensets(NAMES, max_size=3),
    groups=st.frozensets(NAMES, max_size=2),
    public=st.booleans(),
    authenticated=st.booleans(),
    access_to=st.frozensets(st.sampled_from(sorted(TARGETS))),
    default=st.frozensets(st.sampled_from(sorted(TARGETS))),
)


@given(st.lists(AUTHORIZATIONS, max_size=4))
def test_what_is_written_is_read_back(authorizations: list[Authorization]) -> None:
    try:
        text = write_acl(AccessControlList(tuple(authorizations)))
    except SettingsError:  # a name that looks like an address and is none
        return
    assert read_acl(text, ROOT + ".acl") == AccessControlList(tuple(authorizations))


READERS = [ALICE, BOB, EVE, STRANGER]
SMALL = st.builds(
    Authorization,
    modes=st.frozensets(st.sampled_from(Mode)),
    agents=st.frozensets(st.sampled_from([ALICE.agent_id, BOB.agent_id])),
    public=st.booleans(),
    authenticated=st.booleans(),
    access_to=st.frozensets(st.sampled_from([DOC, ROOT])),
    default=st.frozensets(st.sampled_from([ROOT, ROOT + "visits/"])),
)
LISTS = st.dictionaries(st.sampled_from([DOC, ROOT + "visits/", ROOT]), st.lists(SMALL, max_size=3))


def literally_allowed(lists: dict[str, list[Authorization]], reader: Reader, mode: Mode) -> bool:
    """Apply the rules as the specification words them."""
    for address in (DOC, ROOT + "visits/", ROOT):
        if address in lists:
            for rule in lists[address]:
                target = rule.access_to if address == DOC else rule.default
                known = reader.agent_id != ""
                named = rule.public or (
                    known and (rule.authenticated or reader.agent_id in rule.agents)
                )
                if address in target and named and mode in rule.modes:
                    return True
            return False
    return False


@given(LISTS)
def test_the_rules_are_those_of_the_specification(lists: dict[str, list[Authorization]]) -> None:
    parsed = {address: AccessControlList(tuple(found)) for address, found in lists.items()}
    found = effective_rules(DOC, ROOT, parsed.get)
    for reader in READERS:
        assert allows(reader, found) is literally_allowed(lists, reader, Mode.READ)
        for mode in (Mode.WRITE, Mode.CONTROL):
            assert (mode in found.modes(reader)) is literally_allowed(lists, reader, mode)


@given(st.lists(SMALL, max_size=3), st.frozensets(st.sampled_from(["bob", "eve"])), st.booleans())
def test_new_readers_replace_the_old_and_other_modes_stay(
    given_rules: list[Authorization], agents: frozenset[AgentId], public: bool
) -> None:
    before = AccessRules(tuple(given_rules))
    rights = Rights(agents=agents, public=public)
    after = before.with_readers(rights)
    assert after.rights() == rights
    for reader in READERS:
        assert after.modes(reader) - {Mode.READ} == before.modes(reader) - {Mode.READ}
    assert before.with_readers(NOBODY).rights() == NOBODY


@given(st.lists(SMALL, max_size=3))
def test_granting_and_revoking_change_reading_by_name_and_nothing_else(
    given_rules: list[Authorization],
) -> None:
    before = AccessRules(tuple(given_rules))
    granted, revoked = before.granting([EVE.agent_id]), before.revoking([BOB.agent_id])
    assert not before.revoking(public=True).rights().public
    assert before.revoking(public=True).rights().agents == before.rights().agents
    assert before.granting(public=True).rights() == replace(before.rights(), public=True)
    assert granted.rights() == before.rights().grant(EVE.agent_id)
    assert revoked.rights() == before.rights().revoke(BOB.agent_id)
    assert granted.revoking([EVE.agent_id]).rights() == before.rights()
    for reader in READERS:
        for after in (granted, revoked, before.revoking(public=True)):
            assert after.modes(reader) - {Mode.READ} == before.modes(reader) - {Mode.READ}


def test_a_group_stays_a_group_when_somebody_is_granted_or_revoked() -> None:
    ward = GroupId("https://a.example/groups#ward")
    rule = Authorization(frozenset({Mode.READ}), groups=frozenset({ward}))
    for after in (
        AccessRules((rule,)).granting([EVE.agent_id]),
        AccessRules((rule,)).revoking([BOB.agent_id]),
    ):
        assert after.rights(members={ward: frozenset({BOB.agent_id})}).allow(BOB)
        assert not after.rights(members={ward: frozenset()}).allow(BOB)
        assert after.revoking(groups=[ward]).rights().groups == frozenset()
    assert AccessRules().granting(groups=[ward]) == AccessRules((rule,))


def test_granting_to_an_empty_name_gives_nothing() -> None:
    assert AccessRules().granting([AgentId("")]) == AccessRules()


def test_containers_end_at_the_root() -> None:
    assert containers_of(ROOT, ROOT) == []
    assert containers_of("https://b.example/x.txt", ROOT) == []
    assert containers_of(ROOT + "a/b/", ROOT) == [ROOT + "a/", ROOT]
