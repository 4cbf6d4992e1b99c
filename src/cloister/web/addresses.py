"""Addresses of clients: which are this machine, and which are one client's."""

from __future__ import annotations

import ipaddress
from typing import Final

__all__ = ["LOOPBACK_NAMES", "client_network", "is_loopback"]

LOOPBACK_NAMES: Final = ("127.0.0.1", "::1", "localhost")
_CLIENT_BITS: Final = 64  # of an IPv6 address; a client chooses the rest


def is_loopback(host: str) -> bool:
    """Tell whether an address is this machine's own.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("10.0.0.1"), is_loopback("")
    (True, True, False, False)
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host in LOOPBACK_NAMES
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def client_network(host: str) -> str:
    """Return what is counted as one client: an IPv4 address, or an IPv6 network of 64 bits.

    Examples
    --------
    >>> [client_network(host) for host in ("10.0.0.1", "2001:db8::1:2:3:4", "::ffff:1.2.3.4")]
    ['10.0.0.1', '2001:db8::/64', '1.2.3.4']
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _CLIENT_BITS), strict=False))
