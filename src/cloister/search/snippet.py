"""What a result shows of a text: its first line, and the passage for which it was found."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from cloister.index.analysis import MAX_WORD_CHARACTERS, TextAnalysis
from cloister.index.folding import folded_text

__all__ = ["SEARCHED_CHARACTERS", "first_line", "snippet"]

SNIPPET_WORDS: Final = 30  # about two lines on a page
SNIPPET_CHARACTERS: Final = 1_000  # of all words; 30 ordinary ones have some 200
SEARCHED_CHARACTERS: Final = 10_000  # of a text: some three pages
FOLDED_CHARACTERS: Final = 20_000  # that these may become; ordinary ones become as many
FOLDED_PIECES: Final = 50  # at a time
MOST_LOOKED: Final = 300  # words of a text that may hold a term: a look takes some 5 µs
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

    It looks at the first 10,000 characters, or as many as become 20,000 small letters: this takes
    the time of whoever searches, and Unicode has characters that stand for 18. It cuts off what a
    word has beyond 64 characters, and what the passage has beyond 1,000.

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
    found = _found_terms(pieces, wanted, analysis)
    begin = _best_begin(found, n_words)
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


def _found_terms(
    pieces: Sequence[str], wanted: frozenset[str], analysis: TextAnalysis
) -> list[frozenset[str]]:
    """Return which terms each piece holds; none of those that are not looked at."""
    # A stem differs from its word in the last letters alone.
    begins = [one if analysis.stemming == "none" else one[: max(1, len(one) - 2)] for one in wanted]
    found = [frozenset[str]()] * len(pieces)
    n_folded, n_looked = 0, 0
    for first in range(0, len(pieces), FOLDED_PIECES):
        if n_folded >= FOLDED_CHARACTERS or n_looked >= MOST_LOOKED:
            break
        folded = folded_text("\n".join(pieces[first : first + FOLDED_PIECES]))
        n_folded += len(folded)
        there = [begin for begin in begins if begin in folded]
        for place, small in enumerate(folded.split("\n") if there else (), first):
            if any(begin in small for begin in there):
                found[place] = wanted.intersection(analysis.terms(pieces[place]))
                n_looked += 1
    return found


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
