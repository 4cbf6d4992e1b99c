"""Connections to PostgreSQL: verified beyond this machine, against a real server with TLS.

On Linux a connection to 0.0.0.0 reaches this machine, though the address is no loopback address: so
it stands for a server elsewhere.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cloister.core.errors import SettingsError, StoreError
from cloister.privacy.certificates.authority import Authority
from cloister.store.database import Database
from store.conftest import running_server

ELSEWHERE = "0.0.0.0"
NAME = "db.clinics.example"


class TlsServer(NamedTuple):
    port: int
    authority: Path
    other_authority: Path

    def address(self, host: str = ELSEWHERE, /, **options: str) -> str:
        given = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://postgres@{host}:{self.port}/postgres?{given}"

    def is_encrypted(self, address: str) -> bool:
        with Database.open(address) as database, database.reading() as connection:
            query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            return bool(connection.exec_driver_sql(query).scalar_one())


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    made = tmp_path_factory.mktemp("authorities")
    authority, other = (Authority.create(made / name, "clinics") for name in ("own", "other"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])

    def prepare(folder: Path) -> str:
        issued = authority.issue("node", "database", folder=made, hosts=[NAME, ELSEWHERE])
        for path, name in ((issued.certificate, "tls.pem"), (issued.key, "tls.key")):
            shutil.copyfile(path, folder / name)
            (folder / name).chmod(0o600)
        return (
            f"listen_addresses=127.0.0.1 -c port={port} -c ssl=on "
            f"-c ssl_cert_file={folder}/tls.pem -c ssl_key_file={folder}/tls.key"
        )

    with running_server(prepare):
        yield TlsServer(port, authority.certificate_path, other.certificate_path)


def test_a_server_elsewhere_is_used_once_it_has_proven_its_name(tls_server: TlsServer) -> None:
    root = str(tls_server.authority)
    address = tls_server.address(sslmode="verify-full", sslrootcert=root)
    assert tls_server.is_encrypted(address)


@pytest.mark.parametrize("mode", [None, "disable", "allow", "prefer", "require", "verify-ca"])
def test_a_server_elsewhere_is_refused_without_full_verification(
    tls_server: TlsServer, mode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"sslrootcert": str(tls_server.authority)} | ({"sslmode": mode} if mode else {})
    for address in (
        tls_server.address(**options),
        tls_server.address("localhost", hostaddr=ELSEWHERE, **options),
        tls_server.address("127.0.0.1,db.example", **options),
        tls_server.address("db.example", **options),
        tls_server.address("", host=ELSEWHERE, **options),
        tls_server.address("localhost", service="db", **options),
    ):
        with pytest.raises(SettingsError, match="does not ask for a verified") as caught:
            Database.open(address)
        assert "sslmode=verify-full&sslrootcert=FILE" in caught.value.remedy
    monkeypatch.setenv("PGHOST", ELSEWHERE)
    with pytest.raises(SettingsError, match="does not ask for a verified"):
        Database.open(f"postgresql:///postgres{f'?sslmode={mode}' if mode else ''}")


def test_a_server_that_cannot_prove_its_name_is_refused(tls_server: TlsServer) -> None:
    own, other = str(tls_server.authority), str(tls_server.other_authority)
    by_name = {"hostaddr": "127.0.0.1", "sslmode": "verify-full"}
    assert tls_server.is_encrypted(tls_server.address(NAME, sslrootcert=own, **by_name))
    with pytest.raises(StoreError, match="does not match host name"):
        Database.open(tls_server.address("db.example", sslrootcert=own, **by_name))
    with pytest.raises(StoreError, match="certificate verify failed"):
        Database.open(tls_server.address(NAME, sslrootcert=other, **by_name))
    with pytest.raises(StoreError, match="root certificate file"):
        Database.open(tls_server.address(sslmode="verify-full", sslrootcert="/nowhere.pem"))


def test_within_this_machine_nothing_need_be_proven(tls_server: TlsServer) -> None:
    for host in ("127.0.0.1", "localhost"):
        Database.open(tls_server.address(host, sslmode="disable")).close()


def test_the_environment_may_ask_for_verification(
    tls_server: TlsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGSSLROOTCERT", str(tls_server.authority))
    assert tls_server.is_encrypted(tls_server.address())
    monkeypatch.setenv("PGSERVICE", "unknown")  # a file could name any server
    with pytest.raises(SettingsError, match="does not ask for a verified"):
        Database.open(tls_server.address())
