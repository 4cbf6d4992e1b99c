"""The engine inside one process: sites are objects, and calls still travel as bytes."""

from __future__ import annotations

from collections.abc import Mapping

from cloister.federate.engines.site import Site
from cloister.federate.engines.site_call import SiteCall, SiteId, SiteReply

__all__ = ["InProcessEngine"]


class InProcessEngine:
    """Calls sites of this process, one after the other.

    Nothing is lost here, and no time limit is kept.

    Parameters
    ----------
    sites
        By id.
    """

    def __init__(self, sites: Mapping[SiteId, Site]) -> None:
        self._sites = dict(sorted(sites.items()))

    def sites(self) -> tuple[SiteId, ...]:
        """Return all sites, in order."""
        return tuple(self._sites)

    def call(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[SiteId, SiteReply]:
        """Call sites; one that does not exist is silent."""
        return {
            site: SiteReply.received(self._sites[site].answer(call.to_bytes()))
            for site, call in calls.items()
            if site in self._sites
        }
