"""A site whose users are real: each learns from the pages that it was shown, in every round.

What leaves the site is decided elsewhere (`cloister.federate.engines.site`). This trainer takes
each page for one round or session at a time, so that none counts twice, whatever crashes and
however often a round is begun.
"""

from __future__ import annotations

import secrets
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.local_trainer import Settled, SiteLesson
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.logged_training import LoggedPage, flat_pages, train_users
from cloister.federate.online.taken_pages import (
    Taking,
    held_sessions,
    settle_rounds,
    take_pages,
    users_ready,
)
from cloister.privacy.clipping import clipped

__all__ = ["ClickTrainer"]

_COINS: Final = secrets.SystemRandom()
_NOTHING_TAKEN: Final = Settled()


class ClickTrainer:
    """Trains the users of one site from its click log.

    Coins for who takes part come from the system's random source, and are thrown anew for each
    attempt. With ``privacy`` agreed on, each user's update is clipped and counts once, however many
    pages it rests on; else it counts as often as it has pages.

    Parameters
    ----------
    log
        The site's click log.
    agreement
        How users train.
    max_pages
        Of one user in one round; the rest waits. ``queries_per_round`` unless given.
    """

    simulated = False

    def __init__(
        self, log: ClickLog, agreement: FederationAgreement, *, max_pages: int | None = None
    ) -> None:
        most = agreement.training.queries_per_round if max_pages is None else max_pages
        if most < 1:
            raise SettingsError(f"must be at least 1 (given: {most})", where="max_pages")
        self._log = log
        self._agreement = agreement
        self._max_pages = most

    def train(
        self,
        model: NDArray[np.float64],
        *,
        round: int,
        attempt: int = 0,
        settled: Settled = _NOTHING_TAKEN,
    ) -> SiteLesson:
        """Return what the site's users learn from this ranker.

        The pages are marked as taken for the round, or for its session, before anything is learnt.
        """
        users = self._take(self._taking(round, settled))
        agreed = self._agreement
        pages = flat_pages(users, agreed.ranker.n_features)
        updates = train_users(pages, model, agreed.ranker, agreed.training, round=round)
        n_pages = np.array([len(user) for user in users], np.int64)
        return self._lesson(updates, n_pages)

    def is_ready(self, *, round: int, settled: Settled) -> bool:
        """Tell whether any user has pages that this round may take."""
        taking = self._taking(round, settled)

        def work(connection: sa.Connection) -> bool:
            settle_rounds(connection, taking)
            return bool(self._ready(connection, taking))

        return self._log.database.run(work)

    def held_sessions(self) -> frozenset[str]:
        """Return the sessions for which pages were taken that are still there."""
        return self._log.database.run(
            lambda connection: held_sessions(connection, self._agreement.name), read_only=True
        )

    def _taking(self, round: int, settled: Settled) -> Taking:
        agreed, before = self._agreement, self._log.settled_before()
        return Taking(agreed.name, round, settled, agreed.ranker.n_features, before)

    def _take(self, taking: Taking) -> list[list[LoggedPage]]:
        def work(connection: sa.Connection) -> list[list[LoggedPage]]:
            settle_rounds(connection, taking)
            users = [user for user in self._ready(connection, taking) if self._takes_part()]
            return take_pages(connection, taking, users, self._max_pages)

        return self._log.database.run(work)

    def _ready(self, connection: sa.Connection, taking: Taking) -> list[str]:
        full = self._log.users_full(connection)
        return [user for user in users_ready(connection, taking) if user not in full]

    def _takes_part(self) -> bool:
        rate = self._agreement.sampling_rate
        return rate == 1 or _COINS.random() < rate

    def _lesson(self, updates: NDArray[np.float32], n_pages: NDArray[np.int64]) -> SiteLesson:
        """Add users up; one whose update is not finite teaches nothing."""
        finite = np.isfinite(updates).all(axis=1, keepdims=True)
        updates = np.where(finite, updates, np.float32(0))
        weights = n_pages
        if self._agreement.privacy is not None:
            norm = self._agreement.privacy.clip_norm
            updates = np.array([clipped(one, norm) for one in updates]).reshape(updates.shape)
            weights = np.ones_like(n_pages)
        weighted = (updates.astype(np.float64) * weights[:, None]).sum(axis=0)
        return SiteLesson(weighted, int(n_pages.sum()), updates.astype(np.float32))
