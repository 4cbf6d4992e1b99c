"""Client credentials for Solid servers, as people keep them in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from cloister.core.errors import DataError
from cloister.core.ids import AgentId
from cloister.pods.solid_client import SolidCredentials
from cloister.privacy.private_file import read_private_file

__all__ = ["read_credentials"]

MAX_CREDENTIALS_BYTES: Final = 10_000


def read_credentials(file: Path) -> SolidCredentials:
    """Return the client credentials that a file holds; what is in it is never shown.

    The file is for its owner alone (mode 0600). A field ``token_endpoint`` names where the issuer
    gives out tokens, if that is not at the issuer's own address.
    """
    content = read_private_file(file)[: MAX_CREDENTIALS_BYTES + 1]
    try:
        fields = json.loads(content)
        names = ("issuer", "client_id", "client_secret", "web_id")
        issuer, client_id, client_secret, web_id = (_text(fields[name]) for name in names)
        endpoint = _text(fields["token_endpoint"]) if fields.get("token_endpoint") else ""
        return SolidCredentials(issuer, client_id, client_secret, AgentId(web_id), endpoint)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(
            "no client credentials: a JSON object with issuer, client_id, client_secret, web_id",
            where=str(file),
        ) from None


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError
    return value
