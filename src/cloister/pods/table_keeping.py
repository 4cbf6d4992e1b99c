"""Keeps the tables in a server's own pod as its index says: for whom, and of what.

Tables are made for the users whom the rights of the server's documents name: owners, agents, and
members of groups whose members a document lists. A user who is in a group only by a verified token
has a table without what that group may read. What everybody may read has a table for everybody.
Somebody who may read by "everybody with a verified identity" alone has no table but that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from cloister.core.file_errors import writing
from cloister.core.ids import AgentId
from cloister.core.rights import Reader
from cloister.index.shard import Shard
from cloister.pods.espresso_pod import EVERYBODY, EspressoPod
from cloister.search.selector_table_making import make_selector_table
from cloister.search.table_settings import TableSettings
from cloister.store.incoming import lock_held, replace_file

__all__ = ["TableCounts", "TableKeeping"]


class TableCounts(NamedTuple):
    """What one refresh did: tables made, left as they were, removed, and bytes of those made."""

    made: int = 0
    unchanged: int = 0
    removed: int = 0
    bytes_made: int = 0


class TableKeeping:
    """The tables of one server. Processes take turns.

    Parameters
    ----------
    shard
        The server's index.
    pod
        Where the tables are.
    record
        A file that says which state of what each user may read the tables are of. Where it is lost,
        all tables are made anew.
    settings
        Of the tables.
    """

    def __init__(
        self,
        shard: Shard,
        pod: EspressoPod,
        record: Path,
        settings: TableSettings | None = None,
    ) -> None:
        self._shard = shard
        self._pod = pod
        self._record = record
        self._settings = settings or TableSettings()

    def forget(self, agents: Iterable[AgentId] | None) -> int:
        """Remove users' tables, before they lose a right; return how many there were.

        Parameters
        ----------
        agents
            Whose; None for all.
        """
        if agents is None:
            return self._pod.forget_others(())
        return sum(self._pod.forget(agent_id) for agent_id in sorted(set(agents)))

    def refresh(self, agents: Iterable[AgentId] | None = None) -> TableCounts:
        """Make anew the tables of users whose view changed; remove those of who may read nothing.

        What is out of date is removed first, before any is made.

        Parameters
        ----------
        agents
            Whom to look at; all unless given.
        """
        lock = self._record.with_suffix(".lock")
        with writing(lock.parent):
            lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock.touch(mode=0o600)
        with lock_held(lock, exclusive=True):
            return self._refreshed(agents)

    def _refreshed(self, agents: Iterable[AgentId] | None) -> TableCounts:
        known, users = self._read(), self._users()
        looked_at = users if agents is None else frozenset(agents)
        states = {one: self._state(one) if one in users else "" for one in sorted(looked_at)}
        there = self._pod.stored(looked_at)
        current = {
            one for one, state in states.items() if one in there and known.get(_key(one)) == state
        }
        due = [one for one, state in states.items() if state and one not in current]
        n_removed = self.forget(one for one, state in states.items() if not state)
        if agents is None:
            n_removed += self._pod.forget_others(looked_at)
        self.forget(due)
        touched = {_key(one) for one in states} if agents is not None else known.keys()
        kept = {key: state for key, state in known.items() if key not in touched}
        kept |= {_key(one): states[one] for one in current}
        self._write(kept)  # a crash from here on has the rest made anew
        sizes = [self._make(one, kept) for one in due]
        self._write(kept)
        return TableCounts(len(due), len(current), n_removed, sum(sizes))

    def _make(self, agent_id: AgentId, kept: dict[str, str]) -> int:
        """Store a user's table of now; of what changed meanwhile none is left."""
        view = self._shard.view(Reader(agent_id))
        content = make_selector_table(view, self._shard.server_id, self._settings).to_bytes()
        self._pod.store(agent_id, content)
        state = self._state(agent_id)
        if self._shard.view(Reader(agent_id)).version == view.version:
            kept[_key(agent_id)] = state
        else:
            self._pod.forget(agent_id)
        return len(content)

    def _users(self) -> frozenset[AgentId]:
        """Return whom the rights of documents name, and everybody."""
        rights = self._shard.snapshot().rights
        named = (name for one in rights for name in (one.owner, *one.agents) if name)
        return frozenset({EVERYBODY, *named})

    def _state(self, agent_id: AgentId) -> str:
        """Say what a table of now would be made of; nothing where there is nothing to read."""
        view = self._shard.view(Reader(agent_id))
        if not len(view.documents):
            return ""
        settings = hashlib.blake2b(self._settings.model_dump_json().encode(), digest_size=8)
        return f"{view.version} {settings.hexdigest()}"

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self._record.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, states: dict[str, str]) -> None:
        with writing(self._record.parent):
            replace_file(self._record, json.dumps(states, indent=0).encode())


def _key(agent_id: AgentId) -> str:
    return hashlib.sha256(agent_id.encode()).hexdigest()
