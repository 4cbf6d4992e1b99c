"""Whom a certificate names: ``cloister://FEDERATION/ROLE/NAME``, and the hosts that it answers on.

The address stands in the certificate as a URI (subject alternative name). A host name alone says
where somebody answers, never who they are: roles and names are read from the URI.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple, Self

from cloister.core.errors import DataError, SettingsError
from cloister.core.ids import checked_id
from cloister.web.callers import CALLER_SCHEME, Role, caller_uri

__all__ = ["CERTIFIED", "CertificateName", "Host", "checked_host", "checked_part"]

CERTIFIED: Final = frozenset(Role) - {Role.USER}  # users come with tokens
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")  # a roster's, too
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?")
_MAX_HOST: Final = 253

Host = str | IPv4Address | IPv6Address


class CertificateName(NamedTuple):
    """Federation, role and name.

    Examples
    --------
    >>> name = CertificateName.checked("clinics", "node", "clinic-a")
    >>> name.uri
    'cloister://clinics/node/clinic-a'
    >>> CertificateName.parse(name.uri) == name
    True
    >>> CertificateName.checked("clinics", "node", "clinic-a/../b")
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: 'clinic-a/../b': a name has small letters, digits, - ...
    """

    federation: str
    role: Role
    name: str

    @classmethod
    def checked(cls, federation: str, role: str, name: str) -> Self:
        """Make a name whose parts mean one thing in an address, a file name and a host name."""
        if role not in CERTIFIED:
            roles = ", ".join(sorted(CERTIFIED))
            raise SettingsError(
                "no such role", where=repr(role[:80]), remedy=f"choose one of {roles}"
            )
        return cls(checked_part(federation), Role(role), checked_part(name))

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Read the address; anything else is refused."""
        parts = uri.split("/")
        if len(parts) != 5 or parts[:2] != [f"{CALLER_SCHEME}:", ""]:
            raise DataError("not a name of a federation", where=repr(uri[:80]))
        try:
            return cls.checked(*parts[2:])
        except SettingsError as error:
            raise DataError(error.what, where=repr(uri[:80])) from None

    @property
    def uri(self) -> str:
        """The address as certificates and tokens have it."""
        return caller_uri(self.federation, self.role, self.name)

    @property
    def short(self) -> str:
        """Role and name, as commands take them."""
        return f"{self.role}/{self.name}"

    @property
    def file_stem(self) -> str:
        """What the files of this name begin with."""
        return f"{self.role}-{self.name}"


def checked_host(host: str) -> Host:
    """Return a DNS name in small letters, or an IP address; wildcards are refused.

    Examples
    --------
    >>> checked_host("Node.Clinic.Example"), checked_host("::1")
    ('node.clinic.example', IPv6Address('::1'))
    """
    try:
        return ip_address(host)
    except ValueError:
        name = host.lower()
    labels = name.split(".")
    number = labels[-1].isdigit()  # an address that is none, such as 999.1.1.1
    if len(name) > _MAX_HOST or number or not all(map(_LABEL.fullmatch, labels)):
        raise SettingsError(
            "neither a host name nor an IP address",
            where=repr(host[:80]),
            remedy="name a host as in node.example or 10.0.0.7, without a port or *",
        )
    return name


def checked_part(name: str) -> str:
    """Return a name that means one thing in an address, a file name and a host name."""
    if not _NAME.fullmatch(name):
        raise SettingsError(
            "a name has small letters, digits, - and ., and 63 characters at most",
            where=repr(name[:80]),
            remedy="choose another name",
        )
    return checked_id(name)
