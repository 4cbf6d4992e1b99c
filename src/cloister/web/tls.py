"""TLS 1.3 within a federation: one authority, certificates of both sides, a list of the revoked.

Nothing but the federation's own authority is believed, not the system's. Sessions are not resumed:
each connection shows its certificate anew. A certificate that is revoked in the list is refused
from the moment that the list is read (`LiveTls`); a list that has expired refuses everybody with a
certificate.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from cloister.core.errors import AccessDenied, SettingsError
from cloister.core.file_errors import refused_remedy, wrong_place
from cloister.core.settings import Settings
from cloister.web.tls_ends import TlsEnds, tls_ends

__all__ = [
    "LiveTls",
    "ServerTlsFiles",
    "TlsFiles",
    "client_context",
    "server_context",
    "user_context",
]

_OTHERS = 0o007  # everybody beside the owner and the group


class ServerTlsFiles(Settings):
    """Files in PEM of a server whose clients have no certificates.

    Parameters
    ----------
    certificate, key
        Our own; the key without a password, and not for everybody to read.
    """

    certificate: Path
    key: Path

    def state(self) -> tuple[tuple[int, int, int], ...]:
        """Return what changes when one of the files does."""
        return tuple(_state(path) for path in self.paths())

    def paths(self) -> tuple[Path, ...]:
        """Return the files."""
        return (self.certificate, self.key)


class TlsFiles(ServerTlsFiles):
    """Files in PEM of a service of a federation.

    Parameters
    ----------
    certificate, key
        Our own; the key without a password, and not for everybody to read.
    authority
        The federation's authority, which all certificates must come from.
    revoked
        The authority's list of revoked certificates.
    """

    authority: Path
    revoked: Path | None = None

    def paths(self) -> tuple[Path, ...]:
        """Return the files."""
        optional = () if self.revoked is None else (self.revoked,)
        return (*super().paths(), self.authority, *optional)


F = TypeVar("F", bound=ServerTlsFiles)


class LiveTls(Generic[F]):
    """A context for new connections that follows its files, and when these end (``ends``).

    Contexts are made anew, not changed: a list of revoked certificates cannot be taken out of one.

    Parameters
    ----------
    files
        To read.
    make
        `server_context` or `client_context`.
    """

    def __init__(self, files: F, make: Callable[[F], ssl.SSLContext] | None = None) -> None:
        self._files, self._make = files, make or server_context
        self._state = files.state()
        self.context = self._make(files)
        self.ends = _ends(files)

    def refresh(self) -> bool:
        """Read the files if they changed; return whether the context is new.

        Raises
        ------
        CloisterError
            If what is there now cannot be used; the old context stays, and the next change is read.
        """
        state = self._files.state()
        if state == self._state:
            return False
        self._state = state
        context = self._make(self._files)
        self.ends = _ends(self._files)
        self.context = context
        return True


def server_context(files: ServerTlsFiles) -> ssl.SSLContext:
    """Return a context for servers: clients come without a certificate or with a right one."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, files)
    if isinstance(files, TlsFiles):
        context.verify_mode = ssl.CERT_OPTIONAL
    context.num_tickets = 0
    return context


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context for clients: servers must have a certificate with their host's name."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, files)


def user_context(authority: Path, revoked: Path | None = None) -> ssl.SSLContext:
    """Return a context for clients that have no certificate themselves."""
    for path in (authority, *(() if revoked is None else (revoked,))):
        _check(path, secret=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        _believe(context, authority, revoked)
    except (OSError, ValueError) as error:
        raise _unusable("the authority or its list", authority, error) from None
    return context


def _context(protocol: int, files: ServerTlsFiles) -> ssl.SSLContext:
    for path in files.paths():
        _check(path, secret=path == files.key)
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        if isinstance(files, TlsFiles):
            _believe(context, files.authority, files.revoked)
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (OSError, ValueError) as error:  # of ssl too
        what = "the certificate, its key or its authority"
        raise _unusable(what, files.certificate, error) from None
    return context


def _believe(context: ssl.SSLContext, authority: Path, revoked: Path | None) -> None:
    """Believe one authority, and nobody whom its list names."""
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cafile=authority)
    if revoked is not None:
        context.load_verify_locations(cafile=revoked)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _ends(files: ServerTlsFiles) -> TlsEnds:
    return tls_ends(files.certificate, files.revoked if isinstance(files, TlsFiles) else None)


def _unusable(what: str, path: Path, error: Exception) -> SettingsError:
    return SettingsError(
        f"{what} cannot be used ({type(error).__name__})",
        where=str(path),
        remedy="name files in PEM that belong together",
    )


def _check(path: Path, *, secret: bool) -> None:
    """Say which file is missing; errors of ssl name none."""
    try:
        mode = path.stat().st_mode
        with path.open("rb"):
            pass
    except OSError as error:
        raise wrong_place(error, path) or SettingsError(
            f"cannot be read: {error.strerror}", where=str(path), remedy=refused_remedy(error)
        ) from None
    if secret and mode & _OTHERS:
        raise AccessDenied(
            "everybody may read or write this key", where=str(path), remedy=f"chmod 600 {path}"
        )


def _no_password() -> NoReturn:
    raise ValueError("the key has a password")


def _state(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116 - called for each request
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)
