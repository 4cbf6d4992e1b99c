"""A private authority: what OpenSSL and a real TLS handshake make of its certificates."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from cloister.core.errors import (
    AccessDenied,
    CloisterError,
    Damaged,
    DataError,
    NotFound,
    SettingsError,
)
from cloister.privacy.certificates import building
from cloister.privacy.certificates.authority import Authority, CertificateFiles
from cloister.privacy.certificates.building import Period, Signer
from cloister.privacy.certificates.certificate_name import CERTIFIED, CertificateName, checked_host
from cloister.privacy.certificates.certificate_request import new_request, read_request
from cloister.privacy.certificates.key_files import new_key, read_key
from cloister.privacy.private_file import write_private_file
from cloister.web import callers
from cloister.web.callers import Caller, caller_of_certificate
from privacy.tls_pair import context, server_files, shake_hands

CHILD = str(Path(__file__).with_name("authority_child.py"))
DAY_S = 86_400.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "ca", "clinics")


@pytest.fixture
def node(authority: Authority, tmp_path: Path) -> CertificateFiles:
    return authority.issue(
        "node", "clinic-a", folder=tmp_path / "a", hosts=["node.example", "127.0.0.1"]
    )


def openssl(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


def verified(authority: Authority, certificate: Path, *options: str) -> str:
    """Ask OpenSSL; return an empty text where the chain holds, else what it said."""
    trust = ["-CAfile", authority.certificate_path, "-CRLfile", authority.list_path, "-crl_check"]
    done = openssl("verify", "-x509_strict", *trust, *options, certificate)
    return "" if done.returncode == 0 else done.stderr


@pytest.mark.parametrize("role", sorted(CERTIFIED))
def test_openssl_verifies_every_role_for_what_it_may_do(
    role: str, authority: Authority, tmp_path: Path
) -> None:
    files = authority.issue(role, "someone", folder=tmp_path)
    assert verified(authority, files.certificate, "-purpose", "sslclient") == ""
    answers = verified(authority, files.certificate, "-purpose", "sslserver")
    assert (answers == "") == (role in ("node", "broker", "coordinator"))
    assert answers == "" or "purpose" in answers


def test_a_certificate_says_who_where_and_for_how_long(
    authority: Authority, node: CertificateFiles
) -> None:
    certificate = node.issued.certificate()
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    assert uris == ["cloister://clinics/node/clinic-a"]
    assert names.get_values_for_type(x509.DNSName) == ["node.example"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=89.9) < left <= timedelta(days=90)
    common_name = x509.NameOID.COMMON_NAME
    assert not certificate.subject.get_attributes_for_oid(
        common_name
    )  # a client may take it for a host
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert certificate.serial_number == int(node.issued.serial, 16)


@pytest.mark.parametrize("role", sorted(CERTIFIED))
def test_a_service_reads_from_a_certificate_whom_the_authority_named(
    role: str, authority: Authority, tmp_path: Path
) -> None:
    issued = authority.issue(role, "a.b-1", folder=tmp_path).issued
    content = issued.certificate().public_bytes(Encoding.DER)
    assert caller_of_certificate(content, "clinics") == Caller(callers.Role(role), "a.b-1")
    with pytest.raises(AccessDenied):
        caller_of_certificate(content, "firms")


def test_keys_are_for_their_owner_and_the_rest_for_everybody(
    authority: Authority, node: CertificateFiles
) -> None:
    private = [node.key, authority.folder / "authority.key", authority.folder / "issued.json"]
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
    public = [node.certificate, authority.certificate_path, authority.list_path]
    assert {path.stat().st_mode & 0o777 for path in public} == {0o644}
    assert authority.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("king", "clinic-a"),
        ("node", ""),
        ("node", "clinic a"),
        ("node", "Clinic-A"),
        ("node", "../clinic-a"),
        ("node", "clinic-a/node/b"),
        ("node", "clinic-a:ann"),
        ("node", "clinic%2Fa"),
        ("node", "é"),
        ("node", "."),
        ("node", "x" * 64),
        ("node", "clinic-a\n"),
    ],
)
def test_a_name_that_means_something_else_in_an_address_is_refused(
    role: str, name: str, authority: Authority, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError):
        authority.issue(role, name, folder=tmp_path)
    assert authority.listed() == ()


@pytest.mark.parametrize("host", ["*.example", "node.example:443", "", "a..b", "https://a", "a b"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(SettingsError):
        checked_host(host)


@pytest.mark.parametrize(
    "uri",
    ["https://clinics/node/a", "cloister://clinics/node", "cloister://clinics/node/a/", "x",
     "cloister://clinics/king/a", "cloister://clinics/node/A", "cloister://clinics:1/node/a"],
)  # fmt: skip
def test_a_uri_that_names_nobody_is_refused(uri: str) -> None:
    with pytest.raises(DataError):
        CertificateName.parse(uri)


def test_two_services_know_each_other_after_a_handshake(
    authority: Authority, node: CertificateFiles, tmp_path: Path
) -> None:
    server = context(authority, server_files(authority, tmp_path), server=True)
    met = shake_hands(context(authority, node, server=False), server)
    assert met == ("cloister://clinics/node/server", "cloister://clinics/node/clinic-a")


def test_a_handshake_without_a_certificate_or_for_another_host_is_refused(
    authority: Authority, node: CertificateFiles, tmp_path: Path
) -> None:
    server = context(authority, server_files(authority, tmp_path), server=True)
    assert not shake_hands(context(authority, None, server=False), server).accepted
    client = context(authority, node, server=False)
    assert "mismatch" in shake_hands(client, server, host="node.example").client


@pytest.mark.parametrize("domains", [(), ("clinic.example",)], ids=["anywhere", "in a domain"])
def test_grpc_takes_the_certificates(domains: tuple[str, ...], tmp_path: Path) -> None:
    grpc = pytest.importorskip("grpc")
    authority = Authority.create(tmp_path / "ca", "clinics", domains=domains)
    files = authority.issue("node", "clinic-a", folder=tmp_path, hosts=["localhost"])
    trust, key = authority.certificate_path.read_bytes(), files.key.read_bytes()
    certificate = files.certificate.read_bytes()

    class Subject(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, _details: object) -> Any:
            def answer(_request: bytes, call: Any) -> bytes:
                return bytes(call.auth_context()["x509_subject"][0])

            return grpc.unary_unary_rpc_method_handler(answer)

    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers((Subject(),))
        own = grpc.ssl_server_credentials([(key, certificate)], trust, True)
        port = server.add_secure_port("localhost:0", own)
        server.start()
        mine = grpc.ssl_channel_credentials(trust, key, certificate)
        with grpc.secure_channel(f"localhost:{port}", mine) as channel:
            said = channel.unary_unary("/any/thing")(b"", timeout=20)
        server.stop(0).wait(20)
    assert said == b"UID=clinic-a,OU=node,O=clinics"


def test_an_operator_cannot_answer_as_a_service(authority: Authority, tmp_path: Path) -> None:
    person = authority.issue("operator", "olga", folder=tmp_path, hosts=["localhost"])
    node = server_files(authority, tmp_path)
    met = shake_hands(
        context(authority, node, server=False), context(authority, person, server=True)
    )
    assert "unsuitable certificate purpose" in met.client


def test_a_certificate_of_another_authority_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    other = Authority.create(tmp_path / "other", "clinics")  # of the same name
    stranger = other.issue("node", "clinic-a", folder=tmp_path / "b")
    server = context(authority, server_files(authority, tmp_path), server=True)
    client = context(authority, None, server=False)
    client.load_cert_chain(stranger.certificate, stranger.key)
    assert not shake_hands(client, server).accepted
    assert "unable to get local issuer" in verified(authority, stranger.certificate)


def test_a_certificate_that_is_over_is_refused(authority: Authority, tmp_path: Path) -> None:
    past = Authority.create(tmp_path / "past", "clinics", clock=lambda: time.time() - 10 * DAY_S)
    short = past.issue("node", "old", folder=tmp_path, lifetime=timedelta(days=9))
    past = Authority.open(tmp_path / "past")
    past.refresh_list()
    server = context(past, server_files(past, tmp_path), server=True)
    assert "expired" in shake_hands(context(past, short, server=False), server).server
    assert "expired" in verified(past, short.certificate)


def test_a_revoked_certificate_is_refused_once_the_list_arrived(
    authority: Authority, node: CertificateFiles, tmp_path: Path
) -> None:
    answering = server_files(authority, tmp_path)
    before = context(authority, answering, server=True)
    client = context(authority, node, server=False)
    assert shake_hands(client, before).accepted
    authority.revoke("node/clinic-a")
    assert shake_hands(client, before).accepted  # this server has the old list
    after = context(authority, answering, server=True)
    assert "revoked" in shake_hands(client, after).server
    assert "revoked" in verified(authority, node.certificate)
    assert verified(authority, answering.certificate) == ""


def test_revoking_by_serial_number_spares_the_others_of_the_name(
    authority: Authority, node: CertificateFiles, tmp_path: Path
) -> None:
    second = authority.issue("node", "clinic-a", folder=tmp_path / "second")
    (revoked,) = authority.revoke(int(node.issued.serial, 16))
    assert revoked.serial == node.issued.serial
    assert "revoked" in verified(authority, node.certificate)
    assert verified(authority, second.certificate) == ""
    first_time = authority.listed()[0].revoked
    assert len(authority.revoke("node/clinic-a")) == 2
    assert authority.listed()[0].revoked == first_time  # the first time stands


@pytest.mark.parametrize("target", ["node/nobody", "ff", 255, ""])
def test_revoking_what_was_never_issued_says_so(
    target: int | str, authority: Authority, node: CertificateFiles
) -> None:
    with pytest.raises(NotFound):
        authority.revoke(target)
    assert verified(authority, node.certificate) == ""


def test_renewing_keeps_the_key_and_the_hosts(authority: Authority, node: CertificateFiles) -> None:
    renewed = authority.renew("node", "clinic-a", lifetime=timedelta(days=7))
    old, new = node.issued.certificate(), renewed.certificate()
    assert new.public_key() == old.public_key() == read_key(node.key).public_key()
    assert renewed.hosts == node.issued.hosts
    assert renewed.serial != node.issued.serial
    assert len(authority.listed()) == 2


def test_a_revoked_certificate_is_not_renewed(authority: Authority, node: CertificateFiles) -> None:
    authority.revoke("node/clinic-a")
    with pytest.raises(NotFound, match="issue a new one"):
        authority.renew("node", "clinic-a")


def test_a_request_gets_a_certificate_and_its_key_stays(
    authority: Authority, tmp_path: Path
) -> None:
    files = new_request(tmp_path / "b", "clinics", "node", "clinic-b", hosts=["localhost"])
    assert files.key.stat().st_mode & 0o777 == 0o600
    assert openssl("req", "-in", files.request, "-noout", "-verify").returncode == 0
    request = files.request.read_bytes()
    assert read_request(request).fingerprint == files.fingerprint
    issued = authority.sign(request, "node", "clinic-b", hosts=["localhost"])
    assert issued.certificate().public_key() == read_key(files.key).public_key()
    path = tmp_path / "b" / "node-clinic-b.pem"
    path.write_text(issued.pem)
    assert verified(authority, path) == ""


@pytest.mark.parametrize(
    ("role", "name", "hosts"),
    [
        ("node", "clinic-a", ["localhost"]),  # somebody else
        ("operator", "clinic-b", ["localhost"]),  # another role
        ("node", "clinic-b", []),  # a host that nobody allowed
        ("node", "clinic-b", ["other.example"]),
    ],
)
def test_a_request_for_more_than_the_signer_says_is_refused(
    role: str, name: str, hosts: list[str], authority: Authority, tmp_path: Path
) -> None:
    files = new_request(tmp_path, "clinics", "node", "clinic-b", hosts=["localhost"])
    with pytest.raises(AccessDenied):
        authority.sign(files.request.read_bytes(), role, name, hosts=hosts)
    assert authority.listed() == ()


def _request(key: Any) -> bytes:
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else SHA256()
    request = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, algorithm)
    return request.public_bytes(Encoding.PEM)


def _altered() -> bytes:
    lines = _request(new_key()).splitlines()
    lines[-2] = lines[-2][:4] + b"AAAA" + lines[-2][8:]
    return b"\n".join(lines) + b"\n"


WRONG_REQUESTS: dict[str, Callable[[], bytes]] = {
    "RSA": lambda: _request(rsa.generate_private_key(65537, 2048)),
    "Ed25519": lambda: _request(ed25519.Ed25519PrivateKey.generate()),
    "P-384": lambda: _request(ec.generate_private_key(ec.SECP384R1())),
    "garbage": lambda: b"hello",
    "too long": lambda: _request(new_key()) + b"\n" * 20_000,
    "altered": _altered,
}


@pytest.mark.parametrize("make", WRONG_REQUESTS.values(), ids=WRONG_REQUESTS)
def test_a_request_that_is_not_signed_by_a_key_of_ours_is_refused(
    make: Callable[[], bytes], authority: Authority
) -> None:
    with pytest.raises(DataError):
        authority.sign(make(), "node", "clinic-b")


def test_the_authority_cannot_speak_for_another_federation_or_make_further_authorities(
    authority: Authority, tmp_path: Path
) -> None:
    key = load_pem_private_key((authority.folder / "authority.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    root = x509.load_pem_x509_certificate(authority.certificate_path.read_bytes())
    signer, now = Signer(root, key), datetime.now(UTC).replace(microsecond=0)
    period = Period(now, now + timedelta(days=1))
    name = CertificateName.checked("others", "node", "clinic-a")
    forged = building.leaf(signer, name, new_key().public_key(), period)
    path = tmp_path / "forged.pem"
    path.write_bytes(forged.public_bytes(Encoding.PEM))
    assert "permitted subtree violation" in verified(authority, path)

    below = new_key()
    middle = building.root("clinics", below, period)
    signed = (
        x509.CertificateBuilder(
            issuer_name=root.subject,
            subject_name=x509.Name([x509.NameAttribute(x509.NameOID.USER_ID, "below")]),
            public_key=below.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=period.begins,
            not_valid_after=period.ends,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(middle.extensions.get_extension_for_class(x509.KeyUsage).value, True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(below.public_key()), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), False)
        .sign(key, SHA256())
    )
    name = CertificateName.checked("clinics", "node", "clinic-a")
    leaf = building.leaf(Signer(signed, below), name, new_key().public_key(), period)
    path.write_bytes(leaf.public_bytes(Encoding.PEM))
    (tmp_path / "below.pem").write_bytes(signed.public_bytes(Encoding.PEM))
    done = openssl(
        "verify", "-CAfile", authority.certificate_path, "-untrusted", tmp_path / "below.pem", path
    )
    assert "path length constraint exceeded" in done.stderr


def test_an_authority_with_domains_names_no_host_outside(tmp_path: Path) -> None:
    authority = Authority.create(
        tmp_path / "ca", "clinics", domains=["clinic.example", "10.0.0.0/8"]
    )
    hosts = ["a.clinic.example", "clinic.example", "10.1.2.3", "localhost", "127.0.0.1", "::1"]
    files = authority.issue("node", "clinic-a", folder=tmp_path, hosts=hosts)
    assert verified(authority, files.certificate) == ""
    for outside in ("bank.example", "notclinic.example", "11.0.0.1"):
        with pytest.raises(SettingsError, match="may not name this host"):
            authority.issue("node", "clinic-b", folder=tmp_path, hosts=[outside])
    key = read_key(authority.folder / "authority.key")
    root = x509.load_pem_x509_certificate(authority.certificate_path.read_bytes())
    now = datetime.now(UTC).replace(microsecond=0)
    forged = building.leaf(
        Signer(root, key),
        CertificateName.checked("clinics", "node", "clinic-b"),
        new_key().public_key(),
        Period(now, now + timedelta(days=1)),
        hosts=["bank.example"],
    )
    path = tmp_path / "forged.pem"
    path.write_bytes(forged.public_bytes(Encoding.PEM))
    assert "permitted subtree violation" in verified(authority, path)


def test_an_encrypted_key_signs_with_its_passphrase_only(tmp_path: Path) -> None:
    right, wrong, short = tmp_path / "right", tmp_path / "wrong", tmp_path / "short"
    write_private_file(right, b"correct horse battery\n")
    write_private_file(wrong, b"incorrect horse battery\n")
    write_private_file(short, b"horse\n")
    Authority.create(tmp_path / "ca", "clinics", passphrase_file=right)
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in (tmp_path / "ca" / "authority.key").read_bytes()
    opened = Authority.open(tmp_path / "ca", passphrase_file=right)
    assert opened.issue("node", "a", folder=tmp_path).certificate.exists()
    for passphrase_file in (None, wrong, short):
        locked = Authority.open(tmp_path / "ca", passphrase_file=passphrase_file)
        assert len(locked.listed()) == 1  # reading needs no key
        with pytest.raises(CloisterError):
            locked.issue("node", "b", folder=tmp_path)
    assert not (tmp_path / "node-b.key").exists()


def test_an_authority_is_not_made_where_there_is_something(
    authority: Authority, tmp_path: Path
) -> None:
    key = (authority.folder / "authority.key").read_bytes()
    with pytest.raises(SettingsError, match="something already"):
        Authority.create(authority.folder, "clinics")
    assert (authority.folder / "authority.key").read_bytes() == key
    assert [path.name for path in tmp_path.iterdir()] == ["ca"]


def test_a_certificate_does_not_outlive_its_authority(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "ca", "clinics", lifetime=timedelta(days=30))
    for lifetime in (timedelta(days=31), timedelta(0), timedelta(days=-1)):
        with pytest.raises(SettingsError, match="lifetime"):
            authority.issue("node", "a", folder=tmp_path / "a", lifetime=lifetime)
    authority.issue("node", "a", folder=tmp_path / "a", lifetime=timedelta(days=29))


def test_a_certificate_that_lies_there_is_not_replaced_by_a_new_key(
    authority: Authority, node: CertificateFiles
) -> None:
    key = node.key.read_bytes()
    with pytest.raises(SettingsError, match="renew it"):
        authority.issue("node", "clinic-a", folder=node.key.parent)
    with pytest.raises(SettingsError, match="renew it"):
        new_request(node.key.parent, "clinics", "node", "clinic-a")
    assert node.key.read_bytes() == key


def test_a_damaged_list_is_told_and_not_replaced(authority: Authority) -> None:
    path = authority.folder / "issued.json"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(Damaged):
        Authority.open(authority.folder)
    with pytest.raises(NotFound, match="no authority here"):
        Authority.open(authority.folder / "nowhere")


def test_many_at_once_lose_no_certificate(authority: Authority, tmp_path: Path) -> None:
    def work(worker: int) -> None:
        mine = Authority.open(authority.folder)
        for i in range(3):
            mine.issue("node", f"n{worker}-{i}", folder=tmp_path / str(worker))
        mine.revoke(f"node/n{worker}-0")

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    listed = authority.listed()
    assert len({one.serial for one in listed}) == 12
    revoked = {one.name for one in listed if one.revoked}
    assert revoked == {f"n{worker}-0" for worker in range(4)}
    crl = x509.load_pem_x509_crl(authority.list_path.read_bytes())
    assert len(crl) == 4
    assert crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 16


def test_a_list_that_is_over_refuses_everybody_until_it_is_made_anew(tmp_path: Path) -> None:
    past = Authority.create(tmp_path / "ca", "clinics", clock=lambda: time.time() - 40 * DAY_S)
    node = past.issue("node", "a", folder=tmp_path)
    assert past.list_ends() < datetime.now(UTC)
    assert "CRL has expired" in verified(past, node.certificate)
    assert Authority.open(tmp_path / "ca").refresh_list() > datetime.now(UTC)
    assert verified(past, node.certificate) == ""


def test_a_process_that_dies_anywhere_leaves_an_authority_that_works(
    authority: Authority, node: CertificateFiles, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, CHILD, str(authority.folder), str(tmp_path / "out")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    n_deaths = int(done.stdout)
    assert n_deaths >= 20
    listed = {one.serial: one for one in authority.listed()}
    delivered = list((tmp_path / "out").glob("*/node-clinic-b.pem"))
    for path in delivered:  # what anybody has is on the list, and so can be revoked
        serial = x509.load_pem_x509_certificate(path.read_bytes()).serial_number
        assert f"{serial:040x}" in listed
        assert verified(authority, path) == ""
    assert len(delivered) >= 2
    assert "revoked" in verified(authority, node.certificate)
    keys = (tmp_path / "out").glob("*/node-clinic-b.key")
    left = [key for key in keys if not key.with_suffix(".pem").exists()]
    assert left  # somebody died between key and certificate; the key is used
    again = authority.issue("node", "clinic-b", folder=left[0].parent)
    assert again.key == left[0]
    assert verified(authority, again.certificate) == ""
    assert sorted(path.name for path in authority.folder.iterdir()) == [
        ".incoming", "authority.key", "authority.pem", "issued.json", "revoked.pem",
    ]  # fmt: skip
    assert list((authority.folder / ".incoming").iterdir()) == []
