"""What a document is like, whatever is asked: priors in the place of page quality.

Web collections know a page's quality: its links, its rank, its spam score. Collections of plain
texts do not, so figures of the text stand in: those of Bendersky, Croft and Diao, *Quality-biased
ranking of web documents* (WSDM 2011) that need no markup, and the automated readability index
(Senter and Smith, 1967). They are no page quality. On texts that were stripped of stop words and
punctuation before, as NFCorpus's are, a share of stop words is 0 and the readability means little.

Where documents name their source, its mean grade in training is one prior more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.records import Document
from cloister.index.analysis import STOP_WORDS, TextAnalysis

__all__ = ["PRIOR_NAMES", "SourcePriors", "document_priors"]

PRIOR_NAMES: Final = (
    "length",
    "distinct_share",
    "entropy",
    "stop_word_share",
    "digit_share",
    "word_length",
    "sentence_length",
    "readability",
)
Floats = NDArray[np.float64]
Numbers = NDArray[np.integer[Any]]

_SENTENCE_END: Final = re.compile(r"[.!?]+(?:\s|$)")
_EVERY_WORD: Final = TextAnalysis(stop_words="none", min_length=1)


def document_priors(documents: Iterable[Document]) -> NDArray[np.float32]:
    """Return the priors of documents, title and text together: documents x `PRIOR_NAMES`.

    Over all words: their number, the share of different ones, the entropy of their distribution in
    bits, the share of stop words and of words with a digit, mean characters of a word, mean words
    of a sentence, and the automated readability index 4.71 characters / words + 0.5 words /
    sentences - 21.43. All are 0 for a document without words.

    Examples
    --------
    >>> from cloister.core.ids import DocId
    >>> priors = document_priors([Document(DocId("d"), "A dry cough. A mild fever.")])
    >>> dict(zip(PRIOR_NAMES, priors[0].round(2).tolist()))["sentence_length"]
    3.0
    """
    rows = [_priors(f"{one.title}\n{one.text}" if one.title else one.text) for one in documents]
    return np.array(rows, np.float32).reshape(-1, len(PRIOR_NAMES))


def _priors(text: str) -> tuple[float, ...]:
    words = _EVERY_WORD.words(text)
    n = len(words)
    if not n:
        return (0.0,) * len(PRIOR_NAMES)
    shares = np.array(list(Counter(words).values())) / n
    n_sentences = max(len(_SENTENCE_END.findall(text.strip())), 1)
    word_length = sum(map(len, words)) / n
    return (
        n,
        len(shares) / n,
        float(-(shares * np.log2(shares)).sum()) + 0.0,  # no -0 for a single word
        sum(word in STOP_WORDS for word in words) / n,
        sum(any(map(str.isdigit, word)) for word in words) / n,
        word_length,
        n / n_sentences,
        4.71 * word_length + 0.5 * n / n_sentences - 21.43,
    )


@dataclass(frozen=True, eq=False)
class SourcePriors:
    """The mean grade of each source's documents in training, drawn towards the mean of all.

    A source with n graded documents has the prior (sum of grades + strength * mean of all) / (n +
    strength). It tells of the grades that it was learnt from, and nothing protects them.

    Parameters
    ----------
    source_of
        The source of each document, by its number.
    queries, documents, grades
        Training rows: numbers of query and document, and the grade.
    strength
        How many graded documents the mean of all weighs.

    Examples
    --------
    >>> priors = SourcePriors(["nih", "nih", "blog"], np.array([0, 0, 1]), np.array([0, 2, 1]),
    ...                       np.array([3, 0, 2]), strength=1.0)
    >>> priors.of(np.array([0, 1, 2])).round(2).tolist()
    [2.22, 2.22, 0.83]
    >>> priors.of(np.array([0]), without=0).round(2).tolist()
    [2.0]
    """

    source_of: Sequence[str]
    queries: Numbers
    documents: Numbers
    grades: NDArray[Any]
    strength: float = 10.0

    def __post_init__(self) -> None:
        n = len(self.queries)
        if not n == len(self.documents) == len(self.grades) or not 0 < self.strength < np.inf:
            raise DataError(
                "as many queries, documents and grades, and a strength above 0 are needed",
                where="SourcePriors",
            )

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Number the source of each document, in order of appearance."""
        numbers: dict[str, int] = {}
        places = [numbers.setdefault(source, len(numbers)) for source in self.source_of]
        return np.array(places, np.int64)

    def of(self, documents: Numbers, *, without: int | None = None) -> Floats:
        """Return the prior of each document's source.

        Parameters
        ----------
        documents
            Numbers of documents.
        without
            A training query whose grades are left out: a row that is trained on must not carry its
            own grade in its prior.
        """
        n_sources = int(self._places.max(initial=-1)) + 1
        kept = np.ones(len(self.queries), np.bool_)
        if without is not None:
            kept = np.asarray(self.queries) != without
        grades = np.asarray(self.grades, np.float64)[kept]
        sources = self._places[np.asarray(self.documents, np.int64)[kept]]
        total = np.bincount(sources, grades, n_sources)
        n = np.bincount(sources, minlength=n_sources)
        everywhere = float(grades.mean()) if len(grades) else 0.0
        priors = (total + self.strength * everywhere) / (n + self.strength)
        return np.asarray(priors[self._places[np.asarray(documents, np.int64)]])
