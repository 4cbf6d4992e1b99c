"""The attacks of a security review, on a whole node: each stalled or hid version 0.1.0."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloister.core.ids import AgentId, PodId, ServerId
from cloister.core.rights import Reader, Rights
from cloister.index.entity_weights import ModelSettings
from cloister.pods.folder_pod import FolderPod
from cloister.pods.overlay.frames import AskFrame, signed_content
from cloister.pods.overlay.proofs import Credential, ProofVerifier, new_holder_key
from cloister.pods.overlay.token_issuer import TokenIssuer
from cloister.pods.overlay.tokens import TokenVerifier, TrustedIssuer
from cloister.pods.overlay.wire import (
    MAX_ANSWER_BYTES,
    Question,
    decode_answer,
    encode_answer,
    encode_question,
)
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.search_server import SearchServer
from cloister.pods.sync import SyncCounts, sync
from cloister.search.node import Hit, SubAnswer, SubQuery

SERVER = ServerId("clinic-a")
ANYBODY = Reader(AgentId("https://id.example/ann"))
COUGH = SubQuery(("cough",), ModelSettings(), 10, explain=True)
ISSUER = "https://id.example/"
LIGATURE = "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}"  # four words in the index


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[PodRegistry]:
    with PodRegistry(tmp_path / "home") as opened:
        yield opened


def add_pod(registry: PodRegistry, name: str, documents: dict[str, str]) -> RegisteredPod:
    place = registry.home.parent / name
    pod = FolderPod.create(place, PodId(name), AgentId(name))
    for file, text in documents.items():
        pod.write(file, text, rights=Rights(owner=AgentId(name), public=True))
    added = RegisteredPod(
        pod_id=name, owner=name, server_id=SERVER, kind="folder", address=str(place)
    )
    registry.add(added)
    return added


def synced(registry: PodRegistry, pod: RegisteredPod) -> SyncCounts:
    """Sync as a node does; version 0.1.0 had another way."""
    if hasattr(registry, "sync"):
        return registry.sync(pod)
    return sync(registry.datastore(pod), registry.shard(SERVER))


def found(server: SearchServer) -> list[str]:
    answer = server.ask(ANYBODY, COUGH)
    assert isinstance(answer, SubAnswer)
    return sorted(hit.doc_id for hit in answer.hits)


def test_a_page_of_30_kb_costs_a_node_no_time_when_it_is_indexed_or_found(
    registry: PodRegistry,
) -> None:
    pod = add_pod(registry, "mallory", {"a.html": "cough " + "<a " * 10_000})
    calm = add_pod(registry, "ann", {"a.html": "<p>dry cough</p>"})
    synced(registry, calm)
    server = registry.search_server(SERVER)
    assert found(server) == ["ann/a.html"]  # kernels are compiled
    begin = time.process_time()
    assert synced(registry, pod).added == 1
    for _ in range(3):
        assert found(server) == ["ann/a.html", "mallory/a.html"]
    assert time.process_time() - begin < 2  # it took 4.7 s for the sync and for each search


def test_a_letter_with_256_000_accents_costs_a_node_no_time_in_documents_or_queries(
    registry: PodRegistry,
) -> None:
    accents = "a" + "\N{COMBINING ACUTE ACCENT}" * 128_000 + "\N{COMBINING DOT BELOW}" * 128_000
    pod = add_pod(registry, "mallory", {"a.txt": f"cough {accents}"})
    calm = add_pod(registry, "ann", {"a.txt": "dry cough caf\u00e9"})
    synced(registry, calm)
    server = registry.search_server(SERVER)
    assert found(server) == ["ann/a.txt"]  # kernels are compiled
    begin = time.process_time()
    assert synced(registry, pod).added == 1
    assert found(server) == ["ann/a.txt", "mallory/a.txt"]
    assert registry.shard(SERVER).analysis.terms(f"{accents} cough") == ["cough"]
    assert time.process_time() - begin < 2  # the sync alone took 25 s


@pytest.fixture
def verifier_and_credential() -> tuple[ProofVerifier, Credential]:
    issuer, holder = TokenIssuer(ISSUER, "clinics", "k1"), new_holder_key()
    trusted = TrustedIssuer(
        issuer=ISSUER, audience="clinics", keys=issuer.public_keys(), agent_prefixes=(ISSUER,)
    )
    token = issuer.issue(ANYBODY.agent_id, holder)
    return ProofVerifier(SERVER, TokenVerifier([trusted])), Credential(token, holder)


def test_two_large_words_hide_nothing_of_an_answer_to_another_node(
    registry: PodRegistry, verifier_and_credential: tuple[ProofVerifier, Credential]
) -> None:
    verifier, credential = verifier_and_credential
    synced(registry, add_pod(registry, "bob", {"b.txt": "dry cough"}))
    large = {f"m{i}.txt": "cough-" * 2000 + "x" * 8_500_000 for i in range(2)}
    synced(registry, add_pod(registry, "mallory", large))
    question = encode_question(Question(COUGH))
    proof = credential.prove(SERVER, signed_content(b"", question))
    ask = AskFrame(credential.token, proof.text, b"", question)
    reply = registry.search_server(SERVER).reply(ask, verifier)
    answer = decode_answer(reply.content, COUGH)
    assert isinstance(answer, SubAnswer)
    assert sorted(hit.doc_id for hit in answer.hits) == [
        "bob/b.txt",
        "mallory/m0.txt",
        "mallory/m1.txt",
    ]
    assert max(len(hit.snippet) for hit in answer.hits) < 1_100


def test_documents_that_do_not_fit_are_left_out_of_an_answer_the_largest_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def hit(name: str, snippet: str) -> Hit:
        return Hit(doc_id=name, pod_id="p", score=1.0, snippet=snippet)  # type: ignore[arg-type]

    hits = (hit("a", "x" * 900), hit("b", "dry cough"), hit("c", "x" * 800), hit("d", "fever"))
    answer = SubAnswer(SERVER, 1, hits)
    for max_bytes, wanted in ((10_000, "abcd"), (1_500, "bcd"), (500, "bd"), (100, "d")):
        content = encode_answer(answer, max_bytes=max_bytes)
        assert len(content) <= max_bytes
        read = decode_answer(content, COUGH)
        assert isinstance(read, SubAnswer)
        assert "".join(one.doc_id for one in read.hits) == wanted
        assert read.missing_pods == (() if wanted == "abcd" else ("p",))
    assert [record.message.split(":")[1] for record in caplog.records] == [
        " 1 of 4 documents were too large for an answer and were left out",
        " 2 of 4 documents were too large for an answer and were left out",
        " 3 of 4 documents were too large for an answer and were left out",
    ]
    assert MAX_ANSWER_BYTES == 16_000_000


def test_a_pod_of_hostile_documents_is_indexed_but_for_these_and_names_them(
    registry: PodRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = add_pod(
        registry,
        "mallory",
        {
            "deep.json": "[" * 200_000 + "]" * 200_000,
            "words.txt": " ".join(f"w{n}" for n in range(250_001)),
            "word.txt": "cough " + "x" * 16_000_000,
            "unfolded.txt": " ".join(f"x{n}{LIGATURE}y{n}" for n in range(130_000)),
            "growing.txt": LIGATURE * 900_000,
            "fine.txt": "cough",
        },
    )
    place = Path(pod.address)
    (place / "scan.pdf").write_bytes(b"%PDF")
    (place / "latin.txt").write_bytes("Fieber früh".encode("latin-1"))
    done = synced(registry, pod)
    assert (done.added, done.left_out) == (1, 7)
    reasons = {one.name: one.reason for one in done.left_out_files}
    assert reasons == {
        "mallory/deep.json": "not JSON, or deeper than 50 levels",
        "mallory/words.txt": "more than 250,000 different words",
        "mallory/unfolded.txt": "more than 250,000 different words",
        "mallory/growing.txt": "more than 16,000,000 characters of text",
        "mallory/word.txt": "larger than 16,000,000 bytes",
        "mallory/latin.txt": "not UTF-8",
        "mallory/scan.pdf": "no text of a kind that is read",
    }
    read = "cloister.pods.extraction.pool.ExtractionPool.extract_all"
    monkeypatch.setattr(read, None)  # nothing is read again
    again = synced(registry, pod)
    assert {one.name: one.reason for one in again.left_out_files} == reasons
    assert again.unchanged == 1


def test_what_keeps_ending_children_ends_few_in_one_sync_and_each_once(
    registry: PodRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloister.pods.extraction.pool import extraction_pool

    start = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "from cloister.pods.extraction import child\n"
        "import os\n"
        "honest = child.checked_text\n"
        "def hostile(content, kind):\n"
        "    if b'evil' in content: os._exit(3)\n"
        "    return honest(content, kind)\n"
        "child.checked_text = hostile\n"
        "child.main()"
    )
    monkeypatch.setattr("cloister.pods.extraction.pool._START", start)
    extraction_pool().close()
    documents = {f"{n:03}.txt": f"evil {n}" for n in range(20)} | {"a.txt": "cough"}
    pod = add_pod(registry, "mallory", documents)
    before = extraction_pool().n_ended
    synced(registry, pod)
    first = extraction_pool().n_ended - before
    done = [synced(registry, pod) for _ in range(3)]
    assert 8 <= first <= 20
    assert extraction_pool().n_ended - before == 20
    assert done[-1].left_out == 20
    assert done[-1].added + done[-1].unchanged == 1
    extraction_pool().close()
    reasons = {one.name: one.reason for one in done[-1].left_out_files}
    assert reasons["mallory/000.txt"] == "its reader ended with status 3"


def test_a_node_parses_no_document_in_its_own_process(
    registry: PodRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise AssertionError("parsed here")

    for module in ("cloister.pods.document_text", "cloister.pods.extraction.child"):
        monkeypatch.setattr(sys.modules[module], "checked_text", refuse)
    monkeypatch.setattr("cloister.pods.document_text.text_of", refuse)
    pod = add_pod(registry, "ann", {"a.html": "<p>dry cough</p>"})
    assert synced(registry, pod).added == 1
    assert found(registry.search_server(SERVER)) == ["ann/a.html"]
    registry._texts.retain(PodId("ann"), {})  # without a kept text a child reads it
    assert found(registry.search_server(SERVER)) == ["ann/a.html"]


def test_ten_thousand_tiny_files_are_indexed_and_found(registry: PodRegistry) -> None:
    pod = add_pod(registry, "ann", {"a.txt": "cough"})
    for number in range(10_000):
        Path(pod.address, f"{number}.md").write_text(f"visit {number}")
    assert synced(registry, pod).added == 10_001
    assert found(registry.search_server(SERVER)) == ["ann/a.txt"]
