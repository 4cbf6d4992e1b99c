"""A socket that listens, before anybody is told of it."""

from __future__ import annotations

import socket
from typing import Final

from cloister.core.errors import SettingsError

__all__ = ["listening_socket"]

BACKLOG: Final = 1024


def listening_socket(host: str, port: int) -> socket.socket:
    """Listen at an address; port 0 takes a free one.

    Examples
    --------
    >>> with listening_socket("127.0.0.1", 0) as listener:
    ...     listener.getsockname()[1] > 0
    True
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once (TCP_NODELAY) only where the protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except (OSError, OverflowError) as error:
        listener.close()
        raise SettingsError(
            f"cannot listen: {error}", where=f"{host}:{port}", remedy="choose another port"
        ) from None
    return listener
