"""What an engine is: something that brings calls to sites, and replies back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from cloister.core.errors import DataError
from cloister.federate.engines.site_call import (
    PROTOCOL_VERSION,
    SiteCall,
    SiteId,
    SiteMethod,
    SiteReply,
    call_id_of,
)

__all__ = ["Engine", "Heard", "ask_sites"]


class Engine(Protocol):
    """Carries calls, and knows nothing of what is in them.

    It may lose a call or a reply, and may bring one twice: sites answer an equal call with the
    answer that they gave before. It must not say that a reply is of a site that did not send it.
    """

    def sites(self) -> tuple[SiteId, ...]:
        """Return the sites that may be called, in order."""

    def call(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[SiteId, SiteReply]:
        """Call sites at the same time; return the replies that came within the time.

        A site that was silent is missing; one that refused is there, with a fault.
        """


class Heard(NamedTuple):
    """What came back from the sites that were called.

    Parameters
    ----------
    answers
        By site, where it answered this very call.
    silent
        Sites that did not answer.
    faults
        The kind of error of each site that refused, or whose reply belongs to another call.
    """

    answers: dict[SiteId, bytes]
    silent: tuple[SiteId, ...]
    faults: dict[SiteId, str]


def ask_sites(
    engine: Engine,
    method: SiteMethod,
    round_number: int,
    payloads: Mapping[SiteId, bytes],
    *,
    timeout_s: float,
) -> Heard:
    """Call sites once, and take nothing but answers to these calls."""
    calls = {
        site: SiteCall(method, round_number, PROTOCOL_VERSION, payload)
        for site, payload in sorted(payloads.items())
    }
    replies = engine.call(calls, timeout_s) if calls else {}
    answers: dict[SiteId, bytes] = {}
    faults: dict[SiteId, str] = {}
    for site, call in calls.items():
        if site not in replies:
            continue
        reply = replies[site]
        if reply.call_id != call_id_of(call):
            faults[site] = DataError.__name__
        elif reply.fault:
            faults[site] = reply.fault
        else:
            answers[site] = reply.payload
    return Heard(answers, tuple(site for site in calls if site not in replies), faults)
