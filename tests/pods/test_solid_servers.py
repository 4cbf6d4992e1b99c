"""Against three real Community Solid Servers, which check identities and rights themselves."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cloister.core.errors import AccessDenied
from cloister.core.ids import AgentId, DocId, ServerId
from cloister.core.rights import STRANGER, Reader, Rights
from cloister.index.shard import Shard
from cloister.pods.extraction.pool import RawDocument
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.solid_client import SolidClient
from cloister.pods.solid_pod import SolidPod
from cloister.pods.sync import SyncCounts, sync
from cloister.pods.web_access_control import Mode
from pods.solid_people import People, refused

ACL = "@prefix acl: <http://www.w3.org/ns/auth/acl#>. @prefix foaf: <http://xmlns.com/foaf/0.1/>.\n"


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[list[Shard]]:
    opened = [Shard.open(tmp_path / name, server_id=ServerId(name)) for name in ("s1", "s2", "s3")]
    yield opened
    for shard in opened:
        shard.close()


def found(shards: list[Shard], reader: Reader, term: str) -> set[str]:
    views = [shard.view(reader) for shard in shards]
    return {
        view.doc_id(number) for view in views for number in view.postings(term).documents.tolist()
    }


def test_grant_search_revoke_and_gone_on_three_servers(people: People, shards: list[Shard]) -> None:
    owners = [people.alice, people.bob, people.carol]
    documents = []
    for owner, shard in zip(owners, shards, strict=True):
        rights = owner.private.grant(people.dora.web_id)
        documents.append(owner.pod.write("visits/a b.txt", "zoster rash", rights=rights))
        owner.pod.write("visits/own.txt", "zoster at home", rights=owner.private)
        assert sync(owner.pod, shard).added >= 2
    assert found(shards, people.dora.reader, "zoster") == set(documents)
    assert found(shards, people.dora.reader, "home") == set()
    assert found(shards, people.alice.reader, "home") == {
        people.alice.pod.pod_id + "visits/own.txt"
    }
    for person in (people.eve.reader, STRANGER):
        assert found(shards, person, "zoster") == set()
    ranked = shards[0].view(people.dora.reader).level("document").best(["zoster"], 5)
    assert len(ranked.entities) == 1

    for owner, shard, doc_id in zip(owners, shards, documents, strict=True):
        before = owner.pod.resource(doc_id)
        owner.pod.set_rights(doc_id, owner.private)
        after = owner.pod.resource(doc_id)
        assert before is not None
        assert after is not None
        assert before.etag == after.etag  # the document did not change; its list did
        assert before.rights_etag != after.rights_etag
        with pytest.raises(AccessDenied):  # at the pod it holds at once, sync or no sync
            owner.pod.read(doc_id, people.dora.reader)
        counts = sync(owner.pod, shard)
        assert counts == SyncCounts(rights_changed=1, unchanged=counts.unchanged)
        assert counts.unchanged >= 1
    assert found(shards, people.dora.reader, "zoster") == set()
    assert people.dora.reader.agent_id not in {
        agent for shard in shards for rights in shard.snapshot().rights for agent in rights.agents
    }


def test_changes_and_deletions_are_picked_up_by_their_tags(
    people: People, shards: list[Shard]
) -> None:
    pod, reader = people.bob.pod, people.bob.reader
    kept, gone = pod.write("m/kept.md", "measles"), pod.write("m/gone.json", '{"x": "measles"}')
    sync(pod, shards[1])
    assert found(shards, reader, "measles") == {kept, gone}
    pod.write("m/kept.md", "mumps")
    pod.delete(gone)
    counts = sync(pod, shards[1])
    assert (counts.added, counts.changed, counts.deleted) == (0, 1, 1)
    assert found(shards, reader, "measles") == set()
    assert found(shards, reader, "mumps") == {kept}
    assert sync(pod, shards[1])._replace(unchanged=0) == SyncCounts()


@pytest.mark.parametrize("keep_text", [True, False])
def test_a_kept_text_is_shown_without_fetching_the_document_and_confirmed_each_time(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_text: bool
) -> None:
    bob, dora = people.bob, people.dora.reader
    doc_id = bob.pod.write("k/a.html", "<p>dry cough</p>", rights=bob.private.grant(dora.agent_id))
    pod = RegisteredPod(
        pod_id=bob.pod.pod_id,
        owner=bob.web_id,
        server_id="home",
        kind="solid",
        address=bob.pod.pod_id,
        keep_text=keep_text,
    )
    n_fetched = []

    def content(doc_id: DocId, **limits: int) -> RawDocument:
        n_fetched.append(doc_id)
        return SolidPod.content(bob.pod, doc_id, **limits)

    monkeypatch.setattr(bob.pod, "content", content)
    with PodRegistry(tmp_path / "home") as registry:
        monkeypatch.setattr(registry, "datastore", lambda _: bob.pod)
        registry.add(pod)
        registry.sync(pod)
        n_fetched.clear()
        home = ServerId("home")
        assert registry.read_text(home, doc_id, dora).split() == ["dry", "cough"]
        assert registry.read_text(home, doc_id, bob.reader).split() == ["dry", "cough"]
        assert len(n_fetched) == (0 if keep_text else 2)
        bob.pod.set_rights(doc_id, bob.private)
        with pytest.raises(AccessDenied):
            registry.read_text(home, doc_id, dora)
        bob.pod.write("k/a.html", "<p>wet cough</p>")
        assert registry.read_text(home, doc_id, bob.reader).split() == ["wet", "cough"]
        bob.pod.delete(doc_id)
        with pytest.raises(AccessDenied):
            registry.read_text(home, doc_id, bob.reader)


def test_a_stranger_and_an_anonymous_reader_get_nothing_by_any_route(
    people: People, shards: list[Shard]
) -> None:
    alice, eve = people.alice, people.eve
    doc_id = alice.pod.write("secret/zebra.txt", "unicorn", rights=alice.private)
    absent = DocId(alice.pod.pod_id + "secret/absent.txt")
    sync(alice.pod, shards[0])
    acl = alice.client.acl_address(doc_id)
    container = doc_id.rpartition("/")[0] + "/"
    with SolidClient() as nobody:
        for client in (eve.client, nobody):
            for url in (doc_id, absent, acl, container, container + ".acl", doc_id + ".meta"):
                assert refused(client, url)
            theirs = SolidPod(client, alice.pod.pod_id, owner=alice.web_id)
            assert [found for found in theirs.resources() if "secret" in found.doc_id] == []
            assert theirs.resource(doc_id) is None
            for attempt in (
                lambda theirs=theirs: theirs.text(doc_id),
                lambda theirs=theirs: theirs.read(doc_id, eve.reader),
                lambda theirs=theirs: theirs.read(doc_id, alice.reader),
                lambda theirs=theirs: theirs.confirm(doc_id, eve.reader),
                lambda theirs=theirs: theirs.confirm(doc_id, alice.reader),
                lambda theirs=theirs: theirs.set_rights(doc_id, Rights(public=True)),
                lambda theirs=theirs: theirs.write("secret/zebra.txt", "x"),
                lambda theirs=theirs: theirs.delete(doc_id),
            ):
                with pytest.raises(AccessDenied):
                    attempt()
    for reader in (eve.reader, STRANGER, Reader(AgentId("")), Reader(AgentId("alice"))):
        texts = set()
        for name in (doc_id, absent):
            with pytest.raises(AccessDenied) as error:
                alice.pod.read(name, reader)
            texts.add(str(error.value))
        assert len(texts) == 1
        view = shards[0].view(reader)
        assert "unicorn" not in view.vocabulary()
        assert view.level("document").frequencies(["unicorn"]).tolist() == [0.0]
    assert alice.pod.read(doc_id, alice.reader) == "unicorn"


def acl_table(people: People, doc: str, group: str) -> dict[str, str]:
    dora, own = f"acl:agent <{people.dora.web_id}>", f"acl:accessTo <{doc}>"
    read = "acl:mode acl:Read"
    statements = {
        "agent": f"{dora}; {own}; {read}",
        "write only": f"{dora}; {own}; acl:mode acl:Write",
        "control only": f"{dora}; {own}; acl:mode acl:Control",
        "default only": f"{dora}; acl:default <{doc}>; {read}",
        "another resource": f"{dora}; acl:accessTo <{doc}2>; {read}",
        "public": f"acl:agentClass foaf:Agent; {own}; {read}",
        "verified": f"acl:agentClass acl:AuthenticatedAgent; {own}; {read}",
        "group": f"acl:agentGroup <{group}>; {own}; {read}",
        "no such group": f"acl:agentGroup <{group}x>; {own}; {read}",
        "a name as text": f'acl:agent "{people.dora.web_id}"; {own}; {read}',
        "split": f"{dora}; {own}. <#2> a acl:Authorization; {own}; {read}",
    }
    lists = {why: f"<#1> a acl:Authorization; {text}." for why, text in statements.items()}
    return {**lists, "no type": f"<#1> {statements['agent']}.", "empty": ""}


def test_our_rules_decide_as_the_server_does(people: People) -> None:
    alice = people.alice
    group = alice.pod.pod_id + "wards#north"
    members = f"<{group}> <http://www.w3.org/2006/vcard/ns#hasMember> <{people.dora.web_id}>."
    alice.client.put(alice.pod.pod_id + "wards", members.encode(), "text/turtle")
    public = f"<#1> a acl:Authorization; acl:agentClass foaf:Agent; acl:accessTo <{group[:-6]}>;"
    public += "acl:mode acl:Read."
    alice.client.put(group[:-6] + ".acl", (ACL + public).encode(), "text/turtle")
    doc_id = alice.pod.write("table.txt", "cough", rights=alice.private)
    outcomes = set()
    with SolidClient() as nobody:
        askers = [(people.dora.reader, people.dora.client), (people.eve.reader, people.eve.client)]
        askers += [(STRANGER, nobody), (alice.reader, alice.client)]
        for why, text in acl_table(people, doc_id, group).items():
            acl = alice.client.acl_address(doc_id) if why == "agent" else doc_id + ".acl"
            alice.client.put(acl, (ACL + text).encode(), "text/turtle")
            rules = alice.pod._access.now()
            effective = rules.rules(doc_id)
            rights = effective.rights(owner=alice.web_id, members=rules.members(effective))
            for reader, client in askers:
                allowed = not refused(client, doc_id)
                assert rights.allow(reader) is allowed, (why, reader)
                outcomes.add((why, allowed))
    assert len({why for why, allowed in outcomes if allowed}) == 4  # agent, public, verified, group


def test_inherited_rules_decide_as_the_server_does(people: People) -> None:
    alice, dora = people.alice, people.dora
    container = alice.pod.pod_id + "shared/"
    own = alice.pod.write("shared/own.txt", "cough", rights=alice.private)
    inherits = alice.pod.write("shared/deep/inherits.txt", "cough")
    text = (
        f"<#1> a acl:Authorization; acl:agent <{dora.web_id}>; acl:default <{container}>;"
        f"acl:mode acl:Read. <#2> a acl:Authorization; acl:agent <{alice.web_id}>;"
        f"acl:accessTo <{container}>; acl:default <{container}>;"
        "acl:mode acl:Read, acl:Write, acl:Control."
    )
    alice.client.put(container + ".acl", (ACL + text).encode(), "text/turtle")
    for doc_id, expected in ((own, False), (inherits, True)):
        resource = alice.pod.resource(doc_id)
        assert resource is not None
        assert resource.rights.allow(dora.reader) is expected
        assert refused(dora.client, doc_id) is not expected
        assert (Mode.READ in alice.pod.modes(doc_id, dora.reader)) is expected


def test_a_program_with_read_and_control_can_index_and_without_control_cannot(
    people: People, shards: list[Shard]
) -> None:
    alice, dora = people.alice, people.dora
    doc_id = alice.pod.write("indexed.txt", "heron", rights=alice.private.grant(dora.web_id))
    theirs = SolidPod(dora.client, alice.pod.pod_id, owner=alice.web_id)
    assert theirs.resource(doc_id) is None  # may read the text, not who else may
    text = "".join(
        f"<#{i}> a acl:Authorization; acl:agent <{who}>; acl:accessTo <{doc_id}>;"
        "acl:mode acl:Read, acl:Control.\n"
        for i, who in enumerate((alice.web_id, dora.web_id))
    )
    alice.client.put(doc_id + ".acl", (ACL + text).encode(), "text/turtle")
    found = theirs.resource(doc_id)
    assert found is not None
    assert found.rights == Rights(owner=alice.web_id).grant(dora.web_id)
    assert found == alice.pod.resource(doc_id)


def test_nobody_who_changes_rights_at_the_same_time_is_overwritten(people: People) -> None:
    alice = people.alice
    doc_id = alice.pod.write("busy.txt", "cough", rights=alice.private.grant(people.carol.web_id))
    with ThreadPoolExecutor(3) as pool:
        for change in [
            pool.submit(alice.pod.grant, doc_id, people.dora.web_id),
            pool.submit(alice.pod.grant, doc_id, people.bob.web_id),
            pool.submit(alice.pod.revoke, doc_id, people.carol.web_id),
        ]:
            change.result()
    resource = alice.pod.resource(doc_id)
    assert resource is not None
    assert resource.rights == alice.private.grant(people.dora.web_id, people.bob.web_id)


def test_a_token_that_the_server_does_not_know_is_replaced(people: People) -> None:
    client = people.alice.client
    doc_id = people.alice.pod.write("token.txt", "cough")
    assert client._token is not None
    client._token = client._token._replace(text="e30.e30.e30")
    assert client.get(doc_id).content == b"cough"
    assert client._token.text != "e30.e30.e30"


def test_the_servers_listen_on_loopback_alone(solid_servers: list[str]) -> None:
    ports = {urlsplit(server).port for server in solid_servers}
    listening = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            address, port = line.split()[1].split(":")
            if line.split()[3] == "0A" and int(port, 16) in ports:
                listening.add(address)
    assert listening == {"0100007F"}
