from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import AccessDenied
from cloister.core.ids import AgentId, GroupId
from cloister.core.rights import NOBODY, STRANGER, Reader, Rights

ALLOWED, REFUSED = True, False
NURSES = frozenset({GroupId("nurses")})
NOTES = Rights(owner=AgentId("alice"), agents=frozenset({AgentId("bob")}), groups=NURSES)
UNNAMED = Rights(owner=AgentId("alice"), groups=frozenset({GroupId("")}))
LEAFLET = Rights(owner=AgentId("alice"), public=True)
ROTA = Rights(owner=AgentId("alice"), authenticated=True)

TABLE = [
    ("alice", (), NOTES, ALLOWED),
    ("bob", (), NOTES, ALLOWED),
    ("carol", (), NOTES, REFUSED),
    ("carol", ("nurses",), NOTES, ALLOWED),
    ("carol", ("porters",), NOTES, REFUSED),
    ("", (), NOTES, REFUSED),
    ("", (), LEAFLET, ALLOWED),
    ("carol", (), LEAFLET, ALLOWED),
    ("carol", (), ROTA, ALLOWED),
    ("", (), ROTA, REFUSED),
    ("", ("nurses",), ROTA, REFUSED),
    ("alice", ("nurses",), NOBODY, REFUSED),
    ("", (), NOBODY, REFUSED),
    ("", ("nurses",), NOTES, REFUSED),  # a group without a verified name is no identity
    ("carol", ("",), UNNAMED, REFUSED),  # an empty group is no group
    ("carol", ("",), NOTES, REFUSED),
    ("carol", ("", "nurses"), NOTES, ALLOWED),
    ("carol", ("", "nurses"), UNNAMED, REFUSED),
    ("carol", ("",), UNNAMED.grant_group("nurses"), REFUSED),
    ("carol", ("", "nurses"), UNNAMED.grant_group("nurses"), ALLOWED),
    ("alice", ("",), UNNAMED, ALLOWED),
]


@pytest.mark.parametrize(("agent", "groups", "rights", "expected"), TABLE)
def test_permissions(agent: str, groups: tuple[str, ...], rights: Rights, expected: bool) -> None:
    reader = Reader(AgentId(agent), frozenset(map(GroupId, groups)))
    assert rights.allow(reader) is expected


def test_a_refusal_does_not_say_whether_the_resource_exists() -> None:
    with pytest.raises(AccessDenied) as secret:
        NOTES.require(STRANGER)
    with pytest.raises(AccessDenied) as absent:
        NOBODY.require(STRANGER)
    assert str(secret.value) == str(absent.value)


NAMES = st.sets(st.sampled_from(["alice", "bob", "carol", "dan"]))


@given(NAMES, NAMES)
def test_who_was_revoked_is_refused_and_the_others_keep_their_right(
    granted: set[str], revoked: set[str]
) -> None:
    rights = Rights(owner=AgentId("zoe")).grant(*granted).revoke(*revoked)
    for name in ("alice", "bob", "carol", "dan"):
        assert rights.allow(Reader(AgentId(name))) is (name in granted - revoked)
    assert rights.allow(Reader(AgentId("zoe")))


def test_a_revoked_group_is_refused() -> None:
    nurse = Reader(AgentId("nina"), NURSES)
    rights = Rights().grant_group("nurses")
    assert rights.allow(nurse)
    assert not rights.revoke_group("nurses").allow(nurse)


def test_granting_to_an_empty_name_gives_nothing_to_strangers() -> None:
    assert not Rights().grant("").allow(STRANGER)
    assert Rights().grant_group("", "nurses") == Rights(groups=NURSES)
