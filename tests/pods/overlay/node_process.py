"""Nodes in a process of their own: reads a JSON file, serves until its standard input ends."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cloister.pods.overlay.nats_connection import NatsSettings
from cloister.pods.overlay.nats_node_service import NatsNodeService
from cloister.pods.overlay.tokens import TokenVerifier, TrustedIssuer
from cloister.privacy.identity import SigningIdentity
from pods.overlay.overlay_scene import compile_kernels, small_server


def main(path: str) -> None:
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # what nats-py leaves open is no news
    compile_kernels()
    setup = json.loads(Path(path).read_text())
    tokens = TokenVerifier([TrustedIssuer(**setup["issuer"])])
    with ExitStack() as stack:
        for node in setup["nodes"]:
            service = NatsNodeService(
                small_server(node["server_id"]),
                SigningIdentity.from_private_bytes(bytes.fromhex(node["identity"])),
                tokens,
                NatsSettings(**node["nats"]),
            )
            stack.enter_context(service)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
