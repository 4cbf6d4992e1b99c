"""Small letters in one form where Unicode has several, in linear time whatever a text holds.

Python normalises by moving each combining mark before the marks of a higher class, one by one: a
letter with 60,000 marks takes seconds, and nothing else runs meanwhile. Unicode's stream-safe
format (UAX #15) allows 30 marks in a row. Here the marks beyond these are left out; no language has
so many.

The child processes that read documents import this module: it needs the standard library alone.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

__all__ = ["MAX_GROWTH", "MAX_MARKS", "folded_text"]

MAX_MARKS: Final = 30  # in a row: UAX #15, section 13
MAX_GROWTH: Final = 54  # characters for one: 18 by NFKC (U+FDFA), and 3 for each by case folding
_FIRST_ASTRAL: Final = 0x10000
_LAST_MARK: Final = 0x1FFFF  # Unicode has combining marks in its first two planes alone


class _Runs(NamedTuple):
    """Patterns for marks; the first two may take other characters for marks, and are quick."""

    maybe_mark: re.Pattern[str]
    maybe_run: re.Pattern[str]
    run: re.Pattern[str]


def folded_text(text: str) -> str:
    r"""Return a text in small letters, in one form where Unicode has several (NFKC).

    Of more than 30 combining marks in a row the first 30 count.

    Examples
    --------
    >>> folded_text("CAF\N{LATIN CAPITAL LETTER E WITH ACUTE}") == folded_text("cafe\u0301")
    True
    """
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", _with_few_marks(text)).casefold()
    return unicodedata.normalize("NFKC", folded)  # folding can take a letter apart


def _with_few_marks(text: str) -> str:
    """Cut runs of marks. A run that is too long has a mark at a multiple of its length."""
    runs = _runs()
    if runs.maybe_mark.search(text[:: MAX_MARKS + 1]) and runs.maybe_run.search(text):
        return runs.run.sub(lambda run: run[0][:MAX_MARKS], text)
    return text


@cache
def _runs() -> _Runs:
    marks = [number for number in range(_LAST_MARK + 1) if _is_mark(chr(number))]
    near = _ranges([number for number in marks if number < _FIRST_ASTRAL])
    far = _ranges([number for number in marks if number >= _FIRST_ASTRAL])
    maybe = f"[{near}\U00010000-\U0010ffff]"
    more = f"{{{MAX_MARKS}}}"
    return _Runs(
        re.compile(maybe),
        re.compile(f"{maybe}{maybe}{more}"),
        re.compile(f"(?:[{near}]|[{far}]){{{MAX_MARKS + 1},}}"),
    )


def _is_mark(character: str) -> bool:
    """Say whether a character, or the first of those that it stands for, combines."""
    if unicodedata.decomposition(character):
        character = unicodedata.normalize("NFKD", character)[0]
    return unicodedata.combining(character) > 0


def _ranges(numbers: list[int]) -> str:
    """Return rising numbers as the inside of a set of characters."""
    ends = [before for before, after in pairwise(numbers) if after != before + 1]
    begins = [after for before, after in pairwise(numbers) if after != before + 1]
    ranges = zip([numbers[0], *begins], [*ends, numbers[-1]], strict=True)
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
