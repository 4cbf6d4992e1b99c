"""Keys and tokens of a node's own issuer as files and commands have them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloister.core.errors import AccessDenied, DataError, MissingDependency, SettingsError
from cloister.core.file_errors import explained
from cloister.core.ids import AgentId, GroupId, checked_id
from cloister.pods.overlay.token_issuer import TokenIssuer
from cloister.pods.overlay.tokens import unverified_parts
from cloister.privacy.certificates.certificate_name import checked_part

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey

__all__ = ["issue_user_token", "new_issuer_key", "token_content"]


def new_issuer_key(path: Path, key_id: str | None = None) -> dict[str, Any]:
    """Draw a key and write it to a new file; return its public half as a JSON Web Key Set."""
    key = _joserfc().OKPKey.generate_key("Ed25519", auto_kid=False)
    issuer = TokenIssuer("any", "any", key_id or key.thumbprint()[:16], key=key)
    issuer.save_key(path)
    return issuer.public_keys()


def issue_user_token(
    user: str,
    *,
    federation: str,
    node: str,
    key_file: Path,
    groups: Iterable[str] = (),
    lifetime_s: float = 3_600.0,
    holder_file: Path | None = None,
) -> dict[str, Any]:
    """Return a token for a user of a node, and what it says.

    A name without a colon gets the node's before it; one with another node's is refused.
    """
    from cloister.services.user_tokens import node_issuer_name

    _joserfc()
    name = node_issuer_name(checked_part(federation), checked_part(node))
    issuer = TokenIssuer.load(key_file, name, name)
    agent = AgentId(_of_node(node, user))
    named = [GroupId(_of_node(node, group)) for group in groups]
    ends = datetime.fromtimestamp(math.floor(time.time() + lifetime_s), UTC)
    if holder_file is None:
        token = issuer.issue_unbound(agent, groups=named, lifetime_s=lifetime_s)
    else:
        holder = _holder_key(holder_file)
        token = issuer.issue(agent, holder, groups=named, lifetime_s=lifetime_s)
    return {
        "token": token,
        "agent": agent,
        "groups": sorted(named),
        "audience": name,
        "ends": ends.isoformat(),
        "bound": holder_file is not None,
    }


def token_content(text: str) -> dict[str, Any]:
    """Return what a token says, not verified, or the public half of a key."""
    text = text.strip()
    if text.startswith("{"):
        return {"keys": {"keys": [_public_half(text)]}}
    try:
        header, claims = unverified_parts(text)
    except AccessDenied:
        raise DataError("neither a token nor a key", where="token") from None
    return {"header": header, "claims": claims, "state": _state(claims)}


def _of_node(node: str, name: str) -> str:
    own = f"{node}:"
    if name in ("", own) or (":" in name and not name.startswith(own)):
        raise SettingsError(
            "not a name of this node", where=repr(name[:80]), remedy=f"write {own}..., or no colon"
        )
    return checked_id(name if name.startswith(own) else own + name)


def _holder_key(path: Path) -> OKPKey | ECKey:
    """Read a key, or the first of a set; its private half is not needed."""
    with explained(path):
        text = path.read_text(encoding="utf-8", errors="replace")
    jwk = _joserfc()
    public = _public_half(text)
    kind = jwk.OKPKey if public.get("kty") == "OKP" else jwk.ECKey
    key: OKPKey | ECKey = kind.import_key(public)
    if key.curve_name not in ("Ed25519", "P-256"):
        raise DataError("neither an Ed25519 nor a P-256 key", where=str(path))
    return key


def _public_half(text: str) -> dict[str, Any]:
    from joserfc.errors import JoseError

    jwk = _joserfc()
    try:
        fields = json.loads(text)
        fields = fields["keys"][0] if "keys" in fields else fields
        key = jwk.import_key(fields)
        if isinstance(key, jwk.OctKey):
            raise TypeError
        public = dict(key.as_dict(private=False))
    except (JoseError, ValueError, TypeError, KeyError, IndexError, RecursionError):
        raise DataError("not a JSON Web Key", where="key") from None
    return public | ({"kid": fields["kid"]} if "kid" in fields else {})


def _state(claims: dict[str, Any]) -> str:
    now_s, times = time.time(), [claims.get(name) for name in ("iat", "exp")]
    if not all(isinstance(one, (int, float)) for one in times):
        return "it does not say when it holds"
    if now_s >= claims["exp"]:
        return "it is over"
    return "it holds" if now_s >= claims["iat"] else "it is not yet valid"


def _joserfc() -> Any:
    try:
        from joserfc import jwk
    except ImportError:
        raise MissingDependency(
            "tokens need joserfc", remedy="pip install 'cloister[services]'"
        ) from None
    return jwk
