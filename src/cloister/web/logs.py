"""Logs as JSON lines on standard error, without anything that a caller wrote.

Each line has ``time``, ``level``, ``service`` and ``event``; lines about requests have
``request_id``, ``method``, ``route`` (the template, never the path or the query string),
``status``, ``ms``, ``role``, ``n_bytes`` and, for services, ``name``. Lines of other packages carry
the text of their programmers without its arguments, and of an exception its kind and place without
its message, since both may quote what somebody sent.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, Final

__all__ = ["JsonLines", "SeldomLog", "configure_logs", "failure", "log_event"]

_LOGGER: Final = logging.getLogger("cloister.web")
_MAX_TEXT: Final = 200


def configure_logs(service_name: str, *, level: int = logging.INFO) -> None:
    """Send all logs of this process to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(service_name))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("cloister").setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "httpx", "httpcore", "asyncio"):
        other = logging.getLogger(name)
        other.handlers[:] = []
        other.propagate = True
        other.setLevel(logging.WARNING)


def log_event(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log something that happened.

    Parameters
    ----------
    event
        What happened, in a few words joined by underscores.
    level
        Of `logging`.
    **fields
        Numbers, and words of the program's own. Never pass a text that came from outside, a query,
        an id of a document or the name of a user.
    """
    _LOGGER.log(level, event, extra={"fields": fields})


class JsonLines(logging.Formatter):
    """Write a record as one line of JSON.

    Examples
    --------
    >>> record = logging.makeLogRecord({"msg": "asked %s", "args": ("my secret",), "created": 0.0})
    >>> JsonLines("node").format(record)
    '{"time": "1970-01-01T00:00:00.000Z", "level": "info", "service": "node", "event": "asked %s"}'
    """

    def __init__(self, service_name: str) -> None:
        super().__init__()
        self._service_name = service_name

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        text = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        line: dict[str, Any] = {
            "time": _utc(record.created),
            "level": record.levelname.lower() if record.levelno else "info",
            "service": self._service_name,
            "event": text[:_MAX_TEXT],
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            line.update(failure(record.exc_info[0], record.exc_info[2]))
        return json.dumps(line, default=lambda value: type(value).__name__)


def failure(kind: type[BaseException], trace: TracebackType | None) -> dict[str, str]:
    """Return the kind and place of an exception, without its message."""
    frames = traceback.extract_tb(trace)
    at = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return {"exception": kind.__name__, "at": at}


def _utc(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"


class SeldomLog:
    """Logs an event at most once a second for each kind, and how many there were since.

    For what strangers can cause as often as they like: it must not fill the disk.
    """

    def __init__(self, *, every_s: float = 1.0) -> None:
        self._every_s = every_s
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}  # when last, how many since

    def event(self, event: str, kind: str) -> None:
        """Count an event, and log it if the last line is old enough; few kinds exist."""
        now = time.monotonic()
        last, n = self._kinds.get((event, kind), (-self._every_s, 0))
        if now - last < self._every_s:
            self._kinds[event, kind] = (last, n + 1)
            return
        self._kinds[event, kind] = (now, 0)
        log_event(event, level=logging.WARNING, kind=kind, n=n + 1)
