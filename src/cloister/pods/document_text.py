"""The words of a document, from the kinds of files that people keep: text, HTML, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, Final

from cloister.core.errors import DataError

__all__ = ["MAX_DOCUMENT_BYTES", "MEDIA_TYPES", "media_type_of", "text_of"]

MAX_DOCUMENT_BYTES: Final = 16_000_000  # larger files are left out of the index
MEDIA_TYPES: Final = {
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "htm": "text/html",
    "json": "application/json",
}
UNSEEN: Final = frozenset({"script", "style", "template", "noscript"})


def media_type_of(name: str) -> str:
    """Return the kind of a file by its name; empty for what is no text.

    Examples
    --------
    >>> media_type_of("notes/2024.md"), media_type_of("scan.png")
    ('text/markdown', '')
    """
    stem, dot, ending = name.rpartition(".")
    return MEDIA_TYPES.get(ending.lower(), "") if stem and dot else ""


def text_of(content: bytes, media_type: str) -> str:
    r"""Return the words of a document: of HTML what is shown, of JSON the values.

    Examples
    --------
    >>> text_of(b"<h1>Visit</h1><script>x()</script><p>a &amp; b</p>", "text/html").split()
    ['Visit', 'a', '&', 'b']
    >>> text_of(b'{"code": 45, "name": ["asthma", null]}', "application/json")
    '45\nasthma'
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError("not UTF-8", where=media_type) from None
    if media_type == "text/html":
        return _shown(text)
    if media_type == "application/json":
        return _values(text)
    return text


class _ShownText(HTMLParser):
    """Collects the text of a page that a browser would show."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._unseen = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self._unseen and tag in UNSEEN:
            self._unseen = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._unseen:
            self._unseen = ""

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.parts.append(data)


def _shown(text: str) -> str:
    parser = _ShownText()
    parser.feed(text)
    parser.close()
    return " ".join(parser.parts)


def _values(text: str) -> str:
    try:
        found = "\n".join(_leaves(json.loads(text)))
        found.encode()  # half a character can be written in JSON, and is no text
        return found
    except (ValueError, RecursionError):
        raise DataError("not JSON, or too deep", where="application/json") from None


def _leaves(value: Any) -> Iterator[str]:
    """Give strings and numbers in their order."""
    if isinstance(value, dict):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
