"""What a private training may reveal, and how it is kept to that."""

from __future__ import annotations

import math
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from cloister.core.errors import SettingsError
from cloister.core.settings import Settings

__all__ = ["PrivateTraining"]

FEWER_COME: Final = 5.0  # standard deviations


class PrivateTraining(Settings):
    """How much may be revealed, and how it is kept to that.

    Parameters
    ----------
    epsilon, delta
        What all rounds together may reveal of one user; delta well below one over the clients.
    n_rounds
        Rounds of the whole training. The noise is chosen for them, and none more is allowed.
    clip_norm
        The longest update of a client. It must not be chosen by looking at clients' data.
    mechanism
        ``gaussian`` noise in each round with Poisson sampling, or a ``tree`` (DP-FTRL).
    server_rate
        What the mean update is multiplied by.
    n_dropouts, n_colluders
        With either, or with secure aggregation, clients add the noise in shares: so many
        participants of a round may drop out, and so many of the others may tell the server
        their shares. Each one's share is made wider for it, and for rounds to which fewer come
        than expected. Without, one trusted server adds the noise.
    secure_aggregation
        Whether sums are truly formed by the protocol, among clients in this process: slow.
    average_last
        The ranker is the mean over so many last rounds' models, which costs nothing; 1 for the
        last alone.
    """

    epsilon: float = Field(gt=0)
    delta: float = Field(gt=0, lt=1)
    n_rounds: int = Field(ge=1)
    clip_norm: float = Field(default=0.3, gt=0)
    mechanism: Literal["gaussian", "tree"] = "gaussian"
    server_rate: float = Field(default=1.0, gt=0)
    n_dropouts: int = Field(default=0, ge=0)
    n_colluders: int = Field(default=0, ge=0)
    secure_aggregation: bool = False
    average_last: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _averages_rounds_that_exist(self) -> Self:
        if self.average_last > self.n_rounds:
            raise ValueError("average_last is at most n_rounds")
        if self.mechanism == "tree" and (
            self.secure_aggregation or self.n_dropouts or self.n_colluders
        ):
            raise ValueError("a tree's noise spans rounds: no clients can add it in shares")
        return self

    @property
    def in_shares(self) -> bool:
        """Whether clients add the noise, and not the server."""
        return self.secure_aggregation or self.n_dropouts > 0 or self.n_colluders > 0

    def min_survivors(self, n_expected: int, sampling_rate: float) -> int:
        """Return how many updates a sum must have: a round with fewer fails.

        Where coins are thrown, fewer may come than expected; five standard deviations are enough
        for all rounds of a training.
        """
        slack = 0 if sampling_rate == 1 else math.ceil(FEWER_COME * math.sqrt(n_expected))
        least = n_expected - slack - self.n_dropouts
        if least - self.n_colluders < 2:
            raise SettingsError(
                f"of {n_expected} participants expected, {slack} may not be drawn, "
                f"{self.n_dropouts} drop out and {self.n_colluders} collude: nobody is left to "
                "hide behind",
                where="participants",
                remedy="expect more, or let all clients take part in every round",
            )
        return least
