"""Users by OpenID Connect: keys that are found, rotated, withdrawn and forged, over real TLS."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi import Response
from joserfc.jwk import ECKey

from cloister.core.errors import AccessDenied, CloisterError, SettingsError
from cloister.core.ids import AgentId
from cloister.core.rights import Reader
from cloister.pods.overlay.token_issuer import TokenIssuer
from cloister.privacy.certificates.authority import Authority
from cloister.services.openid import MAX_WAITING, OpenIdSettings, fetch_keys
from cloister.services.user_tokens import UserTokens, UserTokenSettings, node_issuer_name
from cloister.web.admission import MAX_THREADS, Identification
from cloister.web.refusals import NotIdentified
from services.openid_provider import Provider, certified, running
from services.token_maker import NOW_S, Clock, Maker, new_key

NODE = "clinic-a"
AUDIENCE = "cloister-at-clinic-a"
REFUSED = "^not allowed, or no such resource; ask the owner for access$"
ALGORITHMS = ("Ed25519", "EdDSA", "ES256", "PS256", "RS256")
KEYS = {name: new_key(name) for name in ALGORITHMS}


class Scene(NamedTuple):
    """A provider, and a node that believes it."""

    provider: Provider
    users: UserTokens
    maker: Maker
    clock: Clock  # of tokens
    key_clock: Clock  # of keys

    def agent(self, token: str) -> str:
        return self.users.verify(token).reader.agent_id

    def refuses(self, token: str) -> bool:
        try:
            self.users.verify(token)
        except AccessDenied as error:
            return re.match(REFUSED, str(error)) is not None
        return False


def eventually(holds: Callable[[], bool]) -> bool:
    """Say whether something comes true within a few seconds: keys are fetched in the background."""
    until = time.monotonic() + 10
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Provider, Authority]]:
    authority, files = certified(tmp_path_factory.mktemp("provider"))
    with running(Provider(), files) as provider:
        yield provider, authority


@pytest.fixture
def provider(served: tuple[Provider, Authority]) -> Provider:
    found = served[0]
    found.keys, found.discovery, found.answer = [], {}, None
    found.wait_s, found.n_visits = 0.0, 0
    return found


@pytest.fixture
def settings(provider: Provider, served: tuple[Provider, Authority]) -> OpenIdSettings:
    return OpenIdSettings(
        issuer=provider.address,
        audience=AUDIENCE,
        ca_file=served[1].certificate_path,
        timeout_s=2.0,
    )


def _maker(provider: Provider, algorithm: str = "RS256", key_id: str = "1") -> Maker:
    claims = {
        "iss": provider.address,
        "sub": "ann",
        "aud": AUDIENCE,
        "iat": NOW_S,
        "exp": NOW_S + 600,
        "groups": ["nurses"],
    }
    return Maker(KEYS[algorithm], algorithm, claims, key_id)


def _scene(provider: Provider, settings: OpenIdSettings, algorithm: str = "RS256") -> Scene:
    clock, key_clock = Clock(), Clock()
    users = UserTokens(
        "clinics",
        NODE,
        settings=UserTokenSettings(providers=(settings,)),
        clock=clock,
        key_clock=key_clock,
    )
    maker = _maker(provider, algorithm)
    provider.keys = [maker.public()]
    return Scene(provider, users, maker, clock, key_clock)


@pytest.fixture
def scene(provider: Provider, settings: OpenIdSettings) -> Scene:
    return _scene(provider, settings)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("with_alg", [True, False])
def test_a_providers_user_becomes_one_of_the_nodes(
    algorithm: str, with_alg: bool, provider: Provider, settings: OpenIdSettings
) -> None:
    scene = _scene(provider, settings, algorithm)
    provider.keys = [scene.maker.public(alg=algorithm if with_alg else None)]
    user = scene.users.verify(scene.maker.token())
    assert user.reader == Reader("clinic-a:ann", frozenset({"clinic-a:nurses"}))  # type: ignore[arg-type]
    assert provider.n_visits == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_that_the_settings_do_not_name_is_refused(
    algorithm: str, provider: Provider, settings: OpenIdSettings
) -> None:
    others = tuple(name for name in ALGORITHMS if name != algorithm)
    scene = _scene(provider, settings.model_copy(update={"algorithms": others}), algorithm)
    assert scene.refuses(scene.maker.token())


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "another-client"},
        {"aud": ["a", "b"]},
        {"aud": None},
        {"iss": "https://localhost:1"},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "ann b"},
        {"iat": NOW_S - 700, "exp": NOW_S - 100},
        {"exp": None},
        {"iat": None},
        {"iat": NOW_S + 31, "exp": NOW_S + 600},
        {"nbf": NOW_S + 31},
        {"exp": NOW_S + 5_401},
        {"cnf": {"jkt": "x" * 43}},
        {"groups": "nurses"},
    ],
    ids=str,
)
def test_a_token_with_a_wrong_claim_is_refused(changes: dict[str, Any], scene: Scene) -> None:
    assert scene.agent(scene.maker.token()) == "clinic-a:ann"
    assert scene.refuses(scene.maker.token(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["another", AUDIENCE]},
        {"iat": NOW_S + 29, "exp": NOW_S + 600},
        {"nbf": NOW_S + 29},
        {"groups": None},
        {"groups": ["Domain Users"]},
        {"extra": {"deep": [1, 2]}},
    ],
    ids=str,
)
def test_a_token_within_the_bounds_is_accepted(changes: dict[str, Any], scene: Scene) -> None:
    assert scene.agent(scene.maker.token(**changes)) == "clinic-a:ann"


ID_TOKENS = {
    "the usual kind": {},
    "with a nonce": {"nonce": "n"},
    "of Keycloak": {"typ": "ID", "azp": AUDIENCE},
    "of Cognito": {"token_use": "id"},
    "with a scope and a hash": {"scope": "openid", "at_hash": "h"},
    "with a scope and a code's hash": {"scope": "openid", "c_hash": "h"},
    "with a scope and a nonce": {"scope": "openid", "nonce": "n"},
    "with a scope, of Keycloak": {"scope": "openid", "typ": "ID"},
    "with a scope, of Cognito": {"scope": "openid", "token_use": "id"},
    "a refresh token of Keycloak": {"scope": "openid", "typ": "Refresh"},
    "a logout token": {"scope": "openid", "events": {"logout": {}}},
}


@pytest.mark.parametrize("typ", ["JWT", None, "jwt", "application/jwt"])
@pytest.mark.parametrize("claims", ID_TOKENS.values(), ids=ID_TOKENS)
@pytest.mark.parametrize("untyped", [False, True])
def test_an_id_token_is_no_access_token_though_it_is_for_the_same_client(
    untyped: bool,
    claims: dict[str, Any],
    typ: str | None,
    provider: Provider,
    settings: OpenIdSettings,
) -> None:
    scene = _scene(provider, settings.model_copy(update={"untyped_access_tokens": untyped}))
    assert scene.refuses(scene.maker.token({"typ": typ}, **claims))


ACCESS_TOKENS = {
    "Keycloak": {"typ": "Bearer", "scope": "openid profile", "azp": AUDIENCE, "auth_time": 1},
    "Cognito": {"token_use": "access", "scope": "openid"},
    "Okta": {"scp": ["openid"]},
    "Entra": {"scp": "user_impersonation"},
}


@pytest.mark.parametrize("claims", ACCESS_TOKENS.values(), ids=ACCESS_TOKENS)
def test_an_access_token_without_a_type_is_taken_where_the_settings_say_so(
    claims: dict[str, Any], provider: Provider, settings: OpenIdSettings
) -> None:
    strict = _scene(provider, settings)
    assert strict.refuses(strict.maker.token({"typ": "JWT"}, **claims))
    scene = _scene(provider, settings.model_copy(update={"untyped_access_tokens": True}))
    assert scene.agent(scene.maker.token({"typ": "JWT"}, **claims)) == "clinic-a:ann"
    assert scene.agent(scene.maker.token(nonce="allowed")) == "clinic-a:ann"  # at+jwt says it all
    for kind in ("logout+jwt", "dpop+jwt", "secevent+jwt"):
        assert scene.refuses(scene.maker.token({"typ": kind}, **claims))


def test_an_expired_token_is_refused_where_it_was_accepted_before(scene: Scene) -> None:
    token = scene.maker.token()
    assert scene.agent(token) == "clinic-a:ann"
    scene.clock.now_s += 600
    assert scene.refuses(token)


def test_nobody_becomes_the_user_of_another_node(scene: Scene) -> None:
    assert scene.agent(scene.maker.token(sub="clinic-b:ben")) == "clinic-a:clinic-b:ben"
    user = scene.users.verify(scene.maker.token(groups=["clinic-b:nurses"]))
    assert user.reader.groups == {"clinic-a:clinic-b:nurses"}


def test_claims_and_prefixes_are_as_the_settings_say(
    provider: Provider, settings: OpenIdSettings
) -> None:
    changed = settings.model_copy(
        update={"agent_claim": "oid", "agent_prefix": "staff/", "groups_claim": "roles",
                "group_prefix": "role/"}
    )  # fmt: skip
    scene = _scene(provider, changed)
    user = scene.users.verify(scene.maker.token(oid="17", roles=["nurse"]))
    assert user.reader == Reader("clinic-a:staff/17", frozenset({"clinic-a:role/nurse"}))  # type: ignore[arg-type]
    silent = _scene(provider, settings.model_copy(update={"groups_claim": ""}))
    assert silent.users.verify(silent.maker.token()).reader.groups == frozenset()


def test_a_new_key_is_found_when_a_token_names_it_once_a_minute(scene: Scene) -> None:
    assert scene.agent(scene.maker.token()) == "clinic-a:ann"
    new = Maker(new_key("ES256"), "ES256", scene.maker.claims, "2")
    assert scene.refuses(new.token())  # not published, and too soon to ask again
    scene.provider.keys.append(new.public())
    assert scene.refuses(new.token())
    assert scene.provider.n_visits == 1
    scene.key_clock.now_s += 60
    assert scene.agent(new.token()) == "clinic-a:ann"
    for i in range(20):
        assert scene.refuses(scene.maker.token({"kid": f"guess-{i}"}))
    assert scene.provider.n_visits == 2
    assert scene.agent(scene.maker.token()) == "clinic-a:ann"  # the old key is there, too


def test_a_withdrawn_key_is_believed_no_longer_than_until_the_next_refresh(scene: Scene) -> None:
    token = scene.maker.token()
    assert scene.agent(token) == "clinic-a:ann"
    new = Maker(KEYS["ES256"], "ES256", scene.maker.claims, "2")
    scene.provider.keys = [new.public()]
    scene.key_clock.now_s += 3_600
    assert scene.agent(token) == "clinic-a:ann"
    scene.key_clock.now_s += 1
    assert eventually(lambda: scene.refuses(token))  # though its signature was right a moment ago
    assert scene.agent(new.token()) == "clinic-a:ann"


def test_another_key_under_the_same_name_is_taken_at_the_next_refresh(scene: Scene) -> None:
    assert scene.agent(scene.maker.token()) == "clinic-a:ann"
    forged = scene.maker.token(key=new_key("RS256"))
    assert scene.refuses(forged)
    changed = Maker(new_key("RS256"), "RS256", scene.maker.claims)
    scene.provider.keys = [changed.public()]
    scene.key_clock.now_s += 3_601
    assert eventually(lambda: scene.refuses(scene.maker.token()))
    assert scene.agent(changed.token()) == "clinic-a:ann"
    assert scene.refuses(forged)


def test_a_key_of_one_kind_does_not_verify_the_algorithm_of_another(
    scene: Scene,
) -> None:
    curve = Maker(KEYS["ES256"], "ES256", scene.maker.claims, "2")
    scene.provider.keys.append(curve.public())
    assert scene.agent(curve.token()) == "clinic-a:ann"
    assert scene.refuses(curve.token({"kid": "1"}))
    assert scene.refuses(scene.maker.token({"kid": "2"}))
    scene.provider.keys = [scene.maker.public(alg="RS256")]
    scene.key_clock.now_s += 3_601
    assert scene.agent(scene.maker.token()) == "clinic-a:ann"
    other = scene.maker.token({"alg": "PS256"})
    assert eventually(lambda: scene.refuses(other))  # the key is for RS256 alone


def _small_rsa() -> dict[str, Any]:
    whole = _maker(Provider()).public()
    return {**whole, "kid": "small", "n": whole["n"][:171]}


@pytest.mark.parametrize(
    "strange",
    [
        {"kty": "oct", "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "kid": "s"},
        {**KEYS["ES256"].as_dict(private=True), "kid": "private"},
        {**ECKey.generate_key("P-256").as_dict(private=False), "kid": None},
        {**KEYS["ES256"].as_dict(private=False), "kid": "sealing", "use": "enc"},
        {"kty": "AKP", "kid": "of tomorrow", "alg": "ML-DSA-44", "pub": "AAAA"},
        {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA", "kid": "not on the curve"},
        _small_rsa(),
        7,
        None,
    ],
    ids=lambda one: str(one.get("kid", one.get("kty"))) if isinstance(one, dict) else str(one),
)
def test_keys_that_cannot_sign_are_passed_over(strange: Any, scene: Scene) -> None:
    scene.provider.keys.append(strange)
    assert scene.agent(scene.maker.token()) == "clinic-a:ann"
    if isinstance(strange, dict) and strange.get("kty") == "EC" and "x" in strange:
        again = Maker(KEYS["ES256"], "ES256", scene.maker.claims, str(strange.get("kid")))
        assert scene.refuses(again.token())


WRONG_PROVIDERS: dict[str, dict[str, Any]] = {
    "another issuer": {"discovery": {"issuer": "https://other.example"}},
    "issuer with a slash": {"discovery": {"issuer": "https://localhost/"}},
    "no address of keys": {"discovery": {"jwks_uri": None}},
    "keys in the clear": {"discovery": {"jwks_uri": "http://keys.example/keys"}},
    "keys in a file": {"discovery": {"jwks_uri": "file:///etc/passwd"}},
    "keys nowhere": {"discovery": {"jwks_uri": "https://localhost:1/keys"}},
    "two keys of one name": {"keys": "twice"},
    "too many keys": {"keys": "many"},
    "no keys": {"keys": "none"},
    "not JSON": {"answer": Response("<html>")},
    "a list": {"answer": Response("[]")},
    "a redirect": {"answer": Response(status_code=302, headers={"location": "/keys"})},
    "an error": {"answer": Response("{}", status_code=500)},
    "too long": {"answer": Response("{" + " " * 300_000 + "}")},
    "deep": {"answer": Response('{"a":' * 100_000)},
    "too slow": {"wait_s": 3.0},
}


@pytest.mark.parametrize("wrong", WRONG_PROVIDERS.values(), ids=WRONG_PROVIDERS)
def test_a_provider_that_says_something_else_is_not_believed(
    wrong: dict[str, Any], scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    usual = scene.provider.keys
    kinds: dict[str, list[Any]] = {"twice": usual * 2, "many": usual * 65, "none": []}
    for name, value in wrong.items():
        setattr(scene.provider, name, kinds[value] if name == "keys" else value)
    with caplog.at_level(logging.WARNING):
        assert scene.refuses(scene.maker.token())
    assert [record.name for record in caplog.records] == ["cloister.services.openid"]
    assert scene.maker.token() not in caplog.text


def test_a_provider_with_a_certificate_of_somebody_else_is_not_believed(
    provider: Provider, settings: OpenIdSettings, tmp_path: Path
) -> None:
    other = Authority.create(tmp_path / "other", "provider")
    for ca_file in (other.certificate_path, None):
        scene = _scene(provider, settings.model_copy(update={"ca_file": ca_file}))
        assert scene.refuses(scene.maker.token())
    assert provider.n_visits == 0
    with pytest.raises(SettingsError, match="cannot be read"):
        fetch_keys(settings.model_copy(update={"ca_file": tmp_path / "nowhere"}))


def test_while_a_provider_is_silent_its_keys_hold_for_a_day(scene: Scene) -> None:
    assert scene.agent(scene.maker.token()) == "clinic-a:ann"
    scene.provider.answer = Response("", status_code=503)
    scene.key_clock.now_s += 3_601
    assert scene.agent(scene.maker.token()) == "clinic-a:ann"
    scene.key_clock.now_s += 82_000
    assert scene.agent(scene.maker.token()) == "clinic-a:ann"
    scene.key_clock.now_s += 1_000
    assert scene.refuses(scene.maker.token())
    scene.provider.answer = None
    scene.key_clock.now_s += 60
    assert scene.agent(scene.maker.token()) == "clinic-a:ann"


def test_whoever_has_a_known_key_does_not_wait_for_a_slow_provider(scene: Scene) -> None:
    token = scene.maker.token()
    scene.agent(token)
    scene.key_clock.now_s += 61
    scene.provider.wait_s = 1.0
    slow = threading.Thread(target=scene.refuses, args=(scene.maker.token({"kid": "new"}),))
    slow.start()
    while scene.provider.n_visits < 2 and slow.is_alive():
        time.sleep(0.01)
    assert scene.agent(token) == "clinic-a:ann"
    scene.key_clock.now_s += 3_600  # even where the keys are due
    assert scene.agent(token) == "clinic-a:ann"
    assert slow.is_alive()
    slow.join()


def test_many_at_once_bring_one_visit(scene: Scene) -> None:
    token, seen = scene.maker.token(), []
    threads = [
        threading.Thread(target=lambda: seen.append(scene.agent(token))) for _ in range(MAX_WAITING)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["clinic-a:ann"] * MAX_WAITING
    assert scene.provider.n_visits == 1


def test_nobody_waits_for_a_silent_provider_but_a_few_whose_keys_are_unknown(
    provider: Provider, settings: OpenIdSettings
) -> None:
    name = node_issuer_name("clinics", NODE)
    own = TokenIssuer(name, name, "own")
    users = UserTokens(
        "clinics",
        NODE,
        settings=UserTokenSettings(providers=(settings,)),
        own_keys=own.public_keys(),
    )
    provider.wait_s = 1.5
    guess = Identification("clinics", users.identify)
    ann = own.issue_unbound(AgentId(f"{NODE}:ann"))

    async def took_s(token: str) -> tuple[str, float]:
        began = time.monotonic()
        try:
            found = (await guess.by_token([(b"authorization", b"Bearer " + token.encode())])).name
        except NotIdentified:
            found = "nobody"
        return found, time.monotonic() - began

    async def scene() -> tuple[list[tuple[str, float]], tuple[str, float]]:
        stranger = _maker(provider).token({"kid": "invented"})
        strangers = [asyncio.create_task(took_s(stranger)) for _ in range(MAX_THREADS + 4)]
        await asyncio.sleep(0.3)
        found = await took_s(ann)
        return list(await asyncio.gather(*strangers)), found

    strangers, (who, seconds) = asyncio.run(scene())
    assert (who, seconds < 0.5) == ("clinic-a:ann", True)
    assert {found for found, _ in strangers} == {"nobody"}
    assert sum(seconds > 0.8 for _, seconds in strangers) == MAX_WAITING


def test_with_a_known_key_nobody_waits_though_the_keys_are_due(scene: Scene) -> None:
    token = scene.maker.token()
    scene.agent(token)
    scene.key_clock.now_s += 3_601
    scene.provider.wait_s = 1.0
    began = time.monotonic()
    assert scene.agent(token) == "clinic-a:ann"
    assert time.monotonic() - began < 0.5
    assert eventually(lambda: scene.provider.n_visits == 2)


def test_a_token_of_nobody_known_brings_no_visit(scene: Scene) -> None:
    assert scene.refuses(scene.maker.token(iss="https://other.example"))
    assert scene.refuses("garbage")
    assert scene.refuses(scene.maker.token(padding="x" * 9_000))
    assert scene.provider.n_visits == 0


@pytest.mark.parametrize(
    "issuer",
    ["http://id.example", "ftp://id.example", "id.example", "https://", "https://a@id.example",
     "https://id.example/?a", "https://id.example/#a", "https://[", ""],
)  # fmt: skip
def test_an_issuer_whose_keys_others_could_give_is_refused(issuer: str) -> None:
    with pytest.raises(SettingsError):
        OpenIdSettings(issuer=issuer, audience="a")


@pytest.mark.parametrize("algorithm", ["none", "HS256", "HS512", "RS1", ""])
def test_an_algorithm_that_protects_nothing_cannot_be_set(algorithm: str) -> None:
    with pytest.raises(SettingsError):
        OpenIdSettings(issuer="https://id.example", audience="a", algorithms=(algorithm,))


def test_a_provider_that_is_not_there_is_told_as_one_of_our_errors(
    settings: OpenIdSettings,
) -> None:
    with pytest.raises(CloisterError, match="no answer"):
        fetch_keys(settings.model_copy(update={"issuer": "https://localhost:1"}))
