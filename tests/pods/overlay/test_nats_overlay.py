"""The overlay through a real broker."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.core.errors import NotFound, SettingsError
from cloister.core.ids import AgentId, ServerId
from cloister.core.rights import Reader
from cloister.index.entity_weights import ModelSettings
from cloister.pods.overlay.fan_out import ask_all, ask_within
from cloister.pods.overlay.frames import AskFrame, signed_content
from cloister.pods.overlay.nats_broker import create_nkey
from cloister.pods.overlay.nats_connection import (
    BrokerUnreachable,
    NatsConnection,
    NatsSettings,
    node_subject,
)
from cloister.pods.overlay.nats_node_service import NatsNodeService
from cloister.pods.overlay.nats_overlay import NatsOverlay
from cloister.pods.overlay.parts import PART_BYTES, REFUSAL, in_parts
from cloister.pods.overlay.proofs import Credential, new_holder_key
from cloister.pods.overlay.sealing import SearcherSeal
from cloister.pods.overlay.token_issuer import TokenIssuer
from cloister.pods.overlay.tokens import TokenVerifier
from cloister.pods.overlay.wire import Question, encode_question
from cloister.search.node import SubQuery, SummaryRequest, TableRequest
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.selector_table import SelectorTable
from cloister.search.table_settings import TableSettings
from pods.overlay.nats_scene import Federation, running
from pods.overlay.overlay_scene import (
    ALICE,
    BOB,
    FEDERATION,
    ISSUER,
    SmallIndex,
    compile_kernels,
    credential,
    new_issuer,
    small_server,
    trusted,
)

N_NODES = 20
QUERY = SubQuery(("fever", "cough"), ModelSettings(), 10)
HERE, THERE = ServerId("node-00"), ServerId("node-01")
KILLED = ServerId("node-19")
SCRIPT = Path(__file__).with_name("node_process.py")
TRUSTED = new_issuer()


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    compile_kernels()
    names = [f"node-{i:02}" for i in range(N_NODES)]
    with running(tmp_path_factory.mktemp("federation"), names) as one:
        yield one


def _service(
    federation: Federation, name: ServerId, index: SmallIndex | None = None
) -> NatsNodeService:
    return NatsNodeService(
        small_server(name, index or SmallIndex(name=name)),
        federation.identities[name],
        TokenVerifier([trusted(TRUSTED)]),
        federation.settings(name),
    )


def _overlay(federation: Federation) -> NatsOverlay:
    return NatsOverlay(federation.settings(), federation.directory, timeout_s=20.0)


@contextmanager
def _two_nodes(federation: Federation, index: SmallIndex | None = None) -> Iterator[NatsOverlay]:
    with ExitStack() as stack:
        stack.enter_context(_service(federation, HERE, index))
        stack.enter_context(_service(federation, THERE))
        yield stack.enter_context(_overlay(federation))


def _nodes(overlay: NatsOverlay, asker: Credential) -> list[Any]:
    return [node for node in overlay.nodes(asker) if node.server_id in (HERE, THERE)]


def _start(federation: Federation, names: list[ServerId], file: str) -> subprocess.Popen[bytes]:
    setup = {
        "issuer": trusted(TRUSTED).model_dump(mode="json"),
        "nodes": [
            {
                "server_id": name,
                "identity": federation.identities[name].private_bytes().hex(),
                "nats": federation.settings(name).model_dump(mode="json"),
            }
            for name in names
        ],
    }
    path = federation.folder / file
    path.write_text(json.dumps(setup))
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def test_twenty_nodes_answer_quickly_and_a_killed_one_is_named(
    federation: Federation, record_property: Callable[[str, object], None]
) -> None:
    with ExitStack() as stack:
        most = _start(federation, list(federation.identities)[:-1], "most.json")
        stack.callback(_end, most)
        last = _start(federation, [KILLED], "last.json")
        stack.callback(_end, last)
        overlay = stack.enter_context(_overlay(federation))
        nodes = overlay.nodes(credential(TRUSTED))
        times = []
        for _ in range(200):
            begin = time.perf_counter()
            found = ask_all(nodes, QUERY, 5.0)
            times.append(time.perf_counter() - begin)
            assert found.missing == ()
        direct = small_server("node-03").ask(Reader(ALICE), QUERY)
        assert found.answers[ServerId("node-03")] == direct
        p95_ms = sorted(times)[190] * 1e3
        record_property("p95_ms", p95_ms)
        assert p95_ms < 1_000  # the aim is 50 on a quiet machine; this one is shared

        last.kill()
        last.wait(10)
        begin = time.perf_counter()
        found = ask_all(nodes, QUERY, 5.0)
        assert time.perf_counter() - begin < 5.5
        assert found.missing == (KILLED,)
        assert len(found.answers) == N_NODES - 1
        with pytest.raises(NotFound, match="no answer in time, or not allowed"):
            nodes[-1].answer(QUERY)


def test_each_user_gets_what_they_may_read_and_searches_through_the_broker(
    federation: Federation,
) -> None:
    with _two_nodes(federation) as overlay:
        for agent, number in ((ALICE, 0), (BOB, 1)):
            nodes = _nodes(overlay, credential(TRUSTED, agent))
            found = ask_all(nodes, QUERY, 10.0)
            hits = [hit.doc_id for answer in found.answers.values() for hit in answer.hits]
            assert sorted(hits) == sorted(f"{n}/{i}" for n in (HERE, THERE) for i in (number, 2))
            outcome = Searcher(nodes, ask=ask_within(10.0)).search("cough fever", k=10)
            assert {result.doc_id for result in outcome.results} == set(hits)
            seen = nodes[0].summarise(SummaryRequest(("huntington",))).terms["huntington"]
            assert seen.n_documents == (1 if agent == BOB else 0)


def _expired() -> Credential:
    past = TokenIssuer(
        ISSUER, FEDERATION, "key-1", key=TRUSTED._key, clock=lambda: time.time() - 700
    )
    return credential(past)


def _for_another_federation() -> Credential:
    return credential(TokenIssuer(ISSUER, "other", "key-1", key=TRUSTED._key))


def _by_another_issuer() -> Credential:
    return credential(TokenIssuer("https://x.example/", FEDERATION, "key-1", key=TRUSTED._key))


@pytest.mark.parametrize(
    "make",
    [
        lambda: credential(new_issuer()),
        _expired,
        _for_another_federation,
        _by_another_issuer,
        lambda: credential(TRUSTED, AgentId("https://other.example/alice")),
        lambda: Credential(credential(TRUSTED).token, new_holder_key()),
        lambda: Credential("x", new_holder_key()),
    ],
    ids=["wrong key", "expired", "audience", "issuer", "agent", "stolen", "no token"],
)
def test_a_wrong_credential_gets_no_answer_and_no_reason(
    federation: Federation, make: Callable[[], Credential]
) -> None:
    with _two_nodes(federation) as overlay:
        nodes = _nodes(overlay, make())
        found = ask_all(nodes, QUERY, 10.0)
        assert (found.answers, found.missing) == ({}, (HERE, THERE))
        with pytest.raises(NotFound, match=r"^node-00: no answer in time, or not allowed; "):
            nodes[0].summarise(SummaryRequest(("cough",)))
        right = _nodes(overlay, credential(TRUSTED))
        assert ask_all(right, QUERY, 10.0).missing == ()


def _message(service: NatsNodeService, federation: Federation, **changes: Any) -> bytes:
    """Make a request as a searcher does, with one thing changed."""
    asker = credential(TRUSTED)
    seal = SearcherSeal(federation.directory)
    seal.learn(service.server.server_id, service._seal.prekey())
    prekey, question = seal.return_prekey(), encode_question(Question(QUERY))
    proof = asker.prove(changes.pop("to", HERE), signed_content(prekey, question))
    frame = AskFrame(asker.token, proof.text, prekey, question)._replace(**changes)
    return seal.seal(service.server.server_id, frame.to_bytes())


def test_a_replayed_altered_or_redirected_request_is_refused(federation: Federation) -> None:
    with _service(federation, HERE) as service:
        message = _message(service, federation)
        assert service.handle(message) != [REFUSAL]
        assert service.handle(message) == [REFUSAL]
        other = encode_question(Question(QUERY._replace(k=1_000)))
        elsewhere = SearcherSeal(federation.directory).return_prekey()
        for wrong in (
            _message(service, federation, to=THERE),
            _message(service, federation, question=other),
            _message(service, federation, question=b""),
            _message(service, federation, return_prekey=elsewhere),
            _message(service, federation, token=credential(TRUSTED, BOB).token),
            _message(service, federation, proof=""),
            b"",
            bytes(2_000_000),
        ):
            assert service.handle(wrong) == [REFUSAL]
        for place in (0, 40, 200, -1):
            altered = bytearray(_message(service, federation))
            altered[place] ^= 1
            assert service.handle(bytes(altered)) == [REFUSAL]


def test_an_answer_is_kept_until_the_version_changes(federation: Federation) -> None:
    index = SmallIndex(name=HERE)
    with _two_nodes(federation, index) as overlay:
        alice, bob = (_nodes(overlay, credential(TRUSTED, one))[0] for one in (ALICE, BOB))
        request = SummaryRequest(("cough",))
        first = alice.summarise(request)
        assert alice.summarise(request) is first  # the node said that it still holds
        assert bob.summarise(request) is not first
        assert alice.answer(QUERY) is not alice.answer(QUERY)  # documents are asked for anew
        table = alice.table(TableRequest())
        assert alice.table(TableRequest()) is table
        assert bob.table(TableRequest()).content != table.content
        index.set_rights(0, 1)
        after = alice.summarise(request)
        assert alice.table(TableRequest()).version == after.version
        assert after.version != first.version
        assert after.terms["cough"].n_documents == first.terms["cough"].n_documents - 1


def test_long_answers_come_in_parts(federation: Federation) -> None:
    words = " ".join(f"word{secrets.token_hex(10)}" for _ in range(14_000))
    index = SmallIndex([(words, 2)], name=HERE)
    with _two_nodes(federation, index) as overlay:
        node = _nodes(overlay, credential(TRUSTED))[0]
        summary = node.summarise(SummaryRequest((), all_terms=True))
        assert len(summary.terms) == 14_000
        assert len(json.dumps(summary)) > PART_BYTES


def test_a_table_comes_in_parts_as_it_was_packed(federation: Federation) -> None:
    drawn = np.random.default_rng(5).geometric(5e-5, (60, 10_000))
    texts = [(" ".join(f"word{i}" for i in row), 2) for row in drawn.tolist()]
    index = SmallIndex(texts, name=HERE)
    settings = TableSettings(n_best=60, max_bytes=1_500_000)
    with _two_nodes(federation, index) as overlay:
        nodes = _nodes(overlay, credential(TRUSTED))
        found = ask_all(nodes, TableRequest(settings), 30.0)
        assert found.missing == ()
        table = found.answers[HERE]
        direct = small_server(HERE, index).ask(Reader(ALICE), TableRequest(settings))
        assert table == direct
        assert len(in_parts(table.content)) > 1
        assert SelectorTable.from_bytes(table.content).version == index.version(Reader(ALICE))


def test_a_search_with_kept_tables_asks_the_chosen_node_alone(federation: Federation) -> None:
    index = SmallIndex([("asthma asthma at night", 0), ("cough", 2)], name=HERE)
    with _two_nodes(federation, index) as overlay:
        nodes = _nodes(overlay, credential(TRUSTED))
        settings = SearchSettings(summaries="kept", n_servers=1)
        searcher = Searcher(nodes, settings=settings, ask=ask_within(10.0))
        sent: list[str] = []
        exchanged = overlay._exchanged

        async def keep(subject: str, message: bytes) -> bytes:
            sent.append(subject)
            return await exchanged(subject, message)

        overlay._exchanged = keep  # type: ignore[method-assign]
        assert searcher.search("asthma").servers_asked == (HERE,)
        sent.clear()
        outcome = searcher.search("travel")
        assert (outcome.results, outcome.servers_asked) == ((), ())  # Alice may not read it
        outcome = searcher.search("asthma night")
        assert [one.doc_id for one in outcome.results] == [f"{HERE}/0"]
        assert sent == [node_subject(FEDERATION, HERE, "ask")]
        index.set_rights(0, 1)
        assert searcher.search("asthma").results == ()
        assert searcher.search("asthma").servers_asked == ()  # by the new table


def test_nodes_and_searchers_come_back_when_the_broker_does(federation: Federation) -> None:
    with _two_nodes(federation) as overlay:
        nodes = _nodes(overlay, credential(TRUSTED))
        assert ask_all(nodes, QUERY, 10.0).missing == ()
        federation.stop_broker()
        begin = time.perf_counter()
        assert ask_all(nodes, QUERY, 1.0).missing == (HERE, THERE)
        assert time.perf_counter() - begin < 5
        federation.start_broker()
        for _ in range(100):
            if ask_all(nodes, QUERY, 1.0).missing == ():
                return
            time.sleep(0.1)
        pytest.fail("the nodes did not come back")


def test_a_node_that_was_restarted_is_asked_with_its_new_prekey(federation: Federation) -> None:
    with _overlay(federation) as overlay:
        node = _nodes(overlay, credential(TRUSTED))[0]
        with _service(federation, HERE):
            assert node.answer(QUERY).hits
        with pytest.raises(NotFound):
            node.answer(QUERY)
        time.sleep(1.1)  # prekeys are numbered by the second
        with _service(federation, HERE):
            assert node.answer(QUERY).hits


def test_a_false_node_gets_neither_queries_nor_belief(federation: Federation) -> None:
    """Somebody who got the node's nkey, or the broker itself, does not have the node's identity."""
    false = NatsNodeService(
        small_server(HERE),
        federation.identities[THERE],
        TokenVerifier([trusted(TRUSTED)]),
        federation.settings(HERE),
    )
    asked = []
    false.handle = lambda message: asked.append(message) or [REFUSAL]  # type: ignore[method-assign,func-returns-value]
    with false, _overlay(federation) as overlay:
        assert ask_all(_nodes(overlay, credential(TRUSTED))[:1], QUERY, 2.0).missing == (HERE,)
    assert asked == []


def test_what_the_broker_sees_holds_neither_query_nor_document(federation: Federation) -> None:
    spy_nkey = create_nkey(federation.folder / "spy.seed")
    path = federation.folder / "broker.conf"
    seen: list[bytes] = []

    async def listen(connection: NatsConnection) -> None:
        async def keep(message: Any) -> None:
            seen.append(message.subject.encode() + (message.reply or "").encode() + message.data)

        await connection.client.subscribe(">", cb=keep)
        await connection.client.flush()

    federation.stop_broker()
    federation.start_broker(extra_users=[{"nkey": spy_nkey}])
    assert spy_nkey in path.read_text()
    settings = federation.settings().model_dump() | {"nkey_seed_file": path.with_name("spy.seed")}
    with NatsConnection(NatsSettings(**settings), name="spy") as spy:
        spy.run(listen(spy), 5)
        with _two_nodes(federation) as overlay:
            asker = credential(TRUSTED, BOB)
            query = QUERY._replace(terms=("huntington",))
            (hit,) = _nodes(overlay, asker)[0].answer(query).hits
        time.sleep(0.2)
    traffic = b"".join(seen)
    assert len(seen) >= 4  # a prekey and a request, each with its answer
    assert node_subject(FEDERATION, HERE, "ask").encode() in traffic
    for secret in ("huntington", hit.doc_id, hit.pod_id, BOB, asker.token, "bob"):
        assert secret.encode() not in traffic


def test_the_broker_lets_a_searcher_listen_to_nobody_else(federation: Federation) -> None:
    with _service(federation, HERE), NatsConnection(federation.settings(), name="curious") as one:
        heard = []

        async def listen() -> None:
            async def keep(message: Any) -> None:
                heard.append(message)

            for subject in ("cloister.>", "_INBOX.>", node_subject(FEDERATION, HERE, "ask")):
                await one.client.subscribe(subject, cb=keep)
            await one.client.flush()

        one.run(listen(), 5)
        with _overlay(federation) as overlay:
            assert _nodes(overlay, credential(TRUSTED))[0].answer(QUERY).hits
        time.sleep(0.2)
        assert heard == []


def test_an_unknown_nkey_and_a_false_certificate_do_not_connect(
    federation: Federation, tmp_path: Path
) -> None:
    create_nkey(tmp_path / "stranger.seed")
    fields = federation.settings().model_dump() | {"connect_timeout_s": 1}
    stranger = NatsSettings(**fields | {"nkey_seed_file": tmp_path / "stranger.seed"})
    with pytest.raises(BrokerUnreachable):
        NatsConnection(stranger, name="stranger")
    other = Federation(tmp_path, ["x"])  # makes a certificate authority of its own
    with pytest.raises(BrokerUnreachable):
        NatsConnection(NatsSettings(**fields | {"ca_file": other.folder / "ca.pem"}), name="x")
    with pytest.raises(SettingsError, match="tls://"):
        NatsSettings(**fields | {"servers": ("nats://127.0.0.1:4222",)})


def test_nothing_is_said_to_a_broker_without_tls(federation: Federation) -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            server.settimeout(1.5)
            try:
                while True:
                    peer, _ = server.accept()
                    with peer:
                        peer.settimeout(1)
                        peer.sendall(b'INFO {"server_id":"x","auth_required":true,"nonce":"n"}\r\n')
                        heard.append(peer.recv(1_000))
            except OSError:
                return

        thread = threading.Thread(target=greet)
        thread.start()
        port = server.getsockname()[1]
        fields = federation.settings().model_dump() | {"connect_timeout_s": 1}
        plain = NatsSettings(**fields | {"servers": (f"tls://127.0.0.1:{port}",)})
        with pytest.raises(BrokerUnreachable):
            NatsConnection(plain, name="careful")
    thread.join()
    assert heard
    assert b"".join(heard) == b""
