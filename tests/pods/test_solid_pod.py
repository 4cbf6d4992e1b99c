from __future__ import annotations

import tracemalloc

import httpx
import pytest

from cloister.core.errors import AccessDenied, SettingsError, StoreError
from cloister.core.ids import AgentId, DocId
from cloister.core.rights import NOBODY, Reader
from cloister.pods import ruled_pod, solid_access
from cloister.pods.datastore import LeftOut
from cloister.pods.solid_access import SolidAccess
from cloister.pods.solid_client import SolidClient
from cloister.pods.solid_pod import SolidPod
from pods.answered import Answered

ROOT = "https://pods.example/ann/"
OWNER = AgentId(ROOT + "card#me")


def never(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"{request.method} {request.url} was sent")


@pytest.mark.parametrize(
    "address",
    [
        "https://pods.example/bob/a.txt",
        "https://evil.example/ann/a.txt",
        ROOT,
        ROOT + "x/",
        ROOT + "../bob/a.txt",
        ROOT + "%2e%2e/bob/a.txt",
        ROOT + "..%2Fbob/a.txt",
        ROOT + "x/%2E/a.txt",
        ROOT + "..\\bob/a.txt",
        ROOT + "a.txt.acl",
        ROOT + "a.txt%2Eacl",
        ROOT + ".acl",
        ROOT + "a.txt.meta",
        ROOT + "a.txt?x",
        ROOT + "a.txt#x",
        ROOT + "a%00.txt",
        "",
    ],
)
def test_an_address_cannot_lead_out_of_the_pod_or_to_its_lists(address: str) -> None:
    pod = SolidPod(SolidClient(transport=Answered(never)), ROOT, owner=OWNER)
    doc_id = DocId(address)
    assert pod.resource(doc_id) is None
    assert pod.modes(doc_id, Reader(OWNER)) == frozenset()
    for attempt in (
        lambda: pod.text(doc_id),
        lambda: pod.read(doc_id, Reader(OWNER)),
        lambda: pod.delete(doc_id),
        lambda: pod.set_rights(doc_id, NOBODY),
        lambda: pod.grant(doc_id, OWNER),
    ):
        with pytest.raises(AccessDenied):
            attempt()


@pytest.mark.parametrize(
    "name", ["../a.txt", "/a.txt", "a.acl", "a", ".meta", "x/../a.txt", "a.png"]
)
def test_only_texts_inside_the_pod_are_written(name: str) -> None:
    pod = SolidPod(SolidClient(transport=Answered(never)), ROOT, owner=OWNER)
    with pytest.raises(SettingsError):
        pod.write(name, "cough")


@pytest.mark.parametrize("root", ["https://pods.example/ann", "http://pods.example/ann/"])
def test_a_pods_address_is_safe_and_ends_in_a_slash(root: str) -> None:
    with pytest.raises(SettingsError):
        SolidPod(SolidClient(), root, owner=OWNER)


def test_a_list_cannot_make_us_call_other_servers() -> None:
    called = []

    def answer(request: httpx.Request) -> httpx.Response:
        called.append(str(request.url))
        return httpx.Response(200, text="<#g> <http://www.w3.org/2006/vcard/ns#hasMember> <x:y>.")

    client = SolidClient(transport=Answered(answer))
    access = SolidAccess(client, ROOT, ["https://groups.example/"])
    for document in ("https://internal.example/g", "http://localhost/g", "file:///etc/passwd"):
        assert access.fetch_groups(document) == {}
    assert called == []
    for document in ("https://pods.example/g", "https://groups.example/g"):
        assert access.fetch_groups(document) == {document + "#g": frozenset({"x:y"})}
    assert len(called) == 2


def test_a_list_that_may_not_be_seen_is_not_taken_for_none() -> None:
    """The list of a document is hidden; the container's would let everybody read."""

    statuses = []

    def server(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("a.txt.acl"):
            return httpx.Response(statuses[-1])
        if request.url.path.endswith("/.acl"):
            text = f"""@prefix acl: <http://www.w3.org/ns/auth/acl#>.
            <#r> a acl:Authorization; acl:agentClass <http://xmlns.com/foaf/0.1/Agent>;
                acl:default <{ROOT}>; acl:mode acl:Read."""
            return httpx.Response(200, text=text)
        acl = f"<{request.url}.acl>; rel=acl"
        return httpx.Response(200, headers={"link": acl, "content-type": "text/plain"})

    pod = SolidPod(SolidClient(transport=Answered(server)), ROOT, owner=OWNER)
    doc_id = DocId(ROOT + "a.txt")
    for status in (401, 403):
        statuses.append(status)
        assert pod.resource(doc_id) is None
        assert pod.modes(doc_id, Reader(AgentId("x:y"))) == frozenset()
    statuses.append(500)
    with pytest.raises(StoreError):
        pod.resource(doc_id)
    statuses.append(404)
    found = pod.resource(doc_id)
    assert found is not None
    assert found.rights.public


class OneDocument:
    """A server on which the client controls one document, and nothing else."""

    def __init__(self) -> None:
        self.lists: dict[str, str] = {}
        self.there = {ROOT + "a.txt"}
        self.changed: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        url, method = str(request.url), request.method
        if url.endswith(".acl"):
            if url.removesuffix(".acl") not in self.there:
                return httpx.Response(403)
            if method == "PUT":
                self.changed.append(url)
                self.lists[url] = request.content.decode()
                return httpx.Response(205)
            if url not in self.lists:
                return httpx.Response(404)
            return httpx.Response(200, text=self.lists[url], headers={"etag": '"1"'})
        known = url in self.there
        headers = {"link": f"<{url}.acl>; rel=acl", "content-type": "text/plain"}
        return httpx.Response(200 if known else 403, headers=headers if known else {})


ANN_AND_BOB = f"""@prefix acl: <http://www.w3.org/ns/auth/acl#>.
<#r> a acl:Authorization; acl:agent <{OWNER}>, <x:bob>; acl:accessTo <{ROOT}a.txt>;
    acl:mode acl:Read, acl:Control."""


def test_who_controls_a_document_alone_can_revoke_it_where_no_index_resource_can_be_seen() -> None:
    server = OneDocument()
    server.lists[ROOT + "a.txt.acl"] = ANN_AND_BOB
    pod = SolidPod(SolidClient(transport=Answered(server)), ROOT, owner=OWNER)
    pod.revoke(DocId(ROOT + "a.txt"), AgentId("x:bob"))
    assert server.changed == [ROOT + "a.txt.acl"]
    pod.grant(DocId(ROOT + "a.txt"), AgentId("x:eve"))
    assert server.changed == [ROOT + "a.txt.acl"] * 2


def test_a_revocation_holds_though_the_index_resource_fails_after_it() -> None:
    index = ROOT + "a.txt.terms.bin"
    server = OneDocument()
    server.there.add(index)
    server.lists[ROOT + "a.txt.acl"] = ANN_AND_BOB
    server.lists[index + ".acl"] = ANN_AND_BOB.replace("a.txt", "a.txt.terms.bin")
    seen: list[str] = []

    def watched(request: httpx.Request) -> httpx.Response:
        if len(server.changed) == 2 and str(request.url) == index + ".acl":
            return httpx.Response(503)
        if request.method == "PUT":
            seen.append(str(request.url))
        return server(request)

    pod = SolidPod(SolidClient(transport=Answered(watched)), ROOT, owner=OWNER)
    pod.revoke(DocId(ROOT + "a.txt"), AgentId("x:bob"))
    assert seen == [index + ".acl", ROOT + "a.txt.acl"]  # the index resource first
    assert "Read" not in server.lists[index + ".acl"]
    resource = pod.resource(DocId(ROOT + "a.txt"))
    assert resource is not None
    assert "x:bob" not in resource.rights.agents


class ManyReaders:
    """A server of documents whose lists name many agents each, all different."""

    def __init__(self, n_documents: int, n_agents: int) -> None:
        self.n_documents, self.n_agents = n_documents, n_agents

    def __call__(self, request: httpx.Request) -> httpx.Response:
        url = str(request.url)
        headers = {
            "etag": '"1"',
            "last-modified": "Tue, 15 Nov 1994 12:45:26 GMT",
            "date": "Tue, 15 Nov 1994 13:45:26 GMT",
        }
        if url == ROOT:
            lines = [
                f"<{ROOT}> <http://www.w3.org/ns/ldp#contains> <{ROOT}{n}.txt> ."
                for n in range(self.n_documents)
            ]
            kind = {"content-type": "application/n-triples"}
            return httpx.Response(200, text="\n".join(lines), headers=headers | kind)
        if not url.endswith(".acl"):
            kind = {"content-type": "text/plain", "link": f"<{url}.acl>; rel=acl"}
            return httpx.Response(200, text="cough", headers=headers | kind)
        document = url.removesuffix(".acl")
        name = document.removeprefix(ROOT).removesuffix(".txt")
        agents = ", ".join(f"<{name}x{n}:>" for n in range(self.n_agents))
        text = f"""@prefix acl: <http://www.w3.org/ns/auth/acl#>.
            <#r> a acl:Authorization; acl:accessTo <{document}>; acl:mode acl:Read;
                acl:agent {agents}."""
        return httpx.Response(200, text=text, headers=headers)


def test_what_is_remembered_of_lists_takes_a_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solid_access, "MAX_KEPT_BYTES", 2_000_000, raising=False)
    access = SolidAccess(SolidClient(transport=Answered(ManyReaders(0, 1_000))), ROOT)
    access.fetch_list(ROOT + "0.txt")
    tracemalloc.start()
    try:
        for n in range(1, 60):
            assert access.fetch_list(f"{ROOT}{n}.txt").acl is not None
        assert tracemalloc.get_traced_memory()[0] < 4_000_000
    finally:
        tracemalloc.stop()


def test_documents_with_too_many_readers_are_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ruled_pod, "MAX_POD_READERS", 30, raising=False)
    for n_agents, n_listed in ((10, 3), (12, 2), (5, 5)):
        server = ManyReaders(5, n_agents)
        pod = SolidPod(SolidClient(transport=Answered(server)), ROOT, owner=OWNER)
        for _ in range(2):
            left_out: list[LeftOut] = []
            found = list(pod.resources(left_out))
            assert (len(found), len(left_out)) == (n_listed, 5 - n_listed)
            assert all("readers" in one.reason for one in left_out)
            assert sum(len(one.rights.agents) for one in found) <= 30
