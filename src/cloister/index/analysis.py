"""From a text to its terms."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal

from pydantic import Field

from cloister.core.settings import Settings

__all__ = ["STOP_WORDS", "TextAnalysis"]

_WORD: Final = re.compile(r"[^\W_]+")

# Words that say next to nothing about what an English text is about: articles, pronouns,
# auxiliaries, conjunctions, prepositions.
_FREQUENT: Final = """
a about after again all also am an and any are as at be because been before being between both
but by can cannot could did do does doing down during each few for from further had has have
having he her here hers him his how i if in into is it its itself me more most my myself no nor
not of off on once only or other our ours out over own same she should so some such than that
the their theirs them then there these they this those through to too under until up very was
we were what when where which while who whom why will with would you your yours
"""
STOP_WORDS: Final = frozenset(_FREQUENT.split())


class TextAnalysis(Settings):
    """How texts and queries are cut into terms. Both sides of a search must use the same.

    Words are runs of letters and digits in small letters. Characters that Unicode holds for the
    same (NFKC), such as an accented letter and a letter with an accent, give the same words.

    Parameters
    ----------
    stop_words
        Whether frequent English words are left out.
    min_length
        Shorter words are left out.

    Examples
    --------
    >>> TextAnalysis().terms("The patient has asthma (J45.9).")
    ['patient', 'asthma', 'j45']
    >>> TextAnalysis(stop_words="none", min_length=1).terms("the x")
    ['the', 'x']
    """

    stop_words: Literal["english", "none"] = "english"
    min_length: int = Field(default=2, ge=1)

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text in their order, as often as they occur."""
        words = _WORD.findall(_folded(text))
        left_out = STOP_WORDS if self.stop_words == "english" else frozenset()
        return [word for word in words if len(word) >= self.min_length and word not in left_out]


def _folded(text: str) -> str:
    """Return small letters, in one form where Unicode has several."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)  # folding can take a letter apart
