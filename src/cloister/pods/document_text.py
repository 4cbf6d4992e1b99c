"""The words of a document, from the kinds of files that people keep: text, HTML, JSON.

Every kind is read in linear time, whatever the document holds. `text_of` runs in the limited child
processes of `cloister.pods.extraction` alone: no service calls it in its own process.

Of HTML only the tags are told apart from the text, as a browser's tokeniser does it; no tree is
made. Parsers that make one take quadratic time for nested elements (lexbor) or many attributes
(lexbor, libxml2), and the standard library's does for an open tag that is repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from io import StringIO
from typing import Any, Final

from cloister.core.errors import DataError
from cloister.index.folding import MAX_GROWTH, folded_text
from cloister.web.json_shape import json_depth

__all__ = [
    "MAX_DEPTH",
    "MAX_DIFFERENT_WORDS",
    "MAX_DOCUMENT_BYTES",
    "MAX_TEXT_CHARACTERS",
    "MEDIA_TYPES",
    "checked_text",
    "media_type_of",
    "text_of",
]

MAX_DOCUMENT_BYTES: Final = 16_000_000  # larger files are left out of the index
MAX_TEXT_CHARACTERS: Final = 16_000_000  # longer texts are left out of the index
MAX_DIFFERENT_WORDS: Final = 250_000  # of one document; a large dictionary has as many
FEW_CHARACTERS: Final = 2 * MAX_DIFFERENT_WORDS  # a word has a letter and something behind it
MAX_DEPTH: Final = 50  # of arrays and objects of JSON
MEDIA_TYPES: Final = {
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "htm": "text/html",
    "json": "application/json",
}
UNSEEN: Final = frozenset({"script", "style", "template", "noscript"})
# Of these no tag but their own end counts: <title> and <textarea> show their text.
_RAW: Final = ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")
_ENDS: Final = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in (*_RAW, "template", "noscript")
}
_TAG_NAME: Final = re.compile(r"</?([a-zA-Z][^\s/>]*)")
_COMMENT_END: Final = re.compile(r"--!?>")
_TAG_STEP: Final = re.compile(r"""=\s*(["'])|>""")  # a quoted value, or the end of the tag
_LONG_NUMBER: Final = re.compile(r"&#[0-9]{20,};?")  # of a character: Python reads no longer ones
_WORD: Final = re.compile(r"[^\W_]+")


def media_type_of(name: str) -> str:
    """Return the kind of a file by its name; empty for what is no text.

    Examples
    --------
    >>> media_type_of("notes/2024.md"), media_type_of("scan.png")
    ('text/markdown', '')
    """
    stem, dot, ending = name.rpartition(".")
    return MEDIA_TYPES.get(ending.lower(), "") if stem and dot else ""


def checked_text(content: bytes, media_type: str) -> str:
    """Return the words of a document, or raise where there are too many of them.

    Both limits hold for the text as it is and as the index cuts it into words, where one character
    can stand for four words (U+FDFA).

    Examples
    --------
    >>> checked_text(b"cough", "text/plain")
    'cough'
    """
    text = text_of(content, media_type)
    _require_few_characters(text)
    growth = 1 if text.isascii() else MAX_GROWTH
    if len(text) * growth > FEW_CHARACTERS:
        folded = folded_text(text)  # as the index cuts it into words
        _require_few_characters(folded)
        if len(folded) > FEW_CHARACTERS:
            _require_few_words(folded)
    return text


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
        raise DataError("not UTF-8") from None
    if media_type == "text/html":
        return _shown(text)
    if media_type == "application/json":
        return _values(text)
    return text


def _shown(page: str) -> str:
    """Return the text between tags. Every step goes on behind the one before: none looks back."""
    shown = StringIO()
    end = 0
    while end < len(page):
        begin = page.find("<", end)
        if begin < 0:
            begin = len(page)
        _write(shown, page[end:begin])
        end = _behind_markup(page, begin, shown)
    return shown.getvalue()


def _behind_markup(page: str, begin: int, shown: StringIO) -> int:
    """Return where the text goes on behind a tag, a comment or a "<" that begins neither."""
    name = _TAG_NAME.match(page, begin)
    if name is not None:
        end = _behind_tag(page, name.end())
        if name[0][1] != "/":
            end = _behind_raw(page, end, name[1].lower(), shown)
        return end
    if page.startswith("<!--", begin):
        if page.startswith((">", "->"), begin + 4):
            return page.index(">", begin) + 1
        found = _COMMENT_END.search(page, begin + 4)
        return len(page) if found is None else found.end()
    if page.startswith(("<!", "<?", "</"), begin):
        return page.find(">", begin) + 1 or len(page)
    shown.write("<" if begin < len(page) else "")
    return begin + 1


def _behind_tag(page: str, begin: int) -> int:
    """Return the place behind a tag; a ">" within quotes does not end it."""
    while True:
        step = _TAG_STEP.search(page, begin)
        if step is None:
            return len(page)
        if step[1] is None:
            return step.end()
        begin = page.find(step[1], step.end()) + 1
        if not begin:
            return len(page)


def _behind_raw(page: str, begin: int, name: str, shown: StringIO) -> int:
    """Return the place behind the content of an element in which no other tag counts."""
    if name not in _ENDS:
        return begin
    found = _ENDS[name].search(page, begin)
    end = len(page) if found is None else found.start()
    if name not in UNSEEN:
        _write(shown, page[begin:end])
    return end


def _write(shown: StringIO, text: str) -> None:
    if text:
        if "&" in text:
            text = unescape(_LONG_NUMBER.sub("\N{REPLACEMENT CHARACTER}", text))
        shown.write(text)
        shown.write(" ")


def _values(text: str) -> str:
    if json_depth(text.encode(), at_most=MAX_DEPTH) is None:
        raise DataError(f"not JSON, or deeper than {MAX_DEPTH} levels")
    try:
        found = "\n".join(_leaves(json.loads(text, parse_int=str)))
        found.encode()  # half a character can be written in JSON, and is no text
    except ValueError:
        raise DataError("not JSON") from None
    return found


def _leaves(value: Any) -> Iterator[str]:
    """Give strings and numbers in their order."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting.extend(reversed(part.values()))
        elif isinstance(part, list):
            waiting.extend(reversed(part))
        elif part is not None and not isinstance(part, bool):
            yield str(part)


def _require_few_characters(text: str) -> None:
    if len(text) > MAX_TEXT_CHARACTERS:
        raise DataError(f"more than {MAX_TEXT_CHARACTERS:,} characters of text")


def _require_few_words(folded: str) -> None:
    different: set[str] = set()
    for word in _WORD.finditer(folded):
        different.add(word[0])
        if len(different) > MAX_DIFFERENT_WORDS:
            raise DataError(f"more than {MAX_DIFFERENT_WORDS:,} different words")
