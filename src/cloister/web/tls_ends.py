"""When a service's certificate and its list of revoked certificates end, said before they do.

From then on no handshake succeeds: with the certificate nobody believes us, with the list we
believe nobody who has a certificate. So there are figures, a line a day in the log for the last
week and after the end, and a service that is over is not ready.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509

from cloister.core.errors import SettingsError
from cloister.core.file_errors import explained
from cloister.web.logs import log_event
from cloister.web.metrics import ServiceMetrics

__all__ = ["EndWatch", "TlsEnds", "tls_ends"]

DAY_S: Final = 86_400.0
WARNED_DAYS: Final = 7.0


class TlsEnds(NamedTuple):
    """When a certificate and a list end, in seconds since 1970; None where there is no end."""

    certificate: float | None
    revocation_list: float | None = None


def tls_ends(certificate: Path, revoked: Path | None) -> TlsEnds:
    """Read when our certificate and the list of revoked ones end."""
    own = _read(certificate, lambda pem: x509.load_pem_x509_certificate(pem).not_valid_after_utc)
    if revoked is None:
        return TlsEnds(own)
    return TlsEnds(own, _read(revoked, lambda pem: x509.load_pem_x509_crl(pem).next_update_utc))


def _read(path: Path, end_of: Callable[[bytes], datetime | None]) -> float | None:
    with explained(path):
        content = path.read_bytes()
    try:
        ends = end_of(content)
    except ValueError:
        raise SettingsError(
            "neither a certificate nor a list of revoked ones, or another than it should be",
            where=str(path),
            remedy="name files in PEM that belong together",
        ) from None
    return None if ends is None else ends.timestamp()


class EndWatch:
    """Says in figures and logs how long the files of a service still hold.

    Parameters
    ----------
    ends
        Returns the ends of what is in use.
    metrics
        Gets ``certificate_days_left`` and, where there is a list, ``revocation_list_days_left``.
    clock
        The time in seconds since 1970.

    Examples
    --------
    >>> metrics = ServiceMetrics()
    >>> watch = EndWatch(lambda: TlsEnds(3 * DAY_S, DAY_S), metrics, clock=lambda: 2 * DAY_S)
    >>> watch.days_left()
    {'certificate': 1.0, 'revocation_list': -1.0}
    >>> watch.holds(), b"cloister_revocation_list_days_left -1.0" in metrics.exposition()
    (False, True)
    """

    def __init__(
        self,
        ends: Callable[[], TlsEnds],
        metrics: ServiceMetrics,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ends, self._clock = ends, clock
        self._said: dict[tuple[str, bool], float] = {}
        for name in self.days_left():
            text = f"Days until the {name.replace('_', ' ')} ends; then no handshake succeeds"
            gauge = metrics.gauge(f"{name}_days_left", text)
            gauge.set_function(partial(self._days_left_of, name))

    def days_left(self) -> dict[str, float]:
        """Return for each thing that ends how many days it holds; below 0 it is over."""
        now, ends = self._clock(), self._ends()._asdict()
        return {name: (end - now) / DAY_S for name, end in ends.items() if end is not None}

    def _days_left_of(self, name: str) -> float:
        return self.days_left().get(name, math.inf)

    def holds(self) -> bool:
        """Say whether nothing is over."""
        return all(days > 0 for days in self.days_left().values())

    def look(self) -> None:
        """Log what ends within a week, or has ended: at once, and then daily."""
        now = self._clock()
        for name, days in self.days_left().items():
            over = days <= 0
            since_s = now - self._said.get((name, over), -math.inf)
            if days >= WARNED_DAYS or 0 <= since_s < DAY_S:
                continue
            self._said[name, over] = now
            level = logging.ERROR if over else logging.WARNING
            event = f"{name}_{'over' if over else 'ends_soon'}"
            log_event(event, level=level, days_left=round(days, 2))
