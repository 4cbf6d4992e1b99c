"""Queries from topics, as ESPRESSO makes them: LDA with 50 topics, the words that lead a topic.

The paper has 30 queries of "varying lengths" and groups them as short (1 to 3 words), medium (4 or
5) and long (6 and more); nothing more is said. Here there are as many of each group, each from a
topic of its own; the lengths of a group go round (1, 2, 3, 1, ...), up to 8 words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from cloister.core.errors import DataError, MissingDependency
from cloister.core.random import stream
from cloister.index.analysis import TextAnalysis

__all__ = ["LENGTHS", "LengthGroup", "TopicQuery", "topic_queries"]

LengthGroup = Literal["short", "medium", "long"]
LENGTHS: Final[dict[LengthGroup, tuple[int, ...]]] = {
    "short": (1, 2, 3),
    "medium": (4, 5),
    "long": (6, 7, 8),
}
N_PASSES: Final = 5
MOST_COMMON: Final = 0.5  # words in a larger share of the documents tell no topic


class TopicQuery(NamedTuple):
    """The leading words of one topic."""

    terms: tuple[str, ...]
    group: LengthGroup

    @property
    def text(self) -> str:
        """The query as one would type it."""
        return " ".join(self.terms)


def topic_queries(
    texts: Iterable[str],
    *,
    n_queries: int = 30,
    n_topics: int = 50,
    analysis: TextAnalysis | None = None,
    seed: int = 1,
) -> list[TopicQuery]:
    """Make queries from the topics of some texts.

    Parameters
    ----------
    texts
        A sample will do.
    n_queries, n_topics
        Each query has a topic of its own.
    analysis
        How texts are cut into words; the index's.
    seed
        One seed gives the same queries.
    """
    if n_queries > n_topics:
        raise DataError(f"{n_queries} queries from {n_topics} topics", where="n_topics")
    analysis = analysis or TextAnalysis()
    words = [analysis.terms(text) for text in texts]
    topics = _topics(words, n_topics, seed)
    chosen = stream(seed, "topic-queries").permutation(len(topics))[:n_queries]
    groups = list(LENGTHS)
    queries = []
    for place, topic in enumerate(chosen):
        group = groups[place % len(groups)]
        lengths = LENGTHS[group]
        length = lengths[place // len(groups) % len(lengths)]
        queries.append(TopicQuery(tuple(topics[topic][:length]), group))
    return queries


def _topics(words: Sequence[list[str]], n_topics: int, seed: int) -> list[list[str]]:
    """Return the leading words of each topic."""
    corpora, models = _gensim()
    dictionary = corpora.Dictionary(words)
    dictionary.filter_extremes(no_below=5, no_above=MOST_COMMON, keep_n=None)
    if not len(dictionary):
        raise DataError("too few texts: no word is in five of them", where="texts")
    bags = [dictionary.doc2bow(one) for one in words]
    model = models.LdaModel(
        bags,
        num_topics=n_topics,
        id2word=dictionary,
        passes=N_PASSES,
        random_state=np.random.RandomState(seed),
        dtype=np.float64,
    )
    most = max(max(lengths) for lengths in LENGTHS.values())
    return [[word for word, _ in model.show_topic(topic, most)] for topic in range(n_topics)]


def _gensim() -> tuple[Any, Any]:
    try:
        from gensim import corpora, models
    except ImportError:
        raise MissingDependency(
            "gensim is not installed",
            where="queries from topics",
            remedy="pip install 'cloister[vectors]'",
        ) from None
    return corpora, models
