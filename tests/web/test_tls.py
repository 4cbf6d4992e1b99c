"""Certificates at the door: of whom, until when, revoked, renewed."""

from __future__ import annotations

import logging
import shutil
import ssl
import time
from pathlib import Path

import httpx
import pytest

from cloister.core.errors import AccessDenied, NotFound, SettingsError
from cloister.web.callers import Role, caller_uri
from cloister.web.client import PeerClient, PeerUnreachable
from cloister.web.limits import ServiceLimits
from cloister.web.metrics import ServiceMetrics
from cloister.web.tls import LiveTls, TlsFiles, server_context
from cloister.web.tls_ends import EndWatch, TlsEnds
from web.authority import Authority
from web.certificates import Certificates, client_with
from web.slow_handshake import begun_handshake
from web.small_service import FEDERATION, serving


def test_a_certificate_of_another_authority_fails_the_handshake(
    secure_url: str, certificates: Certificates
) -> None:
    with (
        client_with(secure_url, certificates.stranger, certificates.authority.path) as client,
        pytest.raises(httpx.TransportError),
    ):
        client.get("/health")


def test_an_expired_certificate_fails_the_handshake(
    secure_url: str, certificates: Certificates
) -> None:
    old = certificates.authority.issue(
        "old", caller_uri(FEDERATION, Role.NODE, "clinic-b"), days=-0.5
    )
    with (
        client_with(secure_url, old, certificates.authority.path) as client,
        pytest.raises(httpx.TransportError),
    ):
        client.get("/health")


def test_older_versions_of_tls_are_not_spoken(secure_url: str, certificates: Certificates) -> None:
    context = ssl.create_default_context(cafile=certificates.authority.path)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(httpx.ConnectError):
        httpx.get(secure_url + "/health", verify=context, trust_env=False)


def test_plain_http_is_not_spoken_where_there_is_tls(secure_url: str) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(secure_url.replace("https", "http") + "/health", trust_env=False)


def test_no_session_is_resumed(secure_url: str, certificates: Certificates) -> None:
    import socket
    from urllib.parse import urlsplit

    parts = urlsplit(secure_url)
    context = ssl.create_default_context(cafile=certificates.authority.path)
    with (
        socket.create_connection((parts.hostname, parts.port), 10) as plain,
        context.wrap_socket(plain, server_hostname=parts.hostname) as client,
    ):
        client.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        while client.recv(1000):
            pass
        assert client.session is None or not client.session.has_ticket


def test_a_revoked_certificate_is_refused_without_a_restart_and_its_open_connection_ends(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server", caller_uri(FEDERATION, Role.NODE, "clinic-a"))
    good, bad = (
        authority.issue(name, caller_uri(FEDERATION, Role.NODE, name)) for name in ("good", "bad")
    )
    with (
        serving(ServiceLimits(), server) as url,
        client_with(url, good, authority.path) as of_good,
        client_with(url, bad, authority.path) as of_bad,
    ):
        assert of_good.get("/v1/things/x").status_code == 200
        assert of_bad.get("/v1/things/x").status_code == 200
        authority.revoke(bad)
        time.sleep(1.5)  # the files are looked at once a second
        with pytest.raises(httpx.TransportError):
            of_bad.get("/v1/things/x")
        assert of_good.get("/v1/things/x").status_code == 200


def test_a_handshake_from_before_a_certificate_was_revoked_comes_too_late(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server", caller_uri(FEDERATION, Role.NODE, "clinic-a"))
    bad = authority.issue("bad", caller_uri(FEDERATION, Role.NODE, "bad"))
    with serving(ServiceLimits(), server) as url:
        with begun_handshake(url, bad) as in_time:
            assert in_time.get(b"/v1/things/x").startswith(b"HTTP/1.1 200")
        with begun_handshake(url, bad) as late:
            authority.revoke(bad)
            time.sleep(1.5)  # the files are looked at once a second
            assert late.get(b"/v1/things/x") == b""


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server", caller_uri(FEDERATION, Role.NODE, "clinic-a"))
    node = authority.issue("node", caller_uri(FEDERATION, Role.NODE, "clinic-b"))
    expected = {"federation": FEDERATION, "role": Role.NODE, "timeout_s": 10.0}
    with (
        serving(ServiceLimits(), server) as url,
        PeerClient(url, node, name="clinic-a", **expected) as before,
        PeerClient(url, node, name="clinic-z", **expected) as after,
    ):
        assert before.get_json("/v1/things/x")["caller"] == "clinic-b"
        with pytest.raises(PeerUnreachable):
            after.get_json("/v1/things/x")
        server.certificate.write_bytes(b"half a certif")  # the old one stays in use
        time.sleep(1.2)
        assert before.get_json("/v1/things/x")["caller"] == "clinic-b"
        authority.issue("server", caller_uri(FEDERATION, Role.NODE, "clinic-z"))
        time.sleep(1.2)
        assert after.get_json("/v1/things/x")["caller"] == "clinic-b"
        with pytest.raises(PeerUnreachable):
            before.get_json("/v1/things/x")
        node.certificate.write_bytes(b"half a certif")  # the client's own
        assert after.get_json("/v1/things/x")["caller"] == "clinic-b"
        authority.issue("node", caller_uri(FEDERATION, Role.NODE, "clinic-c"))
        assert after.get_json("/v1/things/x")["caller"] == "clinic-c"


def test_files_that_cannot_be_used_are_named(certificates: Certificates, tmp_path: Path) -> None:
    good = certificates.server
    open_key = tmp_path / "open.key"
    shutil.copy(good.key, open_key)
    open_key.chmod(0o644)
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("not PEM")
    cases: list[tuple[dict[str, Path], type[Exception], str]] = [
        ({"certificate": tmp_path / "none.pem"}, NotFound, "none.pem"),
        ({"revoked": tmp_path / "none.pem"}, NotFound, "none.pem"),
        ({"key": open_key}, AccessDenied, "chmod 600"),
        ({"key": certificates.node.key}, SettingsError, "belong together"),
        ({"authority": wrong}, SettingsError, "belong together"),
    ]
    for change, kind, text in cases:
        with pytest.raises(kind, match=text):
            server_context(good.model_copy(update=change))


def test_a_service_says_when_its_files_end_and_is_not_ready_when_they_have(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server", caller_uri(FEDERATION, Role.NODE, "clinic-a"), days=30)
    metrics = ServiceMetrics()

    def days_left(name: str) -> float:
        lines = metrics.exposition().decode().splitlines()
        return float(next(one.split()[1] for one in lines if one.startswith(f"{name}_days_left ")))

    with (
        caplog.at_level(logging.INFO),
        serving(ServiceLimits(), server, metrics) as url,
        client_with(url, None, authority.path) as user,
    ):
        assert user.get("/ready").status_code == 200
        assert days_left("cloister_certificate") == pytest.approx(30, abs=0.1)
        assert days_left("cloister_revocation_list") == pytest.approx(1, abs=0.1)
        authority.write_revoked(days=-0.5)
        time.sleep(1.5)
        assert user.get("/ready").status_code == 503
        assert days_left("cloister_revocation_list") == pytest.approx(-0.5, abs=0.1)
        authority.write_revoked(days=20)
        time.sleep(1.5)
        assert user.get("/ready").status_code == 200
        authority.revoked_path.write_bytes(authority.path.read_bytes())  # not a list: the old stays
        time.sleep(1.5)
        assert days_left("cloister_revocation_list") == pytest.approx(20, abs=0.1)
    said = [(one.levelname, one.msg) for one in caplog.records if one.name == "cloister.web"]
    assert said.count(("WARNING", "revocation_list_ends_soon")) == 1
    assert said.count(("ERROR", "revocation_list_over")) == 1
    assert not any("certificate_ends" in event for _, event in said)


def test_what_ends_is_said_daily(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    watch = EndWatch(lambda: TlsEnds(10 * 86_400.0), ServiceMetrics(), clock=lambda: now)
    said = []
    with caplog.at_level(logging.WARNING):
        for hour in range(12 * 24):
            now = hour * 3_600.0
            caplog.clear()
            watch.look()
            said += [(hour // 24, one.levelname) for one in caplog.records]
    assert said == [(day, "WARNING") for day in range(3, 10)] + [(10, "ERROR"), (11, "ERROR")]


def test_a_live_context_is_made_anew_only_when_a_file_changes(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files: TlsFiles = authority.issue("server", caller_uri(FEDERATION, Role.NODE, "clinic-a"))
    live = LiveTls(files)
    first = live.context
    assert not live.refresh()
    assert live.context is first
    authority.revoke(authority.issue("bad"))
    assert live.refresh()
    assert live.context is not first
