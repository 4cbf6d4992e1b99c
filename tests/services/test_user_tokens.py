"""Who a node's user is: everything but a right token is refused, and in the same words."""

from __future__ import annotations

import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from cloister.core.errors import AccessDenied, DataError, SettingsError
from cloister.core.ids import AgentId, GroupId, ServerId
from cloister.core.rights import Reader
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.roster import FederationRoster, Member
from cloister.pods.overlay.proofs import Credential, ProofVerifier, new_holder_key
from cloister.pods.overlay.token_issuer import TokenIssuer
from cloister.privacy.private_file import write_private_file
from cloister.rank.ranker import RankerSettings
from cloister.services.node_issuer import NodeIssuer, NodeIssuerSettings, peer_verifier
from cloister.services.openid import OpenIdSettings
from cloister.services.user_tokens import (
    RoleMembers,
    UserTokens,
    UserTokenSettings,
    node_issuer_name,
)
from cloister.web.callers import Caller, Role
from services.token_maker import NOW_S, Clock, Maker, ed25519, new_key, part, signed_by_hand

NODE = "clinic-a"
NAME = node_issuer_name("clinics", NODE)
ANN = AgentId("clinic-a:ann")
REFUSED = "^not allowed, or no such resource; ask the owner for access$"
KEY, OTHER_KEY = new_key("Ed25519"), new_key("Ed25519")
CLAIMS = {
    "iss": NAME,
    "sub": ANN,
    "aud": NAME,
    "iat": NOW_S,
    "exp": NOW_S + 600,
    "groups": ["clinic-a:nurses"],
}
MAKER = Maker(KEY, "Ed25519", CLAIMS)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def users(clock: Clock, **settings: Any) -> UserTokens:
    chosen = UserTokenSettings(**settings)
    keys = {"keys": [MAKER.public()]}
    return UserTokens("clinics", NODE, settings=chosen, own_keys=keys, clock=clock)


def test_a_right_token_names_its_user_with_groups(clock: Clock) -> None:
    by_hand = signed_by_hand(HEADER, CLAIMS, ed25519(KEY))
    assert users(clock).verify(by_hand).reader.agent_id == ANN
    user = users(clock).verify(MAKER.token())
    assert user == (Reader(ANN, frozenset({GroupId("clinic-a:nurses")})), Role.USER)
    caller = users(clock).identify(MAKER.token())
    assert caller == Caller(Role.USER, "clinic-a:ann", frozenset({"clinic-a:nurses"}))


def _altered_payload() -> str:
    header, _, signature = MAKER.token().split(".")
    return f"{header}.{part(CLAIMS | {'sub': 'clinic-a:boss'})}.{signature}"


HEADER = {"alg": "Ed25519", "kid": "1", "typ": "at+jwt"}


def _public_key_as_secret(form: str) -> str:
    secret = {
        "JSON": json.dumps(KEY.as_dict(private=False)).encode(),
        "PEM": KEY.as_pem(private=False),  # type: ignore[attr-defined]
        "bytes": KEY.public_key.public_bytes_raw(),  # type: ignore[attr-defined]
    }[form]
    return signed_by_hand(
        HEADER | {"alg": "HS256"}, CLAIMS, lambda text: hmac.digest(secret, text, "sha256")
    )


def _token_of_a_peer() -> str:
    issuer = TokenIssuer(NAME, "clinics", "1", key=KEY, clock=Clock())  # type: ignore[arg-type]
    return issuer.issue(ANN, new_holder_key())


WRONG = {
    "empty": lambda: "",
    "garbage": lambda: "garbage",
    "three parts of garbage": lambda: "a.b.c",
    "bytes of another kind": lambda: "\x00" * 100,
    "not ASCII": lambda: MAKER.token() + "é",
    "oversized": lambda: MAKER.token(padding="x" * 9_000),
    "expired": lambda: MAKER.token(iat=NOW_S - 700, exp=NOW_S - 100),
    "ends now": lambda: MAKER.token(iat=NOW_S - 600, exp=NOW_S),
    "not yet valid": lambda: MAKER.token(nbf=NOW_S + 60),
    "made in the future": lambda: MAKER.token(iat=NOW_S + 60, exp=NOW_S + 120),
    "too long a life": lambda: MAKER.token(exp=NOW_S + 3_601),
    "no end": lambda: MAKER.token(exp=None),
    "no beginning": lambda: MAKER.token(iat=None),
    "end is true": lambda: MAKER.token(exp=True),
    "end is not finite": lambda: MAKER.token(exp=float("inf")),
    "other audience": lambda: MAKER.token(aud=node_issuer_name("clinics", "clinic-b")),
    "audience of the federation": lambda: MAKER.token(aud="clinics"),
    "no audience": lambda: MAKER.token(aud=None),
    "other issuer": lambda: MAKER.token(iss=node_issuer_name("clinics", "clinic-b")),
    "other federation": lambda: MAKER.token(iss=node_issuer_name("firms", NODE)),
    "no issuer": lambda: MAKER.token(iss=None),
    "issuer is a list": lambda: MAKER.token(iss=[NAME]),
    "user of another node": lambda: MAKER.token(sub="clinic-b:ben"),
    "user whose node begins alike": lambda: MAKER.token(sub="clinic-aa:ann"),
    "user without a node": lambda: MAKER.token(sub="ann"),
    "no user": lambda: MAKER.token(sub=None),
    "user with a blank": lambda: MAKER.token(sub="clinic-a:ann b"),
    "alg none": lambda: f"{part({'alg': 'none', 'kid': '1'})}.{part(CLAIMS)}.",
    "alg None with a signature": lambda: (
        f"{part({'alg': 'None', 'kid': '1'})}.{part(CLAIMS)}.{MAKER.token().split('.')[2]}"
    ),
    "HS256 with the public key in JSON": lambda: _public_key_as_secret("JSON"),
    "HS256 with the public key in PEM": lambda: _public_key_as_secret("PEM"),
    "HS256 with the public key in bytes": lambda: _public_key_as_secret("bytes"),
    "EdDSA where Ed25519 is asked": lambda: MAKER.token({"alg": "EdDSA"}),
    "another key": lambda: MAKER.token(key=OTHER_KEY),
    "another key that the header brings": lambda: MAKER.token(
        {"jwk": OTHER_KEY.as_dict(private=False)}, OTHER_KEY
    ),
    "a key from the header's address": lambda: MAKER.token(
        {"jku": "https://evil.example/keys"}, OTHER_KEY
    ),
    "unknown key id": lambda: MAKER.token({"kid": "2"}),
    "key id of a path": lambda: MAKER.token({"kid": "../1"}),
    "no key id": lambda: MAKER.token({"kid": None}),
    "changed payload": _altered_payload,
    "no signature": lambda: MAKER.token().rpartition(".")[0] + ".",
    "a proof for a token": lambda: MAKER.token({"typ": "cloister-request+jwt"}),
    "a logout token": lambda: MAKER.token({"typ": "logout+jwt"}),
    "a peer's token": _token_of_a_peer,
    "bound, without a proof": lambda: MAKER.token(cnf={"jkt": new_holder_key().thumbprint()}),
    "bound in a way that cannot be checked": lambda: MAKER.token(cnf={"x5t#S256": "x" * 43}),
    "bound to nothing": lambda: MAKER.token(cnf={}),
    "bound to null": lambda: signed_by_hand(HEADER, CLAIMS | {"cnf": None}, ed25519(KEY)),
    "groups are text": lambda: MAKER.token(groups="clinic-a:nurses"),
    "too many groups": lambda: MAKER.token(groups=[f"clinic-a:{i}" for i in range(257)]),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_a_wrong_token_is_refused_without_a_reason(make: Any, clock: Clock) -> None:
    with pytest.raises(AccessDenied, match=REFUSED):
        users(clock).verify(make())


@pytest.mark.parametrize(
    ("ahead_s", "accepted"), [(-599.0, True), (0.0, True), (4.9, True), (5.1, False)]
)
def test_an_issuers_clock_may_be_ahead_by_so_much(
    ahead_s: float, accepted: bool, clock: Clock
) -> None:
    token = MAKER.token(iat=NOW_S + ahead_s, exp=NOW_S + ahead_s + 600)
    if accepted:
        assert users(clock).verify(token).reader.agent_id == ANN
    else:
        with pytest.raises(AccessDenied):
            users(clock).verify(token)


def test_a_token_ends_also_where_it_was_accepted_before(clock: Clock) -> None:
    verifier, token = users(clock), MAKER.token()
    verifier.verify(token)
    clock.now_s += 600
    with pytest.raises(AccessDenied, match=REFUSED):
        verifier.verify(token)


def test_groups_of_others_are_not_believed(clock: Clock) -> None:
    groups = ["clinic-b:nurses", "nurses", "", "clinic-a:with blank", "clinic-a:night"]
    user = users(clock).verify(MAKER.token(groups=groups))
    assert user.reader.groups == {"clinic-a:night"}


def test_a_node_that_would_let_nobody_in_does_not_start() -> None:
    with pytest.raises(SettingsError, match="no route takes proofs"):
        UserTokenSettings(bound=True)
    with pytest.raises(SettingsError, match="no route takes proofs"):
        _provider("a", bound=True)
    assert not UserTokenSettings(bound=False).bound


def test_where_the_built_in_issuer_is_not_believed_its_tokens_are_refused(clock: Clock) -> None:
    with pytest.raises(AccessDenied, match=REFUSED):
        users(clock, built_in=False).verify(MAKER.token())


def test_a_bound_token_needs_its_holders_proof_of_this_request(clock: Clock) -> None:
    verifier, holder = users(clock), new_holder_key()
    asker = Credential(MAKER.token(cnf={"jkt": holder.thumbprint()}), holder)
    thief = Credential(asker.token, new_holder_key())

    def prove(who: Credential, node: str = NODE, content: bytes = b"GET /v1/search") -> str:
        return who.prove(ServerId(node), content, clock=clock).text

    proof = prove(asker)
    user = verifier.verify(asker.token, proof=proof, content=b"GET /v1/search")
    assert user.reader.agent_id == ANN
    wrong = {
        "none": "",
        "again": proof,
        "a thief's": prove(thief),
        "for another node": prove(asker, "clinic-b"),
        "for another request": prove(asker, content=b"GET /v1/other"),
    }
    for text in wrong.values():
        with pytest.raises(AccessDenied, match=REFUSED):
            verifier.verify(asker.token, proof=text, content=b"GET /v1/search")
    with pytest.raises(AccessDenied, match=REFUSED):
        verifier.identify(asker.token)  # as a plain bearer token


def test_a_proof_does_not_go_with_a_token_that_is_not_bound(clock: Clock) -> None:
    asker = Credential(MAKER.token(), new_holder_key())
    proof = asker.prove(ServerId(NODE), b"", clock=clock)
    with pytest.raises(AccessDenied, match=REFUSED):
        users(clock).verify(asker.token, proof=proof.text)


OPERATORS = RoleMembers(groups=frozenset({"clinic-a:ops"}), agents=frozenset({"clinic-a:olga"}))
OFFICERS = RoleMembers(groups=frozenset({"clinic-a:privacy"}))


@pytest.mark.parametrize(
    ("agent", "groups", "role"),
    [
        ("clinic-a:ann", [], Role.USER),
        ("clinic-a:ann", ["clinic-a:ops"], Role.OPERATOR),
        ("clinic-a:olga", [], Role.OPERATOR),
        ("clinic-a:ann", ["clinic-a:privacy"], Role.OFFICER),
        ("clinic-a:ann", ["clinic-a:privacy", "clinic-a:ops"], Role.USER),  # both is neither
        ("clinic-a:olga", ["clinic-a:privacy"], Role.USER),
        ("clinic-a:ann", ["clinic-b:ops"], Role.USER),
        ("clinic-a:ops", [], Role.USER),  # a user of the group's name
        ("clinic-a:ann", ["clinic-a:olga"], Role.USER),  # a group of the user's name
    ],
)
def test_roles_are_for_whom_the_settings_name(
    agent: str, groups: list[str], role: Role, clock: Clock
) -> None:
    verifier = users(clock, operators=OPERATORS, officers=OFFICERS)
    assert verifier.verify(MAKER.token(sub=agent, groups=groups)).role == role
    plain = users(clock).verify(MAKER.token(sub=agent, groups=groups, role="operator"))
    assert plain.role == Role.USER


def _provider(name: str, **fields: Any) -> OpenIdSettings:
    return OpenIdSettings(issuer=f"https://{name}.example/", audience="node", **fields)


def test_providers_that_could_name_each_others_users_are_refused() -> None:
    with pytest.raises(SettingsError, match="apart"):
        UserTokenSettings(providers=(_provider("a"), _provider("b", agent_prefix="b/")))
    with pytest.raises(SettingsError, match="apart"):
        UserTokenSettings(
            providers=(_provider("a", agent_prefix="a/"), _provider("b", agent_prefix="b/"))
        )  # of groups nothing keeps them apart
    apart = [_provider(one, agent_prefix=f"{one}/", group_prefix=f"{one}/") for one in ("a", "b")]
    assert len(UserTokenSettings(providers=tuple(apart)).providers) == 2
    with pytest.raises(SettingsError, match="twice"):
        UserTokenSettings(
            providers=(
                apart[0],
                apart[0].model_copy(update={"agent_prefix": "c/", "group_prefix": "c/"}),
            )
        )


# A node that speaks for its users to other nodes.


@pytest.fixture
def key_files(tmp_path: Path) -> dict[str, Path]:
    paths = {name: tmp_path / f"{name}.key" for name in ("clinic-a", "clinic-b")}
    for name, path in paths.items():
        TokenIssuer("any", "any", f"{name}-1").save_key(path)
    return paths


def _roster(issuers: dict[str, NodeIssuer]) -> FederationRoster:
    members = [
        Member(name=name, signing_key="00" * 32, token_keys=issuer.public_keys())
        for name, issuer in issuers.items()
    ]
    silent = Member(name="clinic-c", signing_key="00" * 32)
    agreement = FederationAgreement(name="pilot", ranker=RankerSettings(n_features=4))
    return FederationRoster(name="clinics", agreement=agreement, members=(*members, silent))


def _issuers(key_files: dict[str, Path], clock: Clock) -> dict[str, NodeIssuer]:
    return {
        name: NodeIssuer("clinics", name, path, clock=clock) for name, path in key_files.items()
    }


ANN_THE_NURSE = Reader(ANN, frozenset({GroupId("clinic-a:nurses")}))


def test_a_peer_believes_a_node_about_its_own_users(
    key_files: dict[str, Path], clock: Clock
) -> None:
    issuers = _issuers(key_files, clock)
    tokens = peer_verifier(_roster(issuers), clock=clock)
    peer = ProofVerifier(ServerId("clinic-b"), tokens, clock=clock)
    asker = issuers["clinic-a"].credential(ANN_THE_NURSE)
    proof = asker.prove(ServerId("clinic-b"), b"what", clock=clock)
    assert peer.verify(asker.token, proof.text, b"what").token.reader == ANN_THE_NURSE
    with pytest.raises(AccessDenied, match=REFUSED):
        peer.verify(asker.token, proof.text, b"what")  # again


def test_a_node_cannot_speak_for_another_nodes_users(
    key_files: dict[str, Path], clock: Clock
) -> None:
    issuers = _issuers(key_files, clock)
    with pytest.raises(AccessDenied, match="own users"):
        issuers["clinic-b"].credential(ANN_THE_NURSE)
    with pytest.raises(AccessDenied, match="own users"):
        issuers["clinic-b"].credential(Reader(AgentId("clinic-b:ben"), ANN_THE_NURSE.groups))
    tokens, holder = peer_verifier(_roster(issuers), clock=clock), new_holder_key()
    for name in (node_issuer_name("clinics", "clinic-b"), NAME):  # by its own name, by another's
        malicious = TokenIssuer.load(key_files["clinic-b"], name, "clinics", clock=clock)
        with pytest.raises(AccessDenied, match=REFUSED):
            tokens.verify(malicious.issue(ANN, holder))
    own = TokenIssuer.load(
        key_files["clinic-b"], node_issuer_name("clinics", "clinic-b"), "clinics", clock=clock
    )
    claimed = own.issue(AgentId("clinic-b:ben"), holder, groups=ANN_THE_NURSE.groups)
    assert tokens.verify(claimed).reader.groups == frozenset()
    with pytest.raises(AccessDenied, match=REFUSED):
        tokens.verify(own.issue_unbound(AgentId("clinic-b:ben")))


def test_a_users_token_is_worth_nothing_at_another_node(
    key_files: dict[str, Path], clock: Clock
) -> None:
    issuers = _issuers(key_files, clock)
    tokens = peer_verifier(_roster(issuers), clock=clock)
    for_users = TokenIssuer.load(key_files["clinic-a"], NAME, NAME, clock=clock)
    for token in (for_users.issue_unbound(ANN), for_users.issue(ANN, new_holder_key())):
        with pytest.raises(AccessDenied, match=REFUSED):
            tokens.verify(token)


def test_a_node_without_keys_is_believed_in_nothing(
    key_files: dict[str, Path], clock: Clock
) -> None:
    tokens = peer_verifier(_roster(_issuers(key_files, clock)), clock=clock)
    silent = TokenIssuer(node_issuer_name("clinics", "clinic-c"), "clinics", "1", clock=clock)
    with pytest.raises(AccessDenied, match=REFUSED):
        tokens.verify(silent.issue(AgentId("clinic-c:cleo"), new_holder_key()))


def test_a_credential_is_kept_until_shortly_before_its_end(
    key_files: dict[str, Path], clock: Clock
) -> None:
    settings = NodeIssuerSettings(lifetime_s=300, renew_before_s=60)
    issuer = NodeIssuer("clinics", NODE, key_files[NODE], settings=settings, clock=clock)
    first = issuer.credential(ANN_THE_NURSE)
    assert issuer.credential(Reader(ANN)) is not first  # other groups, another token
    clock.now_s += 239.9
    assert issuer.credential(ANN_THE_NURSE) is first
    clock.now_s += 0.2
    second = issuer.credential(ANN_THE_NURSE)
    assert second.token != first.token
    roster = _roster({NODE: issuer})
    peer_verifier(roster, clock=clock).verify(first.token)  # it holds while a request is under way


def test_credentials_do_not_fill_the_memory(key_files: dict[str, Path], clock: Clock) -> None:
    issuer = NodeIssuer("clinics", NODE, key_files[NODE], clock=clock)
    for i in range(4_100):
        issuer.credential(Reader(AgentId(f"clinic-a:{i}")))
    assert len(issuer._kept) == 4_096


def test_a_key_file_is_for_its_owner_and_holds_the_same_key(
    tmp_path: Path, key_files: dict[str, Path]
) -> None:
    path = key_files[NODE]
    assert path.stat().st_mode & 0o777 == 0o600
    twice = [TokenIssuer.load(path, "i", "a").public_keys() for _ in range(2)]
    assert twice[0] == twice[1]
    assert "d" not in twice[0]["keys"][0]
    path.chmod(0o644)
    with pytest.raises(AccessDenied, match="others may read"):
        TokenIssuer.load(path, "i", "a")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", json.dumps(MAKER.public()).encode(),
     json.dumps({**new_key("ES256").as_dict(private=True), "kid": "1"}).encode(),
     json.dumps(KEY.as_dict(private=True)).encode()],
    ids=["empty", "a list", "no key", "public", "another curve", "no name"],
)  # fmt: skip
def test_what_is_no_key_file_is_refused(content: bytes, tmp_path: Path) -> None:
    write_private_file(tmp_path / "key", content)
    with pytest.raises((DataError, SettingsError)):
        TokenIssuer.load(tmp_path / "key", "i", "a")
