from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cloister.cloud.client import PrivateIndexClient
from cloister.cloud.http_client import HttpTransport
from cloister.cloud.http_routes import CloudServiceLimits, cloud_service
from cloister.cloud.http_service import read_token, serve
from cloister.cloud.index_folder import IndexFolder
from cloister.cloud.private_index import PrivateIndex
from cloister.core.errors import (
    AccessDenied,
    DataError,
    MissingDependency,
    NotFound,
    SettingsError,
    StoreError,
)
from cloister.privacy.private_file import write_private_file
from cloud.built_index import KINDS, built
from cloud.made_boxes import MadeIndex

TOKEN = "a-token-for-the-tests-of-the-service"
AUTHORISED = {"authorization": f"Bearer {TOKEN}"}


class Service:
    """The server as a program of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder / "indexes"
        if not (folder / "token").exists():
            write_private_file(folder / "token", TOKEN.encode())
        command = [sys.executable, "-m", "cloister.cloud.http_service", str(self.folder)]
        command += ["--token-file", str(folder / "token"), "--port", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if self.process.stdout is None:
            raise RuntimeError
        self.address = json.loads(self.process.stdout.readline())["address"]

    def transport(self, token: str = TOKEN) -> HttpTransport:
        return HttpTransport(self.address, token)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Service]:
    service = Service(folder, *options)
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service")) as made:
        yield made


def written(index: PrivateIndex, folder: Path) -> Path:
    index.write(folder / "index")
    return folder / "index"


@pytest.mark.parametrize("kind", KINDS)
def test_scores_over_http_are_those_of_the_plain_ranker(
    kind: str, service: Service, tmp_path: Path
) -> None:
    made = built(kind)
    near = 1e-5 if made.ranker.settings.obfuscation.base is None else 1e-9
    with service.transport() as transport:
        client = PrivateIndexClient(made.dictionary, transport)
        client.upload(written(made.index, tmp_path))
        for text in ("a", "c a b", "b a b y", "h g f e d c", "t s z", "zz"):
            wanted = made.plain_scores(text.split())
            hits = client.search(text, 100)
            assert {hit.doc_id for hit in hits} == made.held(text.split())
            assert [hit.score for hit in hits] == pytest.approx(
                [wanted[hit.doc_id] for hit in hits], abs=near
            )
            assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.number))
            few = [hit.number for hit in hits[::3]]
            assert client.search(text, 100, candidates=few) == hits[::3]
            if hits:
                place = made.doc_ids.index(hits[0].doc_id)
                assert client.document(hits[0].number) == made.texts[place]


def test_the_serving_process_has_neither_torch_nor_lightgbm(service: Service) -> None:
    loaded = Path(f"/proc/{service.process.pid}/maps").read_text()
    assert "_ssl" in loaded  # it does list libraries
    assert not re.search("torch|lightgbm|gensim", loaded)


def test_an_index_is_described_and_removed(service: Service, tmp_path: Path) -> None:
    made = MadeIndex(7)
    index_id = made.index.index_id.hex()
    with service.transport() as transport:
        transport.upload(index_id, written(made.index, tmp_path))
        told = transport.describe(index_id)
        assert (told["n_documents"], told["n_boxes"]) == (12, made.index.n_boxes)
        transport.remove(index_id)
        with pytest.raises(NotFound):
            transport.rank(index_id, made.request(["w0"]))
        with pytest.raises(NotFound):
            transport.remove(index_id)


def test_a_wrong_token_is_refused(service: Service) -> None:
    made = MadeIndex()
    for token in ("wrong", TOKEN + "x", TOKEN[:-1]):
        with service.transport(token) as transport, pytest.raises(AccessDenied):
            transport.rank(made.index.index_id.hex(), made.request(["w0"]))


ROUTES = [
    ("PUT", "/indexes/{id}"),
    ("GET", "/indexes/{id}"),
    ("DELETE", "/indexes/{id}"),
    ("POST", "/indexes/{id}/rank"),
    ("GET", "/indexes/{id}/documents/0"),
]


@pytest.fixture
def folder(tmp_path: Path) -> IndexFolder:
    return IndexFolder(tmp_path / "indexes")


class Local:
    """The service without a network."""

    def __init__(self, folder: IndexFolder, **limits: float) -> None:
        service = cloud_service(folder, TOKEN, CloudServiceLimits(**limits))
        self._way = httpx.ASGITransport(service, raise_app_exceptions=False)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def sent() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=self._way, base_url="http://localhost", headers=AUTHORISED
            ) as client:
                return await client.request(method, path, **options)

        return asyncio.run(sent())

    def put(self, path: str, **options: Any) -> httpx.Response:
        return self.request("PUT", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)


def stored(folder: IndexFolder, made: MadeIndex) -> str:
    index_id = made.index.index_id.hex()
    made.index.write(folder.root / f"{index_id}.private-index")
    return index_id


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN])
def test_every_route_to_an_index_needs_the_token(
    folder: IndexFolder, method: str, path: str, header: str
) -> None:
    made = MadeIndex()
    index_id = stored(folder, made)
    client = Local(folder)
    content = made.request(["w0"]).to_json()
    answer = client.request(
        method, path.format(id=index_id), content=content, headers={"authorization": header}
    )
    assert answer.status_code == 401
    assert set(answer.json()) == {"error", "remedy"}
    assert folder.index_ids() == [index_id]


def test_health_needs_no_token_and_tells_nothing(folder: IndexFolder) -> None:
    answer = Local(folder).get("/health", headers={"authorization": ""})
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/docs", 404),
        ("GET", "/openapi.json", 404),
        ("POST", "/health", 405),
        ("GET", "/indexes/abc", 404),
        ("GET", f"/indexes/{'0' * 32}", 404),
        ("GET", f"/indexes/{'A' * 32}", 404),
        ("GET", "/indexes/..%2f..%2fetc%2fpasswd", 404),
        ("DELETE", f"/indexes/{'0' * 32}", 404),
        ("POST", f"/indexes/{'0' * 32}/rank", 404),
        ("GET", "/indexes/{id}/documents/99", 404),
        ("GET", "/indexes/{id}/documents/-1", 404),
        ("GET", "/indexes/{id}/documents/x", 400),
        ("POST", "/indexes/{id}/rank", 400),
        ("PUT", "/indexes/{id}", 400),
    ],
)
def test_a_senseless_request_gets_a_plain_answer(
    folder: IndexFolder, method: str, path: str, status: int
) -> None:
    index_id = stored(folder, MadeIndex())
    answer = Local(folder).request(method, path.format(id=index_id))
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "remedy"}
    assert str(folder.root) not in answer.text


def test_a_forged_request_gets_a_plain_answer(folder: IndexFolder) -> None:
    made = MadeIndex()
    address = f"/indexes/{stored(folder, made)}/rank"
    client = Local(folder)
    fields = json.loads(made.request(["w0", "w1"], candidates=[1, 2]).to_json())
    assert client.post(address, json=fields).status_code == 200
    word = fields["words"][0]
    for change in (
        {"candidates": [12]},
        {"k": 0},
        {"words": [word | {"key": "A" * 43 + "="}]},
        {"model": {"label": word["label"], "key": word["key"]}},
        {"words": [word | {"label": "A" * 22 + "=="}], "pairs": []},
    ):
        answer = client.post(address, json=fields | change)
        assert answer.status_code == 400, change
        assert set(answer.json()) == {"error", "remedy"}
        assert "Traceback" not in answer.text
        assert "document 1" not in answer.text


def test_what_nobody_foresaw_gets_a_plain_answer(
    folder: IndexFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeIndex()
    index_id = stored(folder, made)

    def broken(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("cloister.cloud.server.score_trace", broken)
    content = made.request(["w0"]).to_json()
    answer = Local(folder).post(f"/indexes/{index_id}/rank", content=content)
    assert answer.status_code == 500
    assert answer.json() == {"error": "the server failed", "remedy": "see the server's log"}


def test_a_damaged_upload_leaves_the_index_that_was_there(folder: IndexFolder) -> None:
    made = MadeIndex()
    index_id = made.index.index_id.hex()
    whole = made.index.to_bytes()
    client = Local(folder)
    assert client.put(f"/indexes/{index_id}", content=whole).status_code == 204
    damaged = [whole[:-1], whole + b"x", b"", whole[:100] + b"\0" + whole[101:], b"{}"]
    damaged.append(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    damaged.append(MadeIndex(1).index.to_bytes())  # sound, of another id
    for content in damaged:
        answer = client.put(f"/indexes/{index_id}", content=content)
        assert answer.status_code == 400
        assert set(answer.json()) == {"error", "remedy"}
        assert (folder.root / f"{index_id}.private-index").read_bytes() == whole
    assert not list((folder.root / ".incoming").iterdir())
    request = made.request(["w0"], candidates=[1])
    assert client.post(f"/indexes/{index_id}/rank", content=request.to_json()).status_code == 200


def test_a_replaced_index_is_served_at_once(folder: IndexFolder) -> None:
    made = MadeIndex()
    index_id = made.index.index_id.hex()
    client = Local(folder)
    address, request = f"/indexes/{index_id}/rank", made.request(["w0"], candidates=[1]).to_json()
    client.put(f"/indexes/{index_id}", content=made.index.to_bytes())
    assert client.post(address, content=request).status_code == 200
    without = {k: v for k, v in made.boxes.items() if k != made.secret.token("word", "w0").label}
    names = [bytes(made.index.document_name(d)) for d in range(12)]
    other = PrivateIndex.of(made.index.index_id, without, names).to_bytes()
    client.put(f"/indexes/{index_id}", content=other)
    assert client.post(address, content=request).status_code == 400


def test_what_is_too_long_is_refused(folder: IndexFolder) -> None:
    made = MadeIndex()
    index_id = stored(folder, made)
    content = made.index.to_bytes()
    client = Local(folder, max_index_bytes=1000, max_request_bytes=100)

    async def pieces() -> AsyncIterator[bytes]:  # of no said length
        for first in range(0, len(content), 50):
            yield content[first : first + 50]

    for answer in (
        client.put(f"/indexes/{index_id}", content=content),
        client.put(f"/indexes/{index_id}", content=pieces()),
        client.post(f"/indexes/{index_id}/rank", content=made.request(["w0"]).to_json()),
    ):
        assert answer.status_code == 413
        assert set(answer.json()) == {"error", "remedy"}
    assert not list((folder.root / ".incoming").iterdir())


def test_no_more_indexes_than_allowed_are_kept(tmp_path: Path) -> None:
    folder = IndexFolder(tmp_path / "few", max_indexes=1)
    first, second = MadeIndex(0), MadeIndex(1)
    client = Local(folder)
    for made, status in ((first, 204), (first, 204), (second, 500)):
        address = f"/indexes/{made.index.index_id.hex()}"
        assert client.put(address, content=made.index.to_bytes()).status_code == status
    assert folder.index_ids() == [first.index.index_id.hex()]


def half_sent(service: Service, index_id: str, content: bytes) -> socket.socket:
    """Send half of an upload, and wait until the server has begun to write."""
    host = urlsplit(service.address)
    sending = socket.create_connection((host.hostname, host.port))
    head = f"PUT /indexes/{index_id} HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(content)}\r\n\r\n"
    sending.sendall(head.encode() + content[: len(content) // 2])
    await_that(lambda: any((service.folder / ".incoming").iterdir()))
    return sending


def await_that(holds: object, limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not holds():  # type: ignore[operator]
        if time.monotonic() > end:
            pytest.fail("it did not come to pass")
        time.sleep(0.02)


def test_a_server_killed_during_an_upload_has_the_old_index_when_it_comes_back(
    tmp_path: Path,
) -> None:
    made = MadeIndex(texts=True)
    index_id = made.index.index_id.hex()
    request = made.request(["w0", "w1"], candidates=list(range(12)))
    with running(tmp_path) as first, first.transport() as transport:
        transport.upload(index_id, written(made.index, tmp_path))
        before = transport.rank(index_id, request)
        with half_sent(first, index_id, made.index.to_bytes()):
            first.stop()  # SIGKILL
        assert list((first.folder / ".incoming").iterdir())
        with pytest.raises(StoreError, match="does not answer"):
            transport.rank(index_id, request)
    with running(tmp_path) as again, again.transport() as transport:
        assert not list((again.folder / ".incoming").iterdir())
        assert transport.rank(index_id, request) == before


def test_a_client_that_goes_away_leaves_nothing_behind(service: Service, tmp_path: Path) -> None:
    made = MadeIndex(11)
    index_id = made.index.index_id.hex()
    request = made.request(["w0"], candidates=[0, 1])
    with service.transport() as transport:
        transport.upload(index_id, written(made.index, tmp_path))
        before = transport.rank(index_id, request)
        half_sent(service, index_id, made.index.to_bytes()).close()
        await_that(lambda: not any((service.folder / ".incoming").iterdir()))
        assert transport.rank(index_id, request) == before


def test_of_two_uploads_at_once_one_stays_whole(service: Service, tmp_path: Path) -> None:
    with_texts = MadeIndex(12, texts=True)
    index_id = with_texts.index.index_id.hex()
    names = [bytes(with_texts.index.document_name(d)) for d in range(12)]
    without = PrivateIndex.of(with_texts.index.index_id, with_texts.boxes, names)
    paths = [tmp_path / "with", tmp_path / "without"]
    for index, path in zip((with_texts.index, without), paths, strict=True):
        index.write(path)

    def send(path: Path) -> None:
        with service.transport() as transport:
            for _ in range(5):
                transport.upload(index_id, path)

    threads = [threading.Thread(target=send, args=(path,)) for path in paths * 2]
    for thread in threads:
        thread.start()
    with service.transport() as transport:
        for thread in threads:
            thread.join()
        transport.rank(index_id, with_texts.request(["w0"]))
    kept = (service.folder / f"{index_id}.private-index").read_bytes()
    assert kept in [path.read_bytes() for path in paths]
    assert not list((service.folder / ".incoming").iterdir())


IMPATIENT = """
import json, sys
from cloister.cloud.http_routes import CloudServiceLimits
from cloister.cloud.http_service import serve
serve(*sys.argv[1:], port=0, limits=CloudServiceLimits(head_s=1.0, max_requests=1),
      listening=lambda address: print(json.dumps({"address": address}), flush=True))
"""


@contextmanager
def connections(address: str, n: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Hold connections open that send no whole request."""
    parts = urlsplit(address)
    held = [socket.create_connection((parts.hostname, parts.port)) for _ in range(n)]
    try:
        for one in held:
            one.sendall(sent)
        yield held
    finally:
        for one in held:
            one.close()


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nhost: a\r\n"])
def test_idle_connections_keep_nobody_out(sent: bytes, service: Service) -> None:
    with connections(service.address, 200, sent):
        for _ in range(3):  # each with a connection of its own
            began = time.monotonic()
            assert httpx.get(f"{service.address}/health", timeout=10).status_code == 200
            assert time.monotonic() - began < 5
        with service.transport() as transport, pytest.raises(NotFound):
            transport.describe("0" * 32)


def test_idle_connections_are_cut_and_one_request_at_a_time_is_counted(tmp_path: Path) -> None:
    write_private_file(tmp_path / "token", TOKEN.encode())
    command = [sys.executable, "-c", IMPATIENT, str(tmp_path / "indexes"), str(tmp_path / "token")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = json.loads(process.stdout.readline())["address"]
            with connections(address, 5, b"") as silent, connections(address, 5, b"GET ") as slow:
                for one in (*silent, *slow):
                    one.settimeout(15)
                assert [one.recv(100) for one in silent] == [b""] * 5
                assert all(one.recv(100).startswith(b"HTTP/1.1 408 ") for one in slow)
            path = f"/indexes/{'0' * 32}"
            head = f"PUT {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {TOKEN}\r\n"
            with connections(address, 1, f"{head}content-length: 9\r\n\r\n".encode()):
                time.sleep(0.5)
                answer = httpx.get(address + path, headers=AUTHORISED)
                assert (answer.status_code, answer.json()["remedy"]) == (503, "try again later")
                assert httpx.get(address + path).status_code == 401
                assert httpx.get(f"{address}/health").status_code == 200
            wait_until(lambda: httpx.get(address + path, headers=AUTHORISED).status_code == 404)
        finally:
            process.terminate()
            assert process.wait(20) == 0


def wait_until(holds: Callable[[], bool], timeout_s: float = 10.0) -> None:
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate of this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    today = datetime.datetime.now(datetime.UTC)
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([here]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    (folder / "certificate").write_bytes(made.public_bytes(pem))
    plain = serialization.NoEncryption()
    write_private_file(folder / "key", key.private_bytes(pem, form, plain))
    return folder / "certificate", folder / "key"


def test_the_way_to_the_server_can_be_tls(tmp_path: Path) -> None:
    made = MadeIndex()
    index_id = made.index.index_id.hex()
    theirs, key = certificate(tmp_path)
    options = ("--tls-certificate", str(theirs), "--tls-key", str(key))
    with running(tmp_path, *options) as served:
        assert served.address.startswith("https://")
        with HttpTransport(served.address, TOKEN, ca_file=theirs) as transport:
            transport.upload(index_id, written(made.index, tmp_path))
            assert transport.rank(index_id, made.request(["w0"], candidates=[1])).n_scored == 1
        with served.transport() as transport, pytest.raises(StoreError):  # nobody vouches for it
            transport.describe(index_id)


def test_keys_do_not_travel_in_the_open_beyond_this_machine(tmp_path: Path) -> None:
    write_private_file(tmp_path / "token", TOKEN.encode())
    with pytest.raises(SettingsError, match="TLS"):
        serve(tmp_path / "indexes", tmp_path / "token", host="0.0.0.0")
    for address in ("http://index.example", "ftp://localhost", "https://a:b@index.example", "x"):
        with pytest.raises(SettingsError):
            HttpTransport(address, TOKEN)


def test_addresses_and_certificates_that_cannot_be_used_are_plain_errors(tmp_path: Path) -> None:
    for address in ("http://[::1", "https://index.example/?a=b", "https://index.example#a"):
        with pytest.raises(SettingsError):
            HttpTransport(address, TOKEN)
    (tmp_path / "junk").write_text("no certificate")
    write_private_file(tmp_path / "token", TOKEN.encode())
    with pytest.raises(NotFound):
        HttpTransport("https://index.example", TOKEN, ca_file=tmp_path / "none")
    with pytest.raises(SettingsError, match="PEM"):
        HttpTransport("https://index.example", TOKEN, ca_file=tmp_path / "junk")
    files = tmp_path / "indexes", tmp_path / "token"
    (tmp_path / "junk").chmod(0o600)
    for name, kind in (("none", NotFound), ("junk", SettingsError)):
        with pytest.raises(kind):
            serve(*files, port=0, tls_certificate=tmp_path / name, tls_key=tmp_path / name)
    with pytest.raises(SettingsError, match="needs its certificate"):
        serve(*files, port=0, tls_key=tmp_path / "junk")


@pytest.mark.parametrize("content", [b"junk", b"3", b"[1]", b"[" * 100_000])
def test_a_description_that_is_none_is_a_plain_error(content: bytes) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=httpx.ByteStream(content))

    way = httpx.MockTransport(answer)
    with (
        HttpTransport("http://127.0.0.1", TOKEN, transport=way) as transport,
        pytest.raises(DataError, match="cannot be read"),
    ):
        transport.describe("0" * 32)


def test_a_token_that_is_short_or_that_others_may_read_is_refused(tmp_path: Path) -> None:
    write_private_file(tmp_path / "short", b"short")
    write_private_file(tmp_path / "open", TOKEN.encode())
    (tmp_path / "open").chmod(0o644)
    with pytest.raises(SettingsError, match="at least 16"):
        read_token(tmp_path / "short")
    with pytest.raises(AccessDenied):
        read_token(tmp_path / "open")


def test_an_index_damaged_on_the_disk_is_refused(folder: IndexFolder) -> None:
    made = MadeIndex()
    index_id = stored(folder, made)
    path = folder.root / f"{index_id}.private-index"
    content = path.read_bytes()
    path.write_bytes(content[:-40] + bytes([content[-40] ^ 1]) + content[-39:])
    answer = Local(folder).post(f"/indexes/{index_id}/rank", content=made.request(["w0"]).to_json())
    assert answer.status_code == 500
    assert set(answer.json()) == {"error", "remedy"}


def test_a_client_that_stops_sending_is_given_up(folder: IndexFolder) -> None:
    index_id = stored(folder, MadeIndex())

    async def stalling() -> AsyncIterator[bytes]:
        yield b"half"
        await asyncio.sleep(30)

    answer = Local(folder, idle_s=0.2).put(f"/indexes/{index_id}", content=stalling())
    assert answer.status_code == 400
    assert "did not come" in answer.json()["error"]
    assert not list((folder.root / ".incoming").iterdir())


def test_without_the_extra_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("uvicorn", "httpx"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match=r"cloister\[cloud\]"):
        serve(tmp_path / "indexes", tmp_path / "token")
    with pytest.raises(MissingDependency, match=r"cloister\[cloud\]"):
        HttpTransport("https://index.example", TOKEN)
