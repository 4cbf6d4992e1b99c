"""A NATS client that says nothing over a connection that is not TLS.

The client of nats-py begins TLS when the broker's greeting asks for it, and the greeting comes in
the clear: somebody on the way could take that line out and have everything in the clear. This one
stops before it sends its first command. Import it lazily: it needs nats-py.
"""

from __future__ import annotations

from nats.aio.client import Client
from nats.errors import Error

__all__ = ["TlsOnlyClient"]


class TlsOnlyClient(Client):
    """A client that refuses to go on without TLS, at the first connection and at each later one."""

    def _connect_command(self) -> bytes:
        writer = getattr(self._transport, "_io_writer", None)
        if writer is None or writer.get_extra_info("ssl_object") is None:
            raise Error("nats: the broker does not offer TLS")
        return super()._connect_command()
