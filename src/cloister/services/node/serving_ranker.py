"""The ranker that a node serves with: the coordinator's choice, kept for when it is away."""

from __future__ import annotations

import logging
import threading
from typing import Final

from cloister.core.errors import CloisterError, DataError
from cloister.federate.online.page_drawing import ServedRanker, TriedRanker
from cloister.federate.online.ranker_files import RankerFiles
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.services.coordinator.messages import ServingAnswer, TrialAnswer
from cloister.services.first_ranker import first_ranker
from cloister.services.node.coordinator_link import CoordinatorLink
from cloister.store.database import Database
from cloister.store.keyed_state import KeyedState
from cloister.web.logs import log_event

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
    votes_epsilon
        What the node's votes may cost: in a trial with another epsilon it takes no part.
    """

    def __init__(
        self,
        database: Database,
        files: RankerFiles,
        settings: RankerSettings,
        *,
        votes_epsilon: float,
    ) -> None:
        self._votes_epsilon = votes_epsilon
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
            try:
                self._take(ServingAnswer.model_validate(known.value))
            except (CloisterError, ValueError):  # a file is gone: the coordinator has it
                log_event("serving_first_ranker", level=logging.WARNING)

    @property
    def now(self) -> ServedRanker:
        """The serving ranker, and the one on trial."""
        with self._lock:
            return self._now

    @property
    def trial(self) -> TrialAnswer | None:
        """The trial under way in which the node takes part, as the coordinator told it last."""
        with self._lock:
            return None if self._told is None else self._joined(self._told)

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
        joined = self._joined(told)
        if joined is not None and joined.state == "open":
            ranker = self._read(joined.candidate)
            trial = TriedRanker(joined.trial_id, ranker, joined.share)
        now = ServedRanker(told.serving, self._read(told.serving), trial)
        with self._lock:
            self._told, self._now = told, now

    def _joined(self, told: ServingAnswer) -> TrialAnswer | None:
        """Return the trial if the node's votes cost what the trial's do."""
        trial = told.trial
        return trial if trial is not None and trial.epsilon == self._votes_epsilon else None

    def _read(self, digest: str) -> Ranker:
        ranker = self._files.read(digest)
        if ranker.settings != self._settings:
            raise DataError(
                "a ranker of another make than was agreed on",
                where=digest,
                remedy="give the coordinator and all nodes the same roster",
            )
        return ranker
