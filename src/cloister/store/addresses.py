"""Where a database is: a path or an address, and what of it may be shown."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from cloister.core.errors import StoreError

__all__ = ["Address", "parse_address"]

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
    raise StoreError("this kind of database is not known", where=f"{scheme}://", remedy=_FORMS)


def _sqlite(path: str) -> Address:
    if not path or path == ":memory:":
        raise StoreError(
            "a database in memory does not outlive its process", where="SQLite", remedy=_FORMS
        )
    absolute = str(Path(path).absolute())
    return Address(URL.create("sqlite+pysqlite", database=absolute), absolute)


def _sqlite_url(rest: str) -> Address:
    if rest and not rest.startswith("/"):
        raise StoreError("SQLite has no host", where="sqlite://", remedy="write sqlite:///PATH")
    if "?" in rest:
        raise StoreError(
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


def _unreadable() -> StoreError:
    return StoreError(
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
