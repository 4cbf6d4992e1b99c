"""Counts and times of one service, for Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

__all__ = ["ServiceMetrics", "shown_method"]

PREFIX: Final = "cloister_"
_METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"})
_BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def shown_method(method: str) -> str:
    """Return a method as figures and logs have it: a caller can send any word as one.

    Examples
    --------
    >>> shown_method("GET"), shown_method("SECRET")
    ('GET', 'other')
    """
    return method if method in _METHODS else "other"


class ServiceMetrics:
    """The figures of one service, in a registry of its own.

    Labels are route templates, methods, statuses and kinds: never a path, a name or a text that a
    caller sent, so that their number is bounded and nothing about anybody is told.

    Examples
    --------
    >>> metrics = ServiceMetrics()
    >>> metrics.counter("rounds", "Rounds that were finished").inc()
    >>> b"cloister_rounds_total 1.0" in metrics.exposition()
    True
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = self.counter(
            "requests", "Requests that were answered", ("route", "method", "status")
        )
        self._seconds = Histogram(
            PREFIX + "request_seconds",
            "Time to the end of an answer",
            ("route",),
            registry=self.registry,
            buckets=_BUCKETS_S,
        )
        self._refusals = self.counter("refusals", "Requests and connections refused", ("kind",))
        self.open_connections = self.gauge("open_connections", "Connections that are open")

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """Make a count of something that only grows."""
        return Counter(PREFIX + name, text, labels, registry=self.registry)

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """Make a figure that goes up and down."""
        return Gauge(PREFIX + name, text, labels, registry=self.registry)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request; ``route`` is its template."""
        self._requests.labels(route, shown_method(method), str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def refused(self, kind: str) -> None:
        """Count a refusal."""
        self._refusals.labels(kind).inc()

    def exposition(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        return generate_latest(self.registry)
