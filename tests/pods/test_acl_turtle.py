"""Turtle is hostile: whoever writes a list, a document of groups or a listing chooses it."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.core.ids import AgentId, PodId
from cloister.core.rights import Reader
from cloister.pods import folder_access
from cloister.pods.acl_turtle import MAX_GROUPS_BYTES, MAX_LIST_BYTES, parse_turtle, read_acl
from cloister.pods.folder_pod import FolderPod

BASE = "http://a.example/b/c"
N = 200_000  # characters
HOSTILE = {
    "prefixes of one namespace": "".join(f"@prefix p{i}: <http://x/>.\n" for i in range(N // 28)),
    "prefixes": "".join(f"PREFIX p{i}: <http://x/{i}>\n" for i in range(N // 28)),
    "growing bases": "@base <a/> .\n" * (N // 13),
    "a long prefix": f"@prefix p: <http://{'a' * (N // 2)}>.\n" + "p:a p:b p:c .\n" * (N // 28),
    "escapes": '<a> <b> "' + "\\n" * (N // 2) + '".',
    "steps upwards": "<" + "../" * (N // 3) + "> <b> <c>.",
    "brackets": "<a> <b> " + "[" * N,
    "a list": "<a> <b> (" + "1 " * (N // 2) + ").",
    "no address": "<" + "a b" * (N // 3) + "> <b> <c>.",
    "XML": '<a> <b> "' + "<x>" * (N // 3) + '"^^'
    "<http://www.w3.org/1999/02/22-rdf-syntax-ns#XMLLiteral>.",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_turtle_costs_a_node_no_time_and_no_log(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    parse_turtle("<a> <b> <c>.", BASE)  # rdflib is imported
    begin = time.process_time()
    with caplog.at_level(logging.DEBUG):
        try:
            triples = parse_turtle(HOSTILE[kind], BASE)
        except DataError:
            triples = []
    assert time.process_time() - begin < 1.5
    assert sum(len(one.subject) + len(one.value) for one in triples) < 40 * N
    assert caplog.records == []


ADDRESSES = st.sampled_from(["<a>", "<#b>", "p:c", "p:", "<http://x.example/y>", "_:d"])
VALUES = ADDRESSES | st.sampled_from(
    ['"text"', "'a'@en", '"""x\ny"""', "true", "12", "[]", "[ p:in <deep> ]", '"5"^^p:int']
)
LINES = st.builds(
    lambda subject, predicate, values: f"{subject} {predicate} {', '.join(values)} .",
    ADDRESSES,
    st.sampled_from(["a", "<p>", "p:q"]),
    st.lists(VALUES, min_size=1, max_size=3),
)


@given(st.lists(LINES, max_size=5))
def test_turtle_says_what_the_graphs_of_rdflib_say(lines: list[str]) -> None:
    from rdflib import BNode, Graph

    text = "\n".join(["@prefix p: <http://p.example/#> .", *lines])
    graph = Graph().parse(data=text, format="turtle", publicID=BASE)

    def named(term: object) -> str:
        return "_" if isinstance(term, BNode) or str(term).startswith("_:") else str(term)

    wanted = {tuple(map(named, triple)) for triple in graph}
    assert {tuple(map(named, triple)) for triple in parse_turtle(text, BASE)} == wanted


def test_a_literal_names_nobody_even_beside_the_same_address() -> None:
    rules = """@prefix acl: <http://www.w3.org/ns/auth/acl#>.
        <#r> a acl:Authorization; acl:agent "http://bob", {} ;
            acl:accessTo <n>; acl:mode acl:Read."""
    both = read_acl(rules.format('<http://bob>, "http://eve"'), "http://a/n.acl")
    assert both.own("http://a/n").rights().agents == {"http://bob"}


def pod_with(folder: Path, acl: str, groups: str = "") -> FolderPod:
    pod = FolderPod.create(folder, PodId("ann"), AgentId("ann"))
    pod.write("a.txt", "cough")
    (folder / "a.txt.acl").write_text(acl)
    if groups:
        (folder / ".groups.ttl").write_text(groups)
    return pod


ACL = """@prefix acl: <http://www.w3.org/ns/auth/acl#>.
<#r> a acl:Authorization; acl:agentGroup <.groups.ttl#w>; acl:accessTo <a.txt>; acl:mode acl:Read.
"""
GROUPS = """@prefix vcard: <http://www.w3.org/2006/vcard/ns#>.
<#w> a vcard:Group; vcard:hasMember <urn:cloister:agent:bob>.
"""
BOB = Reader(AgentId("bob"))


def test_lists_and_groups_of_a_folder_are_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = pod_with(tmp_path / "ann", ACL, GROUPS)
    (document,) = [one.doc_id for one in pod.resources()]
    assert pod.read(document, BOB) == "cough"
    monkeypatch.setattr("cloister.pods.acl_turtle.parse_turtle", None)
    assert pod.read(document, BOB) == "cough"


def test_a_list_or_groups_beyond_their_greatest_size_give_nothing(tmp_path: Path) -> None:
    long_list = pod_with(tmp_path / "one", ACL + "#" * MAX_LIST_BYTES, GROUPS)
    long_groups = pod_with(tmp_path / "two", ACL, GROUPS + "#" * MAX_GROUPS_BYTES)
    for pod in (long_list, long_groups):
        (document,) = [one.doc_id for one in pod.resources()]
        assert not pod.modes(document, BOB)


def test_what_is_remembered_of_lists_has_a_greatest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_access, "MAX_KNOWN_BYTES", 100)
    memory = folder_access._Read(lambda content, address: content)
    for number in range(100):
        assert memory.read(f"{number:10}".encode(), BASE) == f"{number:10}".encode()
        assert sum(map(len, memory._known)) <= 12 * 32  # digests alone


def test_no_list_is_written_that_would_be_refused(tmp_path: Path) -> None:
    pod = FolderPod.create(tmp_path / "ann", PodId("ann"), AgentId("ann"))
    document = pod.write("a.txt", "cough")
    for number in range(15):
        pod.grant(document, AgentId(f"https://id.example/{'x' * 900}{number}"))
    with pytest.raises(SettingsError, match="name a group"):
        pod.grant(document, AgentId(f"https://id.example/{'y' * 3000}"))
    assert pod.modes(document, Reader(AgentId("ann")))
