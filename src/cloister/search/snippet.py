"""What a result shows of a text: its first line, and the passage for which it was found."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from cloister.index.analysis import MAX_WORD_CHARACTERS, TextAnalysis

__all__ = ["first_line", "snippet"]

SNIPPET_WORDS: Final = 30  # about two lines on a page
SNIPPET_CHARACTERS: Final = 1_000  # of all words; 30 ordinary ones have some 200
SEARCHED_CHARACTERS: Final = 100_000  # of a text: some 30 pages
TITLE_CHARACTERS: Final = 80  # one line on a page
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

    It looks at the first 100,000 characters. It cuts off what a word has beyond 64 characters, and
    what the passage has beyond 1,000.

    Examples
    --------
    >>> snippet("The ward was quiet. Fever and cough all night long.", ["cough"], n_words=3)
    '… Fever and cough …'
    >>> snippet("Fever all night", ["cough"], n_words=2)
    'Fever all …'
    """
    analysis = analysis or TextAnalysis()
    wanted = frozenset(terms)
    pieces = [_cut(piece) for piece in _PIECE.findall(text[:SEARCHED_CHARACTERS])]
    known: dict[str, frozenset[str]] = {}  # most words of a long text come again
    for piece in pieces:
        if piece not in known:
            known[piece] = _terms_in(piece, wanted, analysis)
    begin = _best_begin([known[piece] for piece in pieces], n_words)
    shown = " ".join(pieces[begin : begin + n_words])
    is_all = begin + n_words >= len(pieces) and len(text) <= SEARCHED_CHARACTERS
    if len(shown) > SNIPPET_CHARACTERS:
        shown, is_all = shown[:SNIPPET_CHARACTERS].rpartition(" ")[0], False
    return " ".join([*([_MORE] if begin else []), shown, *([] if is_all else [_MORE])])


def first_line(text: str) -> str:
    r"""Return the first line that holds anything, as a title: 80 characters of it at most.

    Examples
    --------
    >>> first_line("\n  Discharge   letter\nAsthma since childhood.")
    'Discharge letter'
    >>> first_line("a " * 100) == "a " * 40 + "…"
    True
    """
    begin = text[:SEARCHED_CHARACTERS].lstrip()
    line = " ".join(begin[: 10 * TITLE_CHARACTERS].split("\n", 1)[0].split())
    if len(line) <= TITLE_CHARACTERS:
        return line
    kept = line[:TITLE_CHARACTERS]
    cut = kept if line[TITLE_CHARACTERS] == " " else kept.rpartition(" ")[0] or kept
    return f"{cut.rstrip()} {_MORE}"


def _terms_in(piece: str, wanted: frozenset[str], analysis: TextAnalysis) -> frozenset[str]:
    if piece.isascii() and analysis.stemming == "none":  # most pieces need no analysis
        small = piece.lower()
        if not any(term in small for term in wanted):
            return frozenset()
    return wanted.intersection(analysis.terms(piece))


def _cut(piece: str) -> str:
    return piece if len(piece) <= MAX_WORD_CHARACTERS else piece[:MAX_WORD_CHARACTERS] + _MORE


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
