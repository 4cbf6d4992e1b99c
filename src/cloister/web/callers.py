"""Who calls a service: a role, a name, and the certificate that says so.

A certificate of the federation's own authority names its holder in one URI among the subject's
alternative names, ``cloister://FEDERATION/ROLE/NAME``. Users have no certificates: they come with a
token. What the URI says is believed because the authority signed it; whoever has the authority's
key can name anybody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, NoReturn

from cryptography import x509

from cloister.core.errors import AccessDenied

__all__ = ["CALLER_SCHEME", "SERVICES", "Caller", "Role", "caller_of_certificate", "caller_uri"]

CALLER_SCHEME: Final = "cloister"
_URI: Final = re.compile(
    r"cloister://(?P<federation>[A-Za-z0-9][A-Za-z0-9._-]{0,99})"
    r"/(?P<role>[a-z]+)/(?P<name>[A-Za-z0-9][A-Za-z0-9._:@-]{0,199})"
)


class Role(StrEnum):
    """What a caller is to a federation."""

    USER = "user"
    OPERATOR = "operator"
    OFFICER = "officer"
    NODE = "node"
    BROKER = "broker"
    COORDINATOR = "coordinator"


SERVICES: Final = frozenset({Role.NODE, Role.BROKER, Role.COORDINATOR})  # no persons


class Caller(NamedTuple):
    """Somebody who was identified.

    Parameters
    ----------
    role
        What the caller is.
    name
        A service's name, or a person's agent id such as ``clinic-a:ann``.
    groups
        The groups that a token gives to a user.
    """

    role: Role
    name: str
    groups: frozenset[str] = frozenset()


def caller_uri(federation: str, role: Role, name: str) -> str:
    """Return the URI that a certificate carries for a caller.

    Examples
    --------
    >>> caller_uri("north", Role.NODE, "clinic-a")
    'cloister://north/node/clinic-a'
    """
    return f"{CALLER_SCHEME}://{federation}/{role}/{name}"


def caller_of_certificate(certificate: bytes | Mapping[str, Any], federation: str) -> Caller:
    """Return whom a certificate names, which must have been verified before.

    Parameters
    ----------
    certificate
        In DER, or as `ssl.SSLSocket.getpeercert` gives it.
    federation
        The one that the caller must belong to.

    Raises
    ------
    AccessDenied
        If there is not exactly one such URI, if it names another federation or no role that has
        certificates.

    Examples
    --------
    >>> peer = {"subjectAltName": (("DNS", "a.example"), ("URI", "cloister://north/node/clinic-a"))}
    >>> caller_of_certificate(peer, "north")
    Caller(role=<Role.NODE: 'node'>, name='clinic-a', groups=frozenset())
    """
    uris = _uris_in_der(certificate) if isinstance(certificate, bytes) else _uris_of(certificate)
    own = [uri for uri in uris if uri.lower().startswith(CALLER_SCHEME + ":")]
    if len(own) != 1:
        _refuse("the certificate does not name one caller")
    parts = _URI.fullmatch(own[0])
    if parts is None or parts["role"] not in set(Role) or parts["role"] == Role.USER:
        _refuse("the certificate names no role that has certificates")
    if parts["federation"] != federation:
        _refuse("the certificate is of another federation")
    return Caller(Role(parts["role"]), parts["name"])


def _uris_of(certificate: Mapping[str, Any]) -> list[str]:
    names = certificate.get("subjectAltName", ())
    return [str(value) for kind, value in names if kind == "URI"]


def _uris_in_der(certificate: bytes) -> list[str]:
    try:
        extensions = x509.load_der_x509_certificate(certificate).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    except ValueError:
        _refuse("the certificate cannot be read")
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def _refuse(what: str) -> NoReturn:
    raise AccessDenied(what, remedy="ask the federation's authority for a certificate")
