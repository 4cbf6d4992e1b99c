"""The errors of a round that changed nothing: who was silent, who refused, who is suspected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cloister.core.errors import Conflict
from cloister.federate.engines.site_call import SiteId
from cloister.federate.engines.suspicion import Suspicion
from cloister.privacy.secure_aggregation.errors import AggregationFailed

__all__ = ["NothingLearnt", "RoundFailed", "RoundSpoilt", "TrainingStopped"]


class RoundFailed(AggregationFailed):
    """Too few sites are in a round, or a session of secure aggregation stopped.

    Parameters
    ----------
    what, where, remedy
        As for every error.
    silent
        Sites that did not answer.
    faults
        The kind of error of each site that refused, or was refused.

    Examples
    --------
    >>> error = RoundFailed("1 sites answered; 2 are needed", faults={SiteId("b"): "DataError"})
    >>> error.silent, error.faults
    ((), {'b': 'DataError'})
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        remedy: str = "",
        silent: Iterable[SiteId] = (),
        faults: Mapping[SiteId, str] | None = None,
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.silent = tuple(silent)
        self.faults = dict(faults or {})

    def __reduce__(self) -> tuple[object, ...]:
        """Carry all parts across processes."""
        return (_rebuild, (type(self), (self.what,), self.__dict__))


class RoundSpoilt(RoundFailed):
    """A sum is longer than honest sites can make it: some site in it sent what it must not send.

    The sum is discarded; the ranker stays, and the round is over. Everybody in the sum has paid for
    it once, and the clicks that went into it are used up.

    Parameters
    ----------
    what, where, remedy, silent, faults
        As for a failed round.
    suspicion
        Who may have sent it, and whom the next round leaves out.
    """

    def __init__(
        self,
        what: str,
        *,
        suspicion: Suspicion = Suspicion(),  # noqa: B008 - a value that never changes
        where: str = "",
        remedy: str = "",
        silent: Iterable[SiteId] = (),
        faults: Mapping[SiteId, str] | None = None,
    ) -> None:
        super().__init__(what, where=where, remedy=remedy, silent=silent, faults=faults)
        self.suspicion = suspicion


class TrainingStopped(Conflict):
    """Training waits for an operator, since too many sums were spoilt or released for nothing."""


class NothingLearnt(AggregationFailed):
    """A site has no new pages. Without noise it stays out of the sum: others would stand alone."""


def _rebuild(kind: type[RoundFailed], given: tuple[str], fields: dict[str, object]) -> RoundFailed:
    error = kind(*given)
    error.__dict__.update(fields)
    return error
