"""Client credentials for Solid servers, as people keep them in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from cloister.core.errors import DataError
from cloister.core.file_errors import explained
from cloister.core.ids import AgentId
from cloister.pods.solid_client import SolidCredentials

__all__ = ["read_credentials"]

MAX_CREDENTIALS_BYTES: Final = 10_000


def read_credentials(file: Path) -> SolidCredentials:
    """Return the client credentials that a file holds; what is in it is never shown."""
    with explained(file):
        content = file.read_bytes()[: MAX_CREDENTIALS_BYTES + 1]
    try:
        fields = json.loads(content)
        names = ("issuer", "client_id", "client_secret", "web_id")
        issuer, client_id, client_secret, web_id = (_text(fields[name]) for name in names)
        return SolidCredentials(issuer, client_id, client_secret, AgentId(web_id))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(
            "no client credentials: a JSON object with issuer, client_id, client_secret, web_id",
            where=str(file),
        ) from None


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError
    return value
