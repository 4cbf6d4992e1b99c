"""The ranker that a node serves with: the coordinator's choice, kept for when it is away."""

from __future__ import annotations

import threading
from typing import Final

from cloister.core.errors import DataError
from cloister.federate.online.page_drawing import ServedRanker, TriedRanker
from cloister.federate.online.ranker_files import RankerFiles
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.services.coordinator.messages import ServingAnswer, TrialAnswer
from cloister.services.first_ranker import first_ranker
from cloister.services.node.coordinator_link import CoordinatorLink
from cloister.store.database import Database
from cloister.store.keyed_state import KeyedState

__all__ = ["ServingRanker"]

_STATE: Final = KeyedState("node-serving")
_KEY: Final = "serving"


class ServingRanker:
    """What a node ranks with now. Threads may share it.

    Parameters
    ----------
    database, files
        Keep the last choice and its rankers, so that a node can start without the coordinator.
    settings
        What a ranker must be made of.
    """

    def __init__(self, database: Database, files: RankerFiles, settings: RankerSettings) -> None:
        self._database = database
        self._files = files
        self._settings = settings
        self._lock = threading.Lock()
        database.migrate(KeyedState.schema)
        first = first_ranker(settings)
        self._now = ServedRanker(files.put(first), first)
        known = database.run(lambda c: _STATE.get(c, _KEY), read_only=True)
        self._told: ServingAnswer | None = None
        if known is not None:
            self._take(ServingAnswer.model_validate(known.value))

    @property
    def now(self) -> ServedRanker:
        """The serving ranker, and the one on trial."""
        with self._lock:
            return self._now

    @property
    def trial(self) -> TrialAnswer | None:
        """The trial under way, as the coordinator told it last."""
        with self._lock:
            return None if self._told is None else self._told.trial

    def refresh(self, coordinator: CoordinatorLink) -> bool:
        """Ask what to serve; fetch rankers that are new. Return whether anything changed."""
        told = coordinator.serving()
        if told == self._told:
            return False
        wanted = [told.serving, *([told.trial.candidate] if told.trial else [])]
        for digest in wanted:
            if digest not in self._files:
                self._files.put_bytes(coordinator.ranker(digest))
            self._read(digest)
        self._database.run(lambda c: _STATE.put(c, _KEY, told.model_dump(mode="json")))
        self._take(told)
        return True

    def _take(self, told: ServingAnswer) -> None:
        trial = None
        if told.trial is not None and told.trial.state == "open":
            ranker = self._read(told.trial.candidate)
            trial = TriedRanker(told.trial.trial_id, ranker, told.trial.share)
        now = ServedRanker(told.serving, self._read(told.serving), trial)
        with self._lock:
            self._told, self._now = told, now

    def _read(self, digest: str) -> Ranker:
        ranker = self._files.read(digest)
        if ranker.settings != self._settings:
            raise DataError(
                "a ranker of another make than was agreed on",
                where=digest,
                remedy="give the coordinator and all nodes the same roster",
            )
        return ranker
