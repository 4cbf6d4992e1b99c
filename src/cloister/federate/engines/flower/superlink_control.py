"""What an operator asks of a SuperLink: make nodes known, say who is there, begin a run.

Flower's free version asks nobody who comes to these routes for a name: whoever reaches the port may
do the same. What rests on it, and what does not, is in docs/flower.md.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import httpx
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.cli.build import build_fab_from_files
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
)
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from cloister.core.errors import DataError, StoreError

__all__ = ["NodeState", "SuperLinkControl"]

# A run must bring an app. Ours is a label: neither side runs what a run brings.
_LABEL: Final = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "cloister-label"
version = "1.0.0"
description = "Sites and coordinator run what is installed there; this app is only a name."
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "cloister"

[tool.flwr.app.components]
serverapp = "cloister_label:refuse"
clientapp = "cloister_label:refuse"
"""
_REFUSE: Final = b'raise RuntimeError("start this by `cloister flower`")\nrefuse = None\n'


class NodeState(NamedTuple):
    """A SuperNode as the SuperLink knows it."""

    node_id: int
    name: str
    status: str


class SuperLinkControl:
    """The control routes of one SuperLink; close it, or use it in a ``with``.

    Parameters
    ----------
    address
        Host and port.
    ca_file
        Who vouches for it.
    """

    def __init__(self, address: str, ca_file: Path) -> None:
        self._address = address
        self._client = ControlHttpClient.from_server_address(
            server_address=address,
            insecure=False,
            root_certificates=ca_file.read_bytes(),
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def register(self, name: str, public_key: bytes) -> bool:
        """Make a SuperNode known by its public key; say whether it is new."""
        key = load_ssh_public_key(public_key)
        if not isinstance(key, EllipticCurvePublicKey):
            raise DataError("not a public key of a SuperNode", where=name)
        request = RegisterNodeRequest(public_key=public_key_to_bytes(key), name=name)
        try:
            self._client.RegisterNode(request)
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.PRECONDITION_FAILED:
                return False
            raise self._refused(error) from None
        return True

    def nodes(self) -> list[NodeState]:
        """Return all SuperNodes that are known."""
        with self._asking():
            found = self._client.ListNodes(ListNodesRequest()).nodes_info
        return [NodeState(one.node_id, one.name, one.status) for one in found]

    def start_run(self) -> int:
        """Begin a run; return its number."""
        files = {"pyproject.toml": _LABEL.encode(), "cloister_label.py": _REFUSE}
        with warnings.catch_warnings():  # of a name that pathspec has changed since
            warnings.simplefilter("ignore", DeprecationWarning)
            content, _ = build_fab_from_files(files)
        fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
        with self._asking():
            return int(self._client.StartRun(StartRunRequest(fab=fab_to_proto(fab))).run_id)

    def stop_run(self, run_id: int) -> None:
        """End a run."""
        with self._asking():
            self._client.StopRun(StopRunRequest(run_id=run_id))

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPStatusError as error:
            raise self._refused(error) from None
        except httpx.TransportError as error:
            raise StoreError(
                f"the SuperLink does not answer: {error}",
                where=self._address,
                remedy="start it with `cloister flower start`",
            ) from None

    def _refused(self, error: httpx.HTTPStatusError) -> StoreError:
        return StoreError(
            f"the SuperLink refused: {error.response.status_code} {error.response.text[:200]}",
            where=self._address,
            remedy="see its log",
        )
