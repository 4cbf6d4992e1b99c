"""The engine over NVFlare's Collab API: one published method, bytes in and bytes out."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from cloister.federate.engines.site_call import SiteCall, SiteId, SiteReply

__all__ = ["CollabEngine", "SiteProxy"]

_log: Final = logging.getLogger(__name__)


class SiteProxy(Protocol):
    """What is used of a proxy of NVFlare's: ``proxy(timeout=3.0).answer(content)``."""

    @property
    def name(self) -> str:
        """The site's name, as its certificate has it."""

    def __call__(self, *, timeout: float) -> Any:
        """Return the site's published methods, with a time limit."""


class CollabEngine:
    """Calls the sites of a running NVFlare job, all at the same time.

    Several threads may call: a proxy's call makes its own context, unlike NVFlare's group calls,
    which look for one in their thread. Each site gets its own message, so there is one call a site.

    Parameters
    ----------
    proxies
        Of the job's clients.
    """

    def __init__(self, proxies: Iterable[SiteProxy]) -> None:
        self._proxies = {SiteId(proxy.name): proxy for proxy in proxies}

    def sites(self) -> tuple[SiteId, ...]:
        """Return the sites that the job began with, in order."""
        return tuple(sorted(self._proxies))

    def call(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[SiteId, SiteReply]:
        """Call sites; one that is not in the job, or failed to answer in time, is silent."""
        known = {site: call.to_bytes() for site, call in calls.items() if site in self._proxies}
        if not known:
            return {}
        with ThreadPoolExecutor(len(known), thread_name_prefix="site-call") as pool:
            asked = {s: pool.submit(self._ask, s, sent, timeout_s) for s, sent in known.items()}
        answers = {site: answer.result() for site, answer in asked.items()}
        return {s: SiteReply.received(a) for s, a in answers.items() if a is not None}

    def _ask(self, site: SiteId, content: bytes, timeout_s: float) -> bytes | None:
        """Return what a site answered; None where nothing came. An end of the job is raised."""
        from nvflare.collab.api.exceptions import CollabCallError

        try:
            answer = self._proxies[site](timeout=timeout_s).answer(content)
        except CollabCallError as error:
            _log.warning("%s did not answer: %s", site, error.cause_type)
            return None
        return answer if isinstance(answer, bytes) else b""
