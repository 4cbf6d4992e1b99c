"""The ESPRESSO pod: each server's dedicated pod for what it knows about itself, user by user.

For each user it holds one resource that this user alone may read: the server's selector table for
that user (`cloister.search.selector_table`; server-level metadata in the paper). A searcher who has
read the tables of all servers chooses among them without asking any. A table of what everybody may
read is there too, for everybody.

What holds: through the pod's access control no other user gets a table, and a user's holds nothing
of documents that this user could not read when it was made. On a Solid server that binds everybody
but the server's operator; in a folder it binds whoever asks through this code. What does not hold:
the keeper has Control over the pod and can let itself read; how many tables there are shows to who
may list the pod. A table is as old as its making: after a revocation it tells in counts what was
readable before, until it is made anew or forgotten. Whoever has read a table keeps what it said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from cloister.core.errors import AccessDenied
from cloister.core.ids import AgentId, DocId
from cloister.core.rights import Reader, Rights
from cloister.pods.datastore import Datastore

__all__ = ["EVERYBODY", "EspressoPod"]

FOLDER: Final = "tables"
EVERYBODY: Final = AgentId("")  # whose table is of what is public


class EspressoPod:
    """Tables of one server, in a pod that holds nothing else and is not indexed.

    Parameters
    ----------
    datastore
        The pod. To write, it acts for the pod's owner; to read on a Solid server, for the user.

    Examples
    --------
    >>> import tempfile
    >>> from cloister.core.ids import PodId
    >>> from cloister.pods.folder_pod import FolderPod
    >>> folder = tempfile.TemporaryDirectory()
    >>> pod = FolderPod.create(folder.name + "/clinic-a", PodId("clinic-a"), AgentId("keeper"))
    >>> espresso = EspressoPod(pod)
    >>> _ = espresso.store(AgentId("bob"), b"table")
    >>> espresso.load(Reader(AgentId("bob"))), espresso.load(Reader(AgentId("keeper")))
    (b'table', None)
    >>> folder.cleanup()
    """

    def __init__(self, datastore: Datastore) -> None:
        self._datastore = datastore

    def store(self, agent_id: AgentId, table: bytes) -> DocId:
        """Put a user's table in place of the older one; that user alone may read it.

        The table of `EVERYBODY` may be read by everybody.
        """
        data_id = self._data_id(agent_id)
        alone = Rights(agents=frozenset({agent_id}))
        self._datastore.write_data(
            data_id, table, rights=alone if agent_id != EVERYBODY else Rights(public=True)
        )
        return data_id

    def load(self, reader: Reader) -> bytes | None:
        """Return a reader's own table, or else that for everybody; None where there is none."""
        for agent_id in dict.fromkeys((reader.agent_id, EVERYBODY)):
            try:
                return self._datastore.read_data(self._data_id(agent_id), reader)
            except AccessDenied:
                continue
        return None

    def forget(self, agent_id: AgentId) -> bool:
        """Remove a user's table; say whether there was one."""
        return self._removed(self._data_id(agent_id))

    def stored(self, agents: Iterable[AgentId]) -> frozenset[AgentId]:
        """Return who of these users has a table."""
        there = set(self._listed())
        return frozenset(agent_id for agent_id in agents if self._data_id(agent_id) in there)

    def forget_others(self, agents: Iterable[AgentId]) -> int:
        """Remove the tables of all but these users; return how many there were."""
        kept = {self._data_id(agent_id) for agent_id in agents}
        return sum(self._removed(data_id) for data_id in self._listed() if data_id not in kept)

    def _listed(self) -> list[DocId]:
        first = self._data_id(EVERYBODY).rpartition("/")[0] + "/"
        return [one for one in self._datastore.data_ids() if one.startswith(first)]

    def _removed(self, data_id: DocId) -> bool:
        try:
            self._datastore.delete_data(data_id)
        except AccessDenied:
            return False
        return True

    def _data_id(self, agent_id: AgentId) -> DocId:
        """Return an id that fits any user; who knows the user's name can find it."""
        name = hashlib.sha256(agent_id.encode()).hexdigest() if agent_id else "everybody"
        return self._datastore.data_id(f"{FOLDER}/{name}.bin")
