"""The error of a round that cannot go on."""

from __future__ import annotations

from cloister.core.errors import CloisterError

__all__ = ["AggregationFailed"]


class AggregationFailed(CloisterError):
    """A round of secure aggregation stopped: too few clients are left, or somebody lied.

    Whoever raises it has revealed nothing in this stage, and takes no further part in the round.
    """

    usual_remedy = "begin a new session, without the client that is named if one is"
