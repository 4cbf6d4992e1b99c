"""The passage of a text that shows best why it was found."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from cloister.index.analysis import TextAnalysis

__all__ = ["snippet"]

SNIPPET_WORDS: Final = 30  # about two lines on a page
_PIECE: Final = re.compile(r"\S+")
_MORE: Final = "…"


def snippet(
    text: str,
    terms: Collection[str],
    analysis: TextAnalysis | None = None,
    *,
    n_words: int = SNIPPET_WORDS,
) -> str:
    """Return the first passage of so many words that holds the most different terms.

    Examples
    --------
    >>> snippet("The ward was quiet. Fever and cough all night long.", ["cough"], n_words=3)
    '… Fever and cough …'
    >>> snippet("Fever all night", ["cough"], n_words=2)
    'Fever all …'
    """
    analysis = analysis or TextAnalysis()
    wanted = frozenset(terms)
    pieces = _PIECE.findall(text)
    known: dict[str, frozenset[str]] = {}  # most words of a long text come again
    for piece in pieces:
        if piece not in known:
            known[piece] = wanted.intersection(analysis.terms(piece))
    begin = _best_begin([known[piece] for piece in pieces], n_words)
    shown = pieces[begin : begin + n_words]
    before = [_MORE] if begin else []
    after = [_MORE] if begin + n_words < len(pieces) else []
    return " ".join([*before, *shown, *after])


def _best_begin(found: list[frozenset[str]], n_words: int) -> int:
    """Slide a window over the words; return where the one with the most different terms begins."""
    inside: dict[str, int] = {}
    best, best_end = 0, 0
    for end, terms in enumerate(found):
        for term in terms:
            inside[term] = inside.get(term, 0) + 1
        for term in found[end - n_words] if end >= n_words else ():
            inside[term] -= 1
            if not inside[term]:
                del inside[term]
        if len(inside) > best:
            best, best_end = len(inside), end
    return max(0, best_end - n_words + 1)
