"""What a coordinator's schedule remembers: whether it is paused, and the last round tried."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from cloister.store.database import Database
from cloister.store.keyed_state import KeyedState

__all__ = ["ScheduleState"]

_STATE: Final = KeyedState("coordinator-schedule")


class ScheduleState:
    """The schedule of one training, in the coordinator's database: a restart changes nothing.

    Parameters
    ----------
    database
        Where.
    training
        Its name.
    """

    def __init__(self, database: Database, training: str) -> None:
        self._database, self._training = database, training
        database.migrate(KeyedState.schema)

    @property
    def paused(self) -> bool:
        """Whether the schedule was stopped."""
        return bool(self._read().get("paused", False))

    @property
    def last_tried(self) -> int:
        """After how many rounds a ranker was tried last; 0 for none."""
        return int(self._read().get("last_tried", 0))

    def put(self, **fields: bool | int) -> None:
        """Write down what changed."""

        def work(connection: sa.Connection) -> None:
            _STATE.put(connection, self._training, self._in(connection) | fields)

        self._database.run(work)

    def _read(self) -> dict[str, Any]:
        return self._database.run(self._in, read_only=True)

    def _in(self, connection: sa.Connection) -> dict[str, Any]:
        found = _STATE.get(connection, self._training)
        return {} if found is None else dict(found.value)
