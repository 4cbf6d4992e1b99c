"""An authority, certificates and running services for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloister.web.callers import Role, caller_uri
from cloister.web.limits import ServiceLimits
from cloister.web.tls import TlsFiles
from web.authority import Authority
from web.certificates import Certificates
from web.small_service import FEDERATION, serving


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder / "own")
    elsewhere = Authority(folder / "other")

    def of(stem: str, role: Role, name: str) -> TlsFiles:
        return authority.issue(stem, caller_uri(FEDERATION, role, name))

    stranger = elsewhere.issue("stranger", caller_uri(FEDERATION, Role.NODE, "clinic-b"))
    return Certificates(
        authority,
        server=of("server", Role.NODE, "clinic-a"),
        node=of("node", Role.NODE, "clinic-b"),
        operator=of("operator", Role.OPERATOR, "olga"),
        other_federation=authority.issue("south", caller_uri("south", Role.NODE, "clinic-b")),
        nameless=authority.issue("nameless"),
        stranger=stranger.model_copy(
            update={"authority": authority.path, "revoked": authority.revoked_path}
        ),
    )


@pytest.fixture(scope="session")
def plain_url() -> Iterator[str]:
    with serving(ServiceLimits(max_body_bytes=64 << 10)) as url:
        yield url


@pytest.fixture(scope="session")
def secure_url(certificates: Certificates) -> Iterator[str]:
    with serving(ServiceLimits(), certificates.server) as url:
        yield url
