"""Data and index resources on real Community Solid Servers, which decide who reads what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cloister.core.errors import AccessDenied, Conflict
from cloister.core.ids import DocId, ServerId
from cloister.core.rights import NOBODY, Reader, Rights
from cloister.index.shard import Shard
from cloister.pods.index_resource import terms_id
from cloister.pods.solid_client import SolidClient
from cloister.pods.solid_http import SolidResponse
from cloister.pods.solid_pod import SolidPod
from cloister.pods.sync import SyncCounts, sync
from pods.solid_people import People, Person, refused

ACL = "@prefix acl: <http://www.w3.org/ns/auth/acl#>.\n"


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[list[Shard]]:
    opened = [Shard.open(tmp_path / name, server_id=ServerId(name)) for name in ("s1", "s2")]
    yield opened
    for shard in opened:
        shard.close()


class CountingClient(SolidClient):
    """Writes down what is asked for."""

    def __init__(self, person: Person) -> None:
        super().__init__(person.client.credentials)
        self.asked: list[tuple[str, str]] = []

    def request(self, method: str, url: str, **options: object) -> SolidResponse:
        self.asked.append((method, url))
        return super().request(method, url, **options)  # type: ignore[arg-type]


def found(shard: Shard, reader: Reader, term: str) -> set[str]:
    view = shard.view(reader)
    return {view.doc_id(number) for number in view.postings(term).documents.tolist()}


def status(client: SolidClient, url: str) -> int:
    return client.request("GET", url, expected=(401, 403, 404)).status


def container_list(people: People, container: str, readers: list[str]) -> None:
    """Let some read what is in a container of Alice's, and Alice do all."""
    text = f"<#own> a acl:Authorization; acl:agent <{people.alice.web_id}>;"
    text += f"acl:accessTo <{container}>; acl:default <{container}>;"
    text += "acl:mode acl:Read, acl:Write, acl:Control.\n"
    for number, name in enumerate(readers):
        text += f"<#{number}> a acl:Authorization; acl:agent <{name}>;"
        text += f"acl:default <{container}>; acl:mode acl:Read.\n"
    people.alice.client.put(container + ".acl", (ACL + text).encode(), "text/turtle")


def test_data_for_one_user_is_that_users_alone(people: People) -> None:
    alice, dora, eve = people.alice, people.dora, people.eve
    alice.pod.write("d/x.txt", "cough")
    container_list(people, alice.pod.pod_id + "d/", [eve.web_id])
    data_id = alice.pod.data_id("d/table.bin")
    for content in (b"\0\1\xff", b"another"):
        alice.pod.write_data(data_id, content, rights=Rights(agents=frozenset({dora.web_id})))
        theirs = SolidPod(dora.client, alice.pod.pod_id, owner=alice.web_id)
        assert theirs.read_data(data_id, dora.reader) == content
        assert alice.pod.data(data_id) is None  # the keeper may not read it either
        assert (status(eve.client, data_id), status(dora.client, data_id)) == (403, 200)
    with SolidClient() as nobody:
        assert status(nobody, data_id) == 401
    assert data_id in set(alice.pod.data_ids())
    assert data_id not in {one.doc_id for one in alice.pod.resources()}
    assert alice.pod.resource(data_id) is None
    alice.pod.delete_data(data_id)
    assert (status(dora.client, data_id), status(alice.client, data_id)) == (403, 404)
    with pytest.raises(AccessDenied):
        alice.pod.delete_data(data_id)


def test_a_revoked_reader_gets_neither_document_nor_index_resource(
    people: People, shards: list[Shard]
) -> None:
    alice, dora = people.alice, people.dora
    own = alice.pod.write("r/own.txt", "zoster rash", rights=alice.private.grant(dora.web_id))
    inherits = alice.pod.write("r/inherits.txt", "zoster at home")
    sync(alice.pod, shards[0], index_in_pod=True)
    assert status(dora.client, terms_id(own)) == 200
    assert status(dora.client, terms_id(inherits)) == 403
    alice.pod.grant(inherits, dora.web_id)
    assert status(dora.client, terms_id(inherits)) == 200
    for doc_id in (own, inherits):
        assert alice.pod.is_alike(terms_id(doc_id), doc_id)
        alice.pod.revoke(doc_id, dora.web_id)
        assert (status(dora.client, doc_id), status(dora.client, terms_id(doc_id))) == (403, 403)
        assert (status(alice.client, doc_id), status(alice.client, terms_id(doc_id))) == (200, 200)
        assert alice.pod.is_alike(terms_id(doc_id), doc_id)


def test_a_stranger_gets_no_index_resource_by_any_route(
    people: People, shards: list[Shard]
) -> None:
    alice, eve = people.alice, people.eve
    doc_id = alice.pod.write("secret/quoll.txt", "unicorn", rights=alice.private)
    data_id = terms_id(doc_id)
    sync(alice.pod, shards[0], index_in_pod=True)
    assert status(alice.client, data_id) == 200
    acl = alice.client.acl_address(data_id)
    with SolidClient() as nobody:
        for client in (eve.client, nobody):
            for url in (doc_id, data_id, acl, data_id + ".acl", data_id + ".meta"):
                assert refused(client, url)
            theirs = SolidPod(client, alice.pod.pod_id, owner=alice.web_id)
            assert [one for one in theirs.data_ids() if "secret" in one] == []
            assert theirs.data(data_id) is None
            for attempt in (
                lambda theirs=theirs: theirs.read_data(data_id, eve.reader),
                lambda theirs=theirs: theirs.read_data(data_id, alice.reader),
                lambda theirs=theirs: theirs.write_data(data_id, b"x", rights=NOBODY),
                lambda theirs=theirs: theirs.write_data(data_id, b"x", like=doc_id),
                lambda theirs=theirs: theirs.make_alike(data_id, doc_id),
                lambda theirs=theirs: theirs.delete_data(data_id),
            ):
                with pytest.raises(AccessDenied):
                    attempt()
    with pytest.raises(AccessDenied):
        alice.pod.read_data(data_id, eve.reader)
    assert status(alice.client, data_id) == 200


def test_no_text_is_fetched_where_the_tag_is_that_of_the_index_resource(
    people: People, shards: list[Shard]
) -> None:
    carol = people.carol
    documents = [
        carol.pod.write(f"n/{name}.txt", f"measles {name}", rights=carol.private.grant(who.web_id))
        for name, who in (("one", people.dora), ("two", people.eve))
    ]
    first = sync(carol.pod, shards[0], index_in_pod=True)
    assert first.pod_index_written + first.from_pod_index == first.added
    assert first.pod_index_written >= 2
    with CountingClient(carol) as client:
        pod = SolidPod(client, carol.pod.pod_id, owner=carol.web_id)
        second = sync(pod, shards[1], index_in_pod=True)
        assert second == SyncCounts(added=first.added, from_pod_index=first.added)
        fetched = {url for method, url in client.asked if method == "GET"}
        assert fetched & set(documents) == set()
        assert {terms_id(doc_id) for doc_id in documents} <= fetched
        client.asked.clear()
        assert sync(pod, shards[1], index_in_pod=True) == SyncCounts(unchanged=first.added)
        fetched = {url for method, url in client.asked if method in ("GET", "PUT", "DELETE")}
        assert fetched & {*documents, *map(terms_id, documents)} == set()
    for reader in (carol.reader, people.dora.reader, people.eve.reader, people.bob.reader):
        for term in ("measles", "one", "two"):
            assert found(shards[0], reader, term) == found(shards[1], reader, term)
    assert found(shards[1], people.dora.reader, "measles") == {documents[0]}


def test_a_list_changed_at_the_server_reaches_the_index_resource_with_the_next_sync(
    people: People, shards: list[Shard]
) -> None:
    alice, dora = people.alice, people.dora
    doc_id = alice.pod.write("l/a.txt", "mumps", rights=alice.private.grant(dora.web_id))
    sync(alice.pod, shards[0], index_in_pod=True)
    acl = alice.client.get(doc_id + ".acl")
    rules = acl.content.decode().replace(dora.web_id, people.bob.web_id)
    alice.client.put(doc_id + ".acl", rules.encode(), "text/turtle")
    counts = sync(alice.pod, shards[0], index_in_pod=True)
    assert counts == SyncCounts(rights_changed=1, unchanged=counts.unchanged)
    for person, expected in ((dora, 403), (people.bob, 200), (alice, 200)):
        assert status(person.client, terms_id(doc_id)) == expected
    alice.client.delete(doc_id + ".acl")
    sync(alice.pod, shards[0], index_in_pod=True)
    assert status(people.bob.client, terms_id(doc_id)) == 403
    assert status(alice.client, terms_id(doc_id) + ".acl") == 404
    alice.client.delete(doc_id)  # by another program: the index resource is an orphan
    counts = sync(alice.pod, shards[0], index_in_pod=True)
    assert counts.deleted == 1
    assert status(alice.client, terms_id(doc_id)) == 404


class DyingClient(SolidClient):
    """Ends after so many changes, as a process that is killed."""

    def __init__(self, person: Person, n_changes: int) -> None:
        super().__init__(person.client.credentials)
        self.n_left = n_changes

    def request(self, method: str, url: str, **options: object) -> SolidResponse:
        if method in ("PUT", "DELETE"):
            if not self.n_left:
                raise KeyboardInterrupt
            self.n_left -= 1
        return super().request(method, url, **options)  # type: ignore[arg-type]


def test_a_crash_between_two_writes_shows_no_more_of_the_index_and_a_sync_mends_it(
    people: People, shards: list[Shard]
) -> None:
    alice, dora = people.alice, people.dora
    doc_id = alice.pod.write("crash.txt", "heron", rights=alice.private.grant(dora.web_id))
    sync(alice.pod, shards[0], index_in_pod=True)
    outcomes: list[Mapping[str, int]] = []
    for n_changes in range(4):
        alice.pod.grant(doc_id, dora.web_id)
        with DyingClient(alice, n_changes) as client:
            pod = SolidPod(client, alice.pod.pod_id, owner=alice.web_id)
            try:
                pod.revoke(doc_id, dora.web_id)
                ended = True
            except KeyboardInterrupt:
                ended = False
        document, index = (status(dora.client, url) for url in (doc_id, terms_id(doc_id)))
        assert (document, index) != (403, 200)
        outcomes.append({"document": document, "index": index})
        sync(alice.pod, shards[0], index_in_pod=True)
        assert alice.pod.is_alike(terms_id(doc_id), doc_id)
        assert status(alice.client, terms_id(doc_id)) == 200
        assert status(dora.client, terms_id(doc_id)) == status(dora.client, doc_id)
    assert ended
    assert {"document": 200, "index": 403} in outcomes


def test_what_was_removed_meanwhile_is_not_filled(people: People) -> None:
    """Else its content would be there with the inherited rules alone."""
    alice = people.alice
    doc_id = alice.pod.write("f/a.txt", "cough", rights=alice.private)
    data_id = terms_id(doc_id)

    class Racing(SolidPod):
        def _copy_rules(self, source: DocId, target: DocId) -> None:
            super()._copy_rules(source, target)
            alice.client.delete(data_id)

    with pytest.raises(Conflict):
        Racing(alice.client, alice.pod.pod_id, owner=alice.web_id).write_data(
            data_id, b"terms", like=doc_id
        )
    assert status(alice.client, data_id) == 404


def test_a_program_that_may_not_write_leaves_the_pod_as_it_is(
    people: People, shards: list[Shard]
) -> None:
    bob, dora = people.bob, people.dora
    doc_id = bob.pod.write("w/a.txt", "ibis", rights=bob.private)
    text = "".join(
        f"<#{i}> a acl:Authorization; acl:agent <{who}>; acl:mode acl:Read, acl:Control;"
        f"acl:accessTo <{bob.pod.pod_id}w/>, <{doc_id}>; acl:default <{bob.pod.pod_id}w/>.\n"
        for i, who in enumerate((bob.web_id, dora.web_id))
    )
    for name in (doc_id, bob.pod.pod_id + "w/"):
        bob.client.put(name + ".acl", (ACL + text).encode(), "text/turtle")
    theirs = SolidPod(dora.client, bob.pod.pod_id + "w/", owner=bob.web_id)
    counts = sync(theirs, shards[0], index_in_pod=True)
    assert counts == SyncCounts(added=1, pod_index_failed=1)
    assert found(shards[0], bob.reader, "ibis") == {doc_id}
    assert list(theirs.data_ids()) == []
