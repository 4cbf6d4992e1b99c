"""Servers' own pods on real Solid servers: each user reads their own table, and nobody else's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloister.app.granting import change_rights
from cloister.app.pods_syncing import refreshed_tables, synced
from cloister.core.errors import SettingsError
from cloister.core.ids import AgentId, DocId, ServerId
from cloister.pods.espresso_pod import EVERYBODY, EspressoPod
from cloister.pods.folder_pod import FolderPod
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.server_tables import ServerTables
from cloister.pods.solid_client import SolidClient
from cloister.pods.solid_pod import SolidPod
from pods.solid_people import People, Person

S = ServerId("s")


def status(client: SolidClient, url: str) -> int:
    return client.request("GET", url, expected=(401, 403, 404)).status


def credentials_of(person: Person, folder: Path) -> Path:
    file = folder / f"{person.web_id.split('/')[3]}.json"
    given = person.client.credentials
    assert given is not None
    file.touch(mode=0o600)
    file.write_text(json.dumps(given._asdict()))
    return file


@pytest.fixture
def registry(people: People, tmp_path: Path) -> Iterator[PodRegistry]:
    """Alice's notes in a folder pod; the server's own pod is Carol's, on a Solid server."""
    notes = FolderPod.create(tmp_path / "notes", "notes", people.alice.web_id)  # type: ignore[arg-type]
    for name, text in (("a", "cough fever"), ("b", "cough")):
        notes.write(f"{name}.txt", text)
    with PodRegistry(tmp_path / "home") as opened:
        own = people.carol.pod.pod_id
        opened.set_server_pod(
            RegisteredPod(
                pod_id=own,
                owner=people.carol.web_id,
                server_id=S,
                kind="solid",
                address=own,
                credentials=str(credentials_of(people.carol, tmp_path)),
            )
        )
        opened.add(
            RegisteredPod(
                pod_id="notes",
                owner=people.alice.web_id,
                server_id=S,
                kind="folder",
                address=str(tmp_path / "notes"),
            )
        )
        yield opened
        ServerTables(opened).remove(S)


def df(registry: PodRegistry, person: Person, folder: Path, term: str) -> int | None:
    """Return in how many documents a term is by the person's table; None where there is none."""
    loaded = ServerTables(registry).load(person.reader, credentials_of(person, folder))
    if S not in loaded.tables:
        assert loaded.without == [S]
        return None
    return loaded.tables[S].summary([term]).terms[term].n_documents


def table_of(people: People, person: Person) -> DocId:
    return EspressoPod(people.carol.pod)._data_id(person.web_id)


def test_a_user_reads_their_own_table_and_the_server_refuses_all_others(
    people: People, registry: PodRegistry, tmp_path: Path
) -> None:
    alice, dora, eve = people.alice, people.dora, people.eve
    result = synced(registry, list(registry.pods.values()))
    assert result["tables_failed"] == []
    assert result["tables"][0]["made"] == 1
    change_rights(registry, ["notes/a.txt"], [dora.web_id], [], public=False, give=True)
    for person, expected in ((alice, 2), (dora, 1), (eve, None), (people.carol, None)):
        assert df(registry, person, tmp_path, "cough") == expected
    with SolidClient() as nobody:
        for owner, others in ((dora, (alice, eve)), (alice, (dora, eve))):
            url = table_of(people, owner)
            assert status(owner.client, url) == 200
            assert [status(one.client, url) for one in others] == [403, 403]
            assert status(people.carol.client, url) == 403  # the keeper, who has Control
            assert status(nobody, url) == 401
            theirs = EspressoPod(SolidPod(eve.client, people.carol.pod.pod_id, owner=eve.web_id))
            assert theirs.load(owner.reader) is None
            assert theirs.load(eve.reader) is None

    change_rights(registry, ["notes/a.txt"], [dora.web_id], [], public=False, give=False)
    assert status(dora.client, table_of(people, dora)) in (403, 404)
    assert df(registry, dora, tmp_path, "cough") is None
    assert df(registry, alice, tmp_path, "cough") == 2
    assert refreshed_tables(registry, [S])["tables"][0]["unchanged"] == 1


def test_what_is_public_is_there_for_everybody_and_credentials_are_the_users_own(
    people: People, registry: PodRegistry, tmp_path: Path
) -> None:
    synced(registry, list(registry.pods.values()))
    change_rights(registry, ["notes/b.txt"], [], [], public=True, give=True)
    assert df(registry, people.eve, tmp_path, "cough") == 1
    assert df(registry, people.alice, tmp_path, "cough") == 2
    with SolidClient() as nobody:
        assert status(nobody, EspressoPod(people.carol.pod)._data_id(EVERYBODY)) == 200
        assert status(nobody, table_of(people, people.alice)) == 401
    tables = ServerTables(registry)
    with pytest.raises(SettingsError, match="own credentials"):
        tables.load(people.alice.reader)
    with pytest.raises(SettingsError, match="not this user"):
        tables.load(people.alice.reader, credentials_of(people.eve, tmp_path))
    assert AgentId("") == EVERYBODY
    change_rights(registry, ["notes/b.txt"], [], [], public=True, give=False)
    assert df(registry, people.eve, tmp_path, "cough") is None
