"""What carries requests to the servers of pods, and what takes their answers while they come."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

from cloister.core.errors import DataError, StoreError

__all__ = [
    "AnswerTaking",
    "HttpFailure",
    "NotAsked",
    "PodTransport",
    "SentAddress",
    "TooLong",
    "sent_address",
]

HOST_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
NUMBER: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)\.?", re.IGNORECASE)  # at a name's end: an address
KEPT_ADDRESSES: Final = 2_048
PRINTABLE: Final = "".join(map(chr, range(33, 127)))  # is sent as it is in an address


class HttpFailure(Exception):
    """An exchange failed, or did not end in time; the text says why."""


class NotAsked(StoreError):
    """A server was not asked, for want of something on this machine."""

    usual_remedy = "let this service open more files and threads, or wait until less is asked of it"


class TooLong(DataError):
    """An answer is too long; so many bytes of it came."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", n_bytes: int = 0) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.n_bytes = n_bytes


class SentAddress(NamedTuple):
    """An address as it is sent.

    Parameters
    ----------
    url
        In ASCII.
    host, port
        Whom it names.
    is_number
        Whether the host is a number, which nobody looks up.
    is_tls
        Whether it is asked over TLS.
    """

    url: str
    host: str
    port: int
    is_number: bool
    is_tls: bool


@lru_cache(KEPT_ADDRESSES)
def sent_address(url: str) -> SentAddress:
    """Return how an address is sent; raise `DataError` where it is none for HTTP.

    Everybody who reads it must read the same host. So a host is a plain name or a number: nothing
    is decoded, and no two names are taken for one.

    Examples
    --------
    >>> sent_address("https://pods.example/ann/a b#part")
    SentAddress(url='https://pods.example/ann/a%20b', host='pods.example', port=443, ...)
    >>> sent_address("https://pods%2Eexample/")
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: 'https://pods%2Eexample/': the host of an address is no plain...
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        sent = quote(parts._replace(fragment="").geturl(), safe=PRINTABLE)
    except ValueError:  # also of letters that no text can have
        raise DataError("an address cannot be sent", where=repr(url[:80])) from None
    if parts.scheme not in ("https", "http"):
        raise DataError("an address is not one of HTTP", where=repr(url[:80]))
    is_number = _is_number(host)
    ends_in_number = NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2])
    if not (is_number or (HOST_NAME.fullmatch(host) and not ends_in_number)):
        raise DataError(
            "the host of an address is no plain name",
            where=repr(url[:80]),
            remedy="write other letters than a to z as servers know them: xn--...",
        )
    if port is None:
        port = 443 if parts.scheme == "https" else 80
    return SentAddress(sent, host, port, is_number, parts.scheme == "https")


def _is_number(host: str) -> bool:
    try:
        return ip_address(host).compressed != "" and "%" not in host
    except ValueError:
        return False


class AnswerTaking(Protocol):
    """Takes an answer while it comes. What it raises ends the exchange, and is raised there."""

    def take_line(self, line: bytes) -> None:
        """Take a line of the head: a status, a header, or an empty one at its end."""

    def take_piece(self, piece: bytes) -> None:
        """Take a piece of the body, as it comes: a chunked one with the marks of its chunks."""


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
