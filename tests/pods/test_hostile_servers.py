"""Servers of pods that drip, hang, lie about sizes or never end: each exchange ends in time."""

from __future__ import annotations

import gzip
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest

from cloister.core.deadline import within
from cloister.core.errors import CloisterError, DataError
from cloister.core.ids import AgentId
from cloister.pods import curl_http
from cloister.pods.datastore import LeftOut
from cloister.pods.http_transport import NotAsked
from cloister.pods.pod_gate import PodAway, PodGate, SearchTally
from cloister.pods.solid_client import SolidClient, _read_triples
from cloister.pods.solid_http import SolidHttp, SolidResponse
from cloister.pods.solid_listing import ListingLimits, in_threads
from cloister.pods.solid_pod import SolidPod
from pods.hostile_server import Deed, answer, drip, hostile_server

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"


def hang(connection: socket.socket, path: str) -> None:
    connection.recv(1)


def drip_headers(connection: socket.socket, path: str) -> None:
    drip(connection, HEAD + b"x-slow: ")


def drip_body(connection: socket.socket, path: str) -> None:
    drip(connection, HEAD + b"content-length: 1000000\r\n\r\n")


def drip_chunks(connection: socket.socket, path: str) -> None:
    connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1\r\na\r\n")
        time.sleep(0.05)


def endless_interim(connection: socket.socket, path: str) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")
        time.sleep(0.05)


@pytest.mark.parametrize(
    "deed", [hang, drip_headers, drip_body, drip_chunks, endless_interim], ids=lambda d: d.__name__
)
def test_an_exchange_ends_at_its_deadline_whatever_is_dripped(deed: Deed) -> None:
    with hostile_server(deed) as server, SolidClient(timeout_s=0.5) as client:
        began = time.monotonic()
        with pytest.raises(PodAway):
            client.get(server.address + "a.txt")
        assert 0.4 < time.monotonic() - began < 2.0
        if deed is not hang:
            assert server.closed_early.wait(5.0)  # the connection was closed


def test_a_handshake_that_hangs_ends_at_the_deadline() -> None:
    with hostile_server(hang) as server, SolidClient(timeout_s=0.5) as client:
        began = time.monotonic()
        with pytest.raises(PodAway):
            client.get(server.address.replace("http:", "https:"))
        assert time.monotonic() - began < 2.0


def test_a_name_that_is_not_found_in_time_ends_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **b: time.sleep(5))
    with SolidClient(timeout_s=0.3) as client:
        began = time.monotonic()
        with pytest.raises(PodAway):
            client.get("https://pods.example/ann/a.txt")
        assert time.monotonic() - began < 2.0


def test_an_outer_deadline_holds_for_several_exchanges_together() -> None:
    def slow(connection: socket.socket, path: str) -> None:
        time.sleep(0.2)
        connection.sendall(answer(b"cough"))

    with hostile_server(slow) as server, SolidClient(timeout_s=10.0) as client:
        began = time.monotonic()
        with within(0.5), pytest.raises(PodAway):
            [client.get(server.address + "a.txt") for _ in range(10)]
        assert time.monotonic() - began < 2.0


@pytest.mark.parametrize(
    "body",
    [
        answer(gzip.compress(b"0" * 10_000_000), "text/plain", "content-encoding: gzip"),
        answer(b"x" * 200_000),
        HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"30d40\r\n" + b"x" * 200_000 + b"\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 5_000 + b"0\r\n\r\n",
    ],
    ids=["compressed", "too long", "too long in chunks", "too many pieces"],
)
def test_an_answer_that_unpacks_too_far_is_refused_and_the_server_is_not_left_alone(
    body: bytes,
) -> None:
    with (
        hostile_server(lambda connection, path: connection.sendall(body)) as server,
        SolidClient(timeout_s=5.0) as client,
    ):
        for _ in range(5):
            with pytest.raises(DataError):
                client.get(server.address + "a.txt", max_bytes=100_000)
        assert client.gate.state().state == "closed"


@pytest.mark.parametrize("header", ["x{}:", "x: {}", "set-cookie: a{}=b"])
def test_very_many_headers_take_some_milliseconds_and_are_refused(header: str) -> None:
    head = "\r\n".join(header.format(n) for n in range(90_000 // (len(header) + 6)))
    body = f"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{head}\r\n\r\n".encode()
    with (
        hostile_server(lambda connection, path: connection.sendall(body)) as server,
        SolidClient() as client,
    ):
        for _ in range(3):
            began = time.thread_time()
            with pytest.raises(DataError, match="too many headers"):
                client.head(server.address + "a.txt")
            took_s = time.thread_time() - began
        assert took_s < 0.3


def test_cookies_of_a_server_are_neither_kept_nor_sent() -> None:
    cookies = [f"set-cookie: a{n}=b" for n in range(50)]
    body = answer(b"cough", "text/plain", *cookies)
    with (
        hostile_server(lambda connection, path: connection.sendall(body)) as server,
        SolidClient() as client,
    ):
        for _ in range(2):
            assert client.get(server.address).content == b"cough"
        assert not any(b"cookie" in head.lower() for head in server.heads)


def test_an_exchange_that_ends_after_its_deadline_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = PodGate("ann", n_failures=1)
    with (
        hostile_server(lambda connection, path: connection.sendall(answer(b"cough"))) as server,
        SolidClient(timeout_s=0.2, gate=gate) as client,
    ):
        kept = SolidHttp._answer

        def late(*given: Any) -> SolidResponse:
            found = kept(*given)
            time.sleep(0.3)  # what it takes to read the answer
            return found

        monkeypatch.setattr(SolidHttp, "_answer", late)
        client.get(server.address)
        assert gate.state().state == "open"


def test_an_exchange_for_which_a_search_left_no_time_is_no_failure() -> None:
    def slow(connection: socket.socket, path: str) -> None:
        time.sleep(0.3)
        connection.sendall(answer(b"cough"))

    gate = PodGate("ann", n_failures=1)
    with hostile_server(slow) as server, SolidClient(gate=gate) as client:
        for _ in range(3):
            with within(0.2), pytest.raises(PodAway):
                client.get(server.address)
            assert gate.state() == ("closed", 0, 0.0)
        with within(0.7), pytest.raises(PodAway):
            [client.get(server.address) for _ in range(9)]
        assert gate.state().state == "closed"
        gate.slow_s = 0.1
        with within(0.2), pytest.raises(PodAway):
            client.get(server.address)
        assert gate.state().state == "open"


@pytest.mark.parametrize("is_search", [False, True])
def test_slow_answers_are_failures_in_searches_and_at_the_end_of_a_sync_they_are_none(
    is_search: bool,
) -> None:
    def slow(connection: socket.socket, path: str) -> None:
        time.sleep(0.2)
        connection.sendall(answer(b"cough"))

    gate = PodGate("ann", n_failures=1, slow_s=0.1)
    with (
        hostile_server(slow) as server,
        SolidClient(gate=gate) as client,
        SearchTally().counting() if is_search else nullcontext(),
        within(5.0),
    ):
        assert client.get(server.address).content == b"cough"
    assert gate.state().state == ("open" if is_search else "closed")


@pytest.mark.parametrize("lacks", ["threads", "descriptors"])
def test_what_this_machine_lacks_is_no_fault_of_a_pod(
    monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    def none(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    gate = PodGate("ann", n_failures=1)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (
        hostile_server(lambda connection, path: connection.sendall(answer(b"cough"))) as server,
        SolidClient(gate=gate) as client,
        SolidClient(gate=gate) as new,
    ):
        assert client.get(server.address).content == b"cough"  # it knows the address from now on
        if lacks == "threads":
            client = new
            monkeypatch.setattr(curl_http, "in_own_thread", none)
        else:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            with pytest.raises(NotAsked):
                client.get(server.address)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert gate.state().state == "closed"


def test_all_failures_of_a_search_are_one() -> None:
    gate, search = PodGate("ann", n_failures=2), SearchTally()
    for _ in range(5):
        with search.counting():
            gate.complain()
    assert gate.state().state == "closed"
    with SearchTally().counting():
        gate.complain()
    assert gate.state().state == "open"


def test_a_server_that_drips_is_left_alone_and_then_tried_again() -> None:
    deeds: list[Deed] = [drip_headers]
    with hostile_server(lambda connection, path: deeds[0](connection, path)) as server:
        gate = PodGate("ann", n_failures=2, rest_s=0.6)
        with SolidClient(timeout_s=0.2, gate=gate) as client:
            for _ in range(2):
                with pytest.raises(PodAway):
                    client.get(server.address)
            n_before, began = server.n_requests, time.monotonic()
            for _ in range(100):
                with pytest.raises(PodAway):
                    client.get(server.address)
            assert time.monotonic() - began < 0.3  # nobody waits
            assert server.n_requests == n_before  # and nothing is sent
            assert gate.state().state == "open"
            deeds[0] = lambda connection, path: connection.sendall(answer(b"cough"))
            time.sleep(0.7)
            assert gate.state().state == "half-open"
            assert client.get(server.address).content == b"cough"
            assert gate.state().state == "closed"


def test_a_server_that_answers_every_other_request_is_left_alone_too() -> None:
    gate = PodGate("ann", n_failures=3)
    for _ in range(3):
        gate.enter()
        gate.leave(failed=False)
        gate.enter()
        gate.leave(failed=True)
    assert gate.state().state == "open"


def test_rests_grow_and_are_short_again_after_many_answers() -> None:
    now = [0.0]
    gate = PodGate("ann", n_failures=1, rest_s=1.0, most_rest_s=4.0, clock=lambda: now[0])
    rests = []
    for _ in range(4):
        gate.enter()
        gate.leave(failed=True)
        rests.append(gate.state().rest_s)
        now[0] += rests[-1]
    assert rests == [1.0, 2.0, 4.0, 4.0]
    for waited_s in (0.0, rests[-1]):  # 100 answers prove it, if they take as long as the rest
        now[0] += waited_s
        assert gate.state().n_opened == 4
        for _ in range(101):
            gate.enter()
            gate.leave(failed=False)
    gate.enter()
    gate.leave(failed=True)
    assert gate.state().rest_s == 1.0


def test_a_pod_on_probation_is_asked_by_one_search_at_a_time_and_rests_after_one_failure() -> None:
    now = [0.0]
    gate = PodGate("ann", n_failures=3, rest_s=1.0, clock=lambda: now[0])
    assert gate.begin_search()
    assert gate.begin_search()
    gate.end_search(0.0)
    gate.end_search(0.0)
    for _ in range(3):
        gate.complain()
    assert not gate.begin_search()
    now[0] += 1.0
    assert gate.begin_search()
    assert not gate.begin_search()
    gate.enter()
    gate.leave(failed=False)
    assert gate.is_away  # for others, until this search has ended
    gate.end_search(0.0)
    assert not gate.is_away
    gate.complain()
    assert gate.state() == ("open", 2, 2.0)


def test_a_pod_that_searches_ask_for_too_much_is_left_alone() -> None:
    now = [0.0]
    gate = PodGate("ann", read_rate=10.0, clock=lambda: now[0])

    def ask(n_documents: float, every_s: float) -> None:
        now[0] += every_s
        assert gate.begin_search()
        gate.end_search(n_documents)

    for _ in range(1000):
        ask(9.9, every_s=1.0)  # within its rate it may go on for ever
    assert gate.state().state == "closed"
    while gate.state().state == "closed":
        ask(20.0, every_s=1.0)
        assert now[0] < 1032.0
    assert now[0] > 1029.0
    assert not gate.begin_search()
    now[0] += 5.0
    assert gate.begin_search()
    gate.enter()
    gate.leave(failed=False)
    gate.end_search(101.0)  # on probation less may be asked for
    assert gate.state() == ("open", 2, 10.0)


def test_whatever_one_search_costs_a_pod_gets_no_more_than_its_rate_in_the_long_run() -> None:
    now, n_asked = [0.0], 0.0
    gate = PodGate("ann", read_rate=10.0, clock=lambda: now[0])
    while now[0] < 20_000:
        if gate.begin_search():
            for _ in range(101):  # quick answers, which end every probation
                gate.enter()
                gate.leave(failed=False)
            gate.end_search(720.0)
            n_asked += 720.0
        now[0] += 1.0
    assert n_asked <= 10.0 * now[0] + 300 + 720
    assert n_asked >= 2.0 * now[0]  # its rests reach 300 s


def test_a_pod_on_probation_saves_up_no_more_than_that_allows() -> None:
    now = [0.0]
    gate = PodGate("ann", n_failures=1, read_rate=10.0, clock=lambda: now[0])
    gate.complain()
    now[0] += 5.0
    assert gate.begin_search()
    gate.enter()
    gate.leave(failed=False)
    gate.end_search(1.0)
    now[0] += 1000.0
    assert gate.begin_search()
    gate.end_search(101.0)
    assert gate.state().state == "open"


def test_what_began_before_a_rest_says_nothing_after_it_and_ends_no_trial() -> None:
    now = [0.0]
    gate = PodGate("ann", n_failures=1, clock=lambda: now[0])
    left, enough = threading.Event(), threading.Event()

    def old() -> None:
        gate.enter()
        left.set()
        enough.wait(10)
        gate.leave(failed=True)

    thread = threading.Thread(target=old)
    thread.start()
    assert left.wait(10)
    gate.complain()
    now[0] += 5.0
    gate.enter()  # the trial
    enough.set()
    thread.join()
    assert gate.state() == ("half-open", 1, 0.0)
    with pytest.raises(PodAway):
        gate.enter()
    gate.leave(failed=False)
    assert gate.state().state == "closed"


def test_one_request_at_a_time_is_let_through_to_try() -> None:
    now = [0.0]
    gate = PodGate("ann", n_failures=1, clock=lambda: now[0])
    gate.enter()
    gate.leave(failed=True)
    now[0] += 100.0
    gate.enter()
    with pytest.raises(PodAway):
        gate.enter()
    gate.leave(failed=False)
    gate.enter()


def test_requests_beyond_the_limit_wait_within_their_deadline() -> None:
    gate = PodGate("ann", n_at_once=1)
    gate.enter()
    began = time.monotonic()
    with within(0.2), pytest.raises(PodAway):
        gate.enter()
    assert time.monotonic() - began < 1.0


def test_closing_a_client_wakes_whoever_waits_for_an_answer() -> None:
    ended = threading.Event()
    with hostile_server(hang) as server:
        client = SolidClient(timeout_s=60.0)

        def ask() -> None:
            with pytest.raises(CloisterError):
                client.get(server.address)
            ended.set()

        threading.Thread(target=ask, daemon=True).start()
        while not server.n_requests:
            time.sleep(0.01)
        client.close()
        assert ended.wait(2.0)


def listing(container: str, *names: str) -> bytes:
    lines = [f"<{container}> <http://www.w3.org/ns/ldp#contains> <{container}{n}> ." for n in names]
    body = "\n".join(lines).encode()
    return answer(body, "application/n-triples", 'link: <.acl>; rel="acl"')


def tree(connection: socket.socket, path: str) -> None:
    """Each container has two more inside, without end; the first has two documents."""
    port = connection.getsockname()[1]
    root = f"http://localhost:{port}"
    if path.endswith(".acl"):
        rule = (
            "@prefix acl: <http://www.w3.org/ns/auth/acl#>. <#r> a acl:Authorization;"
            " acl:agentClass <http://xmlns.com/foaf/0.1/Agent>; acl:mode acl:Read;"
            f" acl:default <{root}/p/>; acl:accessTo <{root}/p/>."
        )
        own = path == "/p/.acl"
        missing = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        connection.sendall(answer(rule.encode(), "text/turtle") if own else missing)
    elif path == "/p/":
        connection.sendall(listing(root + path, "x/", "y/", "a.txt", "b.txt"))
    elif path.endswith("/"):
        connection.sendall(listing(root + path, "x/", "y/"))
    else:
        link = f'link: <{path.rsplit("/", 1)[1]}.acl>; rel="acl"'
        connection.sendall(answer(b"", "text/plain", link, 'etag: "1"'))


@pytest.mark.parametrize(
    "limits",
    [ListingLimits(n_containers=50), ListingLimits(depth=5), ListingLimits(listing_bytes=10_000)],
    ids=["containers", "depth", "bytes"],
)
def test_a_tree_of_containers_without_end_is_cut_and_named_and_the_rest_is_listed(
    limits: ListingLimits,
) -> None:
    with hostile_server(tree) as server, SolidClient() as client:
        root = server.address + "p/"
        pod = SolidPod(client, root, owner=AgentId("mallory"), limits=limits)
        left_out: list[LeftOut] = []
        found = [one.doc_id for one in pod.resources(left_out)]
    assert found == [root + "a.txt", root + "b.txt"]
    assert left_out
    assert server.n_requests < 200


def test_documents_beyond_the_limit_are_named() -> None:
    with hostile_server(tree) as server, SolidClient() as client:
        root = server.address + "p/"
        limits = ListingLimits(n_documents=1, depth=0)
        pod = SolidPod(client, root, owner=AgentId("mallory"), limits=limits)
        left_out: list[LeftOut] = []
        assert [one.doc_id for one in pod.resources(left_out)] == [root + "a.txt"]
    assert [one.name for one in left_out] == [root + "x/", root + "y/", root + "b.txt"]


@pytest.mark.parametrize("kind", ["text/turtle", "application/n-triples"])
def test_listings_beyond_the_limit_are_neither_fetched_nor_read(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_read = []

    def counted(content: bytes, where: str) -> set[tuple[str, str, str]]:
        n_read.append(len(content))
        return _read_triples(content, where)

    monkeypatch.setattr("cloister.pods.solid_client._read_turtle", counted)
    monkeypatch.setattr("cloister.pods.solid_client._read_triples", counted)

    def wide(connection: socket.socket, path: str) -> None:
        """A hundred containers of 10 KB each."""
        container = f"http://localhost:{connection.getsockname()[1]}{path}"
        inside = [f"{n}/" for n in range(100)] if path == "/" else ["x" * 10_000]
        lines = [
            f"<{container}> <http://www.w3.org/ns/ldp#contains> <{container}{n}> ." for n in inside
        ]
        connection.sendall(answer("\n".join(lines).encode(), kind))

    turtle_bytes = 50_000 if kind == "text/turtle" else 0
    limits = ListingLimits(listing_bytes=100_000, turtle_bytes=turtle_bytes)
    with hostile_server(wide) as server, SolidClient() as client:
        pod = SolidPod(client, server.address, owner=AgentId("mallory"), limits=limits)
        left_out: list[LeftOut] = []
        assert list(pod.resources(left_out)) == []
        assert server.n_requests < 30
    assert 20_000 < sum(n_read) <= (turtle_bytes or limits.listing_bytes)
    assert len(left_out) > 80


def test_no_more_is_begun_than_a_few_results_ahead() -> None:
    begun = []
    with ThreadPoolExecutor(4) as pool:
        found = in_threads(pool, begun.append, range(1_000))
        next(found)
        time.sleep(0.05)
        assert len(begun) < 20
        found.close()  # type: ignore[attr-defined]
