"""Who asks: everything but a right token with a right proof is refused, and in the same words."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey

from cloister.core.errors import AccessDenied, SettingsError
from cloister.core.ids import AgentId, GroupId, ServerId
from cloister.core.rights import Reader
from cloister.pods.overlay.proofs import (
    PROOF_TYPE,
    Credential,
    ProofSettings,
    ProofVerifier,
    new_holder_key,
)
from cloister.pods.overlay.spent_nonces import SpentNonces
from cloister.pods.overlay.tokens import TokenVerifier, TrustedIssuer
from pods.overlay.overlay_scene import ALICE, FEDERATION, ISSUER, NURSES, new_issuer, trusted

NOW_S = 1_800_000_000.0
HERE = ServerId("clinic-a")
REFUSED = "^not allowed, or no such resource; ask the owner for access$"


class Clock:
    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _key() -> OKPKey:
    return OKPKey.generate_key("Ed25519", auto_kid=False)


KEY, HOLDER = _key(), new_holder_key()


def _claims(**changes: Any) -> dict[str, Any]:
    claims = {
        "iss": ISSUER,
        "sub": ALICE,
        "aud": FEDERATION,
        "iat": NOW_S,
        "exp": NOW_S + 600,
        "cnf": {"jkt": HOLDER.thumbprint()},
        "groups": [NURSES],
    }
    claims |= changes
    return {name: value for name, value in claims.items() if value is not None}


def _token(key: Any = KEY, header: dict[str, Any] | None = None, **changes: Any) -> str:
    header = {"typ": "at+jwt"} | (header or {"alg": "Ed25519", "kid": "key-1"})
    return jwt.encode(header, _claims(**changes), key, algorithms=[header["alg"]])


def _issuer(**changes: Any) -> TrustedIssuer:
    public = {**KEY.as_dict(private=False), "kid": "key-1"}
    fields: dict[str, Any] = {
        "issuer": ISSUER,
        "keys": {"keys": [public]},
        "audience": FEDERATION,
        "agent_prefixes": (ISSUER,),
        "group_prefixes": (ISSUER,),
    }
    return TrustedIssuer(**(fields | changes))


def test_a_right_token_names_its_reader_and_groups(clock: Clock) -> None:
    verified = TokenVerifier([_issuer()], clock=clock).verify(_token())
    assert verified.reader == Reader(ALICE, frozenset({NURSES}))
    assert verified.thumbprint == HOLDER.thumbprint()


def _unsigned() -> str:
    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none', 'kid': 'key-1'})}.{part(_claims())}."


def _with_other_claims() -> str:
    mine, other = _token().split("."), _token(sub=f"{ISSUER}bob").split(".")
    return ".".join((mine[0], other[1], mine[2]))


def _shared_secret() -> str:
    """Sign with the public key as if it were a shared secret: a known confusion."""
    secret = OctKey.import_key(json.dumps(KEY.as_dict(private=False)))
    return _token(secret, {"alg": "HS256", "kid": "key-1"})


WRONG_TOKENS = {
    "empty": lambda: "",
    "no token": lambda: "a.b.c",
    "not ASCII": lambda: "é" + _token(),
    "too long": lambda: _token(extra="x" * 10_000),
    "unsigned": _unsigned,
    "other claims": _with_other_claims,
    "shared secret": _shared_secret,
    "another key": lambda: _token(_key()),
    "unknown key id": lambda: _token(header={"alg": "Ed25519", "kid": "key-2"}),
    "no key id": lambda: _token(header={"alg": "Ed25519"}),
    "unknown issuer": lambda: _token(iss="https://other.example/"),
    "no issuer": lambda: _token(iss=None),
    "wrong audience": lambda: _token(aud="other"),
    "no audience": lambda: _token(aud=None),
    "expired": lambda: _token(iat=NOW_S - 600, exp=NOW_S),
    "no expiry": lambda: _token(exp=None),
    "endless": lambda: _token(exp=NOW_S + 10**6),
    "expiry is text": lambda: _token(exp=str(NOW_S + 600)),
    "no time": lambda: _token(iat=None),
    "of the future": lambda: _token(iat=NOW_S + 60, exp=NOW_S + 120),
    "not yet": lambda: _token(nbf=NOW_S + 60),
    "no agent": lambda: _token(sub=None),
    "agent of another": lambda: _token(sub="https://other.example/alice"),
    "agent with a blank": lambda: _token(sub=f"{ISSUER}alice smith"),
    "not bound": lambda: _token(cnf=None),
    "bound to nothing": lambda: _token(cnf={"jkt": ""}),
    "groups are text": lambda: _token(groups="nurses"),
    "a group is a number": lambda: _token(groups=[1]),
    "an ID token": lambda: _token(header={"alg": "Ed25519", "kid": "key-1", "typ": "JWT"}),
    "many groups": lambda: _token(groups=[f"{ISSUER}{i}" for i in range(300)]),
}


@pytest.mark.parametrize("make", WRONG_TOKENS.values(), ids=WRONG_TOKENS)
def test_a_wrong_token_is_refused_without_a_reason(make: Any, clock: Clock) -> None:
    verifier = TokenVerifier([_issuer()], clock=clock)
    with pytest.raises(AccessDenied, match=REFUSED):
        verifier.verify(make())


def test_a_token_ends_also_where_it_was_accepted_before(clock: Clock) -> None:
    verifier = TokenVerifier([_issuer()], clock=clock)
    token = _token()
    verifier.verify(token)
    clock.now_s += 599
    verifier.verify(token)
    clock.now_s += 1
    with pytest.raises(AccessDenied, match=REFUSED):
        verifier.verify(token)


def test_an_issuer_speaks_for_its_own_agents_and_groups_only(clock: Clock) -> None:
    other = GroupId("https://other.example/nurses")
    verifier = TokenVerifier([_issuer()], clock=clock)
    assert verifier.verify(_token(groups=[other, NURSES])).reader.groups == {NURSES}
    silent = TokenVerifier([_issuer(group_prefixes=())], clock=clock)
    assert silent.verify(_token()).reader.groups == frozenset()


def test_a_prefix_that_other_names_begin_with_is_refused() -> None:
    with pytest.raises(SettingsError, match="a prefix ends in"):
        _issuer(agent_prefixes=("https://id.example",))


@pytest.mark.parametrize(
    "keys",
    [
        {"keys": []},
        {"keys": [KEY.as_dict(private=False)]},
        {"keys": [{**KEY.as_dict(private=True), "kid": "key-1"}]},
        {"keys": [{"kty": "oct", "k": "A" * 43, "kid": "key-1"}]},
        {"other": 1},
    ],
    ids=["none", "no kid", "private", "shared", "not a set"],
)
def test_a_key_set_that_cannot_be_trusted_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        TokenVerifier([_issuer(keys=keys)])


def test_a_token_in_the_manner_of_solid_is_accepted(clock: Clock) -> None:
    key, holder = ECKey.generate_key("P-256", auto_kid=False), ECKey.generate_key("P-256")
    webid = AgentId("https://pods.example/alice/profile/card#me")
    issuer = TrustedIssuer(
        issuer="https://pods.example/",
        keys={"keys": [{**key.as_dict(private=False), "kid": "k"}]},
        audience="solid",
        agent_prefixes=("https://pods.example/",),
        agent_claim="webid",
        algorithms=("ES256",),
    )
    token = _token(
        key, {"alg": "ES256", "kid": "k", "typ": "at+jwt"}, iss="https://pods.example/",
        webid=webid, aud=["solid", "client"], cnf={"jkt": holder.thumbprint()},
    )  # fmt: skip
    verifier = ProofVerifier(HERE, TokenVerifier([issuer], clock=clock), clock=clock)
    proof = Credential(token, holder).prove(HERE, b"what", clock=clock)
    assert verifier.verify(token, proof.text, b"what").token.reader.agent_id == webid


@settings(max_examples=200)
@given(st.data())
def test_a_token_or_proof_with_other_characters_is_refused_or_says_the_same(
    data: st.DataObject,
) -> None:
    clock = Clock()
    asker = Credential(_token(), HOLDER)
    proof = asker.prove(HERE, b"what", clock=clock)
    tokens = TokenVerifier([_issuer()], clock=clock)
    verifier = ProofVerifier(HERE, tokens, clock=clock)

    def altered(text: str) -> str:
        place = data.draw(st.integers(0, len(text) - 1))
        new = data.draw(st.text(max_size=3) | st.sampled_from("ABCDEFGHabcdefgh.=_-"))
        return text[:place] + new + text[place + 1 :]

    try:
        changed = altered(asker.token)
        assert tokens.verify(changed) == tokens.verify(asker.token)
        assert len(changed) <= len(asker.token) + 3
    except AccessDenied:
        pass
    try:
        assert verifier.verify(asker.token, altered(proof.text), b"what").nonce == proof.nonce
        with pytest.raises(AccessDenied):
            verifier.verify(asker.token, proof.text, b"what")
    except AccessDenied:
        pass


@pytest.fixture
def verifier(clock: Clock) -> ProofVerifier:
    return ProofVerifier(HERE, TokenVerifier([_issuer()], clock=clock), clock=clock)


def test_a_right_proof_is_accepted_once(verifier: ProofVerifier, clock: Clock) -> None:
    asker = Credential(_token(), HOLDER)
    proof = asker.prove(HERE, b"what", clock=clock)
    verified = verifier.verify(asker.token, proof.text, b"what")
    assert (verified.token.reader.agent_id, verified.nonce) == (ALICE, proof.nonce)
    with pytest.raises(AccessDenied, match=REFUSED):
        verifier.verify(asker.token, proof.text, b"what")


def _proof(clock: Clock, key: Any = HOLDER, header: Any = None, **changes: Any) -> str:
    mine = Credential(_token(), HOLDER).prove(HERE, b"what", clock=clock).text
    claims = dict(jwt.decode(mine, HOLDER, algorithms=["Ed25519"]).claims) | changes
    public = {n: v for n, v in key.as_dict(private=False).items() if n in ("kty", "crv", "x")}
    full = {"typ": PROOF_TYPE, "alg": "Ed25519", "jwk": public} | (header or {})
    full = {name: value for name, value in full.items() if value is not None}
    return jwt.encode(full, claims, key, algorithms=["Ed25519"])


WRONG_PROOFS = {
    "empty": lambda clock: "",
    "token for proof": lambda clock: _token(),
    "another holder": lambda clock: _proof(clock, new_holder_key()),
    "another's key named": lambda clock: _proof(
        clock, new_holder_key(), {"jwk": HOLDER.as_dict(private=False)}
    ),
    "key with private half": lambda clock: _proof(
        clock, header={"jwk": HOLDER.as_dict(private=True)}
    ),
    "another kind": lambda clock: _proof(clock, header={"typ": "dpop+jwt"}),
    "no key": lambda clock: _proof(clock, header={"jwk": None}),
    "another node": lambda clock: _proof(clock, htu="clinic-b"),
    "another token": lambda clock: _proof(clock, ath="x"),
    "another content": lambda clock: _proof(clock, content="x"),
    "old": lambda clock: _proof(clock, iat=NOW_S - 61),
    "of the future": lambda clock: _proof(clock, iat=NOW_S + 6),
    "no time": lambda clock: _proof(clock, iat=None),
    "time is true": lambda clock: _proof(clock, iat=True),
    "no nonce": lambda clock: _proof(clock, jti=None),
    "short nonce": lambda clock: _proof(clock, jti="1"),
}


@pytest.mark.parametrize("make", WRONG_PROOFS.values(), ids=WRONG_PROOFS)
def test_a_wrong_proof_is_refused_and_uses_no_nonce_up(make: Any, clock: Clock) -> None:
    clock.now_s -= 100
    tokens = TokenVerifier([_issuer()], clock=clock)
    verifier = ProofVerifier(HERE, tokens, clock=clock)
    clock.now_s += 100
    with pytest.raises(AccessDenied, match=REFUSED):
        verifier.verify(_token(), make(clock), b"what")
    assert len(verifier._spent) == 0
    verifier.verify(_token(), _proof(clock), b"what")  # all else was right


def test_altered_content_is_refused(verifier: ProofVerifier, clock: Clock) -> None:
    asker = Credential(_token(), HOLDER)
    proof = asker.prove(HERE, b"what", clock=clock)
    with pytest.raises(AccessDenied, match=REFUSED):
        verifier.verify(asker.token, proof.text, b"whut")


def test_a_stolen_token_is_worth_nothing_without_its_key(
    verifier: ProofVerifier, clock: Clock
) -> None:
    thief = Credential(_token(), new_holder_key())
    with pytest.raises(AccessDenied, match=REFUSED):
        verifier.verify(thief.token, thief.prove(HERE, b"what", clock=clock).text, b"what")


def test_what_was_signed_before_a_restart_is_refused(clock: Clock) -> None:
    asker = Credential(_token(), HOLDER)
    proof = asker.prove(HERE, b"what", clock=clock)
    clock.now_s += 1
    restarted = ProofVerifier(HERE, TokenVerifier([_issuer()], clock=clock), clock=clock)
    with pytest.raises(AccessDenied, match=REFUSED):
        restarted.verify(asker.token, proof.text, b"what")


@pytest.mark.parametrize("later_s", [0.0, 30.0, 60.0, 65.0, 65.001, 1_000.0])
def test_a_nonce_is_remembered_for_as_long_as_its_request_is_fresh(
    later_s: float, clock: Clock
) -> None:
    verifier = ProofVerifier(
        HERE,
        TokenVerifier([_issuer(max_lifetime_s=10**5)], clock=clock),
        settings=ProofSettings(max_age_s=60, clock_skew_s=5),
        clock=clock,
    )
    asker = Credential(_token(exp=NOW_S + 10**4), HOLDER)
    proof = asker.prove(HERE, b"what", clock=lambda: NOW_S + 5)  # as late as is allowed
    verifier.verify(asker.token, proof.text, b"what")
    clock.now_s += later_s
    with pytest.raises(AccessDenied, match=REFUSED):
        verifier.verify(asker.token, proof.text, b"what")


def test_one_holder_cannot_fill_the_memory_of_nonces() -> None:
    spent = SpentNonces(keep_s=60, max_nonces=5, max_per_holder=3)
    for i in range(3):
        spent.spend("mallory", str(i), NOW_S)
    with pytest.raises(AccessDenied):
        spent.spend("mallory", "3", NOW_S)
    spent.spend("alice", "0", NOW_S)
    spent.spend("mallory", "3", NOW_S + 61)  # the old ones are forgotten
    assert len(spent) == 1


def test_credentials_and_issuers_do_not_show_their_secrets() -> None:
    issuer = new_issuer()
    asker = Credential(_token(), HOLDER)
    secrets = (asker.token, HOLDER.as_dict(private=True)["d"])
    assert not any(str(secret) in f"{asker!r} {issuer!r}" for secret in secrets)
    assert "d" not in trusted(issuer).keys["keys"][0]  # type: ignore[index,operator]
