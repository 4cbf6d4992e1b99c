"""Names of this machine for itself: what goes there crosses no network."""

from __future__ import annotations

from typing import Final

__all__ = ["LOOPBACK"]

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
