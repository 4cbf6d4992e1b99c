"""What carries requests to the servers of pods, and what takes their answers while they come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["AnswerTaking", "HttpFailure", "PodTransport"]


class HttpFailure(Exception):
    """An exchange failed, or did not end in time; the text says why."""


class AnswerTaking(Protocol):
    """Takes an answer while it comes. What it raises ends the exchange, and is raised there."""

    def take_line(self, line: bytes) -> None:
        """Take a line of the head: a status, a header, or an empty one at its end."""

    def take_piece(self, piece: bytes) -> None:
        """Take a piece of the body."""


class PodTransport(Protocol):
    """Carries requests; threads may share it."""

    def exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        answer: AnswerTaking,
    ) -> int:
        """Send a request, hand its answer over, and return the status.

        Raises
        ------
        HttpFailure
            There is no answer in time, or none that is HTTP.
        DataError
            The request cannot be sent.
        """

    def close(self) -> None:
        """Close all connections; exchanges that are under way fail at once."""
