"""The configuration of a NATS broker in which everybody may do just what they need.

A node may listen on its own subjects and reply; a searcher may send to nodes and listen on its own
inbox. Nobody else gets in: users are known by their nkeys, and all connections are TLS. What the
broker enforces is tidiness, not secrecy: rights to documents are enforced at the nodes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from cloister.core.ids import ServerId
from cloister.pods.overlay.nats_connection import inbox_of, node_subject
from cloister.pods.overlay.parts import MAX_PARTS
from cloister.privacy.private_file import write_private_file

__all__ = ["broker_configuration", "create_nkey"]


def create_nkey(path: str | Path) -> str:
    """Draw an nkey, write its seed to a new file with mode 0600, and return the public key."""
    import nkeys

    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    write_private_file(path, seed)
    return str(nkeys.from_seed(bytearray(seed)).public_key.decode())


def broker_configuration(
    *,
    federation: str,
    address: str,
    certificate: str | Path,
    private_key: str | Path,
    nodes: Mapping[ServerId, str],
    searchers: Iterable[str],
) -> str:
    """Return the configuration file of a broker.

    Parameters
    ----------
    federation
        Its name, as in `NatsSettings`.
    address
        Host and port to listen on.
    certificate, private_key
        Files, in PEM, of the broker's certificate.
    nodes
        The public nkey of each node.
    searchers
        The public nkeys of those who search.
    """
    users = [_node(federation, server_id, nkey) for server_id, nkey in nodes.items()]
    users += [_searcher(federation, nkey) for nkey in searchers]
    configuration = {
        "listen": address,
        "tls": {"cert_file": str(certificate), "key_file": str(private_key), "timeout": 5},
        "authorization": {"users": users},
    }
    return json.dumps(configuration, indent=2)  # the broker's own format contains JSON


def _node(federation: str, server_id: ServerId, nkey: str) -> dict[str, object]:
    subjects = [node_subject(federation, server_id, what) for what in ("ask", "prekey")]
    replies = {"max": MAX_PARTS, "expires": "1m"}
    permissions = {
        "subscribe": {"allow": subjects},
        "publish": {"deny": [">"]},
        "allow_responses": replies,
    }
    return {"nkey": nkey, "permissions": permissions}


def _searcher(federation: str, nkey: str) -> dict[str, object]:
    subjects = [f"cloister.{federation}.*.{what}" for what in ("ask", "prekey")]
    inbox = [f"{inbox_of(nkey)}.>"]
    permissions = {"publish": {"allow": subjects}, "subscribe": {"allow": inbox}}
    return {"nkey": nkey, "permissions": permissions}
