"""What is checked of a JSON text before it is parsed: how deep it is, and what it can hold.

The checks are a few passes over the bytes, linear in their number; nothing recurses.
"""

from __future__ import annotations

import re
from typing import Final

from cloister.core.errors import DataError

__all__ = ["check_json_shape", "json_depth"]

# A string that does not end reaches to the end of the text: no second try, no backtracking.
_STRINGS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_ESCAPES: Final = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def check_json_shape(text: bytes, *, max_depth: int) -> None:
    """Refuse a text that is too deep, is not UTF-8, or has characters that no store takes.

    Raises
    ------
    DataError
        If objects and arrays lie deeper than ``max_depth`` or do not match; for bytes that are not
        UTF-8, for the character NUL, and for half of a surrogate pair.

    Examples
    --------
    >>> check_json_shape(b'{"a": [1, "[[[["]}', max_depth=2)
    >>> check_json_shape(b"[" * 100_000, max_depth=20)
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: the JSON text is too deep or its brackets do not match; ...
    """
    if json_depth(text, at_most=max_depth) is None:
        raise DataError(
            "the JSON text is too deep or its brackets do not match",
            remedy=f"send at most {max_depth} levels",
        )
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError("the text is not UTF-8", remedy="send UTF-8") from None
    if b"\\u" in text and not _escapes_are_characters(text):
        raise DataError("the text has NUL or half a surrogate pair", remedy="leave it out")


def json_depth(text: bytes, *, at_most: int) -> int | None:
    """Return how deep a text is, or None where it is deeper or its brackets do not match.

    Examples
    --------
    >>> json_depth(b'{"a": [[]], "b": "]"}', at_most=9), json_depth(b"[[]", at_most=9)
    (3, None)
    """
    brackets = _STRINGS.sub(b"", text).translate(_SQUARE, _NO_BRACKETS)
    for depth in range(at_most + 1):
        if not brackets:
            return depth
        inner = brackets.replace(b"[]", b"")  # takes away the innermost level everywhere
        if len(inner) == len(brackets):
            return None
        brackets = inner
    return None


def _escapes_are_characters(text: bytes) -> bool:
    high_ended = -1  # where a first half of a pair ended, whose second must follow
    for escape in _ESCAPES.finditer(text):
        code = int(escape[1], 16) if escape[1] else -1
        low = 0xDC00 <= code <= 0xDFFF
        follows = escape.start() == high_ended
        if code == 0 or low != (high_ended >= 0) or (low and not follows):
            return False
        high_ended = escape.end() if 0xD800 <= code <= 0xDBFF else -1
    return high_ended < 0
