"""Where a database is: a path or an address, and what of it may be shown."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from cloister.core.errors import SettingsError

__all__ = ["Address", "check_transport", "parse_address"]

_POSTGRESQL: Final = ("postgres", "postgresql", "postgresql+psycopg")
_SECRET_OPTIONS: Final = ("password", "sslpassword")
_FORMS: Final = "give a file path, sqlite:///PATH or postgresql://USER@HOST/DATABASE"


class Address(NamedTuple):
    """A parsed address; only ``shown`` may appear in messages."""

    url: URL
    shown: str
    secrets: tuple[str, ...] = ()

    def scrubbed(self, text: str) -> str:
        """Return ``text`` without the secrets of this address."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def parse_address(address: str | Path) -> Address:
    """Read a path or an address.

    Examples
    --------
    >>> parse_address("postgresql://ann:secret@db.example/cloister").shown
    'postgresql://ann@db.example/cloister'
    >>> parse_address("sqlite:////var/lib/cloister.db").shown
    '/var/lib/cloister.db'
    """
    if isinstance(address, Path) or "://" not in address:
        return _sqlite(str(address))
    scheme, _, rest = address.partition("://")
    if scheme in ("sqlite", "sqlite+pysqlite"):
        return _sqlite_url(rest)
    if scheme in _POSTGRESQL:
        return _postgresql(f"postgresql+psycopg://{rest}")
    raise SettingsError("this kind of database is not known", where=f"{scheme}://", remedy=_FORMS)


def check_transport(address: Address, given: Mapping[str, Any], usual: Mapping[str, str]) -> bool:
    """Say whether a connection to PostgreSQL stays on this machine; refuse one that is not safe.

    Within this machine means a Unix socket, ``localhost`` or a loopback address, for every host
    that may be tried. Any other host name counts as elsewhere, whatever it means today.

    Parameters
    ----------
    given
        What libpq gets from us, by its own names of parameters.
    usual
        What libpq takes where nothing is given: from the environment, and its own defaults.

    Raises
    ------
    SettingsError
        The server is elsewhere and ``sslmode`` is not ``verify-full``.

    Examples
    --------
    >>> check_transport(parse_address("postgresql:///cloister"), {}, {})
    True
    >>> check_transport(  # doctest: +ELLIPSIS
    ...     parse_address("postgresql://db/c"), {"host": "db", "sslmode": "require"}, {}
    ... )
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: postgresql://db/c: the server is on another machine, ...
    """
    of_service = given.get("service") or usual.get("service")  # a file that is not read here
    if not of_service and all(map(_is_local, _reached(dict(usual) | dict(given)))):
        return True
    mode = given.get("sslmode") or (None if of_service else usual.get("sslmode"))
    if mode != "verify-full":
        raise SettingsError(
            "the server is on another machine, and the address does not ask for a verified "
            "connection",
            where=address.shown,
            remedy="add to the address: ?sslmode=verify-full&sslrootcert=FILE, with the "
            "certificate of the authority that signed the server's",
        )
    return False


def _reached(options: Mapping[str, Any]) -> list[str]:
    """Return where libpq connects to: an address decides, and the host where there is none."""
    hosts, addresses = (str(options.get(name) or "").split(",") for name in ("host", "hostaddr"))
    return [given or host for host, given in zip_longest(hosts, addresses, fillvalue="")]


def _is_local(host: str) -> bool:
    if not host or host.startswith(("/", "@")) or host == "localhost":  # "": a Unix socket
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _sqlite(path: str) -> Address:
    if not path or path == ":memory:":
        raise SettingsError(
            "a database in memory does not outlive its process", where="SQLite", remedy=_FORMS
        )
    absolute = str(Path(path).absolute())
    return Address(URL.create("sqlite+pysqlite", database=absolute), absolute)


def _sqlite_url(rest: str) -> Address:
    if rest and not rest.startswith("/"):
        raise SettingsError("SQLite has no host", where="sqlite://", remedy="write sqlite:///PATH")
    if "?" in rest:
        raise SettingsError(
            "a SQLite address takes no options", where="sqlite://", remedy="write sqlite:///PATH"
        )
    return _sqlite(rest[1:])


def _postgresql(text: str) -> Address:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # their texts may show parts of a password
        raise _unreadable() from None
    if "@" in (url.host or ""):
        raise _unreadable()
    options = {name: url.query[name] for name in _SECRET_OPTIONS if name in url.query}
    secrets = [url.password or "", *(str(value) for value in options.values())]
    return Address(url, _shown(url), tuple(filter(None, secrets)))


def _unreadable() -> SettingsError:
    return SettingsError(
        "the address cannot be read",
        where="postgresql://",
        remedy="write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
        "with special characters as %40 for @, %3A for :, %2F for /",
    )


def _shown(url: URL) -> str:
    user = f"{url.username}@" if url.username else ""
    host = url.host or url.query.get("host", "")
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{user}{host}{port}/{url.database or ''}"
