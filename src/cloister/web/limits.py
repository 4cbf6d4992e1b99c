"""What a service takes from others: how much, how deep, how slow, how many."""

from __future__ import annotations

from pydantic import Field

from cloister.core.settings import Settings

__all__ = ["ServiceLimits"]


class ServiceLimits(Settings):
    """Limits against big, deep, slow and too many requests.

    They bound what one address and one caller can take from the others. Many addresses at once can
    still fill the line or all connections; that needs a filter in front of the machine.

    Parameters
    ----------
    max_body_bytes
        Of a JSON body. Checking one costs up to 0.15 s of a core for each MiB, while nobody else is
        served; no message of a service needs more than 100 KiB.
    max_binary_bytes
        Of a body on a route that takes bytes.
    max_binary_at_once
        Requests with such bodies that are worked on at a time, half of them of one caller: together
        with twice ``max_binary_bytes`` the memory that they can take.
    max_json_depth
        Of objects and arrays within each other.
    max_headers
        In a request; all of them, and the address, in less than 32 KiB.
    handshake_s
        For TLS to agree on keys.
    head_s
        From a request's first byte, or from the beginning of a connection, to the end of its
        headers.
    idle_s
        Without a byte of a body that is due, without reading an answer, or between two requests.
    body_s
        For a whole body, and for reading a whole answer.
    max_connections
        In all.
    max_connections_of_address
        Of one IPv4 address or one IPv6 network of 64 bits. Where there are more, the one that
        waited longest between requests is closed; where none waits, the new one is.
    connections_a_minute
        New ones of one address, as above: each costs a handshake.
    requests_a_minute
        Of each person.
    service_requests_a_minute
        Of each service, which asks for many persons.
    max_requests_at_once
        Of each caller, worked on at the same time.
    unidentified_a_minute
        Requests without identity, of each address.
    """

    max_body_bytes: int = Field(default=128 << 10, ge=1)
    max_binary_bytes: int = Field(default=64 << 20, ge=1)
    max_binary_at_once: int = Field(default=32, ge=1)
    max_json_depth: int = Field(default=20, ge=1)
    max_headers: int = Field(default=64, ge=8)
    handshake_s: float = Field(default=5.0, gt=0)
    head_s: float = Field(default=10.0, gt=0)
    idle_s: float = Field(default=20.0, gt=0)
    body_s: float = Field(default=120.0, gt=0)
    max_connections: int = Field(default=512, ge=1)
    max_connections_of_address: int = Field(default=64, ge=1)
    connections_a_minute: int = Field(default=6000, ge=1)
    requests_a_minute: int = Field(default=1200, ge=1)
    service_requests_a_minute: int = Field(default=12_000, ge=1)
    max_requests_at_once: int = Field(default=32, ge=1)
    unidentified_a_minute: int = Field(default=600, ge=1)
