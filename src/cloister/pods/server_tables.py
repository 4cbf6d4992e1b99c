"""The tables in the servers' own pods, made and read through a home folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cloister.core.errors import AccessDenied, DataError, NotFound, SettingsError, StoreError
from cloister.core.ids import ServerId
from cloister.core.rights import Reader
from cloister.pods.datastore import Datastore
from cloister.pods.espresso_pod import EspressoPod
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.solid_credentials_file import read_credentials
from cloister.pods.table_keeping import TableKeeping
from cloister.search.selector_table import SelectorTable

__all__ = ["LoadedTables", "ServerTables"]


class LoadedTables(NamedTuple):
    """What was found.

    Parameters
    ----------
    tables
        By server.
    without
        Servers that have no table for this user: there is nothing for this user to read, or no
        table was made yet, or the server has no pod of its own. Which of these is not told.
    missing
        Servers whose pod does not answer or holds something else.
    """

    tables: dict[ServerId, SelectorTable]
    without: list[ServerId]
    missing: list[ServerId]


class ServerTables:
    """The servers of a home that have pods of their own.

    Parameters
    ----------
    registry
        The home.
    """

    def __init__(self, registry: PodRegistry) -> None:
        self._registry = registry

    def keeping(self, server_id: ServerId) -> TableKeeping | None:
        """Return what keeps a server's tables; None where the server has no pod of its own."""
        pod = self._registry.server_pods.get(server_id)
        if pod is None:
            return None
        record = self._registry.home / "tables" / f"{server_id}.json"
        shard = self._registry.shard(server_id)
        return TableKeeping(shard, EspressoPod(self._registry.datastore(pod)), record)

    def remove(self, server_id: ServerId) -> int | None:
        """Take a server's pod from it, with all tables in it; return how many there were.

        None where the pod does not answer, or is gone: tables may still be in it, and nobody brings
        them up to date any more.
        """
        pod = self._registry.server_pods.get(server_id)
        if pod is None:
            raise NotFound("this server has no pod of its own", where=server_id)
        n_removed: int | None = None
        with suppress(AccessDenied, DataError, NotFound, StoreError):
            n_removed = EspressoPod(self._registry.datastore(pod)).forget_others(())
        self._registry.unset_server_pod(server_id)
        return n_removed

    def load(self, reader: Reader, credentials: Path | None = None) -> LoadedTables:
        """Return a reader's tables, as the pods let that reader read them.

        Parameters
        ----------
        reader
            In no group: tables know nothing of groups that a token states.
        credentials
            The reader's own, for pods on Solid servers, which themselves decide who reads.
        """
        if reader.groups:
            raise SettingsError(
                "tables are made for users, not for members of groups", where="load"
            )
        if credentials is not None and read_credentials(credentials).web_id != reader.agent_id:
            raise SettingsError("the credentials are not this user's", where=str(credentials))
        loaded = LoadedTables({}, [], [])
        for server_id in self._registry.server_ids():
            try:
                table = self._table(server_id, reader, credentials)
            except (AccessDenied, DataError, NotFound, StoreError):
                loaded.missing.append(server_id)
                continue
            if table is None:
                loaded.without.append(server_id)
            else:
                loaded.tables[server_id] = table
        return loaded

    def _table(
        self, server_id: ServerId, reader: Reader, credentials: Path | None
    ) -> SelectorTable | None:
        pod = self._registry.server_pods.get(server_id)
        if pod is None:
            return None
        content = EspressoPod(self._as_reader(pod, credentials)).load(reader)
        if content is None:
            return None
        table = SelectorTable.from_bytes(content)
        if table.server_id != server_id:
            raise DataError("the table of another server", where=server_id)
        return table

    def _as_reader(self, pod: RegisteredPod, credentials: Path | None) -> Datastore:
        if pod.kind == "folder":
            return self._registry.datastore(pod)
        if credentials is None:
            raise SettingsError(
                "tables on Solid servers are read with the user's own credentials",
                where=pod.server_id,
                remedy="add --credentials FILE",
            )
        return self._registry.datastore_as(pod, credentials)
