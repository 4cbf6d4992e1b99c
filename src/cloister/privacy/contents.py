"""What is sealed, opened or recorded: any object that holds bytes, and nothing else."""

from __future__ import annotations

from typing import Any

from cloister.core.errors import SettingsError

__all__ = ["as_bytes"]


def as_bytes(content: Any, *, where: str) -> bytes:
    """Return the bytes of a bytes-like object, as they lie in memory; refuse all else.

    What is not ``bytes`` is copied, so that a later change of it changes nothing here.

    Examples
    --------
    >>> as_bytes(bytearray(b"noised"), where="payload")
    b'noised'
    >>> as_bytes("text", where="payload")
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: payload: bytes are needed (given: str); encode it first
    """
    if type(content) is bytes:
        return content
    try:
        return bytes(memoryview(content))
    except TypeError:
        raise SettingsError(
            f"bytes are needed (given: {type(content).__name__})",
            where=where,
            remedy="encode it first",
        ) from None
