"""The error of a round that changed nothing: it says who was silent, and who refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cloister.federate.engines.site_call import SiteId
from cloister.privacy.secure_aggregation.errors import AggregationFailed

__all__ = ["RoundFailed"]


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
        return (_rebuild, (self.what, self.where, self.remedy, self.silent, self.faults))


def _rebuild(
    what: str, where: str, remedy: str, silent: tuple[SiteId, ...], faults: dict[SiteId, str]
) -> RoundFailed:
    return RoundFailed(what, where=where, remedy=remedy, silent=silent, faults=faults)
