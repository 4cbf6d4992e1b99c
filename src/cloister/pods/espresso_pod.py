"""The ESPRESSO pod: each server's dedicated pod for what it knows about itself, user by user.

For each user it holds what this user may know of the server (paper, section 3: server-level
metadata), as one resource that this user alone may read. A searcher can then choose servers from
resources that the pods' own access control protects, without asking a search node.

What holds: no other user gets a summary through the pod, and a user's holds nothing of documents
that this user could not read when it was made. What does not: whoever runs the server can read
its disk, and has Control over the pod; how many summaries there are shows to who may list it. A
summary is as old as its last `refresh`: after a revocation the user still sees, in counts, what
was readable before, until the summary is made anew or forgotten.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Final

from cloister.core.errors import AccessDenied, DataError, SettingsError
from cloister.core.ids import AgentId, DocId
from cloister.core.rights import Reader, Rights
from cloister.pods.datastore import Datastore
from cloister.pods.document_text import MAX_DOCUMENT_BYTES
from cloister.pods.overlay.record_codec import codec_of
from cloister.search.node import ServerSummary

__all__ = ["EspressoPod"]

FOLDER: Final = "summaries"


class EspressoPod:
    """Summaries of one server, in a pod that holds nothing else and is not indexed.

    Parameters
    ----------
    datastore
        The pod. To write, it acts for the pod's owner; to read on a Solid server, for the user.
    """

    def __init__(self, datastore: Datastore) -> None:
        self._datastore = datastore
        self._codec = codec_of(ServerSummary)

    def store(self, agent_id: AgentId, summary: ServerSummary) -> DocId:
        """Put a user's summary in place of the older one; that user alone may read it."""
        if not agent_id:
            raise SettingsError("a summary belongs to a user", where="ESPRESSO pod")
        text = json.dumps(self._codec.encode(summary), separators=(",", ":"))
        if len(text.encode()) > MAX_DOCUMENT_BYTES:
            raise DataError("the summary is too long for a pod", where="ESPRESSO pod")
        rights = Rights(agents=frozenset({agent_id}))
        return self._datastore.write(_name(agent_id), text, rights=rights)

    def load(self, reader: Reader) -> ServerSummary | None:
        """Return a reader's own summary; None where there is none."""
        if not reader.agent_id:
            return None
        try:
            text = self._datastore.read(self._doc_id(reader.agent_id), reader)
        except AccessDenied:
            return None
        try:
            found: ServerSummary = self._codec.decode(json.loads(text))
        except ValueError:
            raise DataError("the summary cannot be read", where="ESPRESSO pod") from None
        return found

    def forget(self, agent_id: AgentId) -> None:
        """Remove a user's summary; nothing happens where there is none."""
        try:
            self._datastore.delete(self._doc_id(agent_id))
        except AccessDenied:
            return

    def refresh(
        self, readers: Iterable[Reader], summarise: Callable[[Reader], ServerSummary]
    ) -> None:
        """Make the summaries of some users anew.

        Parameters
        ----------
        readers
            With the groups that were verified for them.
        summarise
            Says what a reader may know now.
        """
        for reader in readers:
            self.store(reader.agent_id, summarise(reader))

    def _doc_id(self, agent_id: AgentId) -> DocId:
        separator = "" if self._datastore.pod_id.endswith("/") else "/"
        return DocId(f"{self._datastore.pod_id}{separator}{_name(agent_id)}")


def _name(agent_id: AgentId) -> str:
    """Return a name that fits any user; who knows the user's name can find it."""
    return f"{FOLDER}/{hashlib.sha256(agent_id.encode()).hexdigest()}.txt"
