"""A real OpenID provider: users of a node who log in at a Solid server."""

from __future__ import annotations

import base64

import httpx
import pytest

from cloister.core.errors import AccessDenied, SettingsError
from cloister.pods.solid_client import SolidCredentials
from cloister.services.openid import OpenIdSettings
from cloister.services.user_tokens import UserTokens, UserTokenSettings
from pods.solid_people import People


def _bearer_token(credentials: SolidCredentials) -> str:
    issuer = credentials.issuer.rstrip("/")
    endpoint = httpx.get(f"{issuer}/.well-known/openid-configuration").json()["token_endpoint"]
    fields = {"grant_type": "client_credentials", "scope": "webid"}
    key = (credentials.client_id, credentials.client_secret)
    return str(httpx.post(endpoint, data=fields, auth=key, timeout=30).json()["access_token"])


def _users(issuer: str, **changes: object) -> UserTokens:
    fields = {"issuer": issuer, "audience": "solid", "agent_claim": "webid", "groups_claim": ""}
    provider = OpenIdSettings(**(fields | changes))
    return UserTokens("clinics", "clinic-a", settings=UserTokenSettings(providers=(provider,)))


def test_who_logs_in_at_a_solid_server_is_a_user_of_the_node(people: People) -> None:
    credentials = people.alice.client.credentials
    assert credentials is not None
    token = _bearer_token(credentials)
    users = _users(credentials.issuer)
    assert users.verify(token).reader.agent_id == f"clinic-a:{people.alice.web_id}"
    assert (
        _users(credentials.issuer, agent_claim="sub")
        .verify(token)
        .reader.agent_id.startswith("clinic-a:cloister_")
    )
    header, payload, signature = token.split(".")
    content = base64.urlsafe_b64decode(payload + "==").replace(b"alice", b"carol")
    altered = base64.urlsafe_b64encode(content).rstrip(b"=").decode()
    wrong = {
        "another's": (users, f"{header}.{altered}.{signature}"),
        "another audience": (_users(credentials.issuer, audience="node"), token),
        "another algorithm": (_users(credentials.issuer, algorithms=("RS256",)), token),
    }
    bob = people.bob.client.credentials
    assert bob is not None
    wrong["another provider"] = (users, _bearer_token(bob))
    with pytest.raises(SettingsError, match="no route takes proofs"):
        _users(credentials.issuer, bound=True)
    for verifier, given in wrong.values():
        with pytest.raises(AccessDenied):
            verifier.verify(given)
