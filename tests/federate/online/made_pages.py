"""Pages that somebody was shown, and a clock that is set by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from cloister.core.ids import AgentId
from cloister.federate.online.click_log import ClickLog, ClickLogSettings
from cloister.federate.online.page_table import ShownPage
from cloister.store.database import Database

ANN, BOB = AgentId("clinic-a:ann"), AgentId("clinic-a:bob")
RANKER = "ab" * 32
N_FEATURES = 4


class Clock:
    """Stands still until it is set."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def made_log(database: Database, clock: Clock | None = None, **settings: Any) -> ClickLog:
    return ClickLog(database, ClickLogSettings(**settings), clock=clock or Clock())


def made_page(
    agent: AgentId = ANN, *, seed: int = 0, n_features: int = N_FEATURES, **fields: Any
) -> ShownPage:
    rng = np.random.default_rng(seed)
    features = rng.random((6, n_features)).astype(np.float32)
    drawn = rng.normal(size=6).astype(np.float32)
    return ShownPage(agent, RANKER, features, drawn, rng.permutation(6)[:4], **fields)
