"""A node's votes in a trial: one a user, counted, noised, and on the ledger before they leave.

A user's vote is the sign of its credit over all its pages of the trial: for the candidate, for the
ranker that serves, or none. One user more or less changes one of the two counts by one, so the L1
sensitivity is 1 and discrete Laplace noise of scale 1 / epsilon on each count gives pure
epsilon-differential privacy for both together, at user level, for users added or removed.

It holds against whoever sees the counts, whatever else they know, for as long as they like, where a
user belongs to one node. Each further trial costs as much again; the ledger adds it up. It does not
hold against the node itself, which sees every click, and says nothing of rankers learnt from
clicks, which are releases of their own.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Final, Self

import sqlalchemy as sa
from pydantic import Field, ValidationError

from cloister.core.errors import DataError, SettingsError
from cloister.core.ids import checked_id
from cloister.core.settings import Settings
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.noisy_sign_test import VoteCounts
from cloister.federate.online.page_table import PAGES, teams_of
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.outbox import note_delivery
from cloister.privacy.level import Level
from cloister.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from cloister.privacy.mechanisms.noise_source import NoiseSource
from cloister.rank.team_draft import credit
from cloister.store.keyed_state import KeyedState

__all__ = ["NodeVotes", "VoteBox", "count_votes"]

COORDINATOR: Final = "coordinator"
_MOST: Final = 2**40  # more users than any node has, with their noise
_CAST: Final = KeyedState("online-votes")  # by trial: what was sent, and the ledger's entry


class NodeVotes(Settings):
    """What a node sends.

    Parameters
    ----------
    trial
        Its id.
    epsilon
        Of the noise.
    wins, losses
        Users for the candidate and for the ranker that serves, with noise: they may be negative.

    Examples
    --------
    >>> votes = NodeVotes(trial="t1", epsilon=1.0, wins=12, losses=-1)
    >>> NodeVotes.from_bytes(votes.to_bytes()) == votes
    True
    """

    trial: str
    epsilon: float = Field(gt=0)
    wins: int = Field(ge=-_MOST, le=_MOST)
    losses: int = Field(ge=-_MOST, le=_MOST)

    def to_bytes(self) -> bytes:
        """Return the votes as JSON; equal votes give equal bytes."""
        return self.canonical().encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read votes; raise `DataError` at anything else."""
        try:
            return cls.model_validate_json(content)
        except (ValidationError, SettingsError):
            raise DataError("not a node's votes", where="votes") from None


class _AlreadyCast(Exception):
    """Somebody else has cast the votes meanwhile."""


class VoteBox:
    """Counts and casts a node's votes; once a trial, and the same bytes when asked again.

    Parameters
    ----------
    log
        The node's click log.
    ledger
        The node's, in the same database.
    party_id
        The node: whose users' privacy it costs.
    source
        Of the noise.
    epsilon
        What a trial may cost each user: the node's own choice, whatever the coordinator asks.
    """

    def __init__(
        self,
        log: ClickLog,
        ledger: Ledger,
        *,
        party_id: str,
        source: NoiseSource,
        epsilon: float = 1.0,
    ) -> None:
        if ledger.database is not log.database:
            raise SettingsError("the click log and the ledger share a database", where="VoteBox")
        if not 0 < epsilon < float("inf"):
            raise SettingsError(f"must be finite and above 0 (given: {epsilon})", where="epsilon")
        self._database = log.database
        self._ledger = ledger
        self._party_id = party_id
        self._source = source
        self._epsilon = epsilon
        self._mechanism = DiscreteLaplace(
            level=Level.USER, neighbours="add-remove", scale=1 / epsilon, sensitivity=1
        )
        self._database.migrate(KeyedState.schema)

    def cast(self, trial: str) -> bytes:
        """Return the node's votes as `NodeVotes` bytes.

        The first call counts, noises, records the release, keeps the bytes and deletes the trial's
        pages, in one transaction. Later calls return the same bytes. Pages that are shown in the
        trial after that count for nothing.
        """
        checked_id(trial)
        known = self._database.run(lambda c: _CAST.get(c, trial), read_only=True)
        if known is None:
            try:
                return self._database.run(lambda connection: self._cast_in(connection, trial))
            except _AlreadyCast:
                known = self._database.run(lambda c: _CAST.get(c, trial), read_only=True)
        if known is None:
            raise DataError("the votes were cast and are gone", where=trial)
        return str(known.value["sent"]).encode()

    def delivered(self, trial: str) -> None:
        """Note that the coordinator has the votes; again changes nothing."""

        def work(connection: sa.Connection) -> None:
            known = _CAST.get(connection, trial)
            if known is not None:
                now = datetime.now(UTC).isoformat(timespec="microseconds")
                note_delivery(connection, known.value["entry"], now)

        self._database.run(work)

    def _cast_in(self, connection: sa.Connection, trial: str) -> bytes:
        sent = b""

        def payload(connection: sa.Connection) -> bytes:
            nonlocal sent
            if _CAST.get(connection, trial) is not None:
                raise _AlreadyCast
            sent = self._noised(trial, count_votes(connection, trial)).to_bytes()
            connection.execute(PAGES.delete().where(PAGES.c.trial == trial))
            return sent

        receipt = self._ledger.release_in(
            connection,
            self._mechanism.release(2, simulated=self._source.simulated),
            payload,
            party_id=self._party_id,
            recipient=COORDINATOR,
            purpose=f"votes in trial {trial}",
        )
        _CAST.put(connection, trial, {"sent": sent.decode(), "entry": receipt.number})
        return sent

    def _noised(self, trial: str, counts: VoteCounts) -> NodeVotes:
        wins, losses = self._mechanism.protect(list(counts), self._source).values.tolist()
        return NodeVotes(trial=trial, epsilon=self._epsilon, wins=wins, losses=losses)


def count_votes(connection: sa.Connection, trial: str) -> VoteCounts:
    """Count one vote a user, without noise: this must not leave the node."""
    credits: defaultdict[str, int] = defaultdict(int)
    query = sa.select(PAGES.c.agent, PAGES.c.teams, PAGES.c.clicks).where(PAGES.c.trial == trial)
    for row in connection.execute(query):
        credits[row.agent] += credit(*teams_of(row))
    votes = list(credits.values())
    return VoteCounts(sum(vote > 0 for vote in votes), sum(vote < 0 for vote in votes))
