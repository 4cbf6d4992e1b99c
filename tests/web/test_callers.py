"""Who a certificate names."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from cloister.core.errors import AccessDenied
from cloister.web.callers import Caller, Role, caller_of_certificate
from web.authority import Authority

NODE = "cloister://north/node/clinic-a"


def as_peer(*uris: str) -> dict[str, object]:
    return {"subjectAltName": (("DNS", "a.example"), *(("URI", uri) for uri in uris))}


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (NODE, Caller(Role.NODE, "clinic-a")),
        ("cloister://north/broker/broker", Caller(Role.BROKER, "broker")),
        ("cloister://north/coordinator/c.1", Caller(Role.COORDINATOR, "c.1")),
        ("cloister://north/operator/clinic-a:olga", Caller(Role.OPERATOR, "clinic-a:olga")),
        ("cloister://north/officer/oscar", Caller(Role.OFFICER, "oscar")),
    ],
)
def test_a_certificate_names_its_holder(uri: str, expected: Caller) -> None:
    assert caller_of_certificate(as_peer("https://a.example", uri), "north") == expected


@pytest.mark.parametrize(
    "uris",
    [
        (),
        (NODE, NODE),
        (NODE, "cloister://north/operator/olga"),
        (NODE, "CLOISTER://north/operator/olga"),
        ("cloister://south/node/clinic-a",),
        ("cloister://North/node/clinic-a",),
        ("cloister://north/user/ann",),
        ("cloister://north/king/ann",),
        ("cloister://north/NODE/clinic-a",),
        ("cloister://north/node/",),
        ("cloister://north/node/clinic-a/more",),
        ("cloister://north/node/clinic-a\n",),
        ("cloister://north/node/clinic-a\x00",),
        ("cloister://north/node/clinic a",),
        ("cloister://north/node/clinic-a?x",),
        ("cloister://x@north/node/clinic-a",),
        ("https://north/node/clinic-a",),
    ],
)
def test_whatever_is_not_exactly_one_name_of_this_federation_is_refused(
    uris: tuple[str, ...],
) -> None:
    with pytest.raises(AccessDenied):
        caller_of_certificate(as_peer(*uris), "north")


def test_a_certificate_says_the_same_in_der(tmp_path: Path) -> None:
    files = Authority(tmp_path).issue("node", NODE)
    der = ssl.PEM_cert_to_DER_cert(files.certificate.read_text())
    assert caller_of_certificate(der, "north") == Caller(Role.NODE, "clinic-a")
    with pytest.raises(AccessDenied):
        caller_of_certificate(der, "south")
    own = x509.load_pem_x509_certificate((tmp_path / "authority.pem").read_bytes())
    with pytest.raises(AccessDenied):
        caller_of_certificate(own.public_bytes(Encoding.DER), "north")
    with pytest.raises(AccessDenied):
        caller_of_certificate(b"no certificate", "north")
