"""People with pods on real Solid servers."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from cloister.core.errors import AccessDenied
from cloister.core.ids import AgentId
from cloister.core.rights import Reader, Rights
from cloister.pods.solid_account import SolidAccount
from cloister.pods.solid_client import SolidClient
from cloister.pods.solid_pod import SolidPod


class Person(NamedTuple):
    reader: Reader
    client: SolidClient
    pod: SolidPod

    @property
    def web_id(self) -> AgentId:
        return self.reader.agent_id

    @property
    def private(self) -> Rights:
        return Rights(owner=self.web_id)


class People(NamedTuple):
    """Three owners on three servers, somebody who gets rights, and a stranger."""

    alice: Person
    bob: Person
    carol: Person
    dora: Person
    eve: Person


def make_person(server: str, name: str) -> Person:
    name = f"{name}-{uuid.uuid4().hex[:8]}"  # workers share the servers
    with SolidAccount(server) as account:
        account.register(f"{name}@example.org", f"password of {name}")
    with SolidAccount(server) as account:
        account.login(f"{name}@example.org", f"password of {name}")
        pod, web_id = account.create_pod(name)
        client = SolidClient(account.create_credentials(web_id))
    return Person(Reader(web_id), client, SolidPod(client, pod, owner=web_id))


def refused(client: SolidClient, url: str) -> bool:
    try:
        client.get(url)
    except AccessDenied:
        return True
    return False
