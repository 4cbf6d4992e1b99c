"""From a text to its terms.

Dates can be taken out before words are cut. A date has a day, a month and a year, or a month by
name and a year. The year has four digits, from 1500 to 2199. Known forms:

- ``2019-03-04``, ``2019/03/04``, ``2019.03.04`` (ISO 8601 and its kin);
- ``04-03-2019``, ``4/3/2019``, ``4.3.2019``, the day or the month first;
- ``3 March 2019``, ``3rd of March, 2019``, ``03-Mar-2019``;
- ``March 3, 2019``, ``Mar. 3rd 2019``;
- ``March 2019``.

Each may be followed by a time: ``2019-03-04T10:15:30.5+01:00``, ``4/3/2019 10:15``. Not known are
dates with no year or a year of two digits, ISO dates with no hyphens, and other languages.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, Self

import numpy as np
from pydantic import Field

from cloister.core.settings import Settings
from cloister.index.folding import folded_text

__all__ = ["MAX_WORD_CHARACTERS", "STOP_WORDS", "TextAnalysis", "has_long_word"]

MAX_WORD_CHARACTERS: Final = 64  # longer runs of letters are no words: keys, codes, base64

_WORD: Final = re.compile(r"[^\W_]+")
_LONG_WORD: Final = re.compile(rf"[^\W_]{{{MAX_WORD_CHARACTERS + 1}}}")
_REMEMBERED_STEMS: Final = 1 << 16  # a stem takes some 40 µs, and few words make most of a text

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

_DAY: Final = r"(?:0?[1-9]|[12][0-9]|3[01])"
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_YEAR: Final = r"(?:1[5-9]|2[01])[0-9]{2}"  # "mar 1000 mg" is a dose, not a date
_NTH: Final = r"(?:st|nd|rd|th)?"
_YEAR_FIRST: Final = rf"{_YEAR}([-/.]){_DAY}\1{_DAY}"
_YEAR_LAST: Final = (
    rf"(?:{_DAY}([-/.]){_DAY}\1{_YEAR}"
    rf"|{_DAY}{_NTH}[-\s.]{{1,3}}(?:of\s)?{_MONTH}\.?[-,\s]{{1,3}}{_YEAR}"
    rf"|{_MONTH}\.?[-\s]{{1,3}}{_DAY}{_NTH},?\s{{1,3}}{_YEAR}"
    rf"|{_MONTH}\.?,?[-\s]{{1,3}}{_YEAR})"
)
_TIME: Final = (
    r"(?:(?:t|,?\s{1,3})[0-2]?[0-9]:[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]{1,9})?)?"
    r"(?:\s?z|\s?[+-][0-9]{2}:?[0-9]{2})?)?"
)
_BEFORE: Final = r"(?<![^\W_])(?<![0-9][-/.:])"  # no part of a word or of a longer number
_AFTER: Final = rf"{_TIME}(?![^\W_]|[-/.:][0-9])"

# Every date holds four digits that look like a year, and a search for these alone is ten times
# as fast as a search for a date (if the pattern begins with a set of characters, as here).
_YEAR_DIGITS: Final = re.compile(r"[12](?<![0-9][12])[0-9]{3}(?![0-9])")
_FROM_YEAR: Final = re.compile(_BEFORE + _YEAR_FIRST + _AFTER)
_TO_YEAR: Final = re.compile(rf"{_BEFORE}{_YEAR_LAST}\Z")
_AFTER_YEAR: Final = re.compile(_AFTER)
_LONGEST_AHEAD: Final = 24  # characters of a date ahead of its year: "30th - of september.,- "


class TextAnalysis(Settings):
    """How texts and queries are cut into terms. Both sides of a search must use the same.

    Words are runs of letters and digits in small letters. Characters that Unicode holds for the
    same (NFKC), such as an accented letter and a letter with an accent, give the same words. Words
    of more than 64 characters are left out, of texts and of queries alike, and so are the accents
    of a letter beyond its thirtieth.

    Parameters
    ----------
    stop_words
        Whether frequent English words are left out.
    min_length
        Shorter words are left out.
    stemming
        Whether a word stands for its stem ("english": Snowball's English stemmer). Stop words and
        lengths are looked at before; a stem can be shorter than ``min_length``.
    numbers
        Whether words of digits only are left out. A number with a unit ("5mg") stays.
    dates
        Whether dates are taken out before words are cut; see above for what a date is.

    Examples
    --------
    >>> TextAnalysis().terms("The patient has asthma (J45.9).")
    ['patient', 'asthma', 'j45']
    >>> TextAnalysis(stop_words="none", min_length=1).terms("the x")
    ['the', 'x']
    >>> TextAnalysis(stemming="english").terms("coughing patients")
    ['cough', 'patient']
    """

    stop_words: Literal["english", "none"] = "english"
    min_length: int = Field(default=2, ge=1)
    stemming: Literal["none", "english"] = "none"
    numbers: Literal["keep", "drop"] = "keep"
    dates: Literal["keep", "drop"] = "keep"

    @classmethod
    def espresso(cls) -> Self:
        """Return the filters of ESPRESSO (algorithm 1): numbers, dates and stop words go.

        Examples
        --------
        >>> TextAnalysis.espresso().terms("On 3 March 2019: 40 mg, then 5mg, of the steroid")
        ['mg', '5mg', 'steroid']
        """
        return cls(stop_words="english", numbers="drop", dates="drop")

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text in their order, as often as they occur."""
        found = (self.term_of(word) for word in self.words(text))
        return [term for term in found if term is not None]

    def words(self, text: str) -> list[str]:
        """Return all words of a text in their order, small, less the dates if they go."""
        return _WORD.findall(self.folded(text))

    def folded(self, text: str) -> str:
        """Return the text from which words are cut: small letters, less the dates if they go."""
        folded = folded_text(text)
        return _without_dates(folded) if self.dates == "drop" else folded

    def term_of(self, word: str) -> str | None:
        """Return the term that one of `words` stands for; none if it is left out.

        Examples
        --------
        >>> TextAnalysis().term_of("cough"), TextAnalysis().term_of("the")
        ('cough', None)
        """
        if not self.min_length <= len(word) <= MAX_WORD_CHARACTERS:
            return None
        if self.stop_words == "english" and word in STOP_WORDS:
            return None
        if self.numbers == "drop" and word.isdigit():
            return None
        return word if self.stemming == "none" else _english_stem(word)


def has_long_word(text: str) -> bool:
    """Say whether a text has a word that is too long to be indexed.

    One that is too long only because single signs stand for several letters may be missed.

    Examples
    --------
    >>> has_long_word("dry cough"), has_long_word("x" * 65)
    (False, True)
    """
    signs = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    blanks = np.flatnonzero(signs <= ord(" "))
    gaps = np.diff(blanks, prepend=-1, append=len(signs))
    # The pattern takes ten times as long: only texts with a long way between two blanks need it.
    is_long = bool(gaps.max() > MAX_WORD_CHARACTERS)
    return is_long and _LONG_WORD.search(folded_text(text)) is not None


def _without_dates(folded: str) -> str:
    """Put a blank in the place of each date. Found by its year: there is one in each date."""
    kept, done = [], 0
    for year in _YEAR_DIGITS.finditer(folded):
        begin, end = year.span()
        if date := _FROM_YEAR.match(folded, begin):
            kept.append(folded[done:begin])
            done = date.end()
        elif (rest := _AFTER_YEAR.match(folded, end)) and (
            date := _TO_YEAR.search(folded, max(done, begin - _LONGEST_AHEAD), end)
        ):
            kept.append(folded[done : date.start()])
            done = rest.end()
    kept.append(folded[done:])
    return " ".join(kept)


@lru_cache(maxsize=_REMEMBERED_STEMS)
def _english_stem(word: str) -> str:
    import snowballstemmer

    # A stemmer keeps the word it works on: a new one for each word is safe between threads.
    return str(snowballstemmer.stemmer("english").stemWord(word))
